//! Sources of a plan (event specifications of `-e`, a program, a table file), and how the session will use it.

use crate::user_stack::UserStack;
use kestrel_catalog::catalog::{Via, find_kind, is_own_event};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Parameter;
use kestrel_compiler::lang::ast::{Definition, EventSpec, ExprKind, Item, MapDeclaration, Probe, Span};
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::{Diagnostic, has_errors};
use kestrel_compiler::lang::expand::{Inputs, NamedOption, expand};
use kestrel_compiler::lang::walk::Node;
use kestrel_compiler::lang::{parse_script, unstable};
use kestrel_hook::buffer::bell::Bell;
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_hook::table::TableFile;
use kestrel_kernel::procfs::CpuList;
use regex_lite::Regex;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

/// Source of the handlers.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Event specifications of `-e`: an event meets the handler of each that names it, in the one table [`TABLE`](super::TABLE).
    Events(&'a [String]),
    /// A program: each of its probes adds its handler to its events, in source order.
    Program(&'a ProgramText),
    /// A table file: in each table an event meets the handler of the last row that names it.
    File(&'a TableFile),
}

impl Source<'_> {
    /// Whether these letters stand anywhere in it.
    pub(super) fn mentions(&self, letters: &str) -> bool {
        match self {
            Self::Events(specs) => specs.iter().any(|spec| spec.contains(letters)),
            Self::Program(program) => program.text.contains(letters),
            Self::File(file) => file.text.contains(letters),
        }
    }
}

/// A program of the language, read and expanded: what `kestrel run` is given.
#[derive(Clone, Debug)]
pub struct ProgramText {
    /// Name of the source in messages.
    pub name: String,
    /// The text, behind which those stand that it takes in.
    pub text: Arc<str>,
    /// The probes, in source order.
    pub probes: Vec<Probe>,
    /// Maps that are declared with a kind and a size.
    pub maps: Vec<MapDeclaration>,
    /// Types of C that it defines.
    pub definitions: Vec<Definition>,
    /// The settings of the program.
    pub config: Config,
    /// The named parameters that it asks for (`getopt`).
    pub options: Vec<NamedOption>,
    /// Named parameters that were given and that it does not ask for.
    pub unexpected_options: Vec<String>,
    /// Warnings about the text.
    pub warnings: Vec<Diagnostic>,
}

/// Where the handlers of a text mention a name, before macros are expanded.
pub fn mention(text: &str, name: &str) -> Option<Span> {
    let (script, _) = parse_script(text);
    let place = Cell::new(None);
    let mentions = |node: Node<'_>| {
        if let Node::Expr(expr) = node {
            let known = match &expr.kind {
                ExprKind::Identifier(known) => known,
                ExprKind::Call { name, .. } => &name.node,
                _ => return false,
            };
            if known == name {
                place.set(Some(expr.span));
            }
        }
        place.get().is_some()
    };
    for item in &script.items {
        if let Item::Probe(probe) = item
            && probe.any(&mentions)
        {
            break;
        }
    }
    place.get()
}

impl ProgramText {
    /// Whether a handler of an event of its own (`begin`, `end`) has a loop: it may write more at once than a ring holds.
    pub fn loops_at_once(&self) -> bool {
        let is_own = |event: &EventSpec| {
            let kind = event.parts.first().and_then(|part| find_kind(&part.text));
            kind.is_some_and(|kind| is_own_event(kind.name()))
        };
        let own = self.probes.iter().filter(|probe| probe.events.iter().any(is_own));
        own.into_iter()
            .any(|probe| probe.any(&|node| matches!(node, Node::Loop)))
    }

    /// Reads a program; `config` is what the environment has set.
    ///
    /// # Errors
    /// [`Error::Program`] with all that is wrong in the text.
    pub fn read(name: &str, text: &str, config: Config, inputs: &Inputs<'_>) -> Result<Self> {
        let expanded = expand(name, text, config, inputs);
        let whole = expanded.sources.text();
        // Each stage ends with its own errors: those of the next would be consequences of them.
        if has_errors(&expanded.found) {
            return Err(Error::Program {
                source_text: whole.to_owned(),
                diagnostics: expanded.found,
            });
        }
        let (mut probes, mut maps) = (Vec::new(), Vec::new());
        for item in expanded.script.items {
            match item {
                Item::Probe(probe) => probes.push(probe),
                Item::Map(map) => maps.push(map),
                _ => {}
            }
        }
        let unstable = unstable::found(&probes, &maps, &expanded.config);
        if has_errors(&unstable) {
            return Err(Error::Program {
                source_text: whole.to_owned(),
                diagnostics: unstable,
            });
        }
        let bare = probes
            .iter()
            .filter(|probe| probe.block.is_none() && probe.object.is_none());
        let bare: Vec<Diagnostic> = bare.map(|probe| without_block(probe.span)).collect();
        if !bare.is_empty() {
            return Err(Error::Program {
                source_text: whole.to_owned(),
                diagnostics: bare,
            });
        }
        let again = named_again(&probes);
        if !again.is_empty() {
            return Err(Error::Program {
                source_text: whole.to_owned(),
                diagnostics: again,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            text: whole.into(),
            probes,
            maps,
            definitions: expanded.definitions,
            config: expanded.config,
            options: expanded.options,
            unexpected_options: expanded.unknown,
            warnings: [expanded.found, unstable].concat(),
        })
    }
}

/// Tests, and benchmarks, that have the name of an earlier one: a report could not tell them apart.
fn named_again(probes: &[Probe]) -> Vec<Diagnostic> {
    let mut named: Vec<&EventSpec> = Vec::new();
    let mut found = Vec::new();
    for event in probes.iter().flat_map(|probe| &probe.events) {
        let [kind, name] = event.parts.as_slice() else {
            continue;
        };
        if !["test", "bench"].contains(&kind.text.as_str()) {
            continue;
        }
        let is_same = |other: &&&EventSpec| {
            let texts = other.parts.iter().map(|part| &part.text);
            texts.eq([&kind.text, &name.text])
        };
        let Some(first) = named.iter().find(is_same) else {
            named.push(event);
            continue;
        };
        let message = format!(
            "\"{}\" was used as the name for more than one {} probe",
            name.text,
            kind.text.to_uppercase()
        );
        found.push(Diagnostic::error(event.span, message).label(first.span, "this is the other instance"));
    }
    found
}

/// A probe of a program does nothing without a block.
fn without_block(span: Span) -> Diagnostic {
    let message = "this probe has no { block }, so nothing happens when its event does";
    let end = Span {
        start: span.end,
        ..span
    };
    Diagnostic::error(span, message)
        .known_as(end, "syntax: expected '{'")
        .hint("say what to do: { print(comm); }; kestrel trace -e shows events by themselves")
}

/// A pattern for names of probes: `interval:ms:(200|300)`.
#[derive(Clone, Debug)]
pub struct ProbeFilter(Regex);

impl ProbeFilter {
    /// Reads a regular expression.
    ///
    /// # Errors
    /// The objection.
    pub fn new(text: &str) -> std::result::Result<Self, String> {
        Regex::new(text).map(Self).map_err(|error| error.to_string())
    }

    /// Whether a probe of that name is wanted: the pattern matches anywhere in it.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// Options of planning.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The processes whose events are traced.
    pub target: ProcessFilter,
    /// Only events of the targets, not those about them that other tasks cause.
    pub only_own: bool,
    /// Only events on these CPUs; all where there are none.
    pub cpus: CpuList,
    /// The process of the recorder: where all processes are traced, scheduling events and system calls that are about it alone are left out.
    pub leave_out: Option<u32>,
    /// Way of reading tracepoints.
    pub via: Via,
    /// Add the kernel's call stack to records of events without a block.
    pub kernel_stack: bool,
    /// Add the process's call stack to records of events without a block.
    pub user_stack: UserStack,
    /// Add tracefs's flags to records of events without a block.
    pub flags: bool,
    /// Mode of the buffers, whatever a table file says; without it, as the file says, or [`Mode::Stream`].
    pub mode: Option<Mode>,
    /// Bytes of each buffer per CPU, whatever a table file says; without it, as the file says, or 4 MiB.
    pub buffer_bytes: Option<u64>,
    /// Whether it is for a persistent session: tables can be loaded into it, an agent may read its messages.
    pub persistent: bool,
    /// Whether records with an action of user space (`notify`) go through a buffer of their own, so that the others need not be read while they
    /// are filled; a persistent session has such a buffer in any case.
    pub messages: bool,
    /// When the reader of the buffers is woken.
    pub bell: Bell,
    /// Parameters that event specifications may name; a table file declares its own.
    pub parameters: Vec<Parameter>,
    /// The names of a program's probes that are planned, begin and end apart.
    pub probe_filter: Option<ProbeFilter>,
    /// The functions of the kernel that may be probed, in place of those that ftrace lists.
    pub traceable: Option<Arc<HashSet<String>>>,
    /// Whether there are processes whose stacks are unwound by their tables.
    pub unwinds: bool,
    /// Whether a program may run commands (`--unsafe`).
    pub allows_unsafe: bool,
    /// Whether entries and returns of the same functions get programs of their own even where one program could see both.
    pub separate_returns: bool,
    /// Whether failures of helpers are counted (`-k`).
    pub counts_failures: bool,
    /// Whether updates of full maps are counted by their places.
    pub counts_updates: bool,
    /// Most keys of each map of event specifications; a table file has its own setting.
    pub max_map_keys: Option<u32>,
}
