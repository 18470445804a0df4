//! The rule that ARCHITECTURE.md names every crate and every room of each, in a table that says what it owns, what it may not, and where to add.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::files::{files, text};

/// Crates without a section, or rooms that their crate's section does not name.
pub(super) fn map() -> Result<Vec<String>> {
    Ok(missing(&rooms(&files()?), &text("ARCHITECTURE.md")))
}

/// The crates' names with their top-level modules, `lib` left out.
fn rooms(files: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let parts: Vec<&str> = file.split('/').collect();
        if let ["crates", name, "src", room, ..] = parts[..] {
            let all = rooms.entry(name.to_owned()).or_default();
            let room = room.strip_suffix(".rs").unwrap_or(room);
            if room != "lib" {
                all.insert(room.to_owned());
            }
        }
    }
    rooms
}

fn missing(rooms: &BTreeMap<String, BTreeSet<String>>, page: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, rooms) in rooms {
        let heading = format!("crates/{name}");
        let Some(section) = section(page, &heading) else {
            broken.push(format!("ARCHITECTURE.md does not name {heading}"));
            continue;
        };
        let named = named(section);
        let absent = rooms.iter().filter(|room| !named.contains(room.as_str()));
        broken.extend(absent.map(|room| format!("ARCHITECTURE.md: {heading} has no row for `{room}`")));
    }
    broken
}

/// The rooms in the first column of a section's table, or all words of code where it is an item of a list.
fn named(section: &str) -> BTreeSet<&str> {
    let in_list = section.starts_with('-');
    let rows = section.lines().filter_map(|line| match in_list {
        true => Some(line),
        false => line.strip_prefix("| ")?.split(" | ").next(),
    });
    rows.flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
}

/// From the line that begins with the heading, or names it in a list, to the next heading.
fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let starts = [format!("\n### {heading} "), format!("\n- {heading}:")];
    let start = starts.iter().find_map(|start| page.find(start.as_str()))? + 1;
    let rest = &page[start..];
    let end = rest.find("\n#").unwrap_or(rest.len());
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_rooms_and_crates_are_told() {
        let files = [
            "crates/a/src/lib.rs",
            "crates/a/src/x.rs",
            "crates/a/src/y/mod.rs",
            "crates/b/src/lib.rs",
        ];
        let rooms = rooms(&files.map(str::to_owned));
        let page =
            "# Map\n### crates/a — first\n| `x` | something like `y` | | |\n### other\n| `y` | | | |\n";
        assert_eq!(
            missing(&rooms, page),
            [
                "ARCHITECTURE.md: crates/a has no row for `y`",
                "ARCHITECTURE.md does not name crates/b"
            ]
        );
    }
}
