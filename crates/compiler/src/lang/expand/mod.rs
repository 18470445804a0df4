//! A script with all that it takes in, as one tree: imports, macros, parameters of the command line, what is known at once.
//! Pure: files come through a trait that the caller gives.

mod call;
mod comptime;
mod files;
mod inputs;
mod macros;
mod option;
mod positional;
mod rewrite;
mod scope;
mod type_name;

pub use comptime::number;
pub use inputs::{Files, ImportedText, Inputs, NoFiles};
pub use option::NamedOption;

use super::ast::{Definition, ExprKind, Item, Probe, Script};
use super::config::Config;
use super::diag::{Diagnostic, sort_by_call};
use super::parse::{FINDINGS, parse_file};
use super::source::Sources;
use super::walk::Node;
use macros::Macros;
use rewrite::{Expander, Finished};

/// A script that stands for itself.
#[derive(Debug, Default)]
pub struct Expanded {
    /// The script and the sources that it takes in; all places lie in them.
    pub sources: Sources,
    /// Probes, declarations of maps, functions, tables, buffers, parameters: those of imports come first. No macro, no import,
    /// no `config`, no type of C is left among them.
    pub script: Script,
    /// Types in the words of C, in source order.
    pub definitions: Vec<Definition>,
    /// The settings of `config = { … }`, laid over those that were given.
    pub config: Config,
    /// Options that the script asks for by `getopt`.
    pub options: Vec<NamedOption>,
    /// Headers that are included and that no file was given for: what BTF and the compiler's own constants replace.
    pub headers: Vec<String>,
    /// Options of the command line that the script does not know.
    pub unknown: Vec<String>,
    /// Errors found on the way.
    pub found: Vec<Diagnostic>,
}

/// Probes of a text without macros of its own, where they use macros of the library that are no built-ins (`ppid`): what is wrong in a call has its place.
pub fn with_library(probes: Vec<Probe>) -> (Vec<Probe>, Vec<Diagnostic>) {
    let inputs = Inputs::default();
    let texts = inputs.library.iter().map(|(_, text)| *text);
    let items: Vec<Item> = texts
        .flat_map(|text| {
            parse_file(text, 0..text.len(), Default::default(), false)
                .script
                .items
        })
        .collect();
    let mut found = Vec::new();
    let mut macros = Macros::default();
    for item in &items {
        if let Item::Macro(one) = item {
            macros.add(one, true, &mut found);
        }
    }
    let config = Config::default();
    let mut expander = Expander::new(&macros, &inputs, &config, "");
    let uses_one = |node: Node<'_>| match node {
        Node::Expr(expr) => match &expr.kind {
            ExprKind::Identifier(name) => macros.is_known(name, false),
            ExprKind::Call { name, .. } => macros.is_known(&name.node, true),
            _ => false,
        },
        Node::Type(_) | Node::Loop => false,
    };
    let probes = probes
        .into_iter()
        .map(|probe| match probe.any(&uses_one) {
            true => expander.handler(&probe),
            false => probe,
        })
        .collect();
    found.extend(expander.finish().found);
    for one in &mut found {
        // Second places are in the library's text.
        one.labels.clear();
    }
    (probes, found)
}

/// Expands a script that people know as `name`; `config` is what the environment has set.
///
/// ```
/// use kestrel_compiler::lang::config::Config;
/// use kestrel_compiler::lang::expand::{Inputs, expand};
/// let text = "macro twice(x) { x + x } begin { print(twice($1)); }";
/// let inputs = Inputs { positional: &["21".to_owned()], ..Inputs::default() };
/// let expanded = expand("twice.bt", text, Config::default(), &inputs);
/// assert!(expanded.found.is_empty());
/// assert_eq!(expanded.script.items.len(), 1);
/// ```
pub fn expand(name: &str, text: &str, config: Config, inputs: &Inputs<'_>) -> Expanded {
    let read = files::read(name, text, inputs);
    let mut expanded = Expanded {
        sources: read.sources,
        config,
        headers: read.headers,
        found: read.found,
        ..Expanded::default()
    };
    let mut macros = Macros::default();
    for item in &read.library {
        if let Item::Macro(one) = item {
            macros.add(one, true, &mut expanded.found);
        }
    }
    for item in &read.items {
        match item {
            Item::Macro(one) => macros.add(one, false, &mut expanded.found),
            Item::Config(settings) => expanded.config.read(settings, &mut expanded.found),
            Item::Definition(definition) => expanded.definitions.push(definition.clone()),
            _ => {}
        }
    }
    let mut expander = Expander::new(&macros, inputs, &expanded.config, expanded.sources.text());
    for item in &read.items {
        expanded.script.items.extend(expander.item(item));
    }
    let Finished {
        found,
        options,
        unknown,
        copies,
    } = expander.finish();
    expanded.sources.add_copies(&copies);
    expanded.found.extend(found);
    sort_by_call(&mut expanded.found, expanded.sources.text());
    // One call of a macro can be wrong in the same way many times.
    expanded.found.dedup();
    expanded.found.truncate(FINDINGS);
    Expanded {
        options,
        unknown,
        ..expanded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::parse::parse_probes;

    #[test]
    fn handlers_of_the_command_line_have_the_macros_of_the_library() {
        let text = "sched:sched_switch { print(ppid); print(comm) }";
        let (probes, found) = parse_probes(text);
        assert!(found.is_empty());
        let uses = |probe: &Probe, word: &str| {
            probe.any(&|node| {
                matches!(node, Node::Expr(expr) if matches!(&expr.kind, ExprKind::Identifier(name) if name == word))
            })
        };
        assert!(uses(&probes[0], "ppid") && !uses(&probes[0], "curtask"));
        let (probes, found) = with_library(probes);
        assert!(found.is_empty());
        assert!(!uses(&probes[0], "ppid") && uses(&probes[0], "curtask") && uses(&probes[0], "comm"));
        // Errors in the macro have the place of the call.
        let outside =
            |node: Node<'_>| matches!(node, Node::Expr(expr) if expr.span.end as usize > text.len());
        assert!(!probes[0].any(&outside));
    }

    #[test]
    fn a_wrong_call_of_the_librarys_macros_is_an_error_at_its_place() {
        let (probes, _) = parse_probes("sched:sched_switch { print(leader_tid(1, 2)) }");
        let (_, found) = with_library(probes);
        let [one] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!((one.span.start, one.labels.len()), (27, 0), "{one:?}");
    }
}
