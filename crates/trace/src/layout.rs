//! The layout of records, field by field: the one definition that generated code, the decoder and the CTF metadata share.
//!
//! A record is `header u64 | pid u32, tid u32 | fixed part | tail`, 8-aligned, its length a multiple of 8. Fixed fields have
//! constant offsets and natural alignment. Fields of variable length (strings, stacks) keep an element count (`u16`) in the
//! fixed part; their elements follow in the tail: stacks first (8-aligned), then strings without padding between them.

mod composite;
mod held_stack;
mod named;
pub mod trace_flag;

pub use composite::{Bits, Composite, CompositeKind, Member};
pub use held_stack::{Frames, HeldStack, StackMode};
pub use named::{DateClock, Named};

use crate::event_kind;
use crate::syscall::Meaning;
use kestrel_layout::record::{COUNT, Shape, place};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use kestrel_layout::record::{PAYLOAD, header};

/// Name of a field that only fills room; output hides it.
pub const UNUSED: &str = "_unused";

/// Base in which an integer is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Base {
    /// `42`, `-1`.
    Decimal,
    /// `0x2a`.
    Hexadecimal,
    /// `052`, for file modes.
    Octal,
    /// By the names that the headers of system calls have: `O_RDONLY|O_CLOEXEC`. It is a number all the same.
    Named(Meaning),
    /// `0.25`: the bits of a float of 8 bytes. For everything but eyes they are a number.
    Float,
}

/// The address space of a stack's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Space {
    /// The kernel's address space.
    Kernel,
    /// The traced process's.
    User,
}

/// Names of numbers, shared between fields.
pub type Names = Arc<[(i64, String)]>;

/// Meaning of an event number, where a handler keeps or writes the number for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventName {
    /// The event's own name.
    Event,
    /// The function that it is about.
    Function,
}

/// The function of `/PATH:FUNCTION+OFFSET` and `/PATH:LANGUAGE:FUNCTION`, whose name may have colons and pluses itself.
fn function_in_file(place: &str) -> &str {
    let behind = place.split_once(':').map_or(place, |(_, rest)| rest);
    let worded = behind.split_once(':').filter(|(_, rest)| !rest.starts_with(':'));
    let name = worded.map_or(behind, |(_, rest)| rest);
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let cut = name.rsplit_once('+').filter(|(_, offset)| is_number(offset));
    cut.map_or(name, |(name, _)| name)
}

impl EventName {
    /// Names for an enumeration whose names only readers know, because they differ by event.
    pub fn unnamed(self) -> Names {
        // No enumerator of C can be called so, and no event has the number.
        [(-1, self.mark().to_owned())].into()
    }

    /// Whether an enumeration waits for such names.
    pub fn wanted(ty: &FieldType) -> Option<Self> {
        let FieldType::Enumeration { names, .. } = ty else {
            return None;
        };
        let [(-1, mark)] = &names[..] else { return None };
        [Self::Event, Self::Function]
            .into_iter()
            .find(|what| what.mark() == mark)
    }

    /// The name, given the event's: `vfs_read` of `kprobe:vfs_read`.
    pub fn of(self, event: &str) -> &str {
        match self {
            Self::Event => event,
            Self::Function => {
                let (kind, behind) = event.split_once(':').unwrap_or(("", event));
                let of_file = event_kind::find(kind).is_some_and(|kind| kind.subject.is_file());
                match of_file || behind.starts_with('/') {
                    true => function_in_file(behind),
                    false => {
                        // A module may stand before it.
                        let name = behind.rsplit(':').next().unwrap_or(behind);
                        name.split('+').next().unwrap_or(name)
                    }
                }
            }
        }
    }

    /// The name for people: a function of C++ by its own name, not by the linker's.
    fn shown(self, event: &str) -> String {
        let name = self.of(event);
        let mangled = self == Self::Function && name.starts_with("_Z");
        let symbol = mangled.then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
        let demangled = symbol.and_then(|symbol| symbol.demangle().ok());
        demangled.unwrap_or_else(|| name.to_owned())
    }

    /// The enumeration with its names.
    pub fn named<'n>(self, events: impl IntoIterator<Item = (i64, &'n str)>) -> FieldType {
        FieldType::Enumeration {
            size: 8,
            signed: false,
            names: events
                .into_iter()
                .map(|(number, event)| (number, self.shown(event)))
                .collect(),
        }
    }

    /// The enumeration with its names in a map: they begin with the mark, by which [`EventName::are`] knows them.
    pub fn named_in_map<'n>(self, events: impl IntoIterator<Item = (i64, &'n str)>) -> FieldType {
        let names = events
            .into_iter()
            .map(|(number, event)| (number, self.shown(event)));
        FieldType::Enumeration {
            size: 8,
            signed: false,
            names: std::iter::once((-1, self.mark().to_owned()))
                .chain(names)
                .collect(),
        }
    }

    /// Whether these are names of events or functions, and no enumeration of C: JSON has the names then, as bpftrace's.
    pub fn are(names: &[(i64, String)]) -> bool {
        let first = names.first();
        first.is_some_and(|(number, mark)| {
            *number == -1
                && [Self::Event, Self::Function]
                    .iter()
                    .any(|what| what.mark() == mark)
        })
    }

    fn mark(self) -> &'static str {
        match self {
            Self::Event => "(event)",
            Self::Function => "(function)",
        }
    }
}

/// The type of a field as it lies in the record.
#[allow(missing_docs, reason = "sizes and counts speak for themselves")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldType {
    /// An integer of 1, 2, 4 or 8 bytes.
    Integer { size: u8, signed: bool, base: Base },
    /// One byte, 0 or 1.
    Bool,
    /// A number with a fraction, of 4 or 8 bytes (IEEE 754).
    Float { size: u8 },
    /// Eight bytes; shown in hexadecimal, as `symbol`, or `symbol+offset` behind its start, where `symbolic` and known; bpftrace's output has the symbol alone.
    Pointer { symbolic: bool },
    /// An integer whose values have names.
    Enumeration { size: u8, signed: bool, names: Names },
    /// An integer that is a set of named bits, shown as `A|B`; a value not covered is shown in hexadecimal.
    Flags { size: u8, names: Names },
    /// `char[size]`, up to the first NUL. Files have the name that it had first.
    #[serde(rename = "Text")]
    CharArray { size: u32 },
    /// A string in `max + 2` bytes, up to the first NUL: what reads the string is given room for one byte more than is kept, so that a string with more
    /// than `max` bytes before its NUL is known to be cut. It is shown with the trailer of cut strings then (`max_strlen`).
    InlineString { max: u32 },
    /// At most `max` bytes of memory: how many there are (`u32`), the bytes, then zeroes up to a multiple of 4. Shown as bpftrace shows `buf`: `\x00` for what
    /// is no printable ASCII.
    Buffer { max: u32 },
    /// `count` elements of a fixed type.
    Array { element: Box<FieldType>, count: u32 },
    /// Members at offsets: a tuple, a record, a structure, a union.
    Composite(Arc<Composite>),
    /// A number that stands for a name that only readers know.
    Named(Named),
    /// A stack in a fixed number of bytes.
    HeldStack(HeldStack),
    /// A string of at most `max` bytes without its NUL, in the tail.
    String { max: u32 },
    /// At most `max` bytes of memory, NULs among them, in the tail.
    Bytes { max: u32 },
    /// At most `max` return addresses of 8 bytes, innermost first, in the tail.
    Stack { space: Space, max: u32 },
    /// A process's registers `ip`, `sp` and `bp`, and behind them at most `max` bytes of its stack from `sp` upwards, in the tail as words of 8
    /// bytes: what its frames are found from later. No word where there is no such memory.
    StackCopy {
        max: u32,
        /// Format in which it is printed and most frames; `None`: all frames in the usual format.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<(StackMode, u32)>,
    },
}

/// Words before the stack's own in a [`FieldType::StackCopy`]: `ip`, `sp`, `bp`, and when it was copied (0 where the record holds all of it).
pub const COPIED_WORDS: u32 = 4;

/// Place of a field in its record; offsets count from the start of the record (its header).
#[allow(missing_docs, reason = "the variants say what each offset is")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPlace {
    /// At a constant offset.
    Fixed { offset: u32 },
    /// In the tail; its element count is a `u16` at `count_offset`.
    Tail { count_offset: u32 },
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// A C identifier; `kstack`, `arg0`, `prev_comm`.
    pub name: String,
    /// The field's type.
    pub ty: FieldType,
    /// Where the field is in a record.
    pub place: FieldPlace,
}

/// The payload of one event class.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// In the order in which people read them.
    fields: Vec<Field>,
    /// Bytes of header, context and fixed part: where the tail begins (8-aligned if there are stacks).
    fixed_end: u32,
    /// Whether each field has a word of 8 bytes of its own.
    words: bool,
    /// Identity that copies of it have in common with it and with no other layout.
    identity: u64,
}

/// The next layout's identity; that of the empty default is 0.
static IDENTITY: AtomicU64 = AtomicU64::new(1);

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        (&self.fields, self.fixed_end, self.words) == (&other.fields, other.fixed_end, other.words)
    }
}

impl FieldType {
    /// Most bytes of a value that is not variable.
    pub const MAX: u32 = 1 << 24;

    /// Whether the field lives in the tail.
    pub fn is_variable(&self) -> bool {
        matches!(self, Self::String { .. } | Self::Bytes { .. }) || self.is_stack()
    }

    /// Whether its elements are words of 8 bytes: a stack, or a copy of one.
    pub fn is_stack(&self) -> bool {
        matches!(self, Self::Stack { .. } | Self::StackCopy { .. })
    }

    /// Whether it holds a process's stack.
    pub(crate) fn is_user_stack(&self) -> bool {
        matches!(
            self,
            Self::Stack {
                space: Space::User,
                ..
            } | Self::StackCopy { .. }
        )
    }

    /// Bytes of one of its elements in the tail.
    pub(crate) fn unit(&self) -> usize {
        if self.is_stack() { 8 } else { 1 }
    }

    /// Size and alignment in the fixed part, in bytes (of the count, for a variable field).
    pub(crate) fn fixed_shape(&self) -> Shape {
        let (size, align) = match self {
            Self::InlineString { max } => (max.saturating_add(2), 1),
            Self::Buffer { max } => {
                let size = max.saturating_add(4).checked_next_multiple_of(4);
                (size.unwrap_or(u32::MAX), 4)
            }
            Self::Composite(composite) => (composite.size, composite.align.max(1)),
            Self::Named(named) => named.shape(),
            Self::HeldStack(stack) => (stack.size(), 8),
            Self::Integer { size, .. }
            | Self::Enumeration { size, .. }
            | Self::Flags { size, .. }
            | Self::Float { size } => (u32::from(*size), u32::from(*size)),
            Self::Bool => (1, 1),
            Self::Pointer { .. } => (8, 8),
            Self::CharArray { size } => (*size, 1),
            Self::Array { element, count } => {
                let Shape { size, align } = element.fixed_shape();
                (size.saturating_mul(*count), align)
            }
            Self::String { .. } | Self::Bytes { .. } | Self::Stack { .. } | Self::StackCopy { .. } => {
                return COUNT;
            }
        };
        Shape { size, align }
    }

    /// Whether it is a floating-point number, or an array of them.
    pub(crate) fn is_float(&self) -> bool {
        match self {
            Self::Array { element, .. } => element.is_float(),
            ty => matches!(ty, Self::Float { .. }),
        }
    }

    /// Bytes in the fixed part (2, the count, for a variable field).
    pub fn fixed_size(&self) -> u32 {
        self.fixed_shape().size
    }

    /// Most bytes the field takes in the tail.
    pub fn tail_max(&self) -> u32 {
        match self {
            Self::String { max } | Self::Bytes { max } => *max,
            Self::Stack { max, .. } => max.saturating_mul(8),
            Self::StackCopy { max, .. } => max.saturating_add(COPIED_WORDS * 8),
            _ => 0,
        }
    }
}

impl Layout {
    /// The layout with names of events wherever a part waits for them; `None` where none does. In records of one event the number 0 is that one; others have the
    /// `numbers` under which handlers keep them.
    pub fn named_event(&self, event: &str, numbers: &[(i64, &str)]) -> Option<Self> {
        let mut waits = false;
        let mut name = |ty: &mut FieldType| {
            if let Some(what) = EventName::wanted(ty) {
                waits = true;
                *ty = what.named([(0, event)].into_iter().chain(numbers.iter().copied()));
            }
        };
        let mut fields: Vec<(String, FieldType)> = Vec::new();
        for field in &self.fields {
            let mut ty = field.ty.clone();
            ty.each_part(&mut name);
            fields.push((field.name.clone(), ty));
        }
        waits.then(|| Self::new(fields))
    }

    /// Places fields given in reading order. Larger alignments come first in memory, so there is no padding between them.
    pub fn new(fields: impl IntoIterator<Item = (String, FieldType)>) -> Self {
        let mut fields: Vec<Field> = fields
            .into_iter()
            .map(|(name, ty)| {
                let place = if ty.is_variable() {
                    FieldPlace::Tail { count_offset: 0 }
                } else {
                    FieldPlace::Fixed { offset: 0 }
                };
                Field { name, ty, place }
            })
            .collect();
        let shapes: Vec<Shape> = fields.iter().map(|field| field.ty.fixed_shape()).collect();
        let mut offsets = vec![0; fields.len()];
        let mut end = place(&shapes, &mut offsets);
        for (field, at) in fields.iter_mut().zip(offsets) {
            match &mut field.place {
                FieldPlace::Fixed { offset } | FieldPlace::Tail { count_offset: offset } => *offset = at,
            }
        }
        if fields.iter().any(|f| f.ty.is_stack()) {
            end = end.checked_next_multiple_of(8).unwrap_or(u32::MAX);
        }
        Self {
            fields,
            fixed_end: end,
            words: false,
            identity: IDENTITY.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Places fields given in reading order each in words of 8 bytes of their own: those of a program that stores whole registers, of which a
    /// shorter integer takes the low bytes. None of them may be variable.
    pub fn words(fields: impl IntoIterator<Item = (String, FieldType)>) -> Self {
        let mut end = PAYLOAD;
        let fields = fields.into_iter().map(|(name, ty)| {
            let place = FieldPlace::Fixed { offset: end };
            end = end.saturating_add(whole_words(ty.fixed_size()));
            Field { name, ty, place }
        });
        let fields: Vec<Field> = fields.collect();
        Self {
            // Where all are whole words, they lie as any others do.
            words: fields.iter().any(|field| field.ty.fixed_size() < 8),
            fields,
            fixed_end: end,
            identity: IDENTITY.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A number that only copies of this layout have: what was made of a layout with the same one fits.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Whether each field has words of its own ([`Layout::words`]).
    pub(crate) fn is_words(&self) -> bool {
        self.words
    }

    /// The fields in reading order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The fields that people are shown: all but those that only fill room.
    pub fn shown(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.is_shown())
    }

    /// The variable fields in the order in which their elements stand in the tail: stacks, then strings.
    pub fn tail(&self) -> impl Iterator<Item = &Field> {
        let stacks = self.fields.iter().filter(|f| f.ty.is_stack());
        stacks.chain(
            self.fields
                .iter()
                .filter(|f| matches!(f.ty, FieldType::String { .. } | FieldType::Bytes { .. })),
        )
    }

    /// The fixed fields and the counts of the variable ones, in memory order.
    pub fn fixed(&self) -> Vec<&Field> {
        let mut all: Vec<&Field> = self.fields.iter().collect();
        all.sort_by_key(|f| f.memory_order());
        all
    }

    /// Bytes from the start of the record to the start of the tail.
    pub fn fixed_end(&self) -> u32 {
        self.fixed_end
    }

    /// Bytes of the record where nothing is variable, else `None`: a multiple of 8.
    pub fn constant_size(&self) -> Option<u32> {
        (!self.fields.iter().any(|f| f.ty.is_variable())).then(|| whole_words(self.fixed_end))
    }

    /// Most bytes a record of this layout can take: a multiple of 8.
    pub fn max_size(&self) -> u32 {
        let tails = self.fields.iter().map(|field| field.ty.tail_max());
        whole_words(tails.fold(self.fixed_end, u32::saturating_add))
    }
}

/// A size as a multiple of 8; the largest one where the size, of a damaged description, is larger.
fn whole_words(size: u32) -> u32 {
    size.checked_next_multiple_of(8).unwrap_or(!7)
}

impl Field {
    /// Whether people are shown it: all fields but those that only fill room ([`UNUSED`]).
    pub fn is_shown(&self) -> bool {
        self.name != UNUSED
    }

    /// Sort key that puts fields into memory order: where the field lies; one without bytes stands before what begins at the same place, because other readers
    /// of a trace look for the place that its alignment asks for.
    pub(crate) fn memory_order(&self) -> (u32, bool) {
        (self.offset(), self.ty.fixed_size() > 0)
    }

    /// Offset of the field, or of its count, from the start of the record.
    pub fn offset(&self) -> u32 {
        match self.place {
            FieldPlace::Fixed { offset } | FieldPlace::Tail { count_offset: offset } => offset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_record_has_are_the_largest() {
        let fields = |size: u32| (0..2).map(move |at| (format!("f{at}"), FieldType::CharArray { size }));
        for layout in [
            Layout::new(fields(u32::MAX - 2)),
            Layout::words(fields(u32::MAX - 2)),
        ] {
            assert_eq!(layout.constant_size(), Some(!7));
            assert_eq!(layout.max_size(), !7);
        }
        let stack = FieldType::Stack {
            space: Space::User,
            max: u32::MAX / 4,
        };
        assert_eq!(Layout::new([("stack".to_owned(), stack)]).max_size(), !7);
    }

    #[test]
    fn a_function_is_known_by_its_event() {
        for (event, function) in [
            ("kprobe:vfs_read", "vfs_read"),
            ("kprobe:vfs_read+0x4", "vfs_read"),
            ("fentry:vmlinux:vfs_read", "vfs_read"),
            ("kprobe:xfs:xfs_file_open+4", "xfs_file_open"),
            ("uprobe:/usr/bin/bash:readline", "readline"),
            ("uprobe:/usr/bin/bash:readline+0x10", "readline"),
            ("uprobe:/srv/a:cpp:ns::operator+(A, B)", "ns::operator+(A, B)"),
            ("uretprobe:/srv/a:rust:a::b", "a::b"),
            (
                "uprobe:./a:cpp:ns::f(A&, ns::B const*)",
                "ns::f(A&, ns::B const*)",
            ),
            ("uprobe:libc:malloc+4", "malloc"),
        ] {
            assert_eq!(EventName::Function.of(event), function);
        }
        let mangled = "uprobe:./a:cpp:_ZN3app4deep2fnEi";
        assert_eq!(EventName::Function.shown(mangled), "app::deep::fn(int)");
        assert_eq!(EventName::Event.shown(mangled), mangled);
    }
}
