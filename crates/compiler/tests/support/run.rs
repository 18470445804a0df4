//! Compiles a checked probe for the test sink, runs it in the interpreter, and reads back what it recorded.

use super::bump::{self, Bump};
use super::steered::{self, Steered};
use kestrel_bpf::code::MapRef;
use kestrel_bpf::interp::{self, Machine};
use kestrel_compiler::check::tree::CheckedProbe;
use kestrel_compiler::context::{Context, EventNumber};
use kestrel_compiler::failures;
use kestrel_compiler::ir::{MapKind, MapUse};
use kestrel_compiler::program::Program;
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::FieldType;
use kestrel_trace::stack_pieces::StackPieces;
use kestrel_trace::value::{StackCopy, Value};

/// A machine that has the program's maps.
pub struct Bench {
    pub program: Program,
    pub machine: Machine,
    bump: MapRef,
    /// The words of [`Steered`], if the program has them.
    pub steer: Option<MapRef>,
    /// Numbers of the events of a set, by selector.
    pub numbers: Option<MapRef>,
    /// Failures of helpers, where the sink asks for them.
    pub failed: Option<MapRef>,
    number: EventNumber,
    sent: u64,
}

/// Number that tests give to the selected event of a set.
pub const SELECTED: u16 = 77;

/// One field's value, for comparing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Number(i128),
    String(String),
    Fault,
    Stack(Vec<u64>),
    Bytes(Vec<u8>),
}

/// A record as the trace crate decodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub number: u16,
    /// The buffer to which [`Steered`] sent it.
    pub to: u16,
    pub pid: u32,
    pub tid: u32,
    pub fields: Vec<(String, Seen)>,
}

impl Bench {
    pub fn new(probe: &CheckedProbe, context: &Context) -> Self {
        Self::with_sink(probe, context, Bump::default())
    }

    pub fn with_sink(probe: &CheckedProbe, context: &Context, sink: Bump) -> Self {
        Self::of(
            kestrel_compiler::compile(probe, context, &sink).expect("compiles"),
            context,
        )
    }

    /// A hook of several handlers.
    pub fn steered(handlers: &[&CheckedProbe], context: &Context, sink: &Steered) -> Self {
        Self::of(
            kestrel_compiler::compile_hook(handlers, context, sink).expect("compiles"),
            context,
        )
    }

    fn of(program: Program, context: &Context) -> Self {
        let mut machine = Machine::new();
        let (mut bump, mut numbers, mut steer, mut failed) = (MapRef(u32::MAX), None, None, None);
        for map in &program.maps {
            match map {
                MapUse::External(name) => {
                    if context.selector.as_ref().is_some_and(|s| s.map == *name) {
                        numbers = Some(machine.add_map(interp::MapKind::Array { entries: 16 }, 4, 2));
                        continue;
                    }
                    if name == steered::MAP {
                        let kind = interp::MapKind::Array { entries: 1 };
                        steer = Some(machine.add_map(kind, 4, steered::VALUE));
                        continue;
                    }
                    if name == failures::MAP {
                        let spec = failures::spec();
                        // Few keys, so that there is no room for all.
                        let map = machine.add_map(interp::MapKind::Hash { entries: 3 }, spec.key, spec.value);
                        assert_eq!(machine.set_value(map, &failures::OTHERS, 0, &[0; 16]), 0);
                        failed = Some(map);
                        continue;
                    }
                    assert_eq!(name, bump::MAP);
                    bump = machine.add_map(interp::MapKind::Array { entries: 1 }, 4, bump::VALUE);
                }
                MapUse::Private(spec) => {
                    assert_eq!(spec.kind, MapKind::PerCpuArray);
                    let kind = interp::MapKind::PerCpuArray {
                        entries: spec.entries,
                    };
                    machine.add_map(kind, spec.key, spec.value);
                }
            }
        }
        Self {
            program,
            machine,
            bump,
            steer,
            numbers,
            failed,
            number: context.number,
            sent: 0,
        }
    }

    /// A word of [`Steered`].
    pub fn word(&self, index: u32) -> u64 {
        let Some(map) = self.steer else {
            panic!("a program without words");
        };
        let at = index as usize * 8;
        // The machine makes values when they are first touched.
        let value = self.machine.value(map, &[0; 4], 0);
        value.map_or(0, |v| {
            u64::from_le_bytes(v[at..at + 8].try_into().expect("8 bytes"))
        })
    }

    /// Sets a word of [`Steered`], as user space would.
    #[track_caller]
    pub fn set_word(&mut self, index: u32, to: u64) -> &mut Self {
        let Some(map) = self.steer else {
            panic!("a program without words");
        };
        let at = index as usize * 8;
        let mut value = self
            .machine
            .value(map, &[0; 4], 0)
            .unwrap_or_else(|| vec![0; steered::VALUE as usize]);
        value[at..at + 8].copy_from_slice(&to.to_le_bytes());
        assert_eq!(self.machine.set_value(map, &[0; 4], 0, &value), 0);
        self
    }

    /// Runs the program on a context of these words.
    #[track_caller]
    pub fn run(&mut self, words: &[u64]) -> &mut Self {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.run_bytes(&bytes)
    }

    /// Runs the program on a context of these bytes.
    #[track_caller]
    pub fn run_bytes(&mut self, context: &[u8]) -> &mut Self {
        if let Err(fault) = self.machine.run(&self.program.code, context) {
            panic!("{fault}\n{}\n{}", self.program.function, self.listing());
        }
        self
    }

    pub fn listing(&self) -> String {
        let names = ["map0", "map1", "map2"];
        kestrel_bpf::text::listing(&self.program.code, &names)
    }

    /// Records made since the last call, decoded.
    #[track_caller]
    pub fn rows(&mut self) -> Vec<Row> {
        let first = match self.number {
            EventNumber::Constant(number) => number,
            EventNumber::Cookie { first, stride } => first + self.machine.environment.cookie as u16 * stride,
            EventNumber::Selected { first, stride } => first + (SELECTED - 1) * stride,
        };
        let classes = self
            .program
            .layouts
            .iter()
            .zip(first..)
            .map(|(layout, id)| EventClass {
                id: EventId(id),
                name: "test".to_owned(),
                kind: "test".to_owned(),
                layout: layout.clone(),
                action: None,
                print: None,
            });
        let table = EventTable::new(classes);
        // The machine makes values when they are first touched.
        let Some(value) = self.machine.value(self.bump, &[0; 4], 0) else {
            return Vec::new();
        };
        let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("8 bytes"));
        let (used, committed) = (word(0), word(8));
        let mut rows = Vec::new();
        let mut at = bump::DATA as usize + self.sent as usize;
        let end = bump::DATA as usize + used as usize;
        let mut pieces = StackPieces::default();
        while at < end {
            let record = table.record(&value[at..end], 0, 0).expect("a whole record");
            if record.is_stack_piece() {
                pieces.take(&record);
                at += record.bytes.len();
                continue;
            }
            let length = record.bytes.len();
            let record = pieces.join(record).expect("all pieces");
            rows.push(Row {
                number: record.event.id.0,
                to: u16::from_le_bytes([value[at + 2], value[at + 3]]),
                pid: record.pid,
                tid: record.tid,
                fields: record
                    .fields()
                    .map(|(field, value)| {
                        let copy = record
                            .stack_copy()
                            .filter(|_| matches!(field.ty, FieldType::StackCopy { .. }));
                        (field.name.clone(), copy.map_or_else(|| seen(value), copied))
                    })
                    .collect(),
            });
            at += length.next_multiple_of(8);
        }
        assert_eq!(at, end, "records fill what was reserved");
        self.sent = used;
        assert!(committed >= rows.len() as u64, "every record was committed");
        rows
    }

    /// The only record since the last call.
    #[track_caller]
    pub fn row(&mut self) -> Row {
        let mut rows = self.rows();
        assert_eq!(rows.len(), 1, "one record");
        rows.remove(0)
    }
}

impl Row {
    #[track_caller]
    pub fn number(&self, name: &str) -> i128 {
        match self.get(name) {
            Seen::Number(n) => *n,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[track_caller]
    pub fn text(&self, name: &str) -> &str {
        match self.get(name) {
            Seen::String(text) => text,
            other => panic!("{name} is {other:?}"),
        }
    }

    #[track_caller]
    pub fn get(&self, name: &str) -> &Seen {
        let found = self.fields.iter().find(|(n, _)| n == name);
        &found.unwrap_or_else(|| panic!("no field {name}")).1
    }
}

/// Registers and words of a copied stack.
fn copied(copy: StackCopy<'_>) -> Seen {
    let (words, _) = copy.stack.as_chunks::<8>();
    let (rest, _) = copy.rest.as_chunks::<8>();
    let words = words.iter().chain(rest).map(|word| u64::from_le_bytes(*word));
    Seen::Stack([copy.ip, copy.sp, copy.bp].into_iter().chain(words).collect())
}

fn seen(value: Value<'_>) -> Seen {
    match value {
        Value::Signed { value, .. } => Seen::Number(value.into()),
        Value::Unsigned { value, .. } => Seen::Number(value.into()),
        Value::Bool(b) => Seen::Number(b.into()),
        Value::Pointer { address, .. } => Seen::Number(address.into()),
        Value::Text(text) => Seen::String(String::from_utf8_lossy(text).into_owned()),
        Value::Fault => Seen::Fault,
        Value::Stack(frames) => Seen::Stack(frames.iter().collect()),
        other => panic!("{other:?}"),
    }
}
