//! The rule that imports inside a crate go down: from room to room in a written order, and in no large circle of files.
//!
//! An import is followed to the file that defines what is imported: a `pub use` on the way only hands it on.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::files::rust;

/// The rooms of a crate, the lowest first.
struct Order {
    sources: &'static str,
    rooms: &'static [&'static str],
    /// Imports that still go up, from file to file. This list only ever gets shorter.
    up: &'static [(&'static str, &'static str)],
}

const ORDERS: &[Order] = &[
    Order {
        sources: "crates/kestrel/src/",
        rooms: &[
            "plan",
            "postprocess",
            "session",
            "dump",
            "agent",
            "live",
            "record",
            "probe",
            "recover",
            "watch",
        ],
        up: &[],
    },
    Order {
        sources: "crates/catalog/src/",
        rooms: &[
            "waiting",
            "verifier",
            "error",
            "bounded_read",
            "arch",
            "symbols",
            "executable",
            "facts",
            "code",
            "attach",
            "catalog",
        ],
        up: &[],
    },
    Order {
        sources: "crates/hook/src/",
        rooms: &["buffer", "hook", "table"],
        up: &[],
    },
    Order {
        sources: "crates/object/src/",
        rooms: &[
            "settings", "value", "kconfig", "map", "kernel", "attach", "opened", "refusal", "load",
            "running", "typed", "output", "handler",
        ],
        up: &[],
    },
    Order {
        sources: "crates/kernel/src/",
        rooms: &[
            "error",
            "host",
            "procfs",
            "mmap",
            "perf",
            "bpf",
            "barrier",
            "process",
            "tracefs",
            "kallsyms",
            "index",
            "btf",
            "feature",
            "kcore",
            "kprobes",
            "mark",
            "preemption",
            "privilege",
        ],
        up: &[],
    },
    Order {
        sources: "crates/trace/src/",
        rooms: &[
            "error",
            "packet",
            "layout",
            "action",
            "event",
            "value",
            "record",
            "symbol",
            "process",
            "print",
            "info",
            "summary",
            "files",
            "decode",
            "aggregate",
            "ctf",
            "image",
            "recover",
            "export",
            "analyze",
            "report",
        ],
        up: &[],
    },
    Order {
        sources: "crates/bpf/src/",
        rooms: &[
            "helper",
            "insn",
            "isa",
            "code",
            "error",
            "far",
            "asm",
            "btf",
            "text",
            "interp",
            "object",
            "verifier_log",
        ],
        up: &[],
    },
];

/// The largest circle of files that needs no exception.
const CIRCLE: usize = 3;

/// Larger circles: the folder that holds all of one's files, and how many these are. These numbers only ever get smaller.
const CIRCLES: &[(&str, usize, &str)] = &[
    (
        "crates/kestrel/src/session",
        10,
        "a change of a pinned session and its clients know each other",
    ),
    (
        "crates/kestrel/src/session/named",
        7,
        "the parts of one recursive reader",
    ),
    ("crates/cli/src/command", 33, "commands lend each other helpers"),
];

/// A module's place in its crate: `["buffer", "ring"]`.
type Module = Vec<String>;

/// What each module imports from which others.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Imports that go up, and circles that are too large.
pub(super) fn floors() -> Result<Vec<String>> {
    let all = rust()?;
    let mut crates: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (file, text) in all {
        let parts: Vec<&str> = file.splitn(4, '/').collect();
        if let ["crates", name, "src", rest] = parts[..]
            && !rest.ends_with("tests.rs")
        {
            let sources = format!("crates/{name}/src/");
            crates.entry(sources).or_default().push((rest.to_owned(), text));
        }
    }
    let mut broken = Vec::new();
    let mut excepted = BTreeSet::new();
    for (sources, files) in &crates {
        let house = House::new(files);
        if let Some(order) = ORDERS.iter().find(|order| order.sources == sources) {
            broken.extend(house.upward(order));
        }
        broken.extend(house.circles(sources, CIRCLES, &mut excepted));
    }
    let stale = CIRCLES.iter().filter(|(folder, ..)| !excepted.contains(folder));
    broken.extend(stale.map(|(folder, ..)| format!("no circle in {folder} needs its exception any more")));
    Ok(broken)
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

    /// Imports from one room to a higher one, those of the list left out; and entries of the list that nothing needs any more.
    fn upward(&self, order: &Order) -> Vec<String> {
        let floor = |module: &Module| {
            order
                .rooms
                .iter()
                .position(|room| module.first().is_some_and(|m| m == room))
        };
        let mut broken = Vec::new();
        let mut needed = BTreeSet::new();
        for (from, to) in self
            .imports
            .iter()
            .flat_map(|(from, all)| all.iter().map(move |to| (from, to)))
        {
            let (Some(room), Some(other)) = (from.first(), to.first()) else {
                continue;
            };
            let (Some(low), Some(high)) = (floor(from), floor(to)) else {
                let unknown = if floor(from).is_none() { room } else { other };
                broken.push(format!("{}{unknown} is not in the order of rooms", order.sources));
                continue;
            };
            let pair = (self.files[from].as_str(), self.files[to].as_str());
            if high > low && !order.up.contains(&pair) {
                broken.push(format!(
                    "{}{} imports {}, which lies higher",
                    order.sources, pair.0, pair.1
                ));
            }
            if high > low {
                needed.insert(pair);
            }
        }
        let stale = order.up.iter().filter(|pair| !needed.contains(*pair));
        broken.extend(stale.map(|(from, to)| {
            format!(
                "{}{from} imports {to} no more: strike it from the list",
                order.sources
            )
        }));
        broken
    }

    /// Circles of files that are larger than they may be, or smaller than their exception says.
    fn circles<'e>(
        &self,
        sources: &str,
        exceptions: &'e [(&str, usize, &str)],
        excepted: &mut BTreeSet<&'e str>,
    ) -> Vec<String> {
        let mut broken = Vec::new();
        for circle in circles(&self.imports)
            .into_iter()
            .filter(|circle| circle.len() > CIRCLE)
        {
            let folder = format!("{sources}{}", shared(&circle).join("/"));
            let folder = folder.trim_end_matches('/');
            let exception = exceptions.iter().find(|(place, ..)| *place == folder);
            excepted.extend(exception.map(|(place, ..)| *place));
            let size = circle.len();
            match exception {
                Some((_, most, _)) if size < *most => {
                    broken.push(format!(
                        "the circle in {folder} is down to {size} files: write that into its exception"
                    ));
                }
                Some((_, most, _)) if size == *most => {}
                _ => {
                    let files: Vec<&str> = circle.iter().map(|module| self.files[module].as_str()).collect();
                    broken.push(format!(
                        "{size} files of {folder} import each other in a circle: {}",
                        files.join(", ")
                    ));
                }
            }
        }
        broken
    }
}

/// A file's text as imports are found in it: without comments, strings and tests, and without its `use` lines, which stand apart.
struct Source {
    /// Whether it is handed on, the path, and the name that it gets here.
    uses: Vec<(bool, Vec<String>, String)>,
    body: String,
}

impl Source {
    fn read(text: &str) -> Self {
        let text = text.split("#[cfg(test)]\nmod").next().unwrap_or(text);
        let mut body = String::new();
        let mut uses = Vec::new();
        let mut open: Option<String> = None;
        for line in text.lines() {
            let code = without_visibility(&bare(line));
            let trimmed = code.trim();
            let mut statement = match open.take() {
                Some(begun) => begun + " " + trimmed,
                None if trimmed.starts_with("use ")
                    || (trimmed.starts_with("pub") && trimmed.contains(" use ")) =>
                {
                    trimmed.to_owned()
                }
                None => {
                    body.push_str(&code);
                    body.push('\n');
                    continue;
                }
            };
            if !statement.ends_with(';') {
                open = Some(statement);
                continue;
            }
            statement.pop();
            let handed_on = statement.starts_with("pub");
            let tree = statement.split_once("use ").map_or("", |(_, tree)| tree);
            for path in expand(tree) {
                let (path, name) = path.split_once(" as ").unwrap_or((&path, ""));
                let mut path: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
                if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                    path.pop();
                }
                let own = path.last().cloned().unwrap_or_default();
                let name = if name.is_empty() {
                    own
                } else {
                    name.trim().to_owned()
                };
                uses.push((handed_on, path, name));
            }
        }
        Self { uses, body }
    }
}

/// A line without its comment and without what its strings say.
fn bare(line: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    let mut escaped = false;
    let mut before = ' ';
    for c in line.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' if before != '\'' => inside = !inside,
            '/' if !inside && before == '/' => {
                out.pop();
                return out;
            }
            _ if !inside => out.push(c),
            _ => {}
        }
        before = c;
    }
    out
}

/// A line without `pub(in crate::x)`, which imports nothing.
fn without_visibility(line: &str) -> String {
    match line
        .split_once("pub(in ")
        .and_then(|(before, rest)| Some((before, rest.split_once(')')?.1)))
    {
        Some((before, rest)) => format!("{before}pub{rest}"),
        None => line.to_owned(),
    }
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d`, `a::c::e`.
fn expand(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.trim().to_owned()];
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut depth, mut parts) = (0_u32, vec![String::new()]);
    for c in inside.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (c, parts.last_mut()) {
            (',', _) if depth == 0 => parts.push(String::new()),
            (_, Some(part)) => part.push(c),
            _ => {}
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| expand(part))
        .map(|part| format!("{}{part}", before.trim()))
        .collect()
}

struct Graph {
    sources: BTreeMap<Module, Source>,
}

impl Graph {
    fn imports(&self, module: &Module, source: &Source) -> BTreeSet<Module> {
        let mut found = BTreeSet::new();
        let mut names: BTreeMap<&str, Module> = BTreeMap::new();
        for child in self.sources.keys() {
            if let Some((name, parent)) = child.split_last()
                && parent == module.as_slice()
            {
                names.insert(name, child.clone());
            }
        }
        for (handed_on, path, name) in &source.uses {
            let Some(path) = self.absolute(module, path) else {
                continue;
            };
            if self.sources.contains_key(&path) {
                names.insert(name, path);
            } else if !handed_on || words(&source.body).any(|word| word == name) {
                found.insert(self.definition(&path, 0));
            }
        }
        for path in paths(&source.body) {
            let parts: Vec<String> = path.split("::").map(str::to_owned).collect();
            let whole = match names.get(parts[0].as_str()) {
                Some(start) => Some([start.as_slice(), &parts[1..]].concat()),
                None => self.absolute(module, &parts),
            };
            found.extend(whole.map(|whole| self.definition(&whole, 0)));
        }
        found.retain(|other| other != module && !other.is_empty());
        found
    }

    /// A path from the crate's root on, if it is one of this crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut at = module.clone();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([at.as_slice(), &path[1..]].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                at.truncate(at.len().saturating_sub(ups));
                Some([at.as_slice(), &path[ups..]].concat())
            }
            child => {
                at.push(child.to_owned());
                let is_child = self.sources.contains_key(&at);
                is_child.then(|| [module.as_slice(), path].concat())
            }
        }
    }

    /// The module that defines what a path names, through those that hand it on.
    fn definition(&self, path: &[String], depth: u32) -> Module {
        const DEEPEST: u32 = 6;
        let mut length = path.len();
        while length > 0 && !self.sources.contains_key(&path[..length]) {
            length -= 1;
        }
        let (module, rest) = path.split_at(length);
        let module = module.to_vec();
        let (Some(wanted), Some(source)) = (rest.first(), self.sources.get(&module)) else {
            return module;
        };
        let on = source
            .uses
            .iter()
            .find(|(handed_on, _, name)| *handed_on && name == wanted);
        match on.and_then(|(_, path, _)| self.absolute(&module, path)) {
            Some(on) if depth < DEEPEST => self.definition(&[on.as_slice(), &rest[1..]].concat(), depth + 1),
            _ => module,
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Paths of several parts, as `module::name`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .map(|path| path.trim_matches(':'))
        .filter(|path| path.contains("::"))
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

/// The innermost module that holds all of a circle.
fn shared(circle: &[Module]) -> Module {
    let Some(first) = circle.first() else {
        return Module::new();
    };
    let alike = |length: &usize| {
        circle
            .iter()
            .all(|module| module.get(..*length) == first.get(..*length))
    };
    let length = (0..=first.len()).rev().find(alike).unwrap_or(0);
    first[..length].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(files: &[(&str, &str)]) -> House {
        let own = |(file, text): &(&str, &str)| ((*file).to_owned(), (*text).to_owned());
        House::new(&files.iter().map(own).collect::<Vec<_>>())
    }

    #[test]
    fn imports_that_go_up_are_told_through_whatever_hands_them_on() {
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
        let order = Order {
            sources: "s/",
            rooms: &["low", "known", "high"],
            up: &[("known.rs", "high/thing.rs"), ("low.rs", "gone.rs")],
        };
        assert_eq!(
            house.upward(&order),
            [
                "s/low.rs imports high/thing.rs, which lies higher",
                "s/low.rs imports gone.rs no more: strike it from the list"
            ]
        );
    }

    #[test]
    fn circles_are_told_unless_they_are_listed_at_their_size() {
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
        let told = |most: usize| house.circles("s/", &[("s/a", most, "why")], &mut BTreeSet::new());
        assert_eq!(told(4), [""; 0]);
        assert_eq!(
            told(5),
            ["the circle in s/a is down to 4 files: write that into its exception"]
        );
        assert_eq!(
            told(3),
            ["4 files of s/a import each other in a circle: a/mod.rs, a/b.rs, a/c.rs, a/d.rs"]
        );
        assert_eq!(house.circles("s/", &[], &mut BTreeSet::new()).len(), 1);
    }
}
