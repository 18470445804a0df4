//! The names of events, which have a spelling of their own: `kprobe:vfs_*`, `uprobe:/lib/x.so:"f(int)"+0x10`.

use super::Parser;
use crate::lang::ast::{EventPart, EventSpec};
use crate::lang::diag::Diagnostic;
use crate::lang::lexer::{QuoteTrouble, read_quoted, span};
use kestrel_trace::event_kind::{self, Optional};

/// Kind of a part of an event's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A kind, a group, a function.
    Plain,
    /// A path, in which slashes are ordinary.
    Path,
    /// The name behind a path: names of C++ and Rust have double colons.
    InFile,
}

/// The name of a kind as the table of kinds has it: `Tracepoint`, `INTERVAL`.
fn in_small_letters(part: &mut EventPart) {
    if event_kind::find(&part.text).is_none() {
        let small = part.text.to_lowercase();
        if event_kind::find(&small).is_some_and(|kind| kind.name == small) {
            part.text = small;
        }
    }
}

impl Parser<'_> {
    /// One event's name, from the next token's first byte on.
    pub(super) fn event(&mut self) -> Option<EventSpec> {
        let start = self.start() as usize;
        // Names of events are no tokens of the language (globs, paths): what was read ahead as such is read again.
        self.ahead.clear();
        self.lexer.go_to(start);
        let mut parts: Vec<EventPart> = Vec::new();
        loop {
            let kind = parts.first().and_then(|first| event_kind::find(&first.text));
            let of_file = kind.is_some_and(|kind| kind.subject.is_path());
            parts.push(self.event_part(match (of_file, parts.len()) {
                (true, 1) => Part::Path,
                (true, _) => Part::InFile,
                (false, _) => Part::Plain,
            }));
            if let [first] = parts.as_mut_slice() {
                in_small_letters(first);
            }
            if !self.lexer.rest().starts_with(':') {
                break;
            }
            self.lexer.go_to(self.lexer.at() + 1);
        }
        let whole = span(start, self.lexer.at());
        self.load();
        self.last_end = whole.end;
        if whole.start == whole.end {
            self.unexpected("the name of an event");
            return None;
        }
        let optional = event_kind::find(&parts[0].text).map_or(Optional::None, |kind| kind.optional);
        if parts.len() > 2 && optional == Optional::Count && parts.last().is_some_and(is_empty) {
            parts.pop();
        }
        let may_lack =
            optional == Optional::Provider && parts.len() > 2 && !parts.last().is_some_and(is_empty);
        if let Some(empty) = parts.iter().find(|part| is_empty(part) && !may_lack) {
            let mut wrong = Diagnostic::error(empty.span, "a part of the event's name is missing here")
                .hint("events are spelled like kprobe:vfs_read or sched:sched_switch");
            let given: Vec<&str> = parts.iter().skip(1).map(|part| part.text.as_str()).collect();
            let kind = event_kind::find(&parts[0].text);
            if let Some(said) = kind.and_then(|kind| event_kind::incomplete(kind, &given)) {
                wrong = wrong.known_as(whole, said);
            }
            self.error(wrong);
        }
        Some(EventSpec {
            name: None,
            parts,
            span: whole,
        })
    }

    /// Text up to the next colon or the end of the name.
    fn event_part(&mut self, part: Part) -> EventPart {
        let start = self.lexer.at();
        let rest = self.lexer.rest();
        let path = part == Part::Path
            || rest.starts_with('/') && start > self.start() as usize
            || rest.starts_with("./");
        let mut text = String::new();
        let mut bare = true;
        while let Some(c) = self.lexer.rest().chars().next() {
            let at = self.lexer.at();
            if c == '"' {
                bare = false;
                match read_quoted(self.lexer.rest()) {
                    Ok((quoted, bytes)) => {
                        text += &quoted;
                        self.lexer.go_to(at + bytes);
                    }
                    Err(trouble) => {
                        self.bad_quote(at, &trouble);
                        break;
                    }
                }
            } else if part == Part::InFile && self.lexer.rest().starts_with("::") {
                text.push_str("::");
                bare = true;
                self.lexer.go_to(at + 2);
            } else if is_part(c, path) {
                text.push(c);
                bare = true;
                self.lexer.go_to(at + c.len_utf8());
            } else {
                break;
            }
        }
        let place = span(start, self.lexer.at());
        // Quotes are there for names that contain `+`: only an offset outside of them is one.
        let offset = if bare {
            self.cut_offset(&mut text, place.end)
        } else {
            None
        };
        EventPart {
            text,
            offset,
            span: place,
        }
    }

    /// Cuts `+0x10` off the end of `text`, which ends at the byte `end`.
    fn cut_offset(&mut self, text: &mut String, end: u32) -> Option<u64> {
        let (name, digits) = text.rsplit_once('+')?;
        if digits.starts_with('$') {
            return None; // a parameter of the command line, which is not known yet
        }
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        let Ok(value) = value else {
            let length = u32::try_from(digits.len()).unwrap_or(0);
            let place = span((end - length) as usize, end as usize);
            self.error(
                Diagnostic::error(place, format!("\"{digits}\" is not an offset in bytes"))
                    .known_as(
                        span(self.start() as usize, end as usize),
                        format!("Invalid offset: invalid integer: {digits}"),
                    )
                    .hint("offsets are written like kprobe:vfs_read+0x10"),
            );
            return None;
        };
        *text = name.to_owned();
        Some(value)
    }

    /// Reports a text that cannot be read, and goes past it.
    fn bad_quote(&mut self, at: usize, trouble: &QuoteTrouble) {
        let rest = self.lexer.rest();
        let (message, end) = match trouble {
            QuoteTrouble::Open => (
                "this string is not closed by a double quote",
                rest.find('\n').unwrap_or(rest.len()),
            ),
            QuoteTrouble::Escape { end, .. } => ("this string has an escape that means nothing", *end),
        };
        self.lexer.go_to(at + end);
        let place = span(at, at + end);
        self.error(match trouble {
            QuoteTrouble::Open => Diagnostic::unclosed(place, message),
            QuoteTrouble::Escape { .. } => Diagnostic::error(place, message),
        });
    }
}

fn is_empty(part: &EventPart) -> bool {
    part.span.start == part.span.end
}

/// Whether a character can stand in an event's name outside quotes.
fn is_part(c: char, path: bool) -> bool {
    match c {
        '/' => path,
        ',' | '{' | '}' | ':' | '"' | ';' | '(' | ')' => false,
        c => !c.is_whitespace(),
    }
}
