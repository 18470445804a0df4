//! The rule that ARCHITECTURE.md names every crate and every room of each, in a table that says what it owns, what it may not, and where to add; and that the paths of modules which it names exist.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::files::{files, text};

/// Words that introduce the name of an item.
const ITEMS: &[&str] = &[
    "fn", "mod", "const", "static", "struct", "enum", "trait", "type", "union",
];

/// Rooms so large that the page has a table of what is in them, like that of a crate.
const LARGE_ROOMS: &[&str] = &["crates/kestrel/src/session"];

/// Crates without a section, rooms that their crate's section does not name, and paths of what is not there.
pub(super) fn map() -> Result<Vec<String>> {
    let (files, page) = (files()?, text("ARCHITECTURE.md"));
    let mut all = rooms(&files);
    all.extend(
        LARGE_ROOMS
            .iter()
            .map(|room| ((*room).to_owned(), inside(room, &files))),
    );
    let mut broken = missing(&all, &page);
    broken.extend(unknown_paths(&modules(&files), &page, text));
    Ok(broken)
}

/// A module's path (`["trace", "ctf", "block"]`) and its file.
type Module<'f> = (Vec<&'f str>, &'f str);

fn modules(files: &[String]) -> Vec<Module<'_>> {
    files.iter().filter_map(|file| module(file)).collect()
}

fn module(file: &str) -> Option<Module<'_>> {
    let rest = file.strip_prefix("crates/")?.strip_suffix(".rs")?;
    let (name, path) = rest.split_once("/src/")?;
    let steps = path
        .split('/')
        .filter(|step| !["mod", "lib", "main"].contains(step));
    Some((std::iter::once(name).chain(steps).collect(), file))
}

/// Paths in backticks that end in no module, and in no item of one. Paths that begin with a type are not looked at.
fn unknown_paths(modules: &[Module<'_>], page: &str, text: impl Fn(&str) -> String) -> Vec<String> {
    let words = page.split('`').skip(1).step_by(2);
    let paths: BTreeSet<&str> = words.filter(|word| is_path(word)).collect();
    let unknown = paths.into_iter().filter(|path| {
        let steps: Vec<&str> = path
            .split("::")
            .map(|step| step.strip_prefix("kestrel_").unwrap_or(step))
            .collect();
        let [within @ .., last] = steps.as_slice() else {
            return false;
        };
        let is_module = modules.iter().any(|(module, _)| module.ends_with(&steps));
        let mut around = modules.iter().filter(|(module, _)| module.ends_with(within));
        // An item may stand in a file of the module's folder, which `mod.rs` hands on.
        !is_module
            && !around.any(|(module, _)| {
                let mut inside = modules
                    .iter()
                    .filter(|(path, _)| path.starts_with(module) && path.len() <= module.len() + 1);
                inside.any(|(_, file)| defines(&text(file), last))
            })
    });
    unknown
        .map(|path| format!("ARCHITECTURE.md names `{path}`, which is not there"))
        .collect()
}

fn is_path(word: &str) -> bool {
    let is_name =
        |step: &str| !step.is_empty() && step.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word.contains("::") && word.starts_with(|c: char| c.is_ascii_lowercase()) && word.split("::").all(is_name)
}

/// Whether an item of this name is defined or handed on.
fn defines(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let words: Vec<&str> = line
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
            .collect();
        let is_item = words
            .windows(2)
            .any(|pair| matches!(pair, [item, word] if ITEMS.contains(item) && *word == name));
        is_item || line.starts_with("pub use") && words.contains(&name)
    })
}

/// The files and folders of a room.
fn inside(room: &str, files: &[String]) -> BTreeSet<String> {
    let rest = files
        .iter()
        .filter_map(|file| file.strip_prefix(room)?.strip_prefix('/'));
    let names = rest.filter_map(|rest| rest.split('/').next());
    let names = names.map(|name| name.strip_suffix(".rs").unwrap_or(name));
    names.filter(|name| *name != "mod").map(str::to_owned).collect()
}

/// The crates with their top-level modules, `lib` left out.
fn rooms(files: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let parts: Vec<&str> = file.split('/').collect();
        if let ["crates", name, "src", room, ..] = parts[..] {
            let all = rooms.entry(format!("crates/{name}")).or_default();
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
    for (heading, rooms) in rooms {
        let Some(section) = section(page, heading) else {
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
    fn absent_rooms_and_crates_are_found() {
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

    #[test]
    fn rooms_inside_a_large_room_have_rows() {
        let files = [
            "c/r/mod.rs",
            "c/r/a.rs",
            "c/r/b/mod.rs",
            "c/r/b/x.rs",
            "c/rest.rs",
        ];
        let rooms = BTreeMap::from([("c/r".to_owned(), inside("c/r", &files.map(str::to_owned)))]);
        let page = "# Map\n### c/r — inside\n| `a` | | | |\n### other\n| `b` | | | |\n";
        assert_eq!(missing(&rooms, page), ["ARCHITECTURE.md: c/r has no row for `b`"]);
    }

    #[test]
    fn paths_of_absent_files_are_found() {
        let files = [
            "crates/a/src/lib.rs",
            "crates/a/src/x/mod.rs",
            "crates/a/src/x/y.rs",
        ];
        let files = files.map(str::to_owned);
        let page = "`x::y` `a::x::y::run` `kestrel_a::x::Z` `x::gone` `a::b` `Type::gone` `x::y::{z}`";
        let text = |file: &str| match file.ends_with("y.rs") {
            true => "pub fn run() {}".to_owned(),
            false => "pub use y::Z;\n// gone".to_owned(),
        };
        assert_eq!(
            unknown_paths(&modules(&files), page, text),
            [
                "ARCHITECTURE.md names `a::b`, which is not there",
                "ARCHITECTURE.md names `x::gone`, which is not there"
            ]
        );
    }
}
