//! The rule that imports inside a crate go down: from room to room in a written order, and in no large circle of files.
//!
//! An import is followed to the file that defines what is imported: a `pub use` on the way only hands it on.

mod imports;
mod order;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::files::rust;
use imports::{Graph, Imports, Module, Source};
use order::{CIRCLE, ORDERS, Order};

/// Imports that go up, and circles that are too large.
pub(super) fn floors() -> Result<Vec<String>> {
    let all = rust()?;
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (file, text) in all {
        if let Some((sources, rest)) = place(&file) {
            let files = crates.entry(sources.to_owned()).or_default();
            files.push((rest.to_owned(), text));
        }
    }
    Ok(broken_in(&crates))
}

/// The folder of sources that a file is in, and its place there; none of tests, of examples, and of programs beside a library.
fn place(file: &str) -> Option<(&str, &str)> {
    let at = file.find("/src/")? + "/src/".len();
    let (sources, rest) = file.split_at(at);
    let is_package = match sources.split('/').collect::<Vec<_>>()[..] {
        ["crates", _, "src", ""] => true,
        _ => PACKAGES.contains(&sources),
    };
    (is_package && !rest.ends_with("tests.rs") && !rest.starts_with("bin/")).then_some((sources, rest))
}

/// Packages outside of `crates`.
const PACKAGES: [&str; 2] = ["tests/vm/src/", "xtask/src/"];

/// Broken rules in these crates' files, by the folders of their sources.
fn broken_in(crates: &BTreeMap<String, Vec<(String, String)>>) -> Vec<String> {
    let mut broken = Vec::new();
    for (sources, files) in crates {
        let house = House::new(files);
        if let Some(order) = ORDERS.iter().find(|order| order.sources == sources) {
            broken.extend(house.upward(order));
        } else {
            broken.push(format!("{sources} has no order of rooms"));
        }
        broken.extend(house.circles(sources));
    }
    broken
}

/// One crate's files as modules.
struct House {
    files: BTreeMap<Module, String>,
    imports: Imports,
}

impl House {
    fn new(files: &[(String, String)]) -> Self {
        let mut names = BTreeMap::new();
        let mut sources = BTreeMap::new();
        for (file, text) in files {
            let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
            let module: Module = match path {
                "lib" | "main" => Module::new(),
                path => path.split('/').map(str::to_owned).collect(),
            };
            names.insert(module.clone(), file.clone());
            sources.insert(module, Source::read(text));
        }
        let graph = Graph { sources };
        let mut imports = Imports::new();
        for (module, source) in &graph.sources {
            let found = graph.imports(module, source);
            imports.insert(module.clone(), found);
        }
        Self {
            files: names,
            imports,
        }
    }

    /// Imports from one room to a higher one.
    fn upward(&self, order: &Order) -> Vec<String> {
        let floor = |module: &Module| {
            order
                .rooms
                .iter()
                .position(|room| module.first().is_some_and(|m| m == room))
        };
        let mut broken = Vec::new();
        for (from, to) in self
            .imports
            .iter()
            .flat_map(|(from, all)| all.iter().map(move |to| (from, to)))
        {
            let (Some(room), Some(other)) = (from.first(), to.first()) else {
                continue;
            };
            if let ([_, one, ..], [_, another, ..]) = (from.as_slice(), to.as_slice())
                && room == other
                && one != another
                && order.independent.contains(&room.as_str())
            {
                let (from, to) = (&self.files[from], &self.files[to]);
                broken.push(format!(
                    "{}{from} imports {to}, which stands beside it",
                    order.sources
                ));
            }
            let (Some(low), Some(high)) = (floor(from), floor(to)) else {
                let unknown = if floor(from).is_none() { room } else { other };
                broken.push(format!("{}{unknown} is not in the order of rooms", order.sources));
                continue;
            };
            if high > low && !order.tables.contains(&other.as_str()) {
                let (from, to) = (&self.files[from], &self.files[to]);
                broken.push(format!("{}{from} imports {to}, which lies higher", order.sources));
            }
        }
        broken
    }

    /// Circles of files that are larger than they may be.
    fn circles(&self, sources: &str) -> Vec<String> {
        let circles = circles(&self.imports).into_iter();
        let large = circles.filter(|circle| circle.len() > CIRCLE);
        let broken = large.map(|circle| {
            let files: Vec<&str> = circle.iter().map(|module| self.files[module].as_str()).collect();
            format!(
                "{} files of {sources} import each other in a circle: {}",
                files.len(),
                files.join(", ")
            )
        });
        broken.collect()
    }
}

/// Modules that import each other, straight or through others.
fn circles(imports: &Imports) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|from| (from, reach(imports, from))).collect();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for from in imports.keys() {
        if seen.contains(from) || !reached[from].contains(from) {
            continue;
        }
        let circle: Vec<Module> = reached[from]
            .iter()
            .filter(|to| reached[*to].contains(from))
            .map(|to| (*to).clone())
            .collect();
        seen.extend(circle.iter().cloned());
        all.push(circle);
    }
    all
}

fn reach<'i>(imports: &'i Imports, from: &Module) -> BTreeSet<&'i Module> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&Module> = imports[from].iter().collect();
    while let Some(next) = left.pop() {
        if found.insert(next) {
            left.extend(imports.get(next).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(files: &[(&str, &str)]) -> House {
        let own = |(file, text): &(&str, &str)| ((*file).to_owned(), (*text).to_owned());
        House::new(&files.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn imports_that_go_up_are_found_through_reexports() {
        let house = house(&[
            ("lib.rs", "mod low;\nmod high;\n"),
            (
                "low.rs",
                "use crate::high::{self, Thing};\n/// [`crate::other::x`]\nfn f() { high::made() }\n",
            ),
            (
                "high/mod.rs",
                "mod thing;\npub use thing::{Thing, made};\nuse crate::low;\n",
            ),
            (
                "high/thing.rs",
                "use super::super::low::f;\nfn g() { println!(\"crate::wrong::x\") }\n",
            ),
            ("known.rs", "use crate::high::Thing;\n"),
        ]);
        let order = |tables| Order {
            sources: "s/",
            rooms: &["low", "known", "high"],
            tables,
            independent: &[],
        };
        assert_eq!(
            house.upward(&order(&[])),
            [
                "s/known.rs imports high/thing.rs, which lies higher",
                "s/low.rs imports high/thing.rs, which lies higher"
            ]
        );
        assert_eq!(house.upward(&order(&["high"])), [""; 0]);
    }

    #[test]
    fn files_that_stand_apart_do_not_import_each_other() {
        let house = house(&[
            ("command/mod.rs", "mod a;\nmod b;\nuse a::run;\n"),
            ("command/a.rs", "use super::b::c::helper;\n"),
            ("command/b/mod.rs", "use c::helper;\n"),
            ("command/b/c.rs", "pub fn helper() {}\n"),
        ]);
        let order = |independent| Order {
            sources: "s/",
            rooms: &["command"],
            tables: &[],
            independent,
        };
        assert_eq!(house.upward(&order(&[])), [""; 0]);
        assert_eq!(
            house.upward(&order(&["command"])),
            ["s/command/a.rs imports command/b/c.rs, which stands beside it"]
        );
    }

    #[test]
    fn every_crate_has_an_order_and_every_room_a_place_in_it() {
        let crates = [("crates/new/src/", "a.rs"), ("crates/layout/src/", "a.rs")];
        let crates = crates.map(|(sources, file)| {
            let text = "use crate::attic::X;\n".to_owned();
            (
                sources.to_owned(),
                vec![(file.to_owned(), text), ("attic.rs".to_owned(), String::new())],
            )
        });
        let crates: BTreeMap<_, _> = crates.into_iter().collect();
        assert_eq!(
            broken_in(&crates),
            [
                "crates/layout/src/a is not in the order of rooms",
                "crates/new/src/ has no order of rooms"
            ]
        );
    }

    #[test]
    fn files_of_packages_outside_of_crates_have_an_order_too() {
        let xtask = ("xtask/src/", "guest/mod.rs");
        assert_eq!(place("xtask/src/guest/mod.rs"), Some(xtask));
        assert_eq!(place("crates/a/src/b.rs"), Some(("crates/a/src/", "b.rs")));
        for file in [
            "tests/vm/src/bin/x.rs",
            "crates/a/src/tests.rs",
            "crates/a/tests/b.rs",
            "fuzz/src/a.rs",
        ] {
            assert_eq!(place(file), None, "{file}");
        }
    }

    #[test]
    fn imports_behind_the_line_of_the_tests_module_are_seen() {
        let house = house(&[
            ("low.rs", "#[cfg(test)]\nmod tests;\nuse crate::high::X;\n"),
            ("high.rs", ""),
        ]);
        let from = |imports: &Imports| imports.values().map(BTreeSet::len).sum::<usize>();
        assert_eq!(from(&house.imports), 1);
    }

    #[test]
    fn circles_of_more_than_three_files_are_found() {
        let house = house(&[
            ("a/mod.rs", "use b::B;\n"),
            ("a/b.rs", "pub(in crate::z) fn f() { super::c::g() }\n"),
            ("a/c.rs", "use super::d::D as E;\n"),
            (
                "a/d.rs",
                "use crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::z;\n}\n",
            ),
            ("z.rs", "use crate::a::A;\n"),
        ]);
        assert_eq!(
            house.circles("s/"),
            ["4 files of s/ import each other in a circle: a/mod.rs, a/b.rs, a/c.rs, a/d.rs"]
        );
    }
}
