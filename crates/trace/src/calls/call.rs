//! One system call from its entry to its return.

use super::pieces::Pieces;
use super::signature::{Parameter, Signature};
use crate::layout::FieldType;
use crate::syscall::shape::Shape;
use crate::syscall::{
    ArgumentKind, CommandArgument, Errno, Meaning, Pointed, When, device_control, file_control,
    futex_arguments, process_control_arguments,
};
use crate::value::KeptStack;
use std::sync::Arc;

/// End of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The call returned this.
    Returned(i64),
    /// The call never returns: exit(2).
    Never,
    /// The call had not returned when the records ended.
    Unfinished,
    /// The call began before the records did, and had not returned when they began.
    InProgress,
    /// The thread made another call, and its return was not recorded.
    Unseen,
}

/// A system call of a thread, with what is known of it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The process that made it.
    pub pid: u32,
    /// The calling thread.
    pub tid: u32,
    /// The call's signature.
    pub signature: Arc<Signature>,
    /// When it began, ns; `None` if that was before the records began.
    pub begun_ns: Option<u64>,
    /// When it returned, or was seen in progress.
    pub ended_ns: Option<u64>,
    /// The arguments' registers.
    pub values: Vec<u64>,
    /// Memory that arguments pointed to at the entry.
    pub before: Pieces,
    /// The pointed-to memory at the return.
    pub after: Pieces,
    /// The stacks of its entry; none where they were not recorded.
    pub stacks: Vec<KeptStack>,
    /// How the call ended.
    pub end: End,
    /// Whether one of its records is wanted, where some are not.
    pub wanted: bool,
    /// Where it is about a netlink socket, the protocol of that.
    pub netlink: Option<i64>,
}

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'c> {
    /// The place among the call's.
    pub place: usize,
    /// The parameter in the call's signature.
    pub parameter: &'c Parameter,
    /// The number, in its type: `-100`, not 4294967196.
    pub value: i64,
}

impl Call {
    /// Duration of the call, ns.
    pub fn duration(&self) -> Option<u64> {
        Some(self.ended_ns?.saturating_sub(self.begun_ns?))
    }

    /// Time at which the call began, or else at which it ended.
    pub fn time_ns(&self) -> u64 {
        self.begun_ns.or(self.ended_ns).unwrap_or_default()
    }

    /// The error that it returned.
    pub fn error(&self) -> Option<Errno> {
        match self.end {
            // No address is in the last page.
            End::Returned(value) => Errno::of(value),
            _ => None,
        }
    }

    /// Whether what it returns is an address.
    pub(crate) fn returns_address(&self) -> bool {
        matches!(self.signature.own_name(), "mmap" | "brk" | "mremap" | "shmat")
    }

    /// The arguments; one that does not count for this call (a mode without O_CREAT) is left out.
    pub fn arguments(&self) -> impl Iterator<Item = Argument<'_>> {
        let taken = match (self.signature.own_name(), self.values.as_slice()) {
            ("prctl", [operation, ..]) => process_control_arguments(i64::from(*operation as u32)),
            ("futex", [_, operation, ..]) => futex_arguments(i64::from(*operation as u32)),
            _ => usize::MAX,
        };
        let all = self
            .signature
            .parameters
            .iter()
            .zip(&self.values)
            .enumerate()
            .take(taken);
        all.filter_map(|(place, (parameter, register))| {
            let before = place.checked_sub(1).and_then(|at| self.values.get(at));
            match parameter.kind {
                Some(ArgumentKind::Pointed(Pointed {
                    shape: Shape::FileControl(_),
                    ..
                })) if before.is_some_and(|it| takes_nothing(file_control, *it)) => None,
                Some(ArgumentKind::Pointed(Pointed {
                    shape: Shape::DeviceControl,
                    ..
                })) if before.is_some_and(|it| takes_nothing(device_control, *it)) => None,
                Some(ArgumentKind::ModeWith(bits))
                    if before.is_some_and(|it| it.cast_signed() & bits == 0) =>
                {
                    None
                }
                _ => Some(Argument {
                    place,
                    parameter,
                    value: typed(*register, parameter),
                }),
            }
        })
    }

    /// The argument at a place.
    pub fn argument(&self, place: usize) -> Option<i64> {
        let parameter = self.signature.parameters.get(place)?;
        Some(typed(*self.values.get(place)?, parameter))
    }

    /// Text to which the argument at a place pointed.
    pub fn text(&self, place: usize) -> Option<&[u8]> {
        let when = match self.signature.parameters.get(place).and_then(|it| it.kind) {
            Some(ArgumentKind::OutBuffer | ArgumentKind::OutPath) => When::After,
            _ => When::Before,
        };
        self.memory((place, 0), when)
    }

    /// Memory to which the argument at a place pointed (part 0), or a pointer in that. Of what the call fills, only what it did fill.
    pub fn memory(&self, (place, part): (usize, usize), when: When) -> Option<&[u8]> {
        let after = || self.after.get(place, part);
        match (when, self.end) {
            (When::After, End::Returned(0..)) => after(),
            (When::After, _) => None,
            // Its page may not have been in memory at the entry.
            (When::Before | When::Both, _) => self.before.get(place, part).or_else(after),
        }
    }
}

fn takes_nothing(control: fn(i64) -> CommandArgument, command: u64) -> bool {
    control(i64::from(command as u32)) == CommandArgument::Nothing
}

/// A register as the type that an argument has.
fn typed(register: u64, parameter: &Parameter) -> i64 {
    let (size, signed) = match (&parameter.ty, parameter.kind) {
        // `unsigned int fd` holds -1 as well as any other descriptor.
        (_, Some(ArgumentKind::Descriptor | ArgumentKind::Named(Meaning::Directory))) => (4, true),
        (FieldType::Integer { size, signed, .. }, _) => (*size, *signed),
        _ => (8, false),
    };
    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
    match signed {
        true => (register << unused).cast_signed() >> unused,
        false => (register << unused >> unused).cast_signed(),
    }
}
