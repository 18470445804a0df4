//! What is wrong with the spelling of a program's event in bpftrace's words, which scripts and their tests look for: Kestrel's own stand behind them as hints.

use kestrel_catalog::Error;
use kestrel_catalog::catalog::find_kind;
use kestrel_compiler::lang::ast::{EventPart, EventSpec};
use kestrel_compiler::lang::number_of;

/// How many parts stand behind a kind.
struct Parts {
    kinds: &'static [&'static str],
    allowed: &'static [usize],
    said: &'static str,
}

// A table: the kinds whose events have a fixed number of parts.
const PARTS: &[Parts] = &[
    Parts {
        kinds: &["begin", "end"],
        allowed: &[0],
        said: "0",
    },
    Parts {
        kinds: &[
            "kprobe",
            "kretprobe",
            "interval",
            "profile",
            "software",
            "hardware",
        ],
        allowed: &[1, 2],
        said: "1 or 2",
    },
    Parts {
        kinds: &["rawtracepoint"],
        allowed: &[1, 2],
        said: "2 or 1",
    },
    Parts {
        kinds: &["tracepoint", "self"],
        allowed: &[2],
        said: "2",
    },
    Parts {
        kinds: &["watchpoint"],
        allowed: &[3],
        said: "3",
    },
];

/// Kinds of files, with a function, or with one of a group or a language.
const OF_FILES: &[&str] = &["uprobe", "uretprobe", "usdt"];

/// Units of clocks.
const UNITS: &[&str] = &["s", "ms", "us", "ns", "hz"];

/// What is wrong with an event's spelling, for errors about that; `None` where Kestrel's message says it.
pub(super) fn sentence(spec: &EventSpec, error: &Error) -> Option<String> {
    let (first, parts) = spec.parts.split_first()?;
    if let Error::Io { error, .. } = error {
        return no_file(spec).filter(|_| error.kind() == std::io::ErrorKind::NotFound);
    }
    if let Error::Object { why, .. } = error {
        let not_found = why.starts_with("no program of this name");
        return no_statement(spec, why).or_else(|| no_file(spec).filter(|_| not_found));
    }
    let unknown = matches!(error, Error::NotYet { .. }) && find_kind(&first.text).is_none();
    if unknown {
        return Some(format!("Invalid probe type: {}", first.text));
    }
    if !matches!(error, Error::WrongShape { .. } | Error::Unsupported { .. }) {
        return None;
    }
    let Some(kind) = find_kind(&first.text) else {
        return parts
            .is_empty()
            .then(|| format!("Invalid probe type: {}", first.text));
    };
    let kind = kind.name();
    wrong_count(kind, parts.len()).or_else(|| match (kind, parts) {
        ("interval" | "profile", parts) => clock(kind, parts),
        ("software" | "hardware", [name, count @ ..]) => counter(kind, name, count.first(), error),
        ("watchpoint", [address, length, mode]) => watchpoint(address, length, mode),
        ("self", [trigger, signal]) => Some(match trigger.text.as_str() {
            "signal" => format!("{} is not a supported signal", signal.text),
            other => format!("{other} is not a supported trigger"),
        }),
        ("usdt", [path, ..]) if path.text.is_empty() => Some(
            "usdt probe must specify at least path or pid to probe. To target all paths/pids set the path to '*'."
                .to_owned(),
        ),
        ("uretprobe" | "kretprobe", [.., place]) if place.offset.is_some() => {
            Some("Offset not allowed".to_owned())
        }
        _ => None,
    })
}

/// That there is no such program or library.
fn no_file(spec: &EventSpec) -> Option<String> {
    let [kind, file, ..] = spec.parts.as_slice() else {
        return None;
    };
    let kind = find_kind(&kind.text)?.name();
    OF_FILES.contains(&kind).then(|| {
        format!(
            "{kind} target file '{}' does not exist or is not executable",
            file.text
        )
    })
}

/// That no probe can be at an offset in a program's function, or at an address: bpftrace finds out when it attaches.
pub(super) fn no_instruction(spec: &EventSpec, why: &str) -> Option<String> {
    let [kind, path, .., place] = spec.parts.as_slice() else {
        return None;
    };
    let kind = find_kind(&kind.text)?.name();
    if !matches!(kind, "uprobe" | "uretprobe") {
        return None;
    }
    let said = why.split("; ").next()?;
    if said.starts_with("Offset outside") || said.starts_with("uretprobes cannot be") {
        return Some(said.to_owned());
    }
    let forced = "Use --unsafe to force attachment. WARNING: This option could lead to data corruption in the target process.";
    if let Some((said, place)) = said.split_once(" of instruction: ") {
        return Some(format!("{said} of instruction: {}:{place}\n{forced}", path.text));
    }
    let place = place_of_file(place);
    (said == "Could not determine instruction boundary").then(|| {
        format!(
            "{said} for {kind}:{}:{place} (binary appears stripped).\n{forced}",
            path.text
        )
    })
}

/// An event that is not attached as bpftrace shows it.
pub(super) fn attached_name(spec: &EventSpec) -> String {
    let Some((place, before)) = spec.parts.split_last() else {
        return String::new();
    };
    let mut words: Vec<String> = before.iter().map(|part| part.text.clone()).collect();
    if let (Some(first), Some(kind)) = (
        words.first_mut(),
        before.first().and_then(|kind| find_kind(&kind.text)),
    ) {
        *first = kind.name().to_owned();
    }
    words.push(place_of_file(place));
    words.join(":")
}

/// Why the kernel does not let a clock tick so often: bpftrace finds out when it attaches.
pub(super) fn ticks_too_often(error: &Error) -> Option<String> {
    let Error::WrongShape { shape, .. } = error else {
        return None;
    };
    let why = "the kernel's clock makes an event every";
    Some(shape[shape.find(why)?..].to_owned())
}

/// A place in a program's file as bpftrace shows it: an address as a decimal number.
fn place_of_file(place: &EventPart) -> String {
    let offset = place.offset.unwrap_or(0);
    match number_of(&place.text) {
        Some(address) => address.saturating_add(offset).to_string(),
        None if offset > 0 => format!("{}+{offset}", place.text),
        None => place.text.clone(),
    }
}

/// That a line of source has no place in a program.
fn no_statement(spec: &EventSpec, why: &str) -> Option<String> {
    let [_, program, place] = spec.parts.as_slice() else {
        return None;
    };
    let (program, file) = program.text.split_once('@')?;
    let line = &place.text;
    if why.starts_with("no statement begins there") {
        return Some(format!("DWARF error: Unable to map '{file}:{line}' to address"));
    }
    if why.starts_with("no code was made of a file") {
        return Some(format!("DWARF error: No compilation unit matches {file}"));
    }
    why.starts_with("lines of source are known from")
        .then(|| format!("No DWARF debug info found for '{program}', cannot attach by source code location."))
}

fn wrong_count(kind: &str, found: usize) -> Option<String> {
    if kind == "iter" {
        return (!(1..=2).contains(&found))
            .then(|| "iter probe type takes 2 arguments (1 optional)".to_owned());
    }
    let said = match PARTS.iter().find(|row| row.kinds.contains(&kind)) {
        Some(row) if !row.allowed.contains(&found) => row.said,
        None if OF_FILES.contains(&kind) && !(2..=3).contains(&found) => "2 or 3",
        _ => return None,
    };
    Some(format!(
        "{kind} probe type requires {said} arguments, found {found}"
    ))
}

/// What is wrong with the period of a clock.
fn clock(kind: &str, parts: &[EventPart]) -> Option<String> {
    match parts {
        [unit, _] if !UNITS.contains(&unit.text.as_str()) => {
            Some(format!("{} is not an accepted unit of time", unit.text))
        }
        [_, count] => Some(match integer(&count.text) {
            Ok(..=0) => format!("{kind} frequency should be a positive integer"),
            Ok(_) => return None,
            Err(why) => format!("Invalid rate of {kind} probe: {why}"),
        }),
        [both] => {
            let units = ["ns", "us", "ms", "s", "m", "h", "d", "hz"];
            let number = both.text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let unit = &both.text[number.len()..];
            let known = unit.is_empty() || units.contains(&unit);
            match integer(if known { number } else { &both.text }) {
                // What is wrong with longer ones bpftrace does not say.
                Ok(1000..) => None,
                Ok(number) => Some(format!(
                    "Invalid rate of {kind} probe. Minimum is 1000 or 1us. Found: {number} nanoseconds"
                )),
                Err(_) if known && number.is_empty() => Some(format!(
                    "Invalid rate of {kind} probe: invalid integer: {}",
                    both.text
                )),
                Err(why) => Some(format!("Invalid rate of {kind} probe: {why}")),
            }
        }
        _ => None,
    }
}

/// What is wrong with a counter's name or its count.
fn counter(kind: &str, name: &EventPart, count: Option<&EventPart>, error: &Error) -> Option<String> {
    // What the kernel does not count is no mistake of spelling.
    if !matches!(error, Error::WrongShape { .. }) {
        return None;
    }
    let is_known = find_kind(kind).is_some_and(|kind| kind.fixed_names().contains(&name.text.as_str()));
    match count {
        _ if !is_known => Some(format!("{} is not a {kind} probe", name.text)),
        Some(count) => Some(match integer(&count.text) {
            Ok(_) => {
                let number = if kind == "hardware" { "frequency" } else { "count" };
                format!("{kind} {number} should be a positive integer")
            }
            Err(why) => format!("Invalid count for {kind} probe: {why}"),
        }),
        None => None,
    }
}

/// What is wrong with a watchpoint.
fn watchpoint(address: &EventPart, length: &EventPart, mode: &EventPart) -> Option<String> {
    match (integer(&address.text), integer(&length.text)) {
        (Err(why), _) => Some(format!("Invalid function/address argument: {why}")),
        (Ok(0), _) => Some("watchpoint must be attached to a non-zero address".to_owned()),
        (_, Err(why)) => Some(format!("Invalid length argument: {why}")),
        (_, Ok(length)) if ![1, 2, 4, 8].contains(&length) => {
            Some("watchpoint length must be one of (1,2,4,8)".to_owned())
        }
        _ if mode.text.contains(|c| !"rwx".contains(c)) => {
            Some("watchpoint mode must be combination of (r,w,x)".to_owned())
        }
        _ if mode
            .text
            .chars()
            .any(|letter| mode.text.matches(letter).count() > 1) =>
        {
            Some("watchpoint modes may not be duplicated".to_owned())
        }
        _ if !["x", "w", "rw", "wr"].contains(&mode.text.as_str()) => {
            Some(format!("invalid watchpoint mode: {}", mode.text))
        }
        _ => None,
    }
}

/// A number as it stands in an event's name, or what is wrong with it.
fn integer(text: &str) -> Result<i128, String> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    i128::from_str_radix(digits, radix).map_err(|_| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        match digits.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("invalid trailing bytes: {text}"),
            false => format!("invalid integer: {text}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_compiler::lang::parse_events;

    #[test]
    fn misspelled_events_are_named_in_the_words_of_bpftrace() {
        let shape = Error::WrongShape {
            wanted: String::new(),
            shape: String::new(),
        };
        for (event, said) in [
            (
                "tracepoint:sched",
                "tracepoint probe type requires 2 arguments, found 1",
            ),
            ("t:a:b:c", "tracepoint probe type requires 2 arguments, found 3"),
            (
                "uprobe:/bin/a",
                "uprobe probe type requires 2 or 3 arguments, found 1",
            ),
            (
                "interval:s:1:2",
                "interval probe type requires 1 or 2 arguments, found 3",
            ),
            ("begin:x", "begin probe type requires 0 arguments, found 1"),
            ("iter", "iter probe type takes 2 arguments (1 optional)"),
            ("profile:min:1", "min is not an accepted unit of time"),
            ("profile:hz:0", "profile frequency should be a positive integer"),
            (
                "profile:hz:abc",
                "Invalid rate of profile probe: invalid integer: abc",
            ),
            (
                "profile:99",
                "Invalid rate of profile probe. Minimum is 1000 or 1us. Found: 99 nanoseconds",
            ),
            ("interval:s", "Invalid rate of interval probe: invalid integer: s"),
            (
                "interval:5x",
                "Invalid rate of interval probe: invalid trailing bytes: 5x",
            ),
            ("software:nonsense:1", "nonsense is not a software probe"),
            (
                "software:cs:abc",
                "Invalid count for software probe: invalid integer: abc",
            ),
            (
                "usdt:a:b:c:d",
                "usdt probe type requires 2 or 3 arguments, found 4",
            ),
            (
                "software:cs:1e0",
                "Invalid count for software probe: invalid trailing bytes: 1e0",
            ),
            (
                "watchpoint:0x1000:3:w",
                "watchpoint length must be one of (1,2,4,8)",
            ),
            ("watchpoint:0x1000:8:r", "invalid watchpoint mode: r"),
            (
                "watchpoint:0x1000:8:q",
                "watchpoint mode must be combination of (r,w,x)",
            ),
            ("watchpoint:0x1000:8:ww", "watchpoint modes may not be duplicated"),
            (
                "watchpoint:foo:8:w",
                "Invalid function/address argument: invalid integer: foo",
            ),
            ("self:signal:SIGFOO", "SIGFOO is not a supported signal"),
            ("uretprobe:/bin/a:f+1", "Offset not allowed"),
            (
                "usdt::a:b",
                "usdt probe must specify at least path or pid to probe. To target all paths/pids set the path to '*'.",
            ),
            ("nonsense", "Invalid probe type: nonsense"),
        ] {
            let (probe, _) = parse_events(event);
            let found = sentence(&probe.events[0], &shape);
            assert_eq!(found.as_deref(), Some(said), "{event}");
        }
        let (probe, _) = parse_events("watchpoint:0x1001:8:w");
        assert_eq!(sentence(&probe.events[0], &shape), None);
    }

    #[test]
    fn places_of_no_instruction_are_named_in_the_words_of_bpftrace() {
        let said = |event: &str, why: &str| {
            let (probe, _) = parse_events(event);
            no_instruction(&probe.events[0], why)
        };
        let first = |event: &str, why: &str| Some(said(event, why)?.lines().next()?.to_owned());
        for (event, why, wanted) in [
            (
                "u:./a:f+1",
                "Could not add uprobe into middle of instruction: f+1; near it some begin at +0x0",
                "Could not add uprobe into middle of instruction: ./a:f+1",
            ),
            (
                "uprobe:./a:0x401147",
                "Could not add uprobe into middle of instruction: main+33; near it",
                "Could not add uprobe into middle of instruction: ./a:main+33",
            ),
            (
                "uretprobe:./a:0x10",
                "Could not determine instruction boundary; no function is known there",
                "Could not determine instruction boundary for uretprobe:./a:16 (binary appears stripped).",
            ),
            (
                "uprobe:./a:f+99",
                "Offset outside the bounds",
                "Offset outside the bounds",
            ),
        ] {
            assert_eq!(first(event, why).as_deref(), Some(wanted), "{event}");
        }
        assert_eq!(said("kprobe:f+1", "Offset outside the bounds"), None);
        assert_eq!(said("uprobe:./a:f", "it is no program"), None);
        let shown = |event: &str| attached_name(&parse_events(event).0.events[0]);
        assert_eq!(shown("u:./a:f+3"), "uprobe:./a:f+3");
        assert_eq!(shown("uprobe:./a:0x10"), "uprobe:./a:16");
    }
}
