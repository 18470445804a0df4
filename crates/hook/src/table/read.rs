//! From a table file's text to its buffers, parameters and tables, with everything that is wrong in it; no kernel is asked.

use super::{BufferSpec, IMPLICIT, TableFile, TableSpec};
use crate::buffer::layout::{MAX_BYTES, MIN_BYTES, Mode};
use crate::buffer::name::MESSAGES;
use crate::hook::control::{MAX_BUFFERS, MAX_PARAMETERS, MAX_TABLES};
use crate::hook::owner::Owner;
use kestrel_compiler::check::{globals::Parameter, parameters};
use kestrel_compiler::lang::ast::{Buffer, Expr, ExprKind, Item, Probe, Script, Span, Spanned, Table};
use kestrel_compiler::lang::diag::{Diagnostic, did_you_mean, sort_by_place};
use kestrel_compiler::lang::parse_table_file;

/// Most keys that the maps of a file may have: they are made before they are used.
const MAX_KEYS: u64 = 1 << 20;
/// Longest name of a table or buffer: it names files in bpffs and maps.
const LONGEST_NAME: usize = 64;

/// Reads a table file. The file is whole where no diagnostic is an error.
///
/// ```
/// let text = "table normal { sched:* { record() } }\ntable quiet : normal { sched:sched_stat_* { } }";
/// let (file, found) = kestrel_hook::table::read(text, "my.kst");
/// assert!(found.is_empty());
/// assert_eq!(file.table_names().collect::<Vec<_>>(), ["normal", "quiet"]);
/// assert_eq!((file.buffers[0].name.as_str(), file.buffers[0].bytes), ("main", 4 << 20));
/// ```
pub fn read(text: &str, file_name: &str) -> (TableFile, Vec<Diagnostic>) {
    let (script, found) = parse_table_file(text);
    let mut reader = Reader {
        found,
        ..Reader::default()
    };
    reader.items(&script);
    let (parameters, wrong) = parameters(&script.items);
    reader.found.extend(wrong);
    reader.owners(&parameters);
    reader.whole(text);
    let mut found = reader.found;
    sort_by_place(&mut found);
    let file = TableFile {
        name: file_name.to_owned(),
        text: text.into(),
        buffers: match reader.buffers.is_empty() {
            true => vec![BufferSpec::default()],
            false => reader.buffers,
        },
        parameters,
        tables: reader.tables,
        max_map_keys: reader.max_map_keys,
        warnings: Vec::new(),
        objection: None,
    };
    (file, found)
}

#[derive(Default)]
struct Reader {
    found: Vec<Diagnostic>,
    buffers: Vec<BufferSpec>,
    tables: Vec<TableSpec>,
    /// Parents as written, by table.
    parents: Vec<Option<Spanned<String>>>,
    /// Where the first probe outside of tables stands, and its table.
    outside: Option<(Span, usize)>,
    parameters: Vec<Span>,
    max_map_keys: Option<u32>,
}

impl Reader {
    fn error(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    fn items(&mut self, script: &Script) {
        for item in &script.items {
            match item {
                Item::Probe(probe) => self.outside(probe),
                Item::Buffer(buffer) => self.buffer(buffer),
                Item::Table(table) => self.table(table),
                Item::Param(name, _) => self.parameters.push(name.span),
                Item::Config(settings) => settings.iter().for_each(|(name, value)| self.config(name, value)),
                Item::Import(path) => self.not_yet(path.span, "imports"),
                Item::Definition(types) => self.not_yet(types.span, "types of C"),
                Item::Map(map) => self.not_yet(map.span, "declarations of maps"),
                Item::Macro(one) => self.not_yet(one.span, "macros"),
                Item::Subprogram(one) => self.not_yet(one.span, "functions"),
            }
        }
    }

    /// Error about a feature that scripts have and table files have not.
    fn not_yet(&mut self, span: Span, what: &str) {
        let message = format!("not yet supported in table files: {what}");
        self.error(Diagnostic::error(span, message));
    }

    /// `config = { max_map_keys = N }`.
    fn config(&mut self, name: &Spanned<String>, value: &Expr) {
        if name.node != "max_map_keys" {
            let message = format!(
                "a table file's config has no \"{}\", only max_map_keys",
                name.node
            );
            let hint = "sizes and modes are settings of its buffers: buffer main { size = 4M }";
            return self.error(Diagnostic::error(name.span, message).hint(hint));
        }
        match &value.kind {
            ExprKind::Integer { value: keys, .. } if (1..=MAX_KEYS).contains(keys) => {
                self.max_map_keys = u32::try_from(*keys).ok();
            }
            _ => {
                let message = format!("the keys of a map are 1 to {MAX_KEYS}");
                self.error(Diagnostic::error(value.span, message));
            }
        }
    }

    /// A probe outside of any table.
    fn outside(&mut self, probe: &Probe) {
        if let Some((_, table)) = self.outside {
            self.tables[table].probes.push(probe.clone());
            return;
        }
        self.outside = Some((probe.span, self.tables.len()));
        self.tables.push(TableSpec {
            name: Spanned {
                node: IMPLICIT.to_owned(),
                span: probe.span,
            },
            parent: None,
            probes: vec![probe.clone()],
        });
        self.parents.push(None);
    }

    fn name(&mut self, name: &Spanned<String>, what: &str, known: Option<Span>) {
        if let Some(first) = known {
            let message = format!("there is a {what} \"{}\" already", name.node);
            self.error(Diagnostic::error(name.span, message).label(first, "here"));
        }
        if name.node.len() > LONGEST_NAME {
            let message = format!("the name of a {what} has at most {LONGEST_NAME} characters");
            self.error(Diagnostic::error(name.span, message));
        }
    }

    fn table(&mut self, table: &Table) {
        let mut known = self.tables.iter().filter(|t| t.name.node == table.name.node);
        let known = known.next().map(|t| t.name.span);
        self.name(&table.name, "table", known);
        self.tables.push(TableSpec {
            name: table.name.clone(),
            parent: table.parent.as_ref().map(|parent| parent.node.clone()),
            probes: table.probes.clone(),
        });
        self.parents.push(table.parent.clone());
    }

    fn buffer(&mut self, buffer: &Buffer) {
        let mut known = self.buffers.iter().filter(|b| b.name == buffer.name.node);
        let known = known.next().map(|b| b.span);
        self.name(&buffer.name, "buffer", known);
        if buffer.name.node == MESSAGES {
            let message = format!("\"{MESSAGES}\" is the buffer through which handlers reach the agent");
            self.error(Diagnostic::error(buffer.name.span, message).hint("give this one another name"));
        }
        let mut spec = BufferSpec {
            name: buffer.name.node.clone(),
            span: buffer.name.span,
            ..BufferSpec::default()
        };
        let mut seen: Vec<&Spanned<String>> = Vec::new();
        for (name, value) in &buffer.settings {
            if let Some(first) = seen.iter().find(|first| first.node == name.node) {
                let message = format!("\"{}\" is set twice", name.node);
                self.error(Diagnostic::error(name.span, message).label(first.span, "here"));
            }
            seen.push(name);
            let Some((_, _, set)) = SETTINGS.iter().find(|(known, ..)| *known == name.node) else {
                self.error(unknown_setting(name));
                continue;
            };
            match set(&mut spec, value) {
                Ok(remark) => self.found.extend(remark),
                Err(diagnostic) => self.error(diagnostic),
            }
        }
        self.buffers.push(spec);
    }

    /// The processes that buffers are for.
    fn owners(&mut self, parameters: &[Parameter]) {
        let mut found = Vec::new();
        for (place, buffer) in self.buffers.iter().enumerate() {
            let Some(owner) = &buffer.process else { continue };
            if place == 0 {
                let message = "the first buffer takes what is for no other one; it cannot be for one process";
                let hint = "name another buffer before it: buffer main { size = 4M }";
                found.push(Diagnostic::error(buffer.span, message).hint(hint));
            }
            if let Err(why) = owner.check(parameters) {
                let hint = "a parameter is written: param target = -1    // -1: none";
                found.push(Diagnostic::error(buffer.span, why).hint(hint));
            }
        }
        self.found.extend(found);
    }

    /// Checks that need the whole text.
    fn whole(&mut self, text: &str) {
        self.inheritance();
        let tables: Vec<Span> = self.tables.iter().map(|t| t.name.span).collect();
        let buffers: Vec<Span> = self.buffers.iter().map(|b| b.span).collect();
        let parameters = std::mem::take(&mut self.parameters);
        for (spans, most, what) in [
            (tables, MAX_TABLES, "tables"),
            (buffers, MAX_BUFFERS, "buffers"),
            (parameters, MAX_PARAMETERS, "parameters"),
        ] {
            if let Some(&span) = spans.get(most as usize) {
                let message = format!(
                    "a file can have at most {most} {what}; this one has {}",
                    spans.len()
                );
                self.error(Diagnostic::error(span, message));
            }
        }
        if self.tables.is_empty() && !kestrel_compiler::lang::diag::has_errors(&self.found) {
            let end = text.trim_end().len() as u32;
            let span = Span {
                start: end.saturating_sub(1),
                end,
            };
            self.error(
                Diagnostic::error(span, "this file has no table")
                    .hint("a table is written: table normal { sched:sched_switch { record() } }"),
            );
        }
    }

    /// Parents that do not exist, and tables that start from themselves.
    fn inheritance(&mut self) {
        let names: Vec<String> = self.tables.iter().map(|t| t.name.node.clone()).collect();
        let place = |name: &str| names.iter().position(|known| known == name);
        let mut found = Vec::new();
        let mut reported = vec![false; names.len()];
        for (table, parent) in self.parents.iter().enumerate() {
            let Some(parent) = parent else { continue };
            if place(&parent.node).is_none() {
                let message = format!("there is no table \"{}\"", parent.node);
                let hint = did_you_mean(&parent.node, names.iter().map(String::as_str));
                found.push(Diagnostic::error(parent.span, message).maybe_hint(hint));
                continue;
            }
            let mut path = vec![table];
            let mut at = table;
            let up = |at: usize| self.parents[at].as_ref().and_then(|parent| place(&parent.node));
            while let Some(next) = up(at).filter(|next| !path.contains(next)) {
                path.push(next);
                at = next;
            }
            if up(at) == Some(table) && !reported[table] {
                path.iter().for_each(|&member| reported[member] = true);
                let way: Vec<&str> = path.iter().chain([&table]).map(|&t| names[t].as_str()).collect();
                let message = format!("a table cannot start from itself: {}", way.join(" from "));
                found.push(Diagnostic::error(parent.span, message));
            }
        }
        self.found.extend(found);
    }
}

/// Gives a buffer the value of a setting; a remark if it is not taken as it stands.
type Set = fn(&mut BufferSpec, &Expr) -> Result<Option<Diagnostic>, Diagnostic>;

/// Settings of a buffer: name, example, effect.
const SETTINGS: &[(&str, &str, Set)] = &[
    ("size", "size = 4M", size),
    ("mode", "mode = overwrite", mode),
    ("process", "process = 1234", process),
];

fn unknown_setting(name: &Spanned<String>) -> Diagnostic {
    let message = format!("a buffer has no setting \"{}\"", name.node);
    let near = did_you_mean(&name.node, SETTINGS.iter().map(|(known, ..)| *known));
    let all: Vec<&str> = SETTINGS.iter().map(|(_, example, _)| *example).collect();
    Diagnostic::error(name.span, message)
        .hint(near.unwrap_or_else(|| format!("its settings are: {}", all.join(", "))))
}

fn size(buffer: &mut BufferSpec, value: &Expr) -> Result<Option<Diagnostic>, Diagnostic> {
    let ExprKind::Integer { value: bytes, .. } = value.kind else {
        return Err(
            Diagnostic::error(value.span, "a size is a number of bytes, with K, M or G after it")
                .hint("size = 4M: each CPU gets so much"),
        );
    };
    if bytes == 0 {
        let message = "a buffer of no bytes holds no record";
        return Err(Diagnostic::error(value.span, message).hint("size = 4M is a good start"));
    }
    if bytes > MAX_BYTES {
        let message = format!("a buffer has at most {} MiB per CPU", MAX_BYTES >> 20);
        let hint = "the size is that of each CPU, not of all together; the verifier follows offsets in a ring no further";
        return Err(Diagnostic::error(value.span, message).hint(hint));
    }
    buffer.bytes = bytes;
    Ok((bytes < MIN_BYTES).then(|| {
        let least = MIN_BYTES >> 10;
        let message = format!("a buffer has at least {least} KiB per CPU: the size is rounded up");
        Diagnostic::warning(value.span, message)
    }))
}

/// Words that may stand after `mode =`.
const MODES: &[(&str, Mode)] = &[("overwrite", Mode::Overwrite), ("stream", Mode::Stream)];

fn mode(buffer: &mut BufferSpec, value: &Expr) -> Result<Option<Diagnostic>, Diagnostic> {
    let word = match &value.kind {
        ExprKind::Identifier(word) | ExprKind::String(word) => word.as_str(),
        _ => "",
    };
    match MODES.iter().find(|(known, _)| *known == word) {
        Some((_, mode)) => buffer.mode = *mode,
        None => {
            let near = did_you_mean(word, MODES.iter().map(|(known, _)| *known));
            return Err(Diagnostic::error(
                value.span,
                "a mode is overwrite (the oldest goes) or stream (the newest is lost)",
            )
            .maybe_hint(near));
        }
    }
    Ok(None)
}

fn process(buffer: &mut BufferSpec, value: &Expr) -> Result<Option<Diagnostic>, Diagnostic> {
    let owner = match &value.kind {
        ExprKind::Identifier(name) => Ok(Owner::Parameter(name.clone())),
        ExprKind::Integer { value: pid, .. } => Owner::process(*pid),
        _ => Err("a buffer is for one process: its number, or a parameter that holds it".to_owned()),
    };
    let hint = "records that name no buffer go there while this process runs: process = target, with `param target = 1234` in the file";
    buffer.process = Some(owner.map_err(|why| Diagnostic::error(value.span, why).hint(hint))?);
    Ok(None)
}
