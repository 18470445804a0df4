//! The handlers that record calls, in the event language: what calls of one kind point to is one record, so that the frequent ones pay for nothing
//! that others have.

use super::EntryStacks;
use super::numbers::{is_one_of, look_up};
use super::reads::{Moment, Side, read};
use kestrel_trace::calls::{
    Abi, COMPAT_ID, Descriptors, EXIT, EXIT_CODE, FORK, ID, INFORMATION, INFORMATION_BYTES, NO_NUMBER,
    SIGNAL, Signature, Signatures,
};
use kestrel_trace::syscall::shape::Shape;
use kestrel_trace::syscall::{ArgumentKind, Reading, Set};
use std::collections::{BTreeMap, BTreeSet};

/// Group of calls by the memory that their arguments point to, the most frequent first, as it is asked first; where that has pointers itself, with the place of
/// the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Buffers,
    Strings,
    Structures,
    Vectors(usize),
    Message(usize),
    Exec,
}

/// Handlers that record number and result.
pub(super) fn number_and_result(set: &Set, signatures: &Signatures) -> Vec<String> {
    // Calls of a command's process before its exec are Kestrel's: the exec itself is recorded whatever the set has.
    let is_exec = |signature: &Signature| matches!(signature.own_name(), "execve" | "execveat");
    let recorded = |signature: &Signature| signature.is_in(set) || is_exec(signature);
    let calls = |abi| numbers(signatures, abi, recorded);
    handlers(signatures, calls, |moment, _| match moment.side {
        Side::Entry => format!("record({})", id(moment.abi)),
        Side::Return => format!("record({}, args.ret)", id(moment.abi)),
    })
}

fn id(abi: Abi) -> String {
    match abi {
        Abi::Native => format!("args.{ID}"),
        Abi::Compat => format!("{COMPAT_ID} = args.{ID}"),
    }
}

/// Handlers that record arguments and what they point to. Memory that a call is given is read at the entry, where it may not be present, and at the
/// return, when the kernel has read it itself; what it fills, at the return.
pub(super) fn arguments(set: &Set, signatures: &Signatures, stacks: EntryStacks) -> Vec<String> {
    let recorded = |signature: &Signature| signature.is_in(set) || Descriptors::needs(signature.own_name());
    let calls = |abi| numbers(signatures, abi, recorded);
    // Calls that are recorded for the sake of descriptors alone have no stacks.
    let has_stacks = |signature: &Signature| signature.is_in(set);
    let mut events = handlers(signatures, calls, |moment, numbers| {
        records(signatures, numbers, Moment { stacks, ..moment }, &has_stacks)
    });
    events.push(format!("{FORK} {{ record(args.child_pid) }}"));
    events.push(format!(
        "{EXIT} {{ record(args.pid, {EXIT_CODE} = curtask->exit_code) }}"
    ));
    events.push(format!(
        "{SIGNAL} {{ record(args.sig, {INFORMATION} = buf(args.info, {INFORMATION_BYTES})) }}"
    ));
    events
}

/// The numbers of calls of one interface.
fn numbers(signatures: &Signatures, abi: Abi, wanted: impl Fn(&Signature) -> bool) -> BTreeSet<u64> {
    let wanted = signatures.of(abi).filter(|(_, signature)| wanted(signature));
    wanted.map(|(number, _)| number).collect()
}

/// Whether the thread makes a call as 32-bit programs do (`TS_COMPAT`, x86 `thread_info.h`): the numbers are others then.
const IS_COMPAT: &str = "(curtask->thread_info.status & 2) != 0";

/// The handlers of both sides of these calls, each with a block for either interface.
fn handlers(
    signatures: &Signatures,
    calls: impl Fn(Abi) -> BTreeSet<u64>,
    block: impl Fn(Moment, &BTreeSet<u64>) -> String,
) -> Vec<String> {
    let (native, compat) = (calls(Abi::Native), calls(Abi::Compat));
    let all = |abi, calls: &BTreeSet<u64>| calls.len() == signatures.of(abi).count();
    let is_all = all(Abi::Native, &native) && all(Abi::Compat, &compat);
    let resumes = resumes(signatures, Abi::Native, &native) || resumes(signatures, Abi::Compat, &compat);
    let handler = |side: Side| {
        let recorded = format!("{IS_COMPAT} ? {} : {}", is_one_of(&compat), is_one_of(&native));
        let predicate = match side {
            _ if is_all => String::new(),
            Side::Return if resumes => format!("/args.id == {NO_NUMBER} || ({recorded})/ "),
            _ => format!("/{recorded}/ "),
        };
        let of = |abi, calls| {
            block(
                Moment {
                    side,
                    abi,
                    shifted: None,
                    stacks: EntryStacks::default(),
                    many: false,
                },
                calls,
            )
        };
        let (native, compat) = (of(Abi::Native, &native), of(Abi::Compat, &compat));
        format!(
            "{} {predicate}{{ if ({IS_COMPAT}) {{ {compat} }} else {{ {native} }} }}",
            side.event()
        )
    };
    vec![handler(Side::Entry), handler(Side::Return)]
}

/// Whether one of these calls returns under [`NO_NUMBER`].
fn resumes(signatures: &Signatures, abi: Abi, calls: &BTreeSet<u64>) -> bool {
    let mut of = signatures.of(abi);
    of.any(|(number, signature)| calls.contains(&number) && signature.goes_on_elsewhere())
}

/// Calls with their numbers, by how their memory is read.
type Kinds<'s> = BTreeMap<Vec<ArgumentRead>, Vec<(u64, &'s Signature)>>;

/// A record for the calls of each group. Calls of one kind are read alike; the kinds of a group are numbers in a row, and 0 is that of calls whose
/// arguments point to nothing.
fn records(
    signatures: &Signatures,
    recorded: &BTreeSet<u64>,
    moment: Moment,
    has_stacks: &dyn Fn(&Signature) -> bool,
) -> String {
    let mut groups: BTreeMap<(Group, Strings, bool), Kinds<'_>> = BTreeMap::new();
    let bare = Moment {
        stacks: EntryStacks::default(),
        ..moment
    };
    let differ = moment.side == Side::Entry && moment.stacks != EntryStacks::default();
    let mut plain_without = Vec::new();
    let calls = signatures.of(moment.abi);
    for (number, signature) in calls.filter(|(number, _)| recorded.contains(number)) {
        let with = !differ || has_stacks(signature);
        if let Some(group) = group(signature) {
            let (group, strings) = match (moment.abi, group, strings(signature)) {
                // Those of 32-bit programs are rare.
                (Abi::Compat, Group::Buffers | Group::Strings | Group::Structures, _) => {
                    (Group::Structures, Strings::Elsewhere)
                }
                (_, Group::Buffers | Group::Structures, Strings::Nowhere) => (group, Strings::Nowhere),
                (_, Group::Strings, strings) if strings != Strings::Elsewhere => (group, strings),
                (_, Group::Strings | Group::Buffers | Group::Structures, _) => {
                    (Group::Structures, Strings::Elsewhere)
                }
                (_, Group::Vectors(_) | Group::Message(_) | Group::Exec, _) => (group, Strings::Nowhere),
            };
            let kinds = groups.entry((group, strings, with)).or_default();
            let calls = kinds.entry(reading(signature)).or_default();
            calls.push((number, signature));
        } else if !with {
            plain_without.push(number);
        }
    }
    let mut numbers = BTreeMap::new();
    let mut rows: Vec<(u64, String)> = vec![(0, moment.record(&[]))];
    let mut next = 1;
    for ((group, _, with), kinds) in &groups {
        let examples = kinds.values().filter_map(|calls| calls.first());
        let examples: Vec<(u64, &Signature)> = (next..)
            .zip(examples)
            .map(|(kind, (_, signature))| (kind, *signature))
            .collect();
        let many = *group == Group::Exec;
        let of = if *with { moment } else { bare };
        let Some(record) = read(&examples, Moment { many, ..of }) else {
            continue;
        };
        for ((kind, _), calls) in examples.iter().zip(kinds.values()) {
            numbers.extend(calls.iter().map(|(number, _)| (*number, *kind)));
        }
        next += examples.len() as u64;
        rows.push((next - 1, record));
    }
    if !plain_without.is_empty() {
        numbers.extend(plain_without.into_iter().map(|number| (number, next)));
        rows.push((next, bare.record(&[])));
    }
    match rows.as_slice() {
        [(_, plain)] => plain.clone(),
        rows => format!("{} {}", look_up(&numbers), choose(rows)),
    }
}

/// The record of the row whose kinds, up to the row's last, `$kind` is one of.
fn choose(rows: &[(u64, String)]) -> String {
    match rows {
        [] => String::new(),
        [(_, record)] => record.clone(),
        rows => {
            let (low, high) = rows.split_at(rows.len() / 2);
            let last = low.last().map_or(0, |(last, _)| *last);
            let (low, high) = (choose(low), choose(high));
            format!("if ($kind <= {last}) {{ {low} }} else {{ {high} }}")
        }
    }
}

/// The read of an argument's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ArgumentRead {
    Nothing,
    Text,
    Memory(Reading),
}

/// The reads of each argument's memory: calls of which these are the same are of one kind.
fn reading(signature: &Signature) -> Vec<ArgumentRead> {
    let argument = |kind: Option<ArgumentKind>| match kind {
        Some(ArgumentKind::Text) => ArgumentRead::Text,
        Some(kind) => kind.reading().map_or(ArgumentRead::Nothing, ArgumentRead::Memory),
        None => ArgumentRead::Nothing,
    };
    signature.parameters.iter().map(|it| argument(it.kind)).collect()
}

/// Places of a call's string arguments. The usual places have records of their own, as a text that is read where there is none costs a fault: more than all
/// else that is done for a call. Others share one with those that have structures, too, as each record takes its part of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strings {
    First,
    Second,
    Nowhere,
    Elsewhere,
}

fn strings(signature: &Signature) -> Strings {
    let kinds = signature.parameters.iter().map(|it| it.kind).enumerate();
    let strings = kinds.filter(|(_, kind)| matches!(kind, Some(ArgumentKind::Text)));
    let strings: Vec<usize> = strings.map(|(place, _)| place).collect();
    match strings[..] {
        [] => Strings::Nowhere,
        [0] => Strings::First,
        [1] => Strings::Second,
        _ => Strings::Elsewhere,
    }
}

fn group(signature: &Signature) -> Option<Group> {
    let kinds = signature.parameters.iter().enumerate();
    let each = kinds.filter_map(|(place, parameter)| {
        Some(match parameter.kind? {
            ArgumentKind::Text => Group::Strings,
            ArgumentKind::InBuffer(_) | ArgumentKind::OutBuffer => Group::Buffers,
            ArgumentKind::Pointed(what) => match what.shape {
                Shape::Vectors(_) => Group::Vectors(place),
                Shape::Message(_) | Shape::Messages(_) => Group::Message(place),
                Shape::Strings(_) => Group::Exec,
                Shape::Members(_)
                | Shape::Number(..)
                | Shape::Pair
                | Shape::SocketAddress
                | Shape::Signals
                | Shape::WaitStatus
                | Shape::TextCount(_)
                | Shape::Descriptors
                | Shape::Processors
                | Shape::SignalInfo(_)
                | Shape::FileControl(_)
                | Shape::DeviceControl => Group::Structures,
            },
            ArgumentKind::OutPath | ArgumentKind::Remaining(_) | ArgumentKind::ProcessControl => {
                Group::Structures
            }
            ArgumentKind::Descriptor
            | ArgumentKind::Named(_)
            | ArgumentKind::Mode
            | ArgumentKind::ModeWith(_)
            | ArgumentKind::Bits
            | ArgumentKind::Address
            | ArgumentKind::Plain
            | ArgumentKind::Protocol
            | ArgumentKind::Option => return None,
        })
    });
    each.max()
}
