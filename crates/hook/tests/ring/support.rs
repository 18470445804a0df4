//! A ring in the interpreter's memory, small programs that record, and the reader over the same memory.

use kestrel_bpf::code::{Code, MapRef};
use kestrel_bpf::interp::{self, Machine};
use kestrel_compiler::check::tree::Destination;
use kestrel_compiler::codegen;
use kestrel_compiler::ir::{Builder, Operand, Width};
use kestrel_compiler::sink::{Sink, Size};
use kestrel_hook::buffer::bell::Bell;
use kestrel_hook::buffer::cursor::{Begin, Policy, Unread, View};
use kestrel_hook::buffer::layout::{Geometry, Mode};
use kestrel_hook::buffer::memory::Memory;
use kestrel_hook::buffer::reader::{Ring, RingSpec};
use kestrel_hook::buffer::writer::{Outlined, RingSink, map_name};
use kestrel_trace::ctf::packet::{Continuity, Packet, State};
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::info::Uuid;
use kestrel_trace::layout::{FieldType, Layout};
use kestrel_trace::packet::{CAPACITY, PAGE};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::rc::Rc;

/// The session's clock when the ring is made.
pub const BEGIN: u64 = 1_000_000_000;
/// Event numbers: one more than the highest.
pub const EVENTS: u32 = 8;
/// The event number of records of variable size.
pub const VARIABLE: u16 = 7;
/// Another one.
pub const OTHER_VARIABLE: u16 = 6;

/// Size and form of the records that a program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Records of this number of bytes.
    Constant(u32),
    /// As many as the second word of the context says, at most 2040.
    Variable,
}

/// The writers' work between two accesses of the reader.
type Meanwhile = Box<dyn FnMut(&mut Machine)>;

/// The memory of a machine that is lent to the reader while it reads.
#[derive(Clone)]
pub struct Window {
    machine: Rc<RefCell<Machine>>,
    values: Vec<u64>,
    region: usize,
    /// Before so many more accesses, and what happens then.
    race: Rc<RefCell<Option<(usize, Meanwhile)>>>,
}

impl Window {
    /// Another CPU may do something before each access.
    fn access(&self) {
        let mut race = self.race.borrow_mut();
        match race.as_mut() {
            Some((0, writers)) => {
                writers(&mut self.machine.borrow_mut());
                *race = None;
            }
            Some((left, _)) => *left -= 1,
            None => {}
        }
    }

    fn address(&self, at: usize) -> u64 {
        self.values[at / self.region] + (at % self.region) as u64
    }
}

impl Memory for Window {
    fn load(&self, at: usize) -> u64 {
        self.access();
        let bytes = self.machine.borrow().read(self.address(at), 8).unwrap();
        u64::from_le_bytes(bytes.try_into().unwrap())
    }

    fn store(&self, at: usize, value: u64) {
        self.access();
        let address = self.address(at);
        let mut machine = self.machine.borrow_mut();
        machine.write(address, &value.to_le_bytes()).unwrap();
    }

    fn copy_out(&self, at: usize, to: &mut [u8]) -> kestrel_catalog::Result<()> {
        self.access();
        to.copy_from_slice(&self.machine.borrow().read(self.address(at), to.len()).unwrap());
        Ok(())
    }

    fn copy_in(&self, at: usize, from: &[u8]) -> kestrel_catalog::Result<()> {
        let address = self.address(at);
        self.machine.borrow_mut().write(address, from).unwrap();
        Ok(())
    }
}

/// The reader of a ring in a machine.
pub struct Reader {
    lent: Rc<RefCell<Machine>>,
    race: Rc<RefCell<Option<(usize, Meanwhile)>>>,
    window: Window,
    ring: Ring<Window>,
}

impl Reader {
    /// The reader of a ring in the values of an array map, which it formats.
    pub fn over(machine: &mut Machine, map: MapRef, geometry: Geometry, cpus: u32) -> Self {
        let values = (0..cpus)
            .map(|cpu| machine.value_address(map, &cpu.to_le_bytes()).unwrap())
            .collect();
        let lent = Rc::new(RefCell::new(std::mem::take(machine)));
        let window = Window {
            machine: lent.clone(),
            values,
            region: geometry.region() as usize,
            race: Rc::default(),
        };
        let race = window.race.clone();
        let cpus: Vec<u32> = (0..cpus).collect();
        let spec = RingSpec {
            number: 3,
            geometry,
            uuid: Uuid([7; 16]),
            cpus: &cpus,
            now: BEGIN,
        };
        let ring = Ring::format(window.clone(), &spec).unwrap();
        std::mem::swap(machine, &mut lent.borrow_mut());
        Self {
            lent,
            race,
            window,
            ring,
        }
    }

    /// Another reader takes its place.
    pub fn replace(&mut self, machine: &mut Machine) {
        let (window, geometry) = (self.window.clone(), self.ring.geometry());
        let cpus: Vec<u32> = self.ring.cpus().collect();
        std::mem::swap(machine, &mut self.lent.borrow_mut());
        self.ring = Ring::open(window, geometry, &cpus);
        std::mem::swap(machine, &mut self.lent.borrow_mut());
    }

    /// Reads while writers do something just before the `at`th access; gives whether there were so many.
    pub fn racing<R>(
        &mut self,
        machine: &mut Machine,
        at: usize,
        writers: Meanwhile,
        read: impl FnOnce(&Ring<Window>) -> R,
    ) -> (bool, R) {
        *self.race.borrow_mut() = Some((at, writers));
        let result = self.with(machine, read);
        (self.race.borrow_mut().take().is_none(), result)
    }

    /// Lends the machine to the reader.
    pub fn with<R>(&mut self, machine: &mut Machine, read: impl FnOnce(&Ring<Window>) -> R) -> R {
        std::mem::swap(machine, &mut self.lent.borrow_mut());
        let result = read(&self.ring);
        std::mem::swap(machine, &mut self.lent.borrow_mut());
        result
    }
}

/// A machine with one ring and its reader.
pub struct Bench {
    pub machine: Machine,
    pub reader: Reader,
    pub geometry: Geometry,
    pub table: EventTable,
}

/// A program that records.
#[derive(Clone, Debug)]
pub struct Recorder {
    pub number: u16,
    pub shape: Shape,
    pub code: Code,
}

impl Recorder {
    /// A program that writes records of event `number`; its context is a payload and, where the size varies, the size.
    pub fn new(geometry: Geometry, number: u16, shape: Shape) -> Self {
        Self::numbered(geometry, number, shape, false)
    }

    /// The same; `cookie`: the number is known at run time only (the second or third word of the context).
    pub fn numbered(geometry: Geometry, number: u16, shape: Shape, cookie: bool) -> Self {
        Self::make((geometry, Bell::Silent), number, shape, cookie, true)
    }

    /// The same of a program that another task may interrupt, too.
    pub fn preemptible(geometry: Geometry, number: u16, shape: Shape) -> Self {
        Self::make((geometry, Bell::Silent), number, shape, false, false)
    }

    /// A program that wakes a reader.
    pub fn ringing(geometry: Geometry, bell: Bell, number: u16, shape: Shape) -> Self {
        Self::make((geometry, bell), number, shape, false, true)
    }

    fn make(
        (geometry, bell): (Geometry, Bell),
        number: u16,
        shape: Shape,
        cookie: bool,
        alone: bool,
    ) -> Self {
        let sink = RingSink {
            map: map_name("test"),
            geometry,
            reentrant: false,
            bell,
            // All forms are to behave alike: each test has them all in one ring.
            outlined: match shape {
                Shape::Constant(size) if size % 16 == 0 => Outlined::All,
                Shape::Constant(_) => Outlined::None,
                Shape::Variable => Outlined::SlowPath,
            },
            brief: number.is_multiple_of(2),
        };
        let mut b = Builder::new();
        let refused = b.block();
        let context = b.context();
        let payload = b.load(Width::B8, context, 0);
        let size = match shape {
            Shape::Constant(size) => Size::Constant(size),
            Shape::Variable => {
                let wanted = b.load(Width::B8, context, 8);
                let value = b.and(wanted, 0x7f8);
                Size::Variable { value, max: 2040 }
            }
        };
        let id = if cookie {
            Operand::Reg(b.load(Width::B8, context, 16))
        } else {
            Operand::Imm(number.into())
        };
        let room = sink
            .reserve(&mut b, id, size, &Destination::Current, refused)
            .unwrap();
        b.store(Width::B8, room.record, 8, payload);
        match size {
            Size::Constant(size) if size > 16 => {
                b.store(Width::B8, room.record, size as i16 - 8, payload);
            }
            Size::Constant(_) => {}
            Size::Variable { value, .. } => {
                let end = b.add(room.record, value);
                b.store(Width::B8, end, -8, payload);
                let count = b.sub(value, 18);
                b.store(Width::B2, room.record, 16, count);
            }
        }
        sink.commit(&mut b, room, alone);
        b.exit(1);
        let code = codegen::generate(&b.finish()).unwrap().code;
        Self { number, shape, code }
    }

    /// The context for one run.
    pub fn context(&self, payload: u64, size: u32) -> Vec<u8> {
        [payload, size.into(), self.number.into()]
            .iter()
            .flat_map(|word: &u64| word.to_le_bytes())
            .collect()
    }

    /// Records once; whether it was kept.
    pub fn run(&self, machine: &mut Machine, payload: u64, size: u32) -> bool {
        self.run_hooked(machine, payload, size, &mut |_, _| {})
    }

    /// The same, with something between the instructions.
    pub fn run_hooked(
        &self,
        machine: &mut Machine,
        payload: u64,
        size: u32,
        hook: &mut dyn FnMut(&mut Machine, usize),
    ) -> bool {
        machine
            .run_hooked(&self.code, &self.context(payload, size), hook)
            .unwrap_or_else(|fault| panic!("{fault}\n{}", kestrel_bpf::text::listing(&self.code, &["ring"])))
            == 1
    }
}

/// The classes of constant records by number and size, and that of variable ones.
pub fn table(constant: &[(u16, u32)]) -> EventTable {
    let class = |id, fields: Vec<(String, FieldType)>| EventClass {
        id: EventId(id),
        name: format!("test:e{id}"),
        kind: "test".to_owned(),
        layout: Layout::new(fields),
        action: None,
        print: None,
    };
    let text = |size: u32| (size > 16).then(|| ("pad".to_owned(), FieldType::CharArray { size: size - 16 }));
    let mut classes: Vec<EventClass> = constant
        .iter()
        .map(|(id, size)| class(*id, text(*size).into_iter().collect()))
        .collect();
    let free = |id: &u16| constant.iter().all(|(other, _)| other != id);
    for id in [VARIABLE, OTHER_VARIABLE].into_iter().filter(free) {
        classes.push(class(id, vec![("s".to_owned(), FieldType::String { max: 2022 })]));
    }
    EventTable::new(classes)
}

impl Bench {
    /// A ring of so many pages on one CPU.
    pub fn new(mode: Mode, pages: u32, constant: &[(u16, u32)]) -> Self {
        Self::on_cpus(mode, pages, constant, 1)
    }

    /// Rings on several CPUs.
    pub fn on_cpus(mode: Mode, pages: u32, constant: &[(u16, u32)], cpus: u32) -> Self {
        let geometry = Geometry::new(mode, u64::from(pages * PAGE), EVENTS);
        assert_eq!(geometry.pages, pages);
        let mut machine = Machine::new();
        machine.environment.clock = BEGIN;
        let map = machine.add_map(interp::MapKind::Array { entries: cpus }, 4, geometry.region());
        assert_eq!(map, MapRef(0));
        let reader = Reader::over(&mut machine, map, geometry, cpus);
        Self {
            machine,
            reader,
            geometry,
            table: table(constant),
        }
    }

    /// A program for this ring.
    pub fn recorder(&self, number: u16, shape: Shape) -> Recorder {
        Recorder::new(self.geometry, number, shape)
    }

    /// Another reader takes the place of this one.
    pub fn replace_reader(&mut self) {
        self.reader.replace(&mut self.machine);
    }

    /// Reads with the machine lent to the reader.
    pub fn read<R>(&mut self, read: impl FnOnce(&Ring<Window>) -> R) -> R {
        self.reader.with(&mut self.machine, read)
    }

    /// All that is left in the ring of a CPU.
    pub fn rest_of(&mut self, cpu: u32) -> (Vec<u8>, Unread) {
        let mut pages = Vec::new();
        let now = self.machine.environment.clock;
        let table = self.table.clone();
        let rest = self.read(|ring| rest(ring, cpu, now, &table, &mut pages));
        (pages, rest)
    }

    /// All that is left, every record whole.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        assert!(self.read(|ring| ring.is_quiet(0)), "a reservation is open");
        let (pages, rest) = self.rest_of(0);
        assert_eq!((rest.unfinished, rest.torn), (0, 0));
        pages
    }

    /// Recorded and lost, by event number.
    pub fn counts(&mut self) -> BTreeMap<u16, (u64, u64)> {
        let counts = |ring: &Ring<Window>| {
            let one = |n| {
                let counts = ring.counts(0, n);
                (n, (counts.recorded, counts.lost))
            };
            (0..EVENTS as u16).map(one).collect()
        };
        self.read(counts)
    }

    pub fn lost(&mut self) -> u64 {
        self.read(|ring| ring.lost(0))
    }
}

/// Appends all that is left in a ring without writers.
pub fn rest(ring: &Ring<Window>, cpu: u32, now: u64, table: &EventTable, pages: &mut Vec<u8>) -> Unread {
    let mut cursor = ring.cursor(cpu, Begin::Unfreed);
    ring.collect(&mut cursor, Policy::Rest(table), now, pages)
        .unwrap()
}

/// Takes the whole pages of the first CPU, as `record` does. Gives their number.
pub fn drain(ring: &Ring<Window>, pages: &mut Vec<u8>) -> usize {
    let (mut cursor, begin) = (ring.cursor(0, Begin::Unfreed), pages.len());
    let mut take = |view: View<'_>| {
        if !view.is_part {
            pages.extend_from_slice(view.bytes);
        }
        Ok(ControlFlow::Continue(()))
    };
    ring.follow(&mut cursor, Policy::Take, 0, &mut take).unwrap();
    (pages.len() - begin) / PAGE as usize
}

/// One record read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Got {
    pub number: u16,
    pub payload: u64,
    pub time: u64,
    pub size: u32,
}

/// Contents of pages, and the gaps between them.
#[derive(Debug, Default)]
pub struct Contents {
    pub records: Vec<Got>,
    /// Of the first page.
    pub sequence: Option<u64>,
    pub missing_packets: u64,
    pub lost: u64,
}

/// Reads pages of one CPU and checks all that must be true of any: whole, in order, times never backwards, contents intact.
#[track_caller]
pub fn contents(table: &EventTable, pages: &[u8]) -> Contents {
    let mut all = Contents::default();
    let mut continuity = Continuity::default();
    let (mut time, mut discarded) = (0, 0);
    for page in pages.chunks(PAGE as usize) {
        let packet = Packet::parse(page).unwrap();
        assert_eq!(packet.state, State::Whole);
        assert_eq!((packet.uuid, packet.buffer), (Uuid([7; 16]), 3));
        assert!(packet.content().len() <= CAPACITY as usize);
        all.sequence.get_or_insert(packet.sequence);
        let gap = continuity.follow(&packet);
        all.missing_packets += gap.packets;
        all.lost += gap.lost;
        assert!(
            packet.events_discarded >= discarded,
            "discarded counts never fall"
        );
        discarded = packet.events_discarded;
        assert!(
            packet.begin_ns >= time,
            "page {} begins at {}, the one before ends at {time}",
            packet.sequence,
            packet.begin_ns
        );
        time = packet.begin_ns;
        let mut count = 0;
        for record in packet.records(table) {
            let record = record.unwrap();
            assert!(
                record.time_ns >= time && record.time_ns < 1 << 47,
                "time runs backwards"
            );
            time = record.time_ns;
            let word = |at: usize| u64::from_le_bytes(record.bytes[at..at + 8].try_into().unwrap());
            let payload = word(8);
            if record.bytes.len() > 16 && ![VARIABLE, OTHER_VARIABLE].contains(&record.event.id.0)
                || record.bytes.len() > 24
            {
                assert_eq!(word(record.bytes.len() - 8), payload, "a torn record");
            }
            count += 1;
            all.records.push(Got {
                number: record.event.id.0,
                payload,
                time,
                size: record.bytes.len() as u32,
            });
        }
        assert_eq!(count, packet.events, "events of page {}", packet.sequence);
        assert!(packet.end_ns >= time, "the page ends before its last record");
        time = packet.end_ns;
    }
    all
}

/// Attempts to write: numbers by payload, each payload once.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    numbers: HashMap<u64, u16>,
}

impl Attempts {
    /// Notes an attempt; gives its payload.
    pub fn next(&mut self, number: u16) -> u64 {
        let payload = 0x5eed_0000 + self.numbers.len() as u64;
        self.numbers.insert(payload, number);
        payload
    }

    /// Number of attempts of an event number.
    pub fn of(&self, number: u16) -> u64 {
        self.numbers.values().filter(|n| **n == number).count() as u64
    }

    /// Every record read was tried, and none came twice.
    #[track_caller]
    pub fn check(&self, records: &[Got]) {
        let mut left = self.numbers.clone();
        for record in records {
            assert_eq!(left.remove(&record.payload), Some(record.number), "{record:?}");
        }
    }
}

/// Checks a stream ring from beginning to end: recorded + lost == attempts, for each number.
#[track_caller]
pub fn check_stream(bench: &mut Bench, attempts: &Attempts, drained: &[u8]) -> Contents {
    let mut pages = drained.to_vec();
    pages.extend(bench.rest());
    let contents = contents(&bench.table, &pages);
    attempts.check(&contents.records);
    assert_eq!(contents.missing_packets, 0);
    let mut lost = 0;
    for (number, counts) in bench.counts() {
        let kept = contents.records.iter().filter(|r| r.number == number).count() as u64;
        assert_eq!(kept + counts.1, attempts.of(number), "event {number}");
        lost += counts.1;
    }
    assert_eq!(lost, bench.lost());
    assert_eq!(contents.lost, lost, "the packets say what was lost");
    contents
}

/// Checks an overwriting ring: its counters are exact, and what is left are its newest records.
#[track_caller]
pub fn check_overwrite(bench: &mut Bench, attempts: &Attempts) -> Contents {
    let pages = bench.rest();
    let contents = contents(&bench.table, &pages);
    attempts.check(&contents.records);
    assert_eq!(contents.missing_packets, 0);
    for (number, counts) in bench.counts() {
        assert_eq!(counts.0 + counts.1, attempts.of(number), "event {number}");
        let kept = contents.records.iter().filter(|r| r.number == number).count() as u64;
        assert!(kept <= counts.0);
    }
    contents
}
