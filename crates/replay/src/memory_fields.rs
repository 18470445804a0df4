//! Fields of records that hold memory, and the addresses where it lay: `text0` and `mem0` where the argument 0 points, `mem1_2` where the second pointer in
//! `mem1` does ([`kestrel_trace::calls`]), and texts that are called as the argument of a call that they were read from.

use crate::call::{ARGUMENTS, CallPlaces, Side, numbered};
use crate::recorded::{RecordedMemory, is_kernel};
use kestrel_trace::calls::{Abi, Parameter, REGISTER, Signature, Signatures};
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::{Field, FieldPlace, FieldType};
use kestrel_trace::record::Record;
use kestrel_trace::syscall::Kind;
use kestrel_trace::syscall::shape::{CONTROL, Shape, Width};
use kestrel_trace::value::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// A field with memory, by its place among the class's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    field: usize,
    /// Whether the memory ends with a NUL.
    is_text: bool,
    of: Of,
}

/// The pointer to a field's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// The argument at a place (part 0), or a pointer in what that points to.
    Place { place: usize, part: usize },
    /// The argument of this name.
    Name(String),
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
}

/// The arguments that threads entered their calls with.
#[derive(Debug, Default)]
pub(crate) struct Entries(HashMap<u32, Entry, foldhash::fast::RandomState>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    abi: Abi,
    number: u64,
    words: [u64; ARGUMENTS],
}

/// Threads that are known at once: with more, all are forgotten.
const MOST_THREADS: usize = 1 << 16;

fn is_text(ty: &FieldType) -> Option<bool> {
    match ty {
        FieldType::String { .. } => Some(true),
        FieldType::Bytes { .. } => Some(false),
        _ => None,
    }
}

/// The offset of a word of 8 bytes, or of a shorter number that is its begin.
fn offset(field: &Field) -> Option<usize> {
    match (field.place, &field.ty) {
        (FieldPlace::Fixed { offset }, FieldType::Pointer { .. } | FieldType::Integer { size: 8, .. }) => {
            Some(offset as usize)
        }
        _ => None,
    }
}

impl MemoryFields {
    /// The fields of an event class; none where it has none, or their addresses are not known.
    pub(crate) fn of(event: &EventClass) -> Option<Self> {
        let fields = event.layout.fields();
        let call = CallPlaces::of(event);
        let own = event.name.strip_prefix(Side::Entry.prefix());
        let signature = own.map(|call| Arc::new(Signature::of_event(call, event)));
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
            Arguments::Call(call) if call.side() == Side::Return => place < ARGUMENTS,
            Arguments::Call(call) => place < call.words(),
            Arguments::Fields(all) => all.get(place).copied().flatten().is_some(),
        };
        let pieces = fields.iter().enumerate().filter_map(|(index, field)| {
            let is_text = is_text(&field.ty)?;
            let of = match numbered(&field.name) {
                Some((place, part)) => Some(Of::Place { place, part }).filter(|_| has(place)),
                // Which argument has the name is known of each record's call.
                None => call.as_ref().map(|_| Of::Name(field.name.clone())),
            };
            Some(Piece {
                field: index,
                is_text,
                of: of?,
            })
        });
        let pieces: Vec<Piece> = pieces.collect();
        (!pieces.is_empty()).then_some(Self {
            pieces,
            arguments,
            signature,
        })
    }

    /// Whether the memory is that of processes: what calls are given is.
    pub(crate) fn is_of_calls(&self) -> bool {
        self.signature.is_some() || matches!(self.arguments, Arguments::Call(_))
    }

    /// Keeps the memory that a record holds.
    pub(crate) fn remember(
        &self,
        record: &Record<'_>,
        signatures: &Signatures,
        entries: &Entries,
        memory: &mut RecordedMemory,
        faults: &mut Vec<u64>,
    ) {
        let (signature, words) = match &self.arguments {
            Arguments::Call(call) => {
                let Some(number) = call.number(record) else { return };
                let words = match call.side() {
                    Side::Entry => words(|place| call.word(record, place)),
                    Side::Return => match entries.of(record.tid, call.abi(), number) {
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
        let is_return = matches!(&self.arguments, Arguments::Call(call) if call.side() == Side::Return);
        let known = Known {
            fields: self,
            record,
            signature: signature.filter(|it| !it.parameters.is_empty()),
            words,
        };
        for piece in &self.pieces {
            let Some(address) = known.address(piece).filter(|address| *address != 0) else {
                continue;
            };
            // A text that is not there at the return may have been at the entry.
            let is_text = !is_return && known.is_text(piece);
            match known.value(piece) {
                Some(Value::Text(text)) if !text.is_empty() || is_text => {
                    memory.write(record.pid, address, text);
                    if piece.is_text {
                        memory.write(record.pid, address.saturating_add(text.len() as u64), &[0]);
                    }
                }
                Some(Value::CutText(text)) => memory.write(record.pid, address, text),
                Some(Value::Fault) if is_text => {
                    memory.forget(record.pid, address);
                    faults.push(address);
                }
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
        if self.0.len() >= MOST_THREADS && !self.0.contains_key(&record.tid) {
            self.0.clear();
        }
        let words = words(|place| call.word(record, place));
        let entry = Entry {
            abi: call.abi(),
            number,
            words,
        };
        self.0.insert(record.tid, entry);
    }

    fn of(&self, tid: u32, abi: Abi, number: u64) -> Option<[u64; ARGUMENTS]> {
        let entry = self.0.get(&tid)?;
        (entry.abi == abi && entry.number == number).then_some(entry.words)
    }
}

/// A record with what is known of its arguments.
struct Known<'r> {
    fields: &'r MemoryFields,
    record: &'r Record<'r>,
    signature: Option<&'r Signature>,
    words: [u64; ARGUMENTS],
}

impl<'r> Known<'r> {
    fn value(&self, piece: &Piece) -> Option<Value<'r>> {
        let field = self.record.event.layout.fields().get(piece.field)?;
        Some(self.record.value(field))
    }

    /// The address where a piece of memory lay.
    fn address(&self, piece: &Piece) -> Option<u64> {
        let address = match &piece.of {
            Of::Name(name) => {
                let mut parameters = self.signature?.parameters.iter();
                let place = parameters.position(|it| it.name == *name)?;
                *self.words.get(place)?
            }
            &Of::Place { place, part } => {
                let at = place + self.signature.map_or(0, Signature::before_program);
                let kind = self.kind(at);
                match part {
                    0 => *self.words.get(at)?,
                    _ => self.pointer(kind.flatten(), place, part)?,
                }
            }
        };
        let is_theirs = !is_kernel(address) || !self.fields.is_of_calls();
        is_theirs.then_some(address)
    }

    /// Whether a text was to be read there: records have room for texts that only some of their calls have.
    fn is_text(&self, piece: &Piece) -> bool {
        let kind = match piece.of {
            Of::Place { place, part: 0 } => {
                self.kind(place + self.signature.map_or(0, Signature::before_program))
            }
            _ => None,
        };
        piece.is_text && kind.is_none_or(|kind| kind == Some(Kind::Text))
    }

    /// The kind of the argument at a place, where the call is known.
    fn kind(&self, place: usize) -> Option<Option<Kind>> {
        let parameter = self.signature?.parameters.get(place);
        Some(parameter.and_then(|it| it.kind))
    }

    /// A pointer in the memory that an argument points to.
    fn pointer(&self, kind: Option<Kind>, place: usize, part: usize) -> Option<u64> {
        let shape = match kind {
            Some(Kind::Pointed(pointed)) => pointed.shape,
            _ => return None,
        };
        let behind = part.checked_sub(1)?;
        let (table, width, word) = match shape {
            Shape::Texts(width) => (0, width, behind),
            Shape::Vectors(width) => (0, width, behind.checked_mul(2)?),
            Shape::Message(width) | Shape::Messages(width) => match part.checked_sub(CONTROL + 1) {
                Some(buffer) => (MESSAGE_VECTOR, width, buffer.checked_mul(2)?),
                None => (0, width, behind.checked_mul(2)?),
            },
            _ => return None,
        };
        self.word(place, table, width, word)
    }

    fn word(&self, place: usize, part: usize, width: Width, word: usize) -> Option<u64> {
        let mut pieces = self.fields.pieces.iter();
        let table = pieces.find(|piece| piece.of == Of::Place { place, part } && !piece.is_text)?;
        match self.value(table)? {
            Value::Text(bytes) => width.read(bytes, word.checked_mul(width.bytes())?),
            _ => None,
        }
    }
}

/// The part of a message that is its vector of buffers.
const MESSAGE_VECTOR: usize = 2;
