//! Recorded system calls to programs: records of `raw_syscalls:sys_enter` and `sys_exit`, whatever else they hold, as the kernel's tracepoints have them.
//!
//! ```text
//!   entry    0 header | 8 number | 16 six arguments of 8 bytes
//!   return   0 header | 8 number | 16 what it returns
//! ```
//!
//! The tracepoints of single calls have the same bytes in the same places (`syscalls:sys_enter_openat`).

use kestrel_trace::calls::{Abi, COMPAT_ID, ID, MEMORY, RAW_ENTER, RAW_EXIT, REGISTER, TEXT};
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::{Field, FieldPlace, FieldType};
use kestrel_trace::record::Record;

/// Arguments of a call.
pub const ARGUMENTS: usize = 6;
/// Where programs find the number of a call.
pub const NUMBER: u32 = 8;
/// Where programs find its first argument, or what it returns.
pub const FIRST: u32 = 16;

/// The side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where it begins.
    Entry,
    /// Where it ends.
    Exit,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Entry, Self::Exit];

    /// The tracepoint of all calls.
    pub fn event(self) -> &'static str {
        match self {
            Self::Entry => RAW_ENTER,
            Self::Exit => RAW_EXIT,
        }
    }

    /// Prefix of the names of one call's tracepoints.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Entry => "syscalls:sys_enter_",
            Self::Exit => "syscalls:sys_exit_",
        }
    }
}

/// Where the records of an event class have what a call's tracepoint has.
#[derive(Clone, Debug)]
pub struct CallPlaces {
    side: Side,
    abi: Abi,
    number: (usize, usize),
    /// The arguments that were recorded, in order, or what is returned.
    words: Vec<usize>,
}

fn fixed<'f>(fields: &'f [Field], name: &str) -> Option<(usize, &'f FieldType)> {
    let field = fields.iter().find(|field| field.name == name)?;
    match field.place {
        FieldPlace::Fixed { offset } => Some((offset as usize, &field.ty)),
        FieldPlace::Tail { .. } => None,
    }
}

impl CallPlaces {
    /// The places of an event class whose records are of all calls and have their numbers.
    pub fn of(event: &EventClass) -> Option<Self> {
        let side = Side::ALL.into_iter().find(|side| side.event() == event.name)?;
        let fields = event.layout.fields();
        let number = |name| match fixed(fields, name)? {
            (offset, FieldType::Integer { size, .. }) => Some((offset, usize::from(*size))),
            _ => None,
        };
        let (abi, number) = match number(ID) {
            Some(number) => (Abi::Native, number),
            None => (Abi::Compat, number(COMPAT_ID)?),
        };
        let word = |name: &str| {
            let (offset, ty) = fixed(fields, name)?;
            (ty.fixed_size() == 8).then_some(offset)
        };
        let words = match side {
            Side::Exit => word("ret").into_iter().collect(),
            Side::Entry => match fixed(fields, "args") {
                Some((offset, FieldType::Array { element, count })) if element.fixed_size() == 8 => {
                    let count = (*count as usize).min(ARGUMENTS);
                    (0..count).map(|place| offset + 8 * place).collect()
                }
                _ => (0..ARGUMENTS)
                    .map_while(|place| word(&format!("{REGISTER}{place}")))
                    .collect(),
            },
        };
        Some(Self {
            side,
            abi,
            number,
            words,
        })
    }

    /// The side that its records are of.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The kernel's interface through which these calls were made.
    pub fn abi(&self) -> Abi {
        self.abi
    }

    /// Number of recorded arguments; of returns, whether the return value was recorded.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// The number of a record's call.
    #[inline]
    pub(crate) fn number(&self, record: &Record<'_>) -> Option<u64> {
        let (offset, size) = self.number;
        let bytes = record.bytes.get(offset..)?;
        Some(match size {
            8 => u64::from_le_bytes(*bytes.first_chunk()?),
            _ => i64::from(i32::from_le_bytes(*bytes.first_chunk()?)).cast_unsigned(),
        })
    }

    /// An argument of a record's call, or what it returned.
    #[inline]
    pub(crate) fn word(&self, record: &Record<'_>, place: usize) -> Option<u64> {
        let bytes = record.bytes.get(*self.words.get(place)?..)?;
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }

    /// Puts a record where programs find it.
    #[inline]
    pub(crate) fn unpack(&self, record: &Record<'_>, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(record.bytes.get(..NUMBER as usize).unwrap_or_default());
        into.resize(NUMBER as usize, 0);
        into.extend_from_slice(&self.number(record).unwrap_or_default().to_le_bytes());
        for place in 0..ARGUMENTS {
            into.extend_from_slice(&self.word(record, place).unwrap_or_default().to_le_bytes());
        }
    }
}

/// Whether a field of such a class is one of those that [`CallPlaces`] is about, or memory that they point to.
pub fn is_of_call(name: &str) -> bool {
    [ID, COMPAT_ID, "args", "ret"].contains(&name) || numbered(name).is_some() || is_register(name)
}

fn is_register(name: &str) -> bool {
    name.strip_prefix(REGISTER)
        .is_some_and(|place| place.parse::<usize>().is_ok_and(|place| place < ARGUMENTS))
}

/// The place of the argument, and the part, of a field of memory.
pub(crate) fn numbered(name: &str) -> Option<(usize, usize)> {
    let rest = name.strip_prefix(TEXT).or_else(|| name.strip_prefix(MEMORY))?;
    let (place, part) = rest.split_once('_').unwrap_or((rest, "0"));
    Some((place.parse().ok()?, part.parse().ok()?))
}
