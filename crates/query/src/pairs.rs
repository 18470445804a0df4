//! Pairs of begin and end events: two names, two patterns that differ in the same place, or one pattern whose events come in pairs.

use crate::error::{Error, Result};
use crate::keys::parts;
use crate::pattern::{self, is_pattern};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::event_kind;
use std::collections::BTreeMap;

/// Pairs of events, and the keys that match a begin with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// Pairs of a beginning and its end.
    pub(crate) pairs: Vec<Pair>,
}

/// A pair of events; several classes of events may have one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) begin: Side,
    pub(crate) end: Side,
    /// The key at the begin and at the end; none where it is the thread.
    pub(crate) key: Option<(String, String)>,
}

/// A side of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) events: Vec<EventId>,
}

/// Words in names of begin events, and the words in names of their end events.
const WORDS: [(&str, &str); 6] = [
    ("enter", "exit"),
    ("entry", "exit"),
    ("begin", "end"),
    ("start", "end"),
    ("start", "done"),
    ("issue", "complete"),
];

/// Begin events whose end is in another thread, or in an interrupt, with their default keys.
const KEYS: [(&str, &str); 1] = [("block:block_rq_issue", "dev,sector")];

/// Events of a trace by their names.
type Named = BTreeMap<String, Vec<EventId>>;

impl Pairs {
    /// Reads `BEGIN,END[,KEY]`, or a pattern of events that come in pairs.
    ///
    /// # Errors
    /// When no such events are in the trace, or they do not pair.
    pub fn new(text: &str, events: &[EventClass]) -> Result<Self> {
        let parts = parts(text);
        let mut named = Named::new();
        for event in events {
            named.entry(event.name.clone()).or_default().push(event.id);
        }
        let wrong = |why: &str| Error::Pair {
            text: text.to_owned(),
            why: why.to_owned(),
        };
        let (mut pairs, rest) = match parts.as_slice() {
            [one] => (counterparts(one, events, &named)?, &[][..]),
            [begin, end, rest @ ..] if is_pattern(begin) && is_pattern(end) => {
                let pairs = same_star(begin, end, events, &named)?;
                let pairs = pairs.ok_or_else(|| {
                    wrong("each of two patterns has one `*`, for the same part of both names")
                })?;
                (pairs, rest)
            }
            [begin, end, ..] if is_pattern(begin) != is_pattern(end) => {
                return Err(wrong("one is a pattern and the other is not"));
            }
            [begin, end, rest @ ..] => {
                let pair = Pair {
                    begin: only(begin, events)?,
                    end: only(end, events)?,
                    key: None,
                };
                (vec![pair], rest)
            }
            [] => (Vec::new(), &[][..]),
        };
        if pairs.is_empty() {
            let why = "no two of its events are the begin and the end of something; give both: `BEGIN,END`";
            return Err(wrong(why));
        }
        // The key that was asked for; else the usual one of such events, where both of them recorded it.
        for pair in &mut pairs {
            let known = KEYS.iter().find(|(begin, key)| {
                let keeps = |side: &Side| side.keeps(key, events);
                *begin == pair.begin.name && keeps(&pair.begin) && keeps(&pair.end)
            });
            pair.key = match known {
                _ if !rest.is_empty() => Some(sides(rest)),
                Some((_, key)) => Some(((*key).to_owned(), (*key).to_owned())),
                None => None,
            };
        }
        Ok(Self { pairs })
    }
}

impl Side {
    /// Whether its records have fields of these names: handlers choose the fields that they record.
    fn keeps(&self, names: &str, events: &[EventClass]) -> bool {
        let mut own = events.iter().filter(|event| self.events.contains(&event.id));
        own.all(|event| {
            let mut names = names.split(',');
            names.all(|name| event.layout.fields().iter().any(|field| field.name == name))
        })
    }
}

/// The events of one name.
fn only(name: &str, events: &[EventClass]) -> Result<Side> {
    let found = pattern::events(name, events)?;
    let first = found.first().map(|event| event.name.clone()).unwrap_or_default();
    match found.iter().all(|event| event.name == first) {
        true => Ok(Side {
            events: found.iter().map(|event| event.id).collect(),
            name: first,
        }),
        false => Err(Error::Pair {
            text: name.to_owned(),
            why: "several events are called so: name the group, too".to_owned(),
        }),
    }
}

/// The pairs among the events of a pattern.
fn counterparts(text: &str, events: &[EventClass], named: &Named) -> Result<Vec<Pair>> {
    let mut begins: Vec<&str> = pattern::events(text, events)?
        .iter()
        .map(|event| event.name.as_str())
        .collect();
    begins.sort_unstable();
    begins.dedup();
    let ends = begins.iter().filter_map(|begin| {
        let kinds = event_kind::KINDS.iter();
        let kinds = kinds.filter_map(|kind| Some((kind.name, kind.returns?)));
        let end = WORDS
            .into_iter()
            .chain(kinds)
            .find_map(|(from, to)| exchanged(begin, from, to).filter(|end| named.contains_key(end)));
        pair(begin, &end?, named)
    });
    Ok(ends.collect())
}

/// A name with another word in the place of one of its words.
fn exchanged(name: &str, from: &str, to: &str) -> Option<String> {
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
    let (at, _) = name.match_indices(from).find(|(at, _)| {
        is_edge(name[..*at].chars().next_back()) && is_edge(name[at + from.len()..].chars().next())
    })?;
    Some(format!("{}{to}{}", &name[..at], &name[at + from.len()..]))
}

/// Events with the same text in the place of the patterns' `*`; `None` for other patterns.
fn same_star(begin: &str, end: &str, events: &[EventClass], named: &Named) -> Result<Option<Vec<Pair>>> {
    let star = |text: &str| {
        let (before, after) = text.split_once('*')?;
        (!is_pattern(before) && !is_pattern(after)).then(|| (before.to_owned(), after.to_owned()))
    };
    let (Some((before, after)), Some((end_before, end_after))) = (star(begin), star(end)) else {
        return Ok(None);
    };
    pattern::events(end, events)?;
    let mut names: Vec<&str> = pattern::events(begin, events)?
        .iter()
        .map(|event| event.name.as_str())
        .collect();
    names.dedup();
    let pairs = names.into_iter().filter_map(|name| {
        let middle = name.strip_prefix(&before)?.strip_suffix(&after)?;
        pair(name, &format!("{end_before}{middle}{end_after}"), named)
    });
    Ok(Some(pairs.collect()))
}

fn pair(begin: &str, end: &str, named: &Named) -> Option<Pair> {
    let side = |name: &str| {
        Some(Side {
            name: name.to_owned(),
            events: named.get(name)?.clone(),
        })
    };
    Some(Pair {
        begin: side(begin)?,
        end: side(end)?,
        key: None,
    })
}

/// The key at the begin and at the end: the same, or `BEGIN=END`.
fn sides(parts: &[&str]) -> (String, String) {
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    for part in parts {
        let (left, right) = assigned(part).unwrap_or((part, part));
        begin.push(left.trim());
        end.push(right.trim());
    }
    (begin.join(","), end.join(","))
}

/// Both sides of a lone `=`.
fn assigned(text: &str) -> Option<(&str, &str)> {
    let part_of_operator = |byte: Option<u8>| byte.is_some_and(|byte| b"=!<>".contains(&byte));
    let (at, _) = text.match_indices('=').find(|(at, _)| {
        let before = at.checked_sub(1).map(|before| text.as_bytes()[before]);
        let after = text.as_bytes().get(at + 1).copied();
        !part_of_operator(before) && after != Some(b'=')
    })?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_trace::layout::{FieldType, Layout};

    fn events(names: &[&str]) -> Vec<EventClass> {
        let field = |name: &str| (name.to_owned(), FieldType::Pointer { symbolic: false });
        let event = |(id, name): (u16, &&str)| EventClass {
            id: EventId(id),
            name: (*name).to_owned(),
            kind: "tracepoint".to_owned(),
            layout: match name.starts_with("block:") {
                true => Layout::new(["dev", "sector"].map(field)),
                false => Layout::new([]),
            },
            action: None,
            print: None,
        };
        (1..).zip(names).map(event).collect()
    }

    fn pairs(text: &str) -> std::result::Result<Vec<String>, String> {
        let all = events(&[
            "syscalls:sys_enter_read",
            "syscalls:sys_exit_read",
            "syscalls:sys_enter_close",
            "syscalls:sys_exit_close",
            "syscalls:sys_enter_exit",
            "block:block_rq_issue",
            "block:block_rq_complete",
            "kprobe:vfs_read",
            "kretprobe:vfs_read",
        ]);
        let found = Pairs::new(text, &all).map_err(|error| error.to_string())?;
        Ok(found
            .pairs
            .iter()
            .map(|pair| format!("{} {}", pair.begin.name, pair.end.name))
            .collect())
    }

    #[test]
    fn events_pair_by_their_names_or_by_patterns() {
        let calls = [
            "syscalls:sys_enter_close syscalls:sys_exit_close",
            "syscalls:sys_enter_read syscalls:sys_exit_read",
        ];
        assert_eq!(pairs("syscalls:*").unwrap(), calls);
        assert_eq!(pairs("*").unwrap().len(), 4);
        let mut both = pairs("syscalls:sys_enter_*,syscalls:sys_exit_*").unwrap();
        both.sort();
        assert_eq!(both, calls);
        assert_eq!(pairs("sys_enter_read,sys_exit_read").unwrap(), [calls[1]]);
        for wrong in [
            "block:block_rq_complete",
            "none:*",
            "syscalls:*,kprobe:vfs_read",
            "*e*,*x*",
        ] {
            assert!(pairs(wrong).is_err(), "{wrong}: {:?}", pairs(wrong));
        }
    }

    #[test]
    fn a_key_may_differ_at_begin_and_end() {
        let all = events(&["a:b", "a:c", "block:block_rq_issue", "block:block_rq_complete"]);
        let key = |text: &str| Pairs::new(text, &all).unwrap().pairs[0].key.clone();
        let both = |begin: &str, end: &str| Some((begin.to_owned(), end.to_owned()));
        assert_eq!(key("a:b,a:c"), None);
        assert_eq!(key("a:b,a:c,dev,sector"), both("dev,sector", "dev,sector"));
        assert_eq!(key("a:b,a:c,args.pid=next_pid"), both("args.pid", "next_pid"));
        assert_eq!(key("a:b,a:c,x == 1"), both("x == 1", "x == 1"));
        assert_eq!(key("block:*"), both("dev,sector", "dev,sector"));
        assert_eq!(key("block_rq_issue,block_rq_complete"), key("block:*"));
        assert_eq!(key("block_rq_issue,block_rq_complete,tid"), both("tid", "tid"));
        let mut others = all.clone();
        others[3].layout = Layout::new([]);
        assert_eq!(
            Pairs::new("block:*", &others).unwrap().pairs[0].key,
            None,
            "it has no such fields"
        );
    }
}
