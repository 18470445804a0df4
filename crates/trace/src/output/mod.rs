//! Output statements: a *site* is such a statement (`printf`, `print`, `exit`, …), described once by its event class, whose action has the site's verb
//! and text, and whose layout has its values. Each record of the class is one time that the statement was reached. Performing a record is a pure
//! function: it gives what to write, or another thing that the reader of the records is to do.
//!
//! | verb | text | values |
//! |---|---|---|
//! | `printf` | the format | one for each conversion |
//! | `errorf`, `warnf` | place, U+001F, format: `stdin:1:32-75␟%d` | the same |
//! | `print` | | the value |
//! | `print_map` | the map's name; then, where the map has no keys and no function fills it, a line break and `one` | generation; value (only with `one`); optionally the most keys to show and the divisor together |
//! | `cleared`, `zeroed` | the map's name | the generation that began; keys are removed, or kept with zero |
//! | `time` | the format, or nothing for `%H:%M:%S` and a line break | |
//! | `join` | what stands between | strings, or arrays of strings; up to the first empty one |
//! | `cat`, `system` | the format of the path, or of the command | one for each conversion |
//! | `exit` | | the code, or none |
//! | `unwatch` | | the address |

mod cat;
mod cleared;
mod exit;
mod form;
mod join;
mod print;
mod printf;
mod reached;
mod system;
mod time;
mod unwatch;
mod verdict;

pub use form::Form;
pub use reached::{Effect, MapShown, Sites};
pub use verdict::{Benchmark, Verdict, VerdictForm};

use crate::record::Record;
use crate::symbol::Symbols;
use reached::{Output, Reached};

/// A table: the verbs.
static OUTPUTS: &[&Output] = &[
    &printf::PRINTF,
    &printf::ERRORF,
    &printf::WARNF,
    &print::PRINT,
    &print::PRINT_MAP,
    &cleared::CLEARED,
    &cleared::ZEROED,
    &time::TIME,
    &join::JOIN,
    &cat::CAT,
    &system::SYSTEM,
    &exit::EXIT,
    &unwatch::UNWATCH,
];

/// Whether records with this verb are those of an output statement.
pub fn is_output(verb: &str) -> bool {
    OUTPUTS.iter().any(|output| output.verb == verb)
}

/// Whether the reader of records with this verb opens files or runs commands for them: only a program that is trusted may ask for that.
pub fn needs_trust(verb: &str) -> bool {
    OUTPUTS
        .iter()
        .any(|output| output.verb == verb && output.needs_trust)
}

impl Sites {
    /// Effect of a record; none where its class is no site of output.
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

#[cfg(test)]
mod tests;
