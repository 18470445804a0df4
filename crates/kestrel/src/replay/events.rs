//! The events of a recording that a program's specifications mean, and those that need none: `begin`, `end`, `interval`.

use super::calls::{CallEvent, Calls};
use kestrel_catalog::catalog::{Glob, find_kind, interval, text_of};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_compiler::lang::diag::{Diagnostic, nearest};
use kestrel_trace::event::EventClass;
use kestrel_trace::user_files;

/// Event specification as it applies to a recording.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Trigger<'e> {
    /// Before the first record.
    Begin,
    /// Behind the last one.
    End,
    /// From time to time, in the recording's time.
    Every {
        /// Name of the event as it is shown.
        name: String,
        /// From one to the next.
        nanoseconds: u64,
    },
    /// Recorded events.
    Recorded(Vec<Found<'e>>),
}

/// A recorded event that a specification means.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found<'e> {
    /// An event class of its own.
    Event(&'e EventClass),
    /// System calls, of records of all calls.
    Calls(Box<CallEvent<'e>>),
}

/// The kinds of an event and its name without that.
fn kind_and_name(event: &EventClass) -> (&str, &str) {
    let kind = event.kind.as_str();
    let bare = event
        .name
        .strip_prefix(kind)
        .and_then(|rest| rest.strip_prefix(':'));
    (kind, bare.unwrap_or(&event.name))
}

/// Whether it stands for one event alone.
pub(super) fn is_name(spec: &EventSpec) -> bool {
    Glob::new(text_of(spec)).is_plain()
}

/// The kind of events that a specification names.
pub(super) fn kind_of(spec: &EventSpec) -> &'static str {
    let first = spec.parts.first().map_or("", |part| part.text.as_str());
    find_kind(first).map_or(TRACEPOINT, |kind| kind.name())
}

pub(super) fn is_tracepoint(spec: &EventSpec) -> bool {
    kind_of(spec) == TRACEPOINT
}

/// The kind of events whose names have none before them.
pub(super) const TRACEPOINT: &str = "tracepoint";

/// Trigger of a specification.
///
/// # Errors
/// The diagnostic of what was not recorded, and an error of one that means nothing anywhere.
pub(super) fn trigger<'e>(
    spec: &EventSpec,
    events: &'e [EventClass],
    calls: &Calls<'e>,
) -> Result<std::result::Result<Trigger<'e>, Diagnostic>> {
    let first = spec.parts.first().map_or("", |part| part.text.as_str());
    let kind = find_kind(first).map(|kind| kind.name());
    match kind {
        Some("begin") => return Ok(Ok(Trigger::Begin)),
        Some("end") => return Ok(Ok(Trigger::End)),
        Some("interval") => {
            let (name, nanoseconds) = interval(spec)?;
            return Ok(Ok(Trigger::Every { name, nanoseconds }));
        }
        _ => {}
    }
    let text = text_of(spec);
    let pattern = match kind {
        Some(_) => text.split_once(':').map_or("*", |(_, rest)| rest),
        None => text.as_str(),
    };
    let glob = Glob::new(pattern);
    let matches = |event: &&EventClass| {
        let (own, name) = kind_and_name(event);
        let kind = kind.unwrap_or("tracepoint");
        find_kind(own).map_or(own, |kind| kind.name()) == kind
            && (glob.matches(name)
                || user_files::matches(kind, pattern, name, |rest, place| Glob::new(rest).matches(place)))
    };
    // Records with an action are what a handler printed, and no events.
    let recorded: Vec<&EventClass> = events
        .iter()
        .filter(|event| event.action.is_none())
        .filter(matches)
        .collect();
    let of_calls = match kind.unwrap_or("tracepoint") {
        "tracepoint" => calls.matching(pattern, &recorded),
        _ => Vec::new(),
    };
    let mut found: Vec<Found<'e>> = Vec::new();
    for event in recorded {
        match calls.all(&event.name) {
            None => found.push(Found::Event(event)),
            Some(all) => {
                let all = Found::Calls(Box::new(all));
                if !found.contains(&all) {
                    found.push(all);
                }
            }
        }
    }
    found.extend(of_calls.into_iter().map(|call| Found::Calls(Box::new(call))));
    Ok(match found.is_empty() {
        false => Ok(Trigger::Recorded(found)),
        true => Err(not_recorded(spec, &text, pattern, (events, calls))),
    })
}

/// Says that an event was not recorded: how it would be, and what was.
fn not_recorded(
    spec: &EventSpec,
    text: &str,
    pattern: &str,
    (events, calls): (&[EventClass], &Calls<'_>),
) -> Diagnostic {
    let message = match is_name(spec) {
        true => format!("{text} was not recorded"),
        false => format!("no event that {text} stands for was recorded"),
    };
    if let Some(why) = calls.unnamed(pattern) {
        return Diagnostic::error(spec.span, message).hint(why);
    }
    if let Some(advice) = calls.left_out(pattern) {
        return Diagnostic::error(spec.span, message).hint(advice);
    }
    let of_calls = calls.names();
    let of_calls = || of_calls.iter().map(String::as_str);
    let names = || events.iter().map(|event| event.name.as_str());
    let last = |name: &str| name.rsplit(':').next().unwrap_or(name).to_owned();
    let mut near = nearest(pattern, names().chain(of_calls()));
    // A function by another kind of probe (`kprobe:f` for `fentry:f`) often answers as well.
    near.extend(
        names()
            .chain(of_calls())
            .filter(|name| last(name) == last(pattern) && *name != text),
    );
    let mut seen: Vec<&str> = Vec::new();
    for name in near.into_iter().chain(names()) {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    let more = if seen.len() > SHOWN { ", …" } else { "" };
    seen.truncate(SHOWN);
    let there = match seen.is_empty() {
        true => "the recording has no events".to_owned(),
        false => format!("the recording has {}{more}", seen.join(", ")),
    };
    let diagnostic = Diagnostic::error(spec.span, message);
    let advised = match calls.unknown(pattern) {
        Some(meant) => diagnostic.maybe_hint(meant),
        None => diagnostic.hint(record_it(text)),
    };
    advised.hint(there)
}

/// How an event would be recorded.
pub(super) fn record_it(event: &str) -> String {
    format!("{RECORD_IT}{event}'")
}

/// The beginning of a hint at how an event would be recorded.
pub(super) const RECORD_IT: &str = "record it: kestrel record -e '";

/// Events that a hint names.
const SHOWN: usize = 8;

/// The error that a program has these faults.
pub(super) fn wrong(source_text: &str, diagnostics: Vec<Diagnostic>) -> Error {
    Error::Program {
        source_text: source_text.to_owned(),
        diagnostics,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_compiler::lang::parse_events;
    use kestrel_trace::event::EventId;
    use kestrel_trace::layout::Layout;

    fn event(kind: &str, name: &str) -> EventClass {
        EventClass {
            id: EventId(1),
            name: name.to_owned(),
            kind: kind.to_owned(),
            layout: Layout::default(),
            action: None,
            print: None,
        }
    }

    #[test]
    fn recorded_events_have_all_their_spellings() {
        let events = [
            event("tracepoint", "sched:sched_switch"),
            event("tracepoint", "sched:sched_wakeup"),
            event("kprobe", "kprobe:vfs_read"),
            event("profile", "profile:hz:99"),
            event("uprobe", "uprobe:/tmp/server:main"),
        ];
        let names = |text: &str| {
            let (probe, _) = parse_events(text);
            let calls = Calls::default();
            match trigger(&probe.events[0], &events, &calls).unwrap() {
                Ok(Trigger::Recorded(found)) => {
                    let names = found.iter().map(|found| match found {
                        Found::Event(event) => event.name.clone(),
                        Found::Calls(calls) => calls.class.name.clone(),
                    });
                    names.collect()
                }
                Ok(other) => vec![format!("{other:?}")],
                Err(diagnostic) => [vec![diagnostic.message], diagnostic.hints].concat(),
            }
        };
        for text in [
            "sched:sched_switch",
            "tracepoint:sched:sched_switch",
            "t:sched:sched_switch",
        ] {
            assert_eq!(names(text), ["sched:sched_switch"], "{text}");
        }
        assert_eq!(names("t:sched:*"), ["sched:sched_switch", "sched:sched_wakeup"]);
        assert_eq!(names("k:vfs_*"), ["kprobe:vfs_read"]);
        assert_eq!(names("profile:hz:99"), ["profile:hz:99"]);
        assert_eq!(names("u:./server:main"), ["uprobe:/tmp/server:main"]);
        assert_eq!(names("BEGIN"), ["Begin"]);
        assert_eq!(
            names("interval:100ms"),
            ["Every { name: \"interval:us:100000\", nanoseconds: 100000000 }"]
        );
        let missing = names("fentry:vfs_read");
        assert_eq!(
            missing[..2],
            [
                "fentry:vfs_read was not recorded",
                "record it: kestrel record -e 'fentry:vfs_read'"
            ]
        );
        assert!(
            missing[2].starts_with("the recording has kprobe:vfs_read, "),
            "{missing:?}"
        );
    }
}
