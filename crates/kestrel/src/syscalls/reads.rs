//! Generates the fields of a record with the memory that a call's arguments point to: `mem1 = buf(…)`.

use super::EntryStacks;
use super::numbers::is_kind;
use kestrel_catalog::arch;
use kestrel_trace::calls::{Abi, COMPAT_ID, ID, MEMORY, RAW_ENTER, RAW_EXIT, REGISTER, Signature, TEXT};
use kestrel_trace::syscall::shape::{ADDRESS, BUFFER, CONTROL, Shape, TEXT_BYTES, Width};
use kestrel_trace::syscall::{ArgumentKind, Length, Reading, When};
use std::collections::BTreeSet;

/// Most arguments of a call.
const PLACES: usize = 6;

/// The entry of a call, or its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Entry,
    Return,
}

/// Entry or return of a call, made through one of the kernel's interfaces (64 or 32 bits).
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) side: Side,
    pub(super) abi: Abi,
    /// The kind of those calls whose arguments are one place further than their fields say ([`Signature::before_program`]).
    pub(super) shifted: Option<u64>,
    /// Stacks of an entry.
    pub(super) stacks: EntryStacks,
    /// Whether a record has much memory.
    pub(super) many: bool,
}

impl Side {
    pub(super) fn event(self) -> &'static str {
        match self {
            Self::Entry => RAW_ENTER,
            Self::Return => RAW_EXIT,
        }
    }
}

impl Moment {
    /// The statement `record(…)` with the fields that every record has, and these.
    pub(super) fn record(self, fields: &[String]) -> String {
        let mut all = vec![match self.abi {
            Abi::Native => format!("args.{ID}"),
            Abi::Compat => format!("{COMPAT_ID} = args.{ID}"),
        }];
        match (self.side, self.abi) {
            (Side::Entry, Abi::Native) => all.push("args.args".to_owned()),
            (Side::Entry, Abi::Compat) => {
                all.extend((0..PLACES).map(|place| format!("{REGISTER}{place} = {}", self.argument(place))));
            }
            (Side::Return, _) => all.push("args.ret".to_owned()),
        }
        all.extend(fields.iter().cloned());
        if self.side == Side::Entry {
            all.extend(self.stacks.fields(self.many));
        }
        format!("record({})", all.join(", "))
    }

    /// The expression for the argument at a place.
    fn argument(self, place: usize) -> String {
        match self.shifted {
            Some(kind) => format!(
                "($kind == {kind} ? {} : {})",
                self.register(place + 1),
                self.register(place)
            ),
            None => self.register(place),
        }
    }

    fn register(self, place: usize) -> String {
        let arch = arch::current();
        let register = |registers: [&'static str; PLACES]| registers.get(place).copied().unwrap_or("di");
        match (self.side, self.abi) {
            (Side::Entry, Abi::Native) => format!("args.args[{place}]"),
            (Side::Return, Abi::Native) => format!("args.regs->{}", register(arch.syscall_arguments)),
            (_, Abi::Compat) => format!("(args.regs->{} & 0xffffffff)", register(arch.compat_arguments)),
        }
    }

    fn has(self, when: When) -> bool {
        match when {
            When::Both => true,
            When::Before => self.side == Side::Entry,
            When::After => self.side == Side::Return,
        }
    }
}

/// The record with what the arguments of calls of these kinds point to at a moment, where that is anything; a call stands for each kind.
pub(super) fn read(calls: &[(u64, &Signature)], moment: Moment) -> Option<String> {
    let shifted = calls.iter().find(|(_, it)| it.before_program() > 0);
    let moment = Moment {
        shifted: shifted.map(|(kind, _)| *kind),
        ..moment
    };
    let mut fields = Vec::new();
    let mut before = String::new();
    for place in 0..PLACES {
        let kinds: Vec<(u64, ArgumentKind)> = calls
            .iter()
            .filter_map(|(kind, it)| Some((*kind, it.parameters.get(place + it.before_program())?.kind?)))
            .collect();
        fields.extend(text(&kinds, place, calls.len(), moment));
        fields.extend(memory(&kinds, place, calls.len(), moment));
        let shape = kinds.iter().find_map(|(_, kind)| match kind {
            ArgumentKind::Pointed(what) if moment.has(what.when) => Some(what.shape),
            _ => None,
        });
        match shape {
            Some(Shape::Vectors(width)) => {
                let count = count(&moment.argument(place + 1));
                fields.extend(vectors((place, 1), (&moment.argument(place), width), &count));
            }
            Some(Shape::Message(width) | Shape::Messages(width)) => {
                let (words, parts) = message(place, (&moment.argument(place), width));
                before += &words;
                fields.extend(parts);
            }
            Some(Shape::Strings(width)) => {
                before += &format!("$strings = {}; ", moment.argument(place));
                fields.extend(strings(place, ("$strings", width)));
            }
            _ => {}
        }
    }
    (!fields.is_empty()).then(|| before + &moment.record(&fields))
}

/// The text at a place, of the calls that have one there.
fn text(kinds: &[(u64, ArgumentKind)], place: usize, all: usize, moment: Moment) -> Option<String> {
    let having = kinds.iter().filter(|(_, kind)| *kind == ArgumentKind::Text);
    let any: BTreeSet<u64> = having.map(|(number, _)| *number).collect();
    let address = match any.len() {
        0 => return None,
        some if some == all => moment.argument(place),
        _ => format!("{} ? {} : 0", is_kind(&any), moment.argument(place)),
    };
    Some(format!("{TEXT}{place} = str({address})"))
}

/// The memory that the argument at a place points to, of the calls where it is read: others read no bytes.
fn memory(kinds: &[(u64, ArgumentKind)], place: usize, all: usize, moment: Moment) -> Option<String> {
    let readings = kinds
        .iter()
        .filter_map(|(number, kind)| Some((*number, kind.reading()?)));
    let readings: Vec<(u64, Reading)> = readings.filter(|(_, it)| moment.has(it.when)).collect();
    let most = readings.iter().map(|(_, reading)| reading.most).max()?;
    let mut lengths: Vec<(String, BTreeSet<u64>)> = Vec::new();
    for (number, reading) in &readings {
        let length = length(*reading, most, moment);
        match lengths.iter_mut().find(|(own, _)| *own == length) {
            Some((_, numbers)) => _ = numbers.insert(*number),
            None => lengths.push((length, [*number].into())),
        }
    }
    // Where all calls have memory here, the last one needs no condition.
    let last = match readings.len() == all {
        true => lengths.pop().map_or_else(|| "0".to_owned(), |(length, _)| length),
        false => "0".to_owned(),
    };
    let cases = lengths
        .iter()
        .map(|(length, kinds)| format!("{} ? {length} : ", is_kind(kinds)));
    let cases: String = cases.collect();
    // A null pointer is not read, because that would cost a fault.
    let address = moment.argument(place);
    Some(format!(
        "{MEMORY}{place} = buf(uptr({address}), {address} == 0 ? 0 : {cases}{last}, {most})"
    ))
}

/// Number of bytes to read, of which a field takes `most` at most.
fn length(reading: Reading, most: u32, moment: Moment) -> String {
    let length = match reading.length {
        Length::Fixed(bytes) => return bytes.to_string(),
        Length::Argument(place, size) => times(&count(&moment.argument(usize::from(place))), size),
        Length::Returned(size) => format!("(args.ret < 0 ? 0 : {})", times("args.ret", size)),
        // TCGETS to TCSETSF.
        Length::Request(place) => {
            let request = moment.argument(usize::from(place));
            let modes = reading.most;
            format!("(({request} & 0xfffffffc) == 0x5400 || {request} == 0x5404 ? {modes} : 8)")
        }
        // F_GETLK to F_SETLKW.
        Length::Lock(place) => {
            let command = moment.argument(usize::from(place));
            format!("({command} >= 5 && {command} <= 7 ? 16 : {})", reading.most)
        }
        Length::Behind(place) => half(&moment.argument(usize::from(place))),
    };
    match reading.most < most {
        true => format!("({length} < {0} ? {length} : {0})", reading.most),
        false => length,
    }
}

/// A count or a length, of which the kernel uses the low half of the register.
fn count(argument: &str) -> String {
    format!("({argument} & 0xffffffff)")
}

fn times(count: &str, size: u32) -> String {
    match size {
        1 => count.to_owned(),
        _ => format!("({count} * {size})"),
    }
}

/// The address or the `long` that lies so many words behind an address of the process.
fn word((address, width): (&str, Width), words: usize) -> String {
    let ty = match width {
        Width::Wide => "uint64",
        Width::Narrow => "uint32",
    };
    format!("*({ty} *)uptr({address} + {})", words * width.bytes())
}

fn half(address: &str) -> String {
    format!("*(uint32 *)uptr({address})")
}

/// The buffers of a vector of `count` at `address`, as parts from `first` on.
fn vectors((place, first): (usize, usize), table: (&str, Width), count: &str) -> Vec<String> {
    let buffer = |index: usize| {
        let part = first + index;
        let (base, length) = (word(table, 2 * index), word(table, 2 * index + 1));
        format!("{MEMORY}{place}_{part} = buf(uptr({base}), {count} > {index} ? {length} : 0, {BUFFER})")
    };
    (0..table.1.vectors()).map(buffer).collect()
}

/// Parts of `struct msghdr`: its name, its vector, and the buffers of that; and the statements before them that read where the vector is.
fn message(place: usize, (address, width): (&str, Width)) -> (String, Vec<String>) {
    let word = |words: usize| word((address, width), words);
    let words = format!("$table = {}; $many = {}; ", word(2), word(3));
    let (table, count) = ("$table", "$many");
    let vector = 2 * width.bytes();
    let mut fields = vec![
        format!(
            "{MEMORY}{place}_1 = buf(uptr({}), {}, {ADDRESS})",
            word(0),
            half(&format!("{address} + {}", width.bytes()))
        ),
        format!(
            "{MEMORY}{place}_2 = buf(uptr({table}), {count} * {vector}, {})",
            vector * width.vectors()
        ),
    ];
    fields.extend(vectors((place, CONTROL + 1), (table, width), count));
    fields.push(format!(
        "{MEMORY}{place}_{CONTROL} = buf(uptr({}), {}, {ADDRESS})",
        word(4),
        word(5)
    ));
    (words, fields)
}

/// The strings of an argument vector.
fn strings(place: usize, table: (&str, Width)) -> Vec<String> {
    let text = |index: usize| {
        let pointer = word(table, index);
        format!("{TEXT}{place}_{} = str(uptr({pointer}), {TEXT_BYTES})", index + 1)
    };
    (0..table.1.strings()).map(text).collect()
}
