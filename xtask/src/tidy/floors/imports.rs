//! Imports of each module of a crate, read from its text: through `use` lines, paths in code, and `pub use` lines that hand a name on.

use crate::tidy::files::without_tests;
use std::collections::{BTreeMap, BTreeSet};

/// A module's place in its crate: `["buffer", "ring"]`.
pub(super) type Module = Vec<String>;

/// Imports: for each module the modules that it imports from.
pub(super) type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// A file's text as imports are found in it: without comments, strings and tests, and without its `use` lines, which stand apart.
pub(super) struct Source {
    /// Whether it is handed on, the path, and the name that it gets here.
    uses: Vec<(bool, Vec<String>, String)>,
    body: String,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        // Tests may import what they like.
        let text = without_tests(text);
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

pub(super) struct Graph {
    pub(super) sources: BTreeMap<Module, Source>,
}

impl Graph {
    pub(super) fn imports(&self, module: &Module, source: &Source) -> BTreeSet<Module> {
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
