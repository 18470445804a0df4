//! The handlers that record calls, as texts of the language: what calls of one kind point to is one record, so that the frequent ones pay for nothing
//! that others have.

use super::numbers::is_one_of;
use super::reads::{Moment, fields};
use super::{EXIT, FORK};
use kestrel_trace::calls::{Descriptors, Signature, Signatures};
use kestrel_trace::syscall::Kind;
use kestrel_trace::syscall::shape::Shape;
use std::collections::{BTreeMap, BTreeSet};

/// What kind of memory a call's arguments point to; where that has pointers itself, with the place of the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Texts,
    Buffers,
    Structures,
    Vectors(usize),
    Message(usize),
    Exec(usize),
}

/// Handlers that record number and result.
pub(super) fn times(shown: &BTreeSet<u64>, signatures: &Signatures) -> Vec<String> {
    let predicate = predicate(shown, signatures);
    vec![
        format!("raw_syscalls:sys_enter /{predicate}/ {{ record(args.id) }}"),
        format!("raw_syscalls:sys_exit /{predicate}/ {{ record(args.id, args.ret) }}"),
    ]
}

/// Handlers that record arguments and what they point to. Memory that a call is given is read at the entry, where it may not be present, and at the
/// return, when the kernel has read it itself; what it fills, at the return.
pub(super) fn lines(shown: &BTreeSet<u64>, signatures: &Signatures) -> Vec<String> {
    let needed = signatures.iter().filter(|(_, it)| Descriptors::needs(&it.call));
    let recorded: BTreeSet<u64> = shown
        .iter()
        .copied()
        .chain(needed.map(|(number, _)| number))
        .collect();
    let predicate = predicate(&recorded, signatures);
    let mut groups: BTreeMap<Group, Vec<(u64, &Signature)>> = BTreeMap::new();
    for (number, signature) in signatures.iter().filter(|(number, _)| recorded.contains(number)) {
        if let Some(group) = group(signature) {
            groups.entry(group).or_default().push((number, signature));
        }
    }
    let handler = |moment: Moment| {
        let block = groups.values().rev().fold(moment.record(&[]), |rest, calls| {
            let fields = fields(calls, moment);
            match fields.is_empty() {
                true => rest,
                false => {
                    let numbers = calls.iter().map(|(number, _)| *number).collect();
                    format!(
                        "if ({}) {{ {} }} else {{ {rest} }}",
                        is_one_of(&numbers),
                        moment.record(&fields)
                    )
                }
            }
        });
        format!("{} /{predicate}/ {{ {block} }}", moment.event())
    };
    vec![
        handler(Moment::Entry),
        handler(Moment::Return),
        format!("{FORK} {{ record(args.child_pid) }}"),
        format!("{EXIT} {{ record(args.pid) }}"),
    ]
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

/// Calls of the native ABI, as numbers of another mean other calls.
fn predicate(calls: &BTreeSet<u64>, signatures: &Signatures) -> String {
    let mut all = vec!["(curtask->thread_info.status & 2) == 0".to_owned()];
    if calls.len() < signatures.iter().count() {
        all.push(is_one_of(calls));
    }
    all.join(" && ")
}
