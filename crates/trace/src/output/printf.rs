//! `printf`, `errorf` and `warnf`.

use super::reached::{Effect, Output, Reached};
use crate::print::bpftrace_string;

pub(super) static PRINTF: Output = Output {
    verb: "printf",
    needs_trust: false,
    effect: |reached| {
        let text = reached.formatted(reached.text);
        Effect::Print(reached.form.data("printf", text))
    },
};

pub(super) static ERRORF: Output = Output {
    verb: "errorf",
    needs_trust: false,
    effect: |reached| Effect::Complain(complaint(reached, "errorf", "ERROR")),
};

pub(super) static WARNF: Output = Output {
    verb: "warnf",
    needs_trust: false,
    effect: |reached| Effect::Warn(complaint(reached, "warnf", "WARNING")),
};

/// Between the place of the statement and its format.
const BEHIND_PLACE: char = '\u{1f}';

/// A message with the place of the statement that makes it: `stdin:1:32-75: ERROR: text`.
fn complaint(reached: &mut Reached<'_>, kind: &str, title: &str) -> Vec<u8> {
    let (place, format) = reached
        .text
        .split_once(BEHIND_PLACE)
        .unwrap_or(("", reached.text));
    let text = reached.formatted(format);
    let mut out = Vec::new();
    if reached.form.json {
        out.extend_from_slice(format!("{{\"type\": \"{kind}\", \"msg\": ").as_bytes());
        bpftrace_string(&text, &mut out);
        let (file, line, column) = parts(place);
        out.extend_from_slice(b", \"filename\": ");
        bpftrace_string(file.as_bytes(), &mut out);
        out.extend_from_slice(format!(", \"line\": {line}, \"col\": {column}}}\n").as_bytes());
    } else {
        if !place.is_empty() {
            out.extend_from_slice(place.as_bytes());
            out.extend_from_slice(b": ");
        }
        out.extend_from_slice(title.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(&text);
        out.push(b'\n');
    }
    out
}

/// File, line and column of `FILE:LINE:COLUMN-COLUMN`.
fn parts(place: &str) -> (&str, u32, u32) {
    let number = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().unwrap_or_default()
    };
    let mut words = place.rsplitn(3, ':');
    match (words.next(), words.next(), words.next()) {
        (Some(columns), Some(line), Some(file)) => (file, number(line), number(columns)),
        _ => (place, 0, 0),
    }
}
