//! Form of a program's output: bpftrace's text, or its lines of JSON.

use crate::aggregate::read::Snapshot;
use crate::aggregate::{Show, json_line, written};
use crate::print::{self, JsonStyle, Style, Trailer, bpftrace_string, json, styled};
use crate::symbol::Symbols;
use crate::value::Value;
use std::path::Path;

/// Form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form<'s> {
    /// Whether output is lines of JSON.
    pub json: bool,
    /// Whether control characters in strings from traced programs are escaped, so that a terminal does not obey them; bpftrace writes strings as they are.
    pub escaped: bool,
    /// Mark behind a string that was cut.
    pub trailer: Trailer<'s>,
}

impl Form<'static> {
    /// bpftrace's text.
    pub const TEXT: Self = Self {
        json: false,
        escaped: false,
        trailer: Trailer::new(".."),
    };
    /// bpftrace's lines of JSON.
    pub const JSON: Self = Self {
        json: true,
        ..Self::TEXT
    };
}

impl<'s> Form<'s> {
    pub(super) fn text_style(self) -> Style<'s> {
        Style {
            escaped: self.escaped,
            trailer: self.trailer,
            ..Style::BPFTRACE
        }
    }

    /// A text as it is, or in a line of JSON of type `kind` as its data.
    pub(super) fn data(self, kind: &str, text: Vec<u8>) -> Vec<u8> {
        if !self.json {
            return text;
        }
        let mut out = format!("{{\"type\": \"{kind}\", \"data\": ").into_bytes();
        bpftrace_string(&text, &mut out);
        out.extend_from_slice(b"}\n");
        out
    }

    /// Appends a text from a traced program.
    pub(super) fn text(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self.json {
            true => out.extend_from_slice(bytes),
            false => print::text(bytes, self.text_style(), out),
        }
    }

    /// A text from a traced program, escaped where that is asked for.
    fn shown(self, bytes: Vec<u8>) -> Vec<u8> {
        if self.json || !self.escaped {
            return bytes;
        }
        let mut out = Vec::new();
        self.text(&bytes, &mut out);
        out
    }

    /// Bytes of a file, for `cat`.
    pub fn file(self, held: Vec<u8>) -> Vec<u8> {
        self.data("cat", self.shown(held))
    }

    /// Output of a command, for `system`: as text it has one line break more.
    pub fn command(self, printed: Vec<u8>) -> Vec<u8> {
        let mut printed = self.shown(printed);
        if !self.json {
            printed.push(b'\n');
        }
        self.data("syscall", printed)
    }

    /// A value on a line of its own.
    pub fn value(self, value: Value<'_>, symbols: &Symbols) -> Vec<u8> {
        let mut out = Vec::new();
        if self.json {
            out.extend_from_slice(b"{\"type\": \"value\", \"data\": ");
        }
        self.append(value, symbols, &mut out);
        if self.json {
            out.push(b'}');
        }
        out.push(b'\n');
        out
    }

    /// The line of a map without keys: its name and its value.
    pub(super) fn single(self, name: &str, value: Value<'_>, symbols: &Symbols) -> Vec<u8> {
        let title = format!("@{name}");
        let mut out = Vec::new();
        if self.json {
            out.extend_from_slice(b"{\"type\": \"map\", \"data\": {");
            bpftrace_string(title.as_bytes(), &mut out);
        } else {
            out.extend_from_slice(title.as_bytes());
        }
        out.extend_from_slice(b": ");
        self.append(value, symbols, &mut out);
        if self.json {
            out.extend_from_slice(b"}}");
        }
        out.push(b'\n');
        out
    }

    fn append(self, value: Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
        match self.json {
            true => json(
                value,
                JsonStyle::Bpftrace {
                    trailer: self.trailer,
                },
                symbols,
                out,
            ),
            false => styled(value, self.text_style(), symbols, out),
        }
    }

    /// A map, or its `top` greatest values divided by `div`.
    pub fn map(self, snapshot: &Snapshot, top: u64, div: u64, symbols: &Symbols) -> Vec<u8> {
        let show = Show {
            top,
            div,
            ..Show::all(self.text_style())
        };
        let mut out = Vec::new();
        match self.json {
            true => json_line(snapshot, show, symbols, &mut out),
            false => written(snapshot, show, symbols, &mut out),
        }
        out
    }

    /// The line that says how many probes are attached.
    pub fn attached(self, probes: u64) -> String {
        match self.json {
            true => format!(
                "{{\"type\": \"attached_probes\", \"count\": {probes}, \"data\": {{\"probes\": {probes}}}}}\n"
            ),
            false if probes == 1 => "Attached 1 probe\n".to_owned(),
            false => format!("Attached {probes} probes\n"),
        }
    }

    /// The line that says where an iterator is pinned.
    pub fn pinned(self, place: &Path) -> Vec<u8> {
        let place = place.as_os_str().as_encoded_bytes();
        let mut out = Vec::new();
        if self.json {
            out.extend_from_slice(b"{\"type\": \"pinned\", \"data\": {\"path\": ");
            bpftrace_string(place, &mut out);
            out.extend_from_slice(b"}}");
        } else {
            out.extend_from_slice(b"Program pinned to ");
            out.extend_from_slice(place);
        }
        out.push(b'\n');
        out
    }

    /// The line that says how many events were lost since the last such line.
    pub fn lost(self, events: u64) -> String {
        match self.json {
            true => format!(
                "{{\"type\": \"lost_events\", \"count\": {events}, \"data\": {{\"events\": {events}}}}}\n"
            ),
            false => format!("Lost {events} events\n"),
        }
    }

    /// Separator between the output of a program and its maps, at its end.
    pub fn end(self) -> &'static str {
        if self.json { "" } else { "\n\n" }
    }
}
