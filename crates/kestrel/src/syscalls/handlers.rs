//! The handlers that record calls, as texts of the language: what calls of one kind point to is one record, so that the frequent ones pay for nothing
//! that others have.

use super::numbers::is_one_of;
use super::reads::{Moment, Side, fields};
use kestrel_trace::calls::{Abi, COMPAT_ID, Descriptors, EXIT, FORK, ID, Signature, Signatures};
use kestrel_trace::syscall::shape::Shape;
use kestrel_trace::syscall::{Kind, Set};
use std::collections::{BTreeMap, BTreeSet};

/// What kind of memory a call's arguments point to, the most frequent first, as it is asked first; where that has pointers itself, with the place of the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Buffers,
    Texts,
    Structures,
    Vectors(usize),
    Message(usize),
    Exec(usize),
}

/// Handlers that record number and result.
pub(super) fn times(set: &Set, signatures: &Signatures) -> Vec<String> {
    let calls = |abi| numbers(signatures, abi, |signature| signature.is_in(set));
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
pub(super) fn lines(set: &Set, signatures: &Signatures) -> Vec<String> {
    let recorded = |signature: &Signature| signature.is_in(set) || Descriptors::needs(signature.own_name());
    let calls = |abi| numbers(signatures, abi, recorded);
    let mut events = handlers(signatures, calls, |moment, numbers| {
        records(signatures, numbers, moment)
    });
    events.push(format!("{FORK} {{ record(args.child_pid) }}"));
    events.push(format!("{EXIT} {{ record(args.pid) }}"));
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
    let predicate = match all(Abi::Native, &native) && all(Abi::Compat, &compat) {
        true => String::new(),
        false => format!("/{IS_COMPAT} ? {} : {}/ ", is_one_of(&compat), is_one_of(&native)),
    };
    let handler = |side: Side| {
        let of = |abi, calls| block(Moment { side, abi }, calls);
        let (native, compat) = (of(Abi::Native, &native), of(Abi::Compat, &compat));
        format!(
            "{} {predicate}{{ if ({IS_COMPAT}) {{ {compat} }} else {{ {native} }} }}",
            side.event()
        )
    };
    vec![handler(Side::Entry), handler(Side::Return)]
}

/// A record for the calls of each kind.
fn records(signatures: &Signatures, recorded: &BTreeSet<u64>, moment: Moment) -> String {
    let mut groups: BTreeMap<(Group, Texts), Vec<(u64, &Signature)>> = BTreeMap::new();
    let calls = signatures.of(moment.abi);
    for (number, signature) in calls.filter(|(number, _)| recorded.contains(number)) {
        if let Some(group) = group(signature) {
            let calls = groups.entry((group, texts(signature))).or_default();
            calls.push((number, signature));
        }
    }
    let mut any = BTreeSet::new();
    let mut rows: Vec<(BTreeSet<u64>, String)> = Vec::new();
    for calls in groups.values() {
        let fields = fields(calls, moment);
        if !fields.is_empty() {
            let numbers: BTreeSet<u64> = calls.iter().map(|(number, _)| *number).collect();
            any.extend(&numbers);
            rows.push((numbers, moment.record(&fields)));
        }
    }
    let plain = moment.record(&[]);
    let Some((_, last)) = rows.pop() else {
        return plain;
    };
    // Calls whose arguments point to nothing are asked about once.
    let chain = rows.iter().rev().fold(last, |rest, (numbers, record)| {
        format!("if ({}) {{ {record} }} else {{ {rest} }}", is_one_of(numbers))
    });
    format!("if ({}) {{ {chain} }} else {{ {plain} }}", is_one_of(&any))
}

/// The places of texts that a call is given, and that it fills. Each group has its own, as a text that is read where there is none costs a fault: more than
/// all else that is done for a call.
type Texts = (Vec<usize>, Vec<usize>);

fn texts(signature: &Signature) -> Texts {
    let places = |wanted: Kind| -> Vec<usize> {
        let kinds = signature.parameters.iter().map(|it| it.kind).enumerate();
        kinds
            .filter(|(_, kind)| *kind == Some(wanted))
            .map(|(place, _)| place)
            .collect()
    };
    (places(Kind::Text), places(Kind::FilledText))
}

fn group(signature: &Signature) -> Option<Group> {
    let kinds = signature.parameters.iter().enumerate();
    let each = kinds.filter_map(|(place, parameter)| {
        Some(match parameter.kind? {
            Kind::Text | Kind::FilledText => Group::Texts,
            Kind::Given(_) | Kind::Filled => Group::Buffers,
            Kind::Pointed(what) => match what.shape {
                Shape::Vectors => Group::Vectors(place),
                Shape::Message => Group::Message(place),
                Shape::Texts => Group::Exec(place),
                _ => Group::Structures,
            },
            Kind::Remaining(_) | Kind::ProcessControl => Group::Structures,
            _ => return None,
        })
    });
    each.max()
}
