//! A record of an output site: its text and values, their form, and its effect.

use super::form::Form;
use crate::print::printf::Format;
use crate::print::{Style, Trailer};
use crate::symbol::Symbols;
use crate::value::Value;
use std::collections::HashMap;

/// Effect of a site's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Bytes for standard output.
    Print(Vec<u8>),
    /// Bytes for standard error, or for standard output where that is JSON.
    Complain(Vec<u8>),
    /// Bytes like those of a complaint that may be left out: a warning.
    Warn(Vec<u8>),
    /// A map is shown by [`Form::map`].
    PrintMap(MapShown),
    /// A generation of a map began: keys of earlier ones can be removed.
    Cleared {
        /// The map's name.
        name: String,
        /// The new generation of the map.
        generation: u64,
        /// Whether the keys are kept, with the value zero.
        zeroed: bool,
    },
    /// Printing of a file's contents, by [`Form::file`].
    Cat {
        /// The file's path.
        path: Vec<u8>,
    },
    /// A command is run by a shell; what it prints is printed, by [`Form::command`].
    Run {
        /// The command to run.
        command: Vec<u8>,
    },
    /// The program's watchpoints of an address are removed.
    Unwatch {
        /// The address that they watch.
        address: u64,
    },
    /// The program ends.
    Exit {
        /// Exit code of the program.
        code: i64,
    },
}

/// A map of which a generation is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapShown {
    /// The name without the at sign.
    pub name: String,
    /// The generation of the map that is shown.
    pub generation: u64,
    /// Number of keys to show; 0 for all.
    pub top: u64,
    /// Divisor of numbers; 0 counts as 1.
    pub div: u64,
}

/// The output sites of a program: their formats, parsed once.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    formats: HashMap<String, Format>,
}

/// A record of a site while it is performed.
pub(super) struct Reached<'a> {
    pub(super) text: &'a str,
    pub(super) values: Vec<Value<'a>>,
    pub(super) sites: &'a mut Sites,
    /// Time of the record, ns of `CLOCK_MONOTONIC`.
    pub(super) time_ns: u64,
    pub(super) form: Form<'a>,
    pub(super) symbols: &'a Symbols,
}

/// A verb of output.
pub(super) struct Output {
    pub(super) verb: &'static str,
    /// Whether its reader opens a file or runs a command, with the reader's rights.
    pub(super) needs_trust: bool,
    pub(super) effect: fn(&mut Reached<'_>) -> Effect,
}

impl Reached<'_> {
    /// A value as a number, 0 where it is none.
    pub(super) fn number(&self, index: usize) -> i64 {
        self.values
            .get(index)
            .and_then(|value| value.as_i64())
            .unwrap_or_default()
    }

    /// The values formatted as for a terminal.
    pub(super) fn formatted(&mut self, format: &str) -> Vec<u8> {
        self.written(format, self.form.text_style())
    }

    /// The values formatted verbatim, for a path or a command.
    pub(super) fn plain(&mut self, format: &str) -> Vec<u8> {
        let style = Style {
            escaped: false,
            trailer: Trailer::new(self.form.trailer.text),
            ..self.form.text_style()
        };
        self.written(format, style)
    }

    pub(super) fn written(&mut self, format: &str, style: Style<'_>) -> Vec<u8> {
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
