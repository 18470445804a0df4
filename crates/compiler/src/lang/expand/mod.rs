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

use super::ast::{Definition, Item, Script};
use super::config::Config;
use super::diag::{Diagnostic, sort_by_call};
use super::parse::FINDINGS;
use super::source::Sources;
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
