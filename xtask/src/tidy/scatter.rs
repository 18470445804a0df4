//! The rule that one nameable thing stands in one source file: a built-in's or an event kind's row is the only one that declares its name.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::files::{rust, without_tests};

/// A table of named things and where its rows stand.
struct Table {
    what: &'static str,
    folder: &'static str,
    /// Folders in which nothing but a name's row may decide on it.
    sought: &'static [&'static str],
    /// Files of its folder whose rows are another table's.
    others: &'static [&'static str],
    /// At least so many rows; fewer means that rows look different now.
    least: usize,
}

const TABLES: &[Table] = &[
    Table {
        what: "built-in",
        folder: "crates/compiler/src/builtin/",
        sought: &["crates/compiler/src/"],
        others: &[],
        least: 20,
    },
    Table {
        what: "event kind",
        folder: "crates/trace/src/event_kind.rs",
        sought: &[
            "crates/catalog/src/catalog/",
            "crates/compiler/src/",
            "crates/query/src/",
            "crates/trace/src/",
        ],
        others: &[],
        least: 6,
    },
];

/// Names with several rows, and names decided upon (`==`, a match arm) outside of their row's file.
pub(super) fn scatter() -> Result<Vec<String>> {
    let sources: Vec<(String, String)> = rust()?
        .into_iter()
        .map(|(file, text)| (file, without_tests(&text)))
        .collect();
    let mut broken = Vec::new();
    for table in TABLES {
        let rows = rows(table, &sources);
        ensure!(
            rows.len() >= table.least,
            "only {} rows of {}s were found: do they look different now?",
            rows.len(),
            table.what
        );
        broken.extend(scattered(table, &rows, &sources));
    }
    Ok(broken)
}

/// Every name with the files in which a row declares it: as a field (`name: "pid",`), as what `fn name` gives, or before its aliases (`Kind::new("hardware", &["h"])`).
fn rows(table: &Table, sources: &[(String, String)]) -> BTreeMap<String, Vec<String>> {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mine = |file: &str| file.starts_with(table.folder) && !table.others.contains(&file);
    for (file, text) in sources.iter().filter(|(file, _)| mine(file)) {
        let mut before = "";
        for line in text.lines().map(str::trim) {
            let field = line
                .strip_prefix("name: \"")
                .and_then(|rest| rest.strip_suffix("\","));
            let given = before.starts_with("fn name(&self)").then_some(line);
            let given = given.and_then(|line| line.strip_prefix('"')?.strip_suffix('"'));
            let aliased = line.split_once("row(\"").or_else(|| line.split_once("::new(\""));
            let aliased = aliased.and_then(|(_, rest)| Some(rest.split_once("\", &[")?.0));
            if let Some(name) = field.or(given).or(aliased) {
                rows.entry(name.to_owned()).or_default().push(file.clone());
            }
            before = line;
        }
    }
    rows
}

fn scattered(
    table: &Table,
    rows: &BTreeMap<String, Vec<String>>,
    sources: &[(String, String)],
) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, files) in rows {
        if files.len() > 1 {
            broken.push(format!(
                "the {} {name} has rows in {}",
                table.what,
                files.join(", ")
            ));
        }
        let decides = [
            format!("== \"{name}\""),
            format!("\"{name}\" =>"),
            format!("\"{name}\" |"),
        ];
        for (file, text) in sources {
            let sought = table.sought.iter().any(|folder| file.starts_with(folder));
            if sought && !files.contains(file) && decides.iter().any(|form| text.contains(form)) {
                broken.push(format!(
                    "{file} decides on the {} {name}, whose place is {}",
                    table.what,
                    files.join(", ")
                ));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_rows_and_decisions_elsewhere_are_found() {
        let table = &Table {
            folder: "b/",
            sought: &["b/", "c/"],
            ..TABLES[0]
        };
        let source = |file: &str, text: &str| (file.to_owned(), text.to_owned());
        let sources = [
            source("b/pid.rs", "    name: \"pid\",\n"),
            source("b/tid.rs", "    name: \"tid\",\n if name == \"tid\" {}"),
            source(
                "b/other.rs",
                "    fn name(&self) -> &str {\n        \"tid\"\n    }\n",
            ),
            source(
                "b/kind.rs",
                "const ROW: KindRow = KindRow::new(\"kind\", &[\"k\"], 1);\n",
            ),
            source("c/choice.rs", "if name == \"kind\" {}"),
            source("c/switch.rs", "match name { \"pid\" => 1 }"),
            source("d/free.rs", "match name { \"pid\" => 1 }"),
        ];
        assert_eq!(
            scattered(table, &rows(table, &sources), &sources),
            [
                "c/choice.rs decides on the built-in kind, whose place is b/kind.rs",
                "c/switch.rs decides on the built-in pid, whose place is b/pid.rs",
                "the built-in tid has rows in b/tid.rs, b/other.rs"
            ]
        );
    }
}
