//! What statements of output do: a *site* is such a statement (`printf`, `print`, `exit`, …), described once by its event class, whose action has the site's verb
//! and text, and whose layout has its values. Each record of the class is one time that the statement was reached. Performing a record is a function of it: what to
//! write, or what else is to be done, which who reads records does.
//!
//! | verb | text | values |
//! |---|---|---|
//! | `printf` | the format | one for each conversion |
//! | `errorf`, `warnf` | place, U+001F, format: `stdin:1:32-75␟%d` | the same |
//! | `print` | | the value |
//! | `print_map` | the map's name; then, where the map has no keys and no function fills it, a line break and `one` | the generation of the map; with `one`, what it held; then how many keys are wanted and what numbers are divided by, or neither |
//! | `cleared` | the map's name | the generation that began |
//! | `time` | the format, or nothing for `%H:%M:%S` and a line break | |
//! | `join` | what stands between | texts, or arrays of texts; empty ones are left out |
//! | `cat`, `system` | the format of the path, or of the command | one for each conversion |
//! | `exit` | | the code, or none |

mod cat;
mod cleared;
mod exit;
mod form;
mod join;
mod print;
mod printf;
mod system;
mod time;

pub use form::Form;

use crate::print::Style;
use crate::print::printf::Format;
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use std::collections::HashMap;

/// What is to be done about a record of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// These bytes go to standard output.
    Print(Vec<u8>),
    /// These bytes go to standard error, or to standard output where that is JSON.
    Complain(Vec<u8>),
    /// A map is shown by [`Form::map`].
    PrintMap(MapShown),
    /// A generation of a map began: what the map holds of those before it can go.
    Cleared {
        /// The map's name.
        name: String,
        /// The new generation.
        generation: u64,
    },
    /// What a file holds is printed, by [`Form::file`].
    Cat {
        /// Its path.
        path: Vec<u8>,
    },
    /// A command is run by a shell; what it prints is printed, by [`Form::command`].
    Run {
        /// The command.
        command: Vec<u8>,
    },
    /// The program ends.
    Exit {
        /// With this code.
        code: i64,
    },
}

/// A map of which a generation is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapShown {
    /// Its name without the at sign.
    pub name: String,
    /// Which of its generations.
    pub generation: u64,
    /// Only so many keys; 0 for all.
    pub top: u64,
    /// What numbers are divided by; 0 counts as 1.
    pub div: u64,
}

/// What is known of sites: their formats, parsed once.
#[derive(Debug, Default)]
pub struct Sites {
    formats: HashMap<String, Format>,
}

/// A site that was reached.
struct Reached<'a> {
    text: &'a str,
    values: Vec<Value<'a>>,
    sites: &'a mut Sites,
    /// ns of `CLOCK_MONOTONIC`.
    time_ns: u64,
    form: Form<'a>,
    symbols: &'a Symbols,
}

/// A verb of output.
struct Output {
    verb: &'static str,
    effect: fn(&mut Reached<'_>) -> Effect,
}

/// A table: the verbs.
static OUTPUTS: &[&Output] = &[
    &printf::PRINTF,
    &printf::ERRORF,
    &printf::WARNF,
    &print::PRINT,
    &print::PRINT_MAP,
    &cleared::CLEARED,
    &time::TIME,
    &join::JOIN,
    &cat::CAT,
    &system::SYSTEM,
    &exit::EXIT,
];

impl Sites {
    /// What is to be done about a record; none where its class is no site of output.
    pub fn effect(&mut self, record: &Record<'_>, form: Form<'_>, symbols: &Symbols) -> Option<Effect> {
        let action = record.event.action.as_ref()?;
        let output = OUTPUTS.iter().find(|output| output.verb == action.verb)?;
        let mut reached = Reached {
            text: &action.text,
            values: record.fields().map(|(_, value)| value).collect(),
            sites: self,
            time_ns: record.time_ns,
            form,
            symbols,
        };
        Some((output.effect)(&mut reached))
    }
}

impl Reached<'_> {
    /// A value as a number, 0 where it is none.
    fn number(&self, index: usize) -> i64 {
        self.values
            .get(index)
            .and_then(|value| value.as_i64())
            .unwrap_or_default()
    }

    /// The values in a format, as they are shown.
    fn formatted(&mut self, format: &str) -> Vec<u8> {
        self.written(format, self.form.text_style())
    }

    /// The values in a format, as they are: a path or a command.
    fn plain(&mut self, format: &str) -> Vec<u8> {
        let style = Style {
            raw: true,
            ..self.form.text_style()
        };
        self.written(format, style)
    }

    fn written(&mut self, format: &str, style: Style<'_>) -> Vec<u8> {
        let formats = &mut self.sites.formats;
        if !formats.contains_key(format) {
            formats.insert(format.to_owned(), Format::parse(format));
        }
        let mut out = Vec::new();
        if let Some(format) = formats.get(format) {
            format.write(self.values.iter().copied(), style, self.symbols, &mut out);
        }
        out
    }
}

#[cfg(test)]
mod tests;
