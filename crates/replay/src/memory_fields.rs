//! Fields of records that hold memory, and the addresses where it lay: `text0` and `mem0` where the argument 0 points, `mem1_2` where the second pointer in
//! `mem1` does ([`kestrel_trace::calls`]), and strings with the name of the argument of a call that they were read from.

use crate::call::{ARGUMENTS, CallPlaces, Side, numbered};
use crate::recorded::{RecordedMemory, is_kernel};
use kestrel_trace::calls::{Abi, Parameter, REGISTER, Signature, Signatures};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::{Field, FieldPlace, FieldType};
use kestrel_trace::record::Record;
use kestrel_trace::syscall::shape::{CONTROL, Shape, Width};
use kestrel_trace::syscall::{ArgumentKind, Length, Reading, When};
use kestrel_trace::value::Value;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A field with memory, by its place among the class's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    field: usize,
    /// Whether the memory ends with a NUL.
    is_text: bool,
    pointer: Pointer,
}

/// The pointer that says where a field's memory lay.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pointer {
    /// The argument at a place (part 0), or a pointer in what that points to.
    Argument { place: usize, part: usize },
    /// The argument of this name.
    Named(String),
}

impl Pointer {
    /// Whether it is a pointer in what the argument at a place points to.
    fn is_behind(&self, argument: usize) -> bool {
        matches!(self, Self::Argument { place, part: 1.. } if *place == argument)
    }
}

/// Where the arguments are.
#[derive(Clone, Debug)]
enum Arguments {
    /// In the record of a call, or in that of its entry.
    Call(CallPlaces),
    /// At offsets in the record.
    Fields(Vec<Option<usize>>),
}

/// The fields of an event class that hold memory at known addresses.
#[derive(Clone, Debug)]
pub(crate) struct MemoryFields {
    pieces: Vec<Piece>,
    arguments: Arguments,
    /// The call that all records are of, where that is so.
    signature: Option<Arc<Signature>>,
    /// Whether fields are numbered as if no argument were before a program's path ([`Signature::before_program`]).
    is_shifted: bool,
}

/// The arguments that threads entered their calls with.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    by_thread: HashMap<u32, Entry, foldhash::fast::RandomState>,
    /// Up to when records may be missing: what threads entered before may have returned since.
    gap_ns: u64,
    /// Returns with memory that were not paired for that reason.
    unpaired: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time_ns: u64,
    abi: Abi,
    number: u64,
    words: [u64; ARGUMENTS],
    /// The event class of the first record of its return.
    left: Option<EventId>,
}

/// Threads that are known at once: with more, all are forgotten.
const MAX_THREADS: usize = 1 << 16;

/// Bytes behind a text that was cut that are forgotten: a path has no more.
const REST: usize = 4096;
/// Most bytes that are forgotten where a call has a buffer.
const MAX_FORGOTTEN: u64 = 1 << 16;

/// Whether a field has a text, or bytes; `None` where it has a number.
fn text_or_bytes(ty: &FieldType) -> Option<bool> {
    match ty {
        FieldType::String { .. } => Some(true),
        FieldType::Bytes { .. } => Some(false),
        _ => None,
    }
}

/// Names of the fields of an event class that are called as memory at an argument, while the record does not have that argument: nothing is known of where they lay.
pub fn unaddressed<'e>(event: &'e EventClass, signatures: &Signatures) -> Vec<&'e str> {
    let known = MemoryFields::of(event, signatures);
    let has_address = |index: usize| known.iter().flat_map(|it| &it.pieces).any(|it| it.field == index);
    let fields = event.layout.fields().iter().enumerate();
    fields
        .filter(|(index, field)| {
            text_or_bytes(&field.ty).is_some() && numbered(&field.name).is_some() && !has_address(*index)
        })
        .map(|(_, field)| field.name.as_str())
        .collect()
}

/// The offset of a word of 8 bytes, or of a shorter number that is its beginning.
fn offset(field: &Field) -> Option<usize> {
    match (field.place, &field.ty) {
        (FieldPlace::Fixed { offset }, FieldType::Pointer { .. } | FieldType::Integer { size: 8, .. }) => {
            Some(offset as usize)
        }
        _ => None,
    }
}

/// The place of a program's arguments, without what is before its path.
const ARGV: usize = 1;

/// Words of the language that records have beside arguments, and that name no argument of the same width.
const WORDS: &[&str] = &[
    "comm", "tid", "cpu", "nsecs", "elapsed", "cgroup", "kstack", "ustack", "probe",
];
/// Words that calls have as arguments, too, where they are as long as a register.
const SHORT_WORDS: &[&str] = &["pid", "uid", "gid"];

/// The signature of the call whose own tracepoint was recorded: as the recording knows it, or else its fields that are no words of the language and no memory.
fn own_signature(call: &str, event: &EventClass, signatures: &Signatures) -> Signature {
    if let Some((_, known)) = signatures.named(call)
        && !known.parameters.is_empty()
    {
        return known.clone();
    }
    let mut own = Signature::of_event(call, event);
    own.parameters.retain(|it| {
        let is_word = WORDS.contains(&it.name.as_str())
            || SHORT_WORDS.contains(&it.name.as_str()) && it.ty.fixed_size() < 8;
        numbered(&it.name).is_none() && !is_word
    });
    own
}

impl MemoryFields {
    /// The fields of an event class; none where it has none, or their addresses are not known.
    pub(crate) fn of(event: &EventClass, signatures: &Signatures) -> Option<Self> {
        let fields = event.layout.fields();
        let call = CallPlaces::of(event);
        let own = event.name.strip_prefix(Side::Entry.prefix());
        let signature = own.map(|call| Arc::new(own_signature(call, event, signatures)));
        let arguments = match (&call, &signature) {
            (Some(call), _) => Arguments::Call(call.clone()),
            (None, Some(signature)) => {
                let parameters = signature.parameters.iter();
                let field = |it: &Parameter| fields.iter().find(|field| field.name == it.name);
                Arguments::Fields(parameters.map(|it| field(it).and_then(offset)).collect())
            }
            (None, None) => {
                let field = |place: usize| {
                    let name = format!("{REGISTER}{place}");
                    fields.iter().find(|field| field.name == name)
                };
                Arguments::Fields(
                    (0..ARGUMENTS)
                        .map(|place| field(place).and_then(offset))
                        .collect(),
                )
            }
        };
        let has = |place: usize| match &arguments {
            // Those of a return are the entry's.
            Arguments::Call(call) if call.side() == Side::Exit => place < ARGUMENTS,
            Arguments::Call(call) => place < call.words(),
            Arguments::Fields(all) => all.get(place).copied().flatten().is_some(),
        };
        let pieces = fields.iter().enumerate().filter_map(|(index, field)| {
            let is_text = text_or_bytes(&field.ty)?;
            let pointer = match numbered(&field.name) {
                Some((place, part)) => Some(Pointer::Argument { place, part }).filter(|_| has(place)),
                // Which argument has the name is known of each record's call.
                None => call.as_ref().map(|_| Pointer::Named(field.name.clone())),
            };
            Some(Piece {
                field: index,
                is_text,
                pointer: pointer?,
            })
        });
        let pieces: Vec<Piece> = pieces.collect();
        // Records of all calls have the strings of an argument vector beside a program's path.
        let is_shifted = call.is_some() && pieces.iter().any(|it| it.is_text && it.pointer.is_behind(ARGV));
        (!pieces.is_empty()).then_some(Self {
            pieces,
            arguments,
            signature,
            is_shifted,
        })
    }

    /// Whether the memory is that of processes: what calls are given is.
    pub(crate) fn is_of_calls(&self) -> bool {
        self.signature.is_some() || matches!(self.arguments, Arguments::Call(_))
    }

    /// Whether a record holds any memory: it may have room for memory that only some calls have.
    pub(crate) fn has_memory(&self, record: &Record<'_>) -> bool {
        let fields = record.event.layout.fields();
        let pieces = self.pieces.iter().filter_map(|piece| fields.get(piece.field));
        pieces
            .map(|field| record.value(field))
            .any(|value| matches!(value, Value::Text(bytes) | Value::CutText(bytes) if !bytes.is_empty()))
    }

    /// Keeps the memory that a record holds; of a return, at the arguments that its call was entered with.
    pub(crate) fn remember(
        &self,
        record: &Record<'_>,
        signatures: &Signatures,
        entered: Option<[u64; ARGUMENTS]>,
        memory: &mut RecordedMemory,
        faults: &mut Vec<Range<u64>>,
    ) {
        let (signature, words) = match &self.arguments {
            Arguments::Call(call) => {
                let Some(number) = call.number(record) else { return };
                // A return has no arguments of its own; without those of its entry nothing says where its memory lay.
                let words = match call.side() {
                    Side::Entry => words(|place| call.word(record, place)),
                    Side::Exit => match entered {
                        Some(words) => words,
                        None => return,
                    },
                };
                (signatures.known(call.abi(), number), words)
            }
            Arguments::Fields(offsets) => {
                let word = |place: usize| {
                    let bytes = record.bytes.get(offsets.get(place).copied().flatten()?..)?;
                    Some(u64::from_le_bytes(*bytes.first_chunk()?))
                };
                (self.signature.as_deref(), words(word))
            }
        };
        let (is_return, returned) = match &self.arguments {
            Arguments::Call(call) if call.side() == Side::Exit => (true, call.word(record, 0)),
            _ => (false, None),
        };
        let known = RecordWithArguments {
            fields: self,
            record,
            signature: signature.filter(|it| !it.parameters.is_empty()),
            words,
            is_return,
            returned,
        };
        let pieces = || {
            self.pieces.iter().filter_map(|piece| {
                let address = known.address(piece).filter(|address| *address != 0)?;
                Some((piece, address, known.value(piece)?))
            })
        };
        // All that is no longer known is forgotten before anything is written: pieces of one record may lie one behind the other, and forgetting the rest of
        // one would take the beginning of the next.
        for (piece, address, value) in pieces() {
            let end = |length: u64| address.saturating_add(length);
            match value {
                Value::CutText(text) => {
                    memory.forget(record.pid, end(text.len() as u64), REST);
                }
                Value::Text(bytes) if !bytes.is_empty() => {
                    let length = known.length(piece).filter(|_| !piece.is_text).unwrap_or(0);
                    let rest = length.min(MAX_FORGOTTEN).saturating_sub(bytes.len() as u64);
                    memory.forget(record.pid, end(bytes.len() as u64), rest as usize);
                }
                Value::Fault | Value::Text(_) if known.has_failed(piece, &value) => {
                    let length = known.length(piece).unwrap_or(1).clamp(1, MAX_FORGOTTEN);
                    let most = known.reading(piece).map_or(1, |reading| reading.most);
                    memory.forget(record.pid, address, length as usize);
                    faults.push(address..end(length.min(most.into())));
                }
                _ => {}
            }
        }
        for (piece, address, value) in pieces() {
            match value {
                Value::Text(text) if !text.is_empty() || known.is_text(piece) => {
                    memory.write(record.pid, address, text);
                    if piece.is_text {
                        memory.write(record.pid, address.saturating_add(text.len() as u64), &[0]);
                    }
                }
                Value::CutText(text) => memory.write(record.pid, address, text),
                _ => {}
            }
        }
    }
}

fn words(word: impl Fn(usize) -> Option<u64>) -> [u64; ARGUMENTS] {
    std::array::from_fn(|place| word(place).unwrap_or(0))
}

impl Entries {
    /// Keeps the arguments of a call that begins.
    pub(crate) fn enter(&mut self, record: &Record<'_>, call: &CallPlaces) {
        let Some(number) = call.number(record) else { return };
        if self.by_thread.len() >= MAX_THREADS && !self.by_thread.contains_key(&record.tid) {
            self.by_thread.clear();
        }
        let words = words(|place| call.word(record, place));
        let entry = Entry {
            time_ns: record.time_ns,
            abi: call.abi(),
            number,
            words,
            left: None,
        };
        self.by_thread.insert(record.tid, entry);
    }

    /// Says up to when records may be missing: the return of a call and the entry of the next may be among them, on whatever CPU, since threads migrate.
    pub(crate) fn set_gap(&mut self, gap_ns: u64) {
        self.gap_ns = gap_ns;
    }

    /// Number of returns with memory that were not paired with the entries before them, because records may be missing between the two.
    pub(crate) fn unpaired(&self) -> u64 {
        self.unpaired
    }

    /// Forgets a thread's call.
    pub(crate) fn remove(&mut self, tid: u32) {
        self.by_thread.remove(&tid);
    }

    /// The arguments of a call that ends. A return may have records of several classes; a second one of the first's class is another call's, whose entry was
    /// lost. Whether the record has memory is asked where it cannot be paired: the return is counted then.
    pub(crate) fn leave(
        &mut self,
        record: &Record<'_>,
        (abi, number): (Abi, u64),
        has_memory: impl FnOnce() -> bool,
    ) -> Option<[u64; ARGUMENTS]> {
        let entry = self.by_thread.get_mut(&record.tid)?;
        let class = record.event.id;
        if entry.abi != abi || entry.number != number || entry.left == Some(class) {
            self.remove(record.tid);
            return None;
        }
        entry.left.get_or_insert(class);
        if entry.time_ns > self.gap_ns {
            return Some(entry.words);
        }
        // A record without memory may be followed by another of the same return.
        if has_memory() {
            self.unpaired += 1;
            self.remove(record.tid);
        }
        None
    }
}

/// A record with the arguments of its call.
struct RecordWithArguments<'r> {
    fields: &'r MemoryFields,
    record: &'r Record<'r>,
    signature: Option<&'r Signature>,
    words: [u64; ARGUMENTS],
    is_return: bool,
    /// Return value of the call, where it returned.
    returned: Option<u64>,
}

impl<'r> RecordWithArguments<'r> {
    fn value(&self, piece: &Piece) -> Option<Value<'r>> {
        let field = self.record.event.layout.fields().get(piece.field)?;
        Some(self.record.value(field))
    }

    /// The address where a piece of memory lay.
    fn address(&self, piece: &Piece) -> Option<u64> {
        let address = match &piece.pointer {
            Pointer::Named(name) => {
                let mut parameters = self.signature?.parameters.iter();
                let place = parameters.position(|it| it.name == *name)?;
                *self.words.get(place)?
            }
            &Pointer::Argument { place, part } => match part {
                0 => *self.words.get(self.argument(place))?,
                _ => self.word(self.pointer(place, part)?)?,
            },
        };
        let is_theirs = !is_kernel(address) || !self.fields.is_of_calls();
        is_theirs.then_some(address)
    }

    /// The place of the argument that has a number in the names of fields.
    fn argument(&self, place: usize) -> usize {
        let before = self.signature.filter(|_| self.fields.is_shifted);
        place + before.map_or(0, Signature::before_program)
    }

    /// Whether a text was to be read there: records have room for strings that only some of their calls have. A text that is not there at the return may have
    /// been at the entry.
    fn is_text(&self, piece: &Piece) -> bool {
        let kind = match piece.pointer {
            Pointer::Argument { place, part: 0 } => self.kind(self.argument(place)),
            _ => None,
        };
        !self.is_return && piece.is_text && kind.is_none_or(|kind| kind == Some(ArgumentKind::Text))
    }

    /// Whether memory was to be read there that was not there. What a call is given and is not there at the return may have been at the entry.
    fn has_failed(&self, piece: &Piece, value: &Value<'_>) -> bool {
        let is_fault = matches!(value, Value::Fault);
        if piece.is_text {
            return is_fault && self.is_text(piece);
        }
        match self.reading(piece) {
            Some(reading) => {
                let is_read = match reading.when {
                    When::After => self.is_return,
                    When::Before | When::Both => !self.is_return,
                };
                is_read && (is_fault || self.length(piece) != Some(0))
            }
            None => is_fault && !self.is_return,
        }
    }

    /// How the memory is read that an argument points to, where the call is known.
    fn reading(&self, piece: &Piece) -> Option<Reading> {
        let place = match &piece.pointer {
            Pointer::Argument { place, part: 0 } => self.argument(*place),
            Pointer::Argument { .. } => return None,
            Pointer::Named(name) => {
                let mut parameters = self.signature?.parameters.iter();
                parameters.position(|it| it.name == *name)?
            }
        };
        self.kind(place)??.reading()
    }

    /// Number of bytes of the call's buffer there, where an argument has it.
    fn length(&self, piece: &Piece) -> Option<u64> {
        if let Pointer::Argument {
            place,
            part: part @ 1..,
        } = piece.pointer
        {
            return self.word(self.pointer(place, part)?.length()?);
        }
        match self.reading(piece)?.length {
            Length::Fixed(bytes) => Some(bytes.into()),
            Length::Argument(place, size) => {
                let count = *self.words.get(usize::from(place))? & u64::from(u32::MAX);
                Some(count * u64::from(size))
            }
            Length::Returned(size) => {
                let returned = u64::try_from(self.returned?.cast_signed()).unwrap_or(0);
                Some(returned.saturating_mul(size.into()))
            }
            Length::Behind(_) | Length::Request(_) | Length::Lock(_) => None,
        }
    }

    /// The kind of the argument at a place, where the call is known.
    fn kind(&self, place: usize) -> Option<Option<ArgumentKind>> {
        let parameter = self.signature?.parameters.get(place);
        Some(parameter.and_then(|it| it.kind))
    }

    /// Where the pointer to a part of an argument's memory lies.
    fn pointer(&self, place: usize, part: usize) -> Option<Word> {
        let shape = match self.kind(self.argument(place)) {
            Some(Some(ArgumentKind::Pointed(pointed))) => pointed.shape,
            _ => return None,
        };
        let behind = part.checked_sub(1)?;
        let (table, width, word, has_length) = match shape {
            Shape::Strings(width) => (0, width, behind, false),
            Shape::Vectors(width) => (0, width, behind.checked_mul(2)?, true),
            Shape::Message(width) | Shape::Messages(width) => match part.checked_sub(CONTROL + 1) {
                Some(buffer) => (MESSAGE_VECTOR, width, buffer.checked_mul(2)?, true),
                None => (0, width, behind.checked_mul(2)?, false),
            },
            _ => return None,
        };
        Some(Word {
            table: Pointer::Argument { place, part: table },
            width,
            word,
            has_length,
        })
    }

    fn word(&self, word: Word) -> Option<u64> {
        let mut pieces = self.fields.pieces.iter();
        let table = pieces.find(|piece| piece.pointer == word.table && !piece.is_text)?;
        match self.value(table)? {
            Value::Text(bytes) => word.width.read(bytes, word.word.checked_mul(word.width.bytes())?),
            _ => None,
        }
    }
}

/// A word in the memory that another field has.
#[derive(Debug)]
struct Word {
    table: Pointer,
    width: Width,
    word: usize,
    /// Whether the word behind it is the length of what it points to.
    has_length: bool,
}

impl Word {
    /// The word with the length of what this one points to.
    fn length(self) -> Option<Self> {
        let word = self.word.checked_add(1).filter(|_| self.has_length)?;
        Some(Self { word, ..self })
    }
}

/// The part of a message that is its vector of buffers.
const MESSAGE_VECTOR: usize = 2;
