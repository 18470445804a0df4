//! Predicates over the records of a trace.

use crate::bind;
use crate::code::{Number, Subject};
use crate::error::{Error, Result};
use crate::words::{ALWAYS, NoMeaning};
use kestrel_compiler::builtin;
use kestrel_compiler::lang::ast;
use kestrel_compiler::lang::diag::{Diagnostic, did_you_mean, has_errors};
use kestrel_compiler::lang::parse_expression;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use std::collections::BTreeSet;

/// An expression bound to each event of a trace, by the event's number.
#[derive(Clone, Debug)]
pub(crate) struct ByEvent<T>(Vec<Option<T>>);

impl<T> ByEvent<T> {
    /// Result at this event; none where the event has not all its fields.
    pub(crate) fn at(&self, event: EventId) -> Option<&T> {
        self.0.get(usize::from(event.0))?.as_ref()
    }
}

/// Parses an expression.
pub(crate) fn parsed(text: &str) -> Result<ast::Expr> {
    let (expr, found) = parse_expression(text);
    match has_errors(&found) {
        false => Ok(expr),
        true => Err(Error::Expression {
            text: text.to_owned(),
            found,
        }),
    }
}

/// Binds an expression to all events that have its fields.
///
/// A trace has many kinds of events, so one that lacks a field is no error; an expression that means something at none of them is. One that is wrong at some
/// events, where a field is of another type than at the others, has a warning that names them: their records are left out.
pub(crate) fn at_events<'e, T>(
    text: &str,
    events: impl IntoIterator<Item = &'e EventClass>,
    mut bind: impl FnMut(&EventClass) -> bind::Bound<T>,
) -> Result<(ByEvent<T>, Vec<Diagnostic>)> {
    let (mut bound, mut warnings) = (Vec::new(), Vec::new());
    let (mut missing, mut any, mut fields) = (Vec::new(), false, BTreeSet::new());
    let mut wrong: Vec<(Diagnostic, Vec<&str>)> = Vec::new();
    for event in events {
        fields.extend(event.layout.fields().iter().map(|field| field.name.as_str()));
        match bind(event) {
            Ok((code, found)) => {
                any = true;
                let index = usize::from(event.id.0);
                if bound.len() <= index {
                    bound.resize_with(index + 1, || None);
                }
                bound[index] = Some(code);
                // Each event has the warnings of its own binding, mostly the same ones.
                for warning in found {
                    if !warnings.contains(&warning) {
                        warnings.push(warning);
                    }
                }
            }
            Err(NoMeaning::Wrong(diagnostic)) => {
                match wrong.iter_mut().find(|(known, _)| *known == diagnostic) {
                    Some((_, names)) => names.push(&event.name),
                    None => wrong.push((diagnostic, vec![&event.name])),
                }
            }
            Err(NoMeaning::Field(name)) if !missing.contains(&name) => missing.push(name),
            Err(NoMeaning::Field(_)) => {}
        }
    }
    // A trace without events has nothing that an expression could be wrong about.
    if any || (wrong.is_empty() && missing.is_empty()) {
        warnings.extend(
            wrong
                .iter()
                .map(|(diagnostic, names)| left_out(diagnostic, names)),
        );
        return Ok((ByEvent(bound), warnings));
    }
    // An error within the expression says more than that no event has some field.
    let first = wrong.into_iter().next().map(|(diagnostic, _)| diagnostic);
    // A word that is no field at all says more than one that other events have.
    let unknown = missing.iter().find(|name| !fields.contains(name.node.as_str()));
    let name = unknown.or(missing.first());
    let found = first.or_else(|| name.map(|name| no_field(name, &fields)));
    Err(Error::Expression {
        text: text.to_owned(),
        found: found.into_iter().collect(),
    })
}

/// A warning that an expression is wrong at these events.
fn left_out(wrong: &Diagnostic, names: &[&str]) -> Diagnostic {
    let others = match names.len().saturating_sub(FEW) {
        0 => String::new(),
        others => format!(" and {others} others"),
    };
    let events = names[..names.len().min(FEW)].join(", ");
    let message = format!(
        "{} at {events}{others}: their records are left out",
        wrong.message
    );
    Diagnostic::warning(wrong.span, message)
}

/// Names of events that a warning has.
const FEW: usize = 4;

/// Names of fields that a sentence has.
const SHOWN: usize = 40;

/// The fields of a trace in a sentence; a trace of all system calls has hundreds.
pub fn listed_fields(fields: &BTreeSet<&str>) -> String {
    let names = || fields.iter().copied().take(SHOWN);
    let names = names().collect::<Vec<_>>().join(", ");
    match fields.len().saturating_sub(SHOWN) {
        0 => format!("its fields are {names}"),
        others => format!(
            "its fields are {names} and {others} others: `kestrel list -v EVENT` has those of an event"
        ),
    }
}

/// A diagnostic about a word that names no field of any event, or of none that has the other fields.
fn no_field(name: &ast::Spanned<String>, fields: &BTreeSet<&str>) -> Diagnostic {
    if fields.contains(name.node.as_str()) {
        let message = "no event of this trace has all fields of this expression";
        return Diagnostic::error(name.span, message);
    }
    let message = format!("no event of this trace has a field \"{}\"", name.node);
    let hint = match builtin::names().any(|known| known == name.node) {
        true => Some(format!("handlers keep it: `EVENT {{ record({}) }}`", name.node)),
        false => did_you_mean(&name.node, fields.iter().copied().chain(ALWAYS)),
    };
    let all = || match fields.is_empty() {
        true => "its events have no fields".to_owned(),
        false => listed_fields(fields),
    };
    Diagnostic::error(name.span, message).hint(hint.unwrap_or_else(all))
}

/// A predicate of the event language, bound to the events of a trace.
///
/// ```
/// use kestrel_query::Predicate;
/// use kestrel_trace::event::{EventClass, EventId};
/// use kestrel_trace::layout::{Base, FieldType, Layout};
/// use kestrel_trace::{process::Processes, record::Record};
///
/// let cpu = FieldType::Integer { size: 4, signed: true, base: Base::Decimal };
/// let layout = Layout::new([("target_cpu".to_owned(), cpu)]);
/// let event = EventClass { id: EventId(1), name: "sched:sched_wakeup".into(), kind: "tracepoint".into(), layout, action: None, print: None };
/// let predicate = Predicate::new("target_cpu == 3 && pid > 1", [&event])?;
///
/// let mut bytes = [0; 24];
/// bytes[16] = 3;
/// let record = Record { time_ns: 0, cpu: 0, pid: 7, tid: 7, event: &event, bytes: &bytes, unwound: None, rest: &[] };
/// assert!(predicate.holds(&record, &Processes::default(), 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Predicate {
    code: ByEvent<Number>,
    warnings: Vec<Diagnostic>,
}

impl Predicate {
    /// Binds a predicate to the events of a trace.
    ///
    /// # Errors
    /// When the text is no expression, or means nothing at any of the events.
    pub fn new<'e>(text: &str, events: impl IntoIterator<Item = &'e EventClass>) -> Result<Self> {
        let expr = parsed(text)?;
        let (code, warnings) = at_events(text, events, |event| bind::condition(&expr, event))?;
        Ok(Self { code, warnings })
    }

    /// Warnings about the expression.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Whether it holds for a record; not for one of an event that lacks a field of it. `begin_ns` is what `elapsed` counts from.
    pub fn holds(&self, record: &Record<'_>, processes: &Processes, begin_ns: u64) -> bool {
        let subject = Subject {
            record: *record,
            processes,
            begin_ns,
        };
        let code = self.code.at(record.event.id);
        code.is_some_and(|code| code.value(&subject) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_trace::event::EventId;
    use kestrel_trace::layout::{Base, FieldType, Layout};
    use kestrel_trace::syscall::Meaning;

    fn event(id: u16, name: &str, ty: FieldType) -> EventClass {
        EventClass {
            id: EventId(id),
            name: name.into(),
            kind: "tracepoint".into(),
            layout: Layout::new([("x".to_owned(), ty)]),
            action: None,
            print: None,
        }
    }

    #[test]
    fn events_at_which_an_expression_is_wrong_are_named_once() {
        let number = FieldType::Integer {
            size: 4,
            signed: true,
            base: Base::Decimal,
        };
        let mut events = vec![event(0, "s:text", FieldType::CharArray { size: 16 })];
        let names = ["n:a", "n:b", "n:c", "n:d", "n:e", "n:f"];
        events.extend((1..).zip(names).map(|(id, name)| event(id, name, number.clone())));
        let predicate = Predicate::new("x != \"zzz\"", &events).unwrap();
        let messages: Vec<&str> = predicate
            .warnings()
            .iter()
            .map(|it| it.message.as_str())
            .collect();
        let [message] = messages[..] else {
            panic!("{messages:?}")
        };
        let end = " at n:a, n:b, n:c, n:d and 2 others: their records are left out";
        assert!(message.ends_with(end), "{message}");
        // An event without the field is none at which it is wrong.
        let without_field = EventClass {
            layout: Layout::new([]),
            ..event(1, "o:none", FieldType::Bool)
        };
        let predicate = Predicate::new("x != \"zzz\"", [&events[0], &without_field]).unwrap();
        assert_eq!(predicate.warnings(), []);
    }

    #[test]
    fn conditions_of_any_length_are_predicates() {
        let number = FieldType::Integer {
            size: 4,
            signed: true,
            base: Base::Decimal,
        };
        let events = [event(0, "n:a", number)];
        for op in [" || ", " && "] {
            let condition = vec!["x == 7"; 500].join(op);
            let predicate = Predicate::new(&condition, &events).unwrap();
            assert_eq!(predicate.warnings(), []);
        }
    }

    /// Numbers that records show by names of the kernel's headers are compared with these names, as text and as handlers have them.
    #[test]
    fn names_of_the_kernels_headers_stand_for_their_numbers() {
        let number = |meaning| FieldType::Integer {
            size: 4,
            signed: true,
            base: Base::Named(meaning),
        };
        let flags = event(0, "s:open", number(Meaning::Open));
        let other = EventClass {
            layout: Layout::new([]),
            ..event(1, "o:none", FieldType::Bool)
        };
        let events = [&other, &flags];
        let holds = |text: &str, x: i32| {
            let predicate = Predicate::new(text, events).unwrap();
            let mut bytes = [0; 24];
            bytes[16..20].copy_from_slice(&x.to_le_bytes());
            let record = Record {
                time_ns: 0,
                cpu: 0,
                pid: 1,
                tid: 1,
                event: &flags,
                bytes: &bytes,
                unwound: None,
                rest: &[],
            };
            predicate.holds(&record, &Processes::default(), 0)
        };
        // O_CREAT and O_CLOEXEC are the same on x86-64 and arm64.
        for (text, x, expected) in [
            ("x & O_CREAT", 0o100, true),
            ("x & O_CREAT", 0o2000000, false),
            ("x == \"O_CREAT|O_CLOEXEC\"", 0o2000100, true),
            ("x != \"O_CREAT\"", 0o100, false),
        ] {
            assert_eq!(holds(text, x), expected, "{text} {x:o}");
        }
        let why = |text: &str| match Predicate::new(text, events) {
            Err(Error::Expression { found, .. }) => found[0].message.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(why("x == \"O_CREATE\""), "no value of x is called \"O_CREATE\"");
        // What no event has is named before what some have not.
        assert_eq!(
            why("x == NOTHING"),
            "no event of this trace has a field \"NOTHING\""
        );
        assert!(why("strncmp(comm, \"a\", 1) == 0").contains("does not have this function"));
    }
}
