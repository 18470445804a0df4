//! The metadata text (TSDL) of a trace: written from a `TraceInfo`, and read back into an equal one.
//!
//! TSDL says where fields lie and how wide they are; it cannot say in which order people read them, that a byte is a truth
//! value, which bits have names, or how long a string may be. Those hints stand in `env` entries that other readers show as
//! plain strings: `event_3 = "tracepoint prev_comm:… …"`, see `hint`.
//!
//! Field names carry a leading underscore, which CTF readers strip, so that a field may be called `string` or `event`.

mod hint;
mod lexer;
mod restore;
mod tree;
mod write;

pub use restore::parse;
pub use write::text;

use std::collections::HashSet;

/// Whether a file is the metadata of one of Kestrel's traces, of whatever version; what else is called `metadata`, or is another tracer's, is not.
pub fn is_own(bytes: &[u8]) -> bool {
    let names = |tracer: &[u8]| bytes.windows(tracer.len()).any(|window| window == tracer);
    bytes.starts_with(BEGINNING.as_bytes()) && names(TRACER.as_bytes())
}

/// Whether bytes are the first ones of such a file, as a writer leaves them that is killed while it writes.
pub fn is_beginning(bytes: &[u8]) -> bool {
    let known = bytes.len().min(BEGINNING.len());
    bytes[..known] == BEGINNING.as_bytes()[..known]
}

/// How each metadata file in text begins.
const BEGINNING: &str = "/* CTF 1.8 */";
/// How `env` names the tracer that wrote it.
const TRACER: &str = "tracer_name = \"kestrel\";";

/// Value of `trace_format` in `env`: raised when the hints change their meaning.
const FORMAT: u64 = 1;

/// Packet header and context, each field with its name and bits, in the order of `packet::offset`.
const HEADER: &[(&str, u32)] = &[("magic", 32), ("uuid", 128), ("stream_id", 32)];
const CONTEXT: &[(&str, u32)] = &[
    ("timestamp_begin", 64),
    ("timestamp_end", 64),
    ("content_size", 64),
    ("packet_size", 64),
    ("packet_seq_num", 64),
    ("events_discarded", 64),
    ("cpu_id", 32),
    ("buffer", 32),
    ("committed", 64),
];

/// The empty field that stretches an event over its padding; no field is called so.
const END: &str = "_end";

/// Names that TSDL can hold for fields named `names` in reading order; `true` stands with the variable ones, whose counts are
/// called `_NAME_length`. Both directions compute this, so a name that is no identifier, or stands twice, survives.
///
/// Names that differ in leading underscores only count as the same: babeltrace2 2.0.4 takes `__q` and `_q` in one struct
/// for duplicates, comparing the one with its underscore stripped to the other as it is.
fn identifiers<'a>(names: impl Iterator<Item = (&'a str, bool)>) -> Vec<String> {
    let mut used = HashSet::new();
    let key = |name: &str| name.trim_start_matches('_').to_owned();
    let mut all = Vec::new();
    for (name, variable) in names {
        let base = identifier(name);
        let mut number = 1;
        let mut candidate = base.clone();
        while candidate == END
            || used.contains(&key(&candidate))
            || (variable && used.contains(&key(&length_name(&candidate))))
        {
            number += 1;
            candidate = format!("{base}_{number}");
        }
        if variable {
            used.insert(key(&length_name(&candidate)));
        }
        used.insert(key(&candidate));
        all.push(candidate);
    }
    all
}

fn identifier(name: &str) -> String {
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let text: String = name.chars().map(|c| if sound(c) { c } else { '_' }).collect();
    if text.is_empty() { "field".into() } else { text }
}

fn length_name(name: &str) -> String {
    format!("_{name}_length")
}
