//! Diagnostics about a source text: what is wrong, where, and what to do about it; and their rendering as text. Whether there are colours is the
//! caller's choice.

use super::ast::Span;
use super::expansion;
use kestrel_trace::print::raw;
use unicode_width::UnicodeWidthChar;

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The text cannot be used.
    Error,
    /// The text can be used, and probably does not mean what it should.
    Warning,
}

/// A second place that explains the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place in the text.
    pub span: Span,
    /// The label's text.
    pub message: String,
}

/// Sorts diagnostics by their places; those of one place keep their order.
pub fn sort_by_place(found: &mut [Diagnostic]) {
    found.sort_by_key(|diagnostic| diagnostic.span.start);
}

/// Sorts diagnostics about `text` by their places; of those in the bodies of macros, by the places of the calls.
pub fn sort_by_call(found: &mut [Diagnostic], text: &str) {
    found.sort_by_cached_key(|one| (expansion::outermost(text, one.span).start, one.span.start));
}

/// A diagnostic: one finding about a source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How severe it is.
    pub severity: Severity,
    /// The error or warning, without a full stop.
    pub message: String,
    /// The bytes of the source that are wrong.
    pub span: Span,
    /// Other places that matter.
    pub labels: Vec<Label>,
    /// Hints at what to do about it.
    pub hints: Vec<String>,
    /// What bpftrace says of the same mistake, and where, if that is not the message: texts rendered as bpftrace's begin with it.
    pub(crate) phrase: Option<Label>,
    /// Whether it is about a place at which no probe can be attached, which bpftrace finds out by attaching.
    pub not_attachable: bool,
    /// Whether it is about what is opened at its place and not closed: what follows may have been swallowed.
    pub(crate) unclosed: bool,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, span, message.into())
    }

    /// A warning at `span`.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, span, message.into())
    }

    fn new(severity: Severity, span: Span, message: String) -> Self {
        Self {
            severity,
            message,
            span,
            labels: Vec::new(),
            hints: Vec::new(),
            phrase: None,
            not_attachable: false,
            unclosed: false,
        }
    }

    /// An error about what is opened at `span` and not closed.
    pub(crate) fn unclosed(span: Span, message: impl Into<String>) -> Self {
        Self {
            unclosed: true,
            ..Self::error(span, message)
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hints.extend(hint);
        self
    }

    /// Adds what bpftrace says of the same mistake, and where.
    #[must_use]
    pub fn known_as(mut self, span: Span, message: impl Into<String>) -> Self {
        self.phrase = Some(Label {
            span,
            message: message.into(),
        });
        self
    }

    /// The same of one that has no such words yet.
    pub(crate) fn know_as(&mut self, span: Span, message: impl FnOnce() -> String) {
        if self.phrase.is_none() {
            self.phrase = Some(Label {
                span,
                message: message(),
            });
        }
    }

    /// Where it begins as bpftrace has it.
    fn known_start(&self) -> u32 {
        self.phrase
            .as_ref()
            .map_or(self.span.start, |known| known.span.start)
    }

    /// Says whether it is about a place at which no probe can be attached.
    #[must_use]
    pub fn not_attachable(mut self, is_so: bool) -> Self {
        self.not_attachable = is_so;
        self
    }

    /// Adds a second place.
    #[must_use]
    pub fn label(mut self, span: Span, message: impl Into<String>) -> Self {
        self.labels.push(Label {
            span,
            message: message.into(),
        });
        self
    }
}

/// Whether any of them is an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// Style of printed diagnostics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// With ANSI colours.
    pub colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

const BOLD: &str = "1";
const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const CYAN: &str = "1;36";
const TAB: usize = 4;
/// Bytes of a long line that are shown before a place in it; lines up to four times as long are shown whole.
const MARGIN: usize = 40;

/// Shows diagnostics about `text`, which people know as `name` (a file, or `<expression>`), as lines ending in newlines. Beneath a place in the body of a
/// macro stand the calls that it is of, the innermost first:
///
/// ```text
/// <expression>:1:18: error: unknown name "pidd"
///     kprobe:vfs_read /pidd == 42/
///                      ^^^^
///   hint: did you mean "pid"?
/// ```
pub fn render(diagnostics: &[Diagnostic], name: &str, text: &str, style: Style) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        let (word, colour) = match diagnostic.severity {
            Severity::Error => ("error", RED),
            Severity::Warning => ("warning", YELLOW),
        };
        if diagnostic.span == Span::NOWHERE {
            // The diagnostic is about no place in the text.
            let word = style.paint(colour, &format!("{word}:"));
            out += &format!("{word} {}\n", style.paint(BOLD, &diagnostic.message));
            for hint in &diagnostic.hints {
                out += &format!("  {} {hint}\n", style.paint(CYAN, "hint:"));
            }
            continue;
        }
        let line = Line::at(text, diagnostic.span);
        let place = format!("{}:{}:{}:", line.file.unwrap_or(name), line.number, line.column);
        let (place, word) = (
            style.paint(BOLD, &place),
            style.paint(colour, &format!("{word}:")),
        );
        out += &format!("{place} {word} {}\n", style.paint(BOLD, &diagnostic.message));
        out += &line.excerpt(style, colour, "");
        for call in expansion::calls(text, diagnostic.span) {
            let line = Line::at(text, call);
            let place = format!("{}:{}:{}:", line.file.unwrap_or(name), line.number, line.column);
            out += &format!("{} expanded from\n", style.paint(BOLD, &place));
            out += &line.excerpt(style, colour, "");
        }
        for label in &diagnostic.labels {
            out += &Line::at(text, label.span).excerpt(style, CYAN, &label.message);
        }
        for hint in &diagnostic.hints {
            out += &format!("  {} {hint}\n", style.paint(CYAN, "hint:"));
        }
    }
    out
}

/// Shows diagnostics as bpftrace does, for scripts and people that read its messages; `colour` paints the word of severity:
///
/// ```text
/// stdin:1:18-22: ERROR: unknown name "pidd"
/// kprobe:vfs_read /pidd == 42/
///                  ~~~~
/// HINT: did you mean "pid"?
/// ```
pub fn render_as_bpftrace(diagnostics: &[Diagnostic], name: &str, text: &str, style: Style) -> String {
    let mut out = String::new();
    let mut diagnostics: Vec<&Diagnostic> = diagnostics.iter().collect();
    if diagnostics.iter().any(|one| one.unclosed && one.phrase.is_some()) {
        // bpftrace ends at its first error of syntax: where a block is not closed, that is the first inside.
        diagnostics.sort_by_key(|one| one.known_start());
    }
    for diagnostic in diagnostics {
        let (word, colour) = match diagnostic.severity {
            Severity::Error => ("ERROR:", RED),
            Severity::Warning => ("WARNING:", YELLOW),
        };
        if diagnostic.span == Span::NOWHERE {
            out += &format!("{} {}\n", style.paint(colour, word), diagnostic.message);
            for hint in &diagnostic.hints {
                out += &format!("{} {hint}\n", style.paint(CYAN, "HINT:"));
            }
            continue;
        }
        let mut about = |span: Span, word: &str, message: &str| {
            let line = Line::at(text, span);
            let place = place(name, text, span);
            out += &format!("{place}: {word} {message}\n");
            let under = "~".repeat(width(&line.text[line.start..line.end]).max(1));
            let indent = " ".repeat(width(&line.text[..line.start]));
            let shown = shown(line.text);
            out += &format!("{shown}\n{indent}{under}\n");
        };
        let word = style.paint(colour, word);
        let first = diagnostic.phrase.as_ref();
        let (place, message) = first.map_or((diagnostic.span, &diagnostic.message), |known| {
            (known.span, &known.message)
        });
        about(place, &word, message);
        for call in expansion::calls(text, place) {
            about(call, &word, "expanded from");
        }
        let (note, hint) = (style.paint(CYAN, "NOTE:"), style.paint(CYAN, "HINT:"));
        let own = match first {
            Some(_) if place != diagnostic.span => {
                about(diagnostic.span, &note, &diagnostic.message);
                None
            }
            known => known
                .filter(|known| !known.message.ends_with(&diagnostic.message))
                .map(|_| &diagnostic.message),
        };
        for label in &diagnostic.labels {
            about(label.span, &note, &label.message);
        }
        for said in own.into_iter().chain(&diagnostic.hints) {
            out += &format!("{hint} {said}\n");
        }
    }
    out
}

/// Where a span is, as bpftrace names places: `FILE:LINE:COLUMN-COLUMN`, of several lines `FILE:LINE-LINE`.
pub fn place(name: &str, text: &str, span: Span) -> String {
    let line = Line::at(text, span);
    let span = expansion::written(text, span);
    let name = line.file.unwrap_or(name);
    let end = floor(text, span.end as usize);
    let more = text[floor(text, span.start as usize).min(end)..end]
        .matches('\n')
        .count();
    match more {
        0 => {
            let width = line.text[line.start..line.end].chars().count();
            format!("{name}:{}:{}-{}", line.number, line.column, line.column + width)
        }
        more => format!("{name}:{}-{}", line.number, line.number + more),
    }
}

/// The file, line and column (in bytes, both from 1) where a span begins.
pub fn position<'a>(name: &'a str, text: &'a str, span: Span) -> (&'a str, usize, usize) {
    let line = Line::at(text, span);
    (line.file.unwrap_or(name), line.number, line.start + 1)
}

/// Begins a line that names the file whose text follows: texts that a script takes in stand behind it, each behind such a line.
pub(crate) const FILE: char = '\u{1d}';

/// The file in which a place lies, if it is not the first, and where that file's text begins.
fn file_at(text: &str, at: usize) -> (Option<&str>, usize) {
    let Some(found) = text[..at].rfind(FILE) else {
        return (None, 0);
    };
    let named = &text[found + FILE.len_utf8()..];
    match named.split_once('\n') {
        Some((name, _)) if text[..found].ends_with('\n') => {
            (Some(name), found + FILE.len_utf8() + name.len() + 1)
        }
        _ => (None, 0),
    }
}

/// The line of the source where a span begins.
struct Line<'a> {
    /// The file that it is of, if that is not the first of the text.
    file: Option<&'a str>,
    /// Counted from 1.
    number: usize,
    /// In characters, counted from 1.
    column: usize,
    /// Without its newline.
    text: &'a str,
    /// The span, in bytes of the line, cut at its end.
    start: usize,
    end: usize,
}

impl<'a> Line<'a> {
    fn at(text: &'a str, span: Span) -> Self {
        let span = expansion::written(text, span);
        let start = floor(text, span.start as usize);
        let end = floor(text, span.end as usize).max(start);
        let first = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let last = text[first..].find('\n').map_or(text.len(), |i| first + i);
        let line = text[first..last].trim_end_matches('\r');
        let start_in_line = (start - first).min(line.len());
        let (file, file_start) = file_at(text, first);
        Self {
            file,
            number: text[file_start.min(first)..first].matches('\n').count() + 1,
            column: line[..start_in_line].chars().count() + 1,
            text: line,
            start: start_in_line,
            end: (end - first).clamp(start_in_line, line.len()),
        }
    }

    /// The line, and under it the span underlined, followed by `message`. Of a long line only what surrounds the span.
    fn excerpt(&self, style: Style, colour: &str, message: &str) -> String {
        let from = match self.start {
            start if start > MARGIN * 2 && self.text.len() > MARGIN * 4 => floor(self.text, start - MARGIN),
            _ => 0,
        };
        let to = floor(self.text, from + MARGIN * 4);
        let end = self.end.min(to).max(self.start);
        let (left, right) = (
            if from > 0 { "…" } else { "" },
            if to < self.text.len() { "…" } else { "" },
        );
        let shown = shown(&self.text[from..to]);
        let before = width(left) + width(&self.text[from..self.start]);
        let under = width(&self.text[self.start..end]).max(1);
        let carets = style.paint(colour, &"^".repeat(under));
        let indent = " ".repeat(before);
        let sentence = format!(
            "    {}{right}\n    {indent}{carets} {message}",
            format!("{left}{shown}").trim_end()
        );
        format!("{}\n", sentence.trim_end())
    }
}

/// The greatest character boundary not beyond `index`.
fn floor(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// A text as it is shown: a tab as spaces, another control character as a mark of one column.
fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => shown.extend([' '; TAB]),
            c if c.width().is_none() || raw::byte(c).is_some() => shown.push('\u{fffd}'),
            c => shown.push(c),
        }
    }
    shown
}

/// Columns that a text takes on a terminal.
fn width(text: &str) -> usize {
    let column = |c: char| if c == '\t' { TAB } else { c.width().unwrap_or(1) };
    text.chars().map(column).sum()
}

/// The names in `candidates` that `name` may have been meant as, best first, at most three.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = name.to_ascii_lowercase();
    let letters = Letters::of(&wanted);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let tolerance = (wanted.len().max(candidate.len()) / 3).max(1);
            let contains = wanted.len() >= 3
                && candidate
                    .as_bytes()
                    .windows(wanted.len())
                    .any(|part| part.eq_ignore_ascii_case(wanted.as_bytes()));
            // Most of a kernel's names have too many different letters to come close, which is quicker to see than the edit distance.
            if !contains && letters.distance(candidate) > tolerance {
                return None;
            }
            let distance = strsim::osa_distance(&wanted, &candidate.to_ascii_lowercase());
            let tolerance = (wanted.chars().count().max(candidate.chars().count()) / 3).max(1);
            (distance <= tolerance || contains).then_some((distance, candidate))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// Letter counts of a word, ignoring case.
struct Letters {
    count: [u8; 256],
    length: usize,
}

impl Letters {
    fn of(word: &str) -> Self {
        let mut count = [0_u8; 256];
        for letter in word.bytes() {
            let count = &mut count[usize::from(letter.to_ascii_lowercase())];
            *count = count.saturating_add(1);
        }
        Self {
            count,
            length: word.len(),
        }
    }

    /// The least number of changes that turn this word into the other (edit distance); 0 where letters are not bytes.
    fn distance(&self, other: &str) -> usize {
        let mut left = self.count;
        let (mut more, mut ascii) = (0, true);
        for letter in other.bytes() {
            ascii &= letter.is_ascii();
            let left = &mut left[usize::from(letter.to_ascii_lowercase())];
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => more += 1,
            }
        }
        let missing = self.length - (other.len() - more);
        let plain = ascii && self.length <= usize::from(u8::MAX) && self.count[128..].iter().all(|n| *n == 0);
        if plain { more.max(missing) } else { 0 }
    }
}

/// `did you mean "a" or "b"?`, where there are such names.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near: Vec<String> = nearest(name, candidates)
        .into_iter()
        .map(|candidate| format!("\"{candidate}\""))
        .collect();
    match near.as_slice() {
        [] => None,
        [one] => Some(format!("did you mean {one}?")),
        [first @ .., last] => Some(format!("did you mean {} or {last}?", first.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, needle: &str) -> Span {
        let start = text.find(needle).unwrap();
        Span {
            start: start as u32,
            end: (start + needle.len()) as u32,
        }
    }

    #[test]
    fn carets_stand_under_the_span_after_tabs_and_wide_characters() {
        let text = "first\n\t\"漢字\" == foo\nlast";
        let shown = render(
            &[Diagnostic::error(at(text, "foo"), "bad").hint("good")],
            "f.bt",
            text,
            Style::default(),
        );
        assert_eq!(
            shown,
            "f.bt:2:10: error: bad\n        \"漢字\" == foo\n                  ^^^\n  hint: good\n"
        );
    }

    #[test]
    fn spans_beyond_the_text_are_cut() {
        let span = Span { start: 90, end: 99 };
        let shown = render(&[Diagnostic::warning(span, "late")], "x", "ab", Style::default());
        assert_eq!(shown, "x:1:3: warning: late\n    ab\n      ^\n");
    }

    #[test]
    fn long_lines_are_cut_around_the_span() {
        let text = format!("{}here{}", "a".repeat(1000), "b".repeat(1000));
        let shown = render(
            &[Diagnostic::error(at(&text, "here"), "bad")],
            "x",
            &text,
            Style::default(),
        );
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "x:1:1001: error: bad");
        assert!(lines[1].chars().count() < 200, "{shown}");
        let (place, carets) = (lines[1].find("here").unwrap(), lines[2].find('^').unwrap());
        assert_eq!(lines[1][..place].chars().count(), carets);
    }

    #[test]
    fn colour_is_added_only_when_asked_for() {
        let found =
            [Diagnostic::error(Span { start: 0, end: 1 }, "bad").label(Span { start: 2, end: 3 }, "so")];
        let plain = render(&found, "x", "a b", Style::default());
        assert_eq!(plain, "x:1:1: error: bad\n    a b\n    ^\n    a b\n      ^ so\n");
        let coloured = render(&found, "x", "a b", Style { colour: true });
        assert!(coloured.contains("\x1b[1;31merror:\x1b[0m"));
        let mut bare = coloured;
        while let Some(start) = bare.find('\x1b') {
            let end = start + bare[start..].find('m').unwrap();
            bare.replace_range(start..=end, "");
        }
        assert_eq!(bare, plain);
    }

    #[test]
    fn nearest_names_come_first() {
        assert_eq!(nearest("pidd", ["pid", "tid", "comm"]), ["pid"]);
        assert_eq!(nearest("PROT", ["PROT_READ"]), ["PROT_READ"]);
        assert_eq!(nearest("prev_co", ["prev_comm", "prev_pid"]), ["prev_comm"]);
        assert_eq!(did_you_mean("zzz", ["pid"]), None);
        assert_eq!(nearest("größe", ["größer", "grösse", "x"]), ["größer", "grösse"]);
    }

    #[test]
    fn letters_promise_no_more_than_the_distance() {
        let words = [
            "vfs_read",
            "vfs_raed",
            "filldir63",
            "FillDir64",
            "",
            "a",
            "ääh",
            "do_sys_open",
            "x_x",
        ];
        for one in words {
            let letters = Letters::of(one);
            for other in words {
                let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
                let (least, distance) = (letters.distance(&other), strsim::osa_distance(&one, &other));
                assert!(least <= distance, "{one} {other}: {least}, {distance}");
            }
        }
        assert!(Letters::of("vfs_read").distance("tcp_sendmsg") > 3);
    }
}
