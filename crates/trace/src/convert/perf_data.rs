//! `perf.data` (tools/perf/Documentation/perf.data-file-format.txt): every event is a tracepoint, described in the file, and every record a sample of it; call
//! stacks are call chains, binaries of processes are mappings with build ids.

use super::conversion::{Conversion, ConversionFormat, RecordingContext};
use super::kernel_form::Form;
use super::names::Names;
use super::place::{NewFile, OutputPath};
use super::stacks::Chain;
use super::tracing_data;
use crate::error::Result;
use crate::event::EventClass;
use crate::info::TraceInfo;
use crate::record::Record;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::user_symbol::{Binary, Mapping};
use std::collections::HashMap;

pub(super) const FORMAT: ConversionFormat = ConversionFormat {
    name: "perf-data",
    about: "perf.data, for perf script, perf report, perf sched and what reads their files",
    file: "perf.data",
    begin: |recording, place| Ok(Box::new(PerfData::new(recording, place)?)),
};

/// Types of records (`enum perf_event_type`; from 64 on, those of perf itself).
pub(crate) mod kind {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const FORK: u32 = 7;
    pub(crate) const READ: u32 = 8;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const AUX: u32 = 11;
    pub(crate) const LOST_SAMPLES: u32 = 13;
    pub(crate) const SWITCH: u32 = 14;
    pub(crate) const SWITCH_CPU_WIDE: u32 = 15;
    pub(crate) const TEXT_POKE: u32 = 20;
    /// All records before are to be handled: none that follows is earlier.
    pub(crate) const FINISHED_ROUND: u32 = 68;

    /// Whether records of a type are known, read or not.
    pub(crate) fn is_known(kind: u32) -> bool {
        matches!(kind, 1..=21 | 64..=83)
    }
}

/// Words of a record's head about it.
pub(crate) mod about {
    /// The bits that say whose code it is about.
    pub(crate) const MODE: u16 = 7;
    pub(crate) const KERNEL: u16 = 1;
    pub(crate) const USER: u16 = 2;
    /// Of a mapping: it is no code. Of a name: it is that of a program that begins.
    pub(crate) const DATA: u16 = 1 << 13;
    pub(crate) const EXEC: u16 = 1 << 13;
    pub(crate) const BUILD_ID: u16 = 1 << 14;
}

/// Members of a sample, bit by bit (`enum perf_event_sample_format`).
pub(crate) mod sampled {
    pub(crate) const IP: u64 = 1;
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const REGS_USER: u64 = 1 << 12;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const WEIGHT: u64 = 1 << 14;
    pub(crate) const DATA_SRC: u64 = 1 << 15;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
    pub(crate) const TRANSACTION: u64 = 1 << 17;
    pub(crate) const REGS_INTR: u64 = 1 << 18;
    pub(crate) const PHYS_ADDR: u64 = 1 << 19;
    pub(crate) const AUX: u64 = 1 << 20;
    pub(crate) const CGROUP: u64 = 1 << 21;
    pub(crate) const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// Members of our samples.
const SAMPLED: u64 = sampled::IP
    | sampled::TID
    | sampled::TIME
    | sampled::CPU
    | sampled::PERIOD
    | sampled::RAW
    | sampled::IDENTIFIER;
/// Members that the samples of an event with stacks have besides.
const CHAINED: u64 = sampled::CALLCHAIN;
/// Records that are no samples end with what samples have of a thread, a time, a CPU and an event.
pub(crate) const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
/// `mmap`, `comm`, `task`, `sample_id_all`, `mmap2`, `use_clockid`, `build_id`.
const FLAGS: u64 = 1 << 8 | 1 << 9 | 1 << 13 | FLAG_SAMPLE_ID_ALL | 1 << 23 | 1 << 25 | 1 << 34;
/// `PERF_TYPE_TRACEPOINT`.
pub(crate) const TRACEPOINT: u32 = 2;
/// Which address space the frames behind it are of, in a call chain.
pub(crate) const CONTEXT: [u64; 2] = [-128i64 as u64, -512i64 as u64];
/// The first address of the kernel.
const KERNEL: u64 = 0xffff_8000_0000_0000;
/// What the begin of the kernel's code, whose name recordings keep, is a multiple of.
const KERNEL_ALIGN: u64 = 1 << 21;
/// Bytes of the file's head, of an event's attributes, and of these with the place of the event's number.
pub(crate) const HEAD: u64 = 104;
const ATTRIBUTES: u32 = 112;
const ENTRY: u64 = ATTRIBUTES as u64 + 16;
/// A record has a length of 16 bits.
const LONGEST: usize = (u16::MAX as usize) & !7;
/// Records between two words to readers that they need keep no more.
const ROUND: u64 = 4096;
/// `CLOCK_MONOTONIC`.
const CLOCK: u32 = 1;

/// Sections behind the data, by number (`enum` of `HEADER_…` in tools/perf/util/header.h).
pub(crate) mod section {
    pub(crate) const TRACING_DATA: u32 = 1;
    pub(crate) const HOSTNAME: u32 = 3;
    pub(crate) const OSRELEASE: u32 = 4;
    pub(crate) const VERSION: u32 = 5;
    pub(crate) const ARCH: u32 = 6;
    pub(crate) const NRCPUS: u32 = 7;
    pub(crate) const CMDLINE: u32 = 11;
    pub(crate) const EVENT_DESC: u32 = 12;
    pub(crate) const SAMPLE_TIME: u32 = 21;
    pub(crate) const CLOCKID: u32 = 23;
    pub(crate) const CLOCK_DATA: u32 = 29;
}

struct PerfData {
    file: NewFile,
    /// Where names of the kernel's functions are written: perf has no place for them in its file.
    kallsyms: OutputPath,
    info: TraceInfo,
    symbols: Symbols,
    tasks: Tasks,
    names: Names,
    events: HashMap<u16, Event, foldhash::fast::RandomState>,
    /// In the order of the trace.
    order: Vec<u16>,
    /// Mappings of processes' memory that are not written, the next one last.
    mappings: Vec<(u32, Mapping)>,
    /// Of the first and of the last record.
    times: Option<(u64, u64)>,
    cpus: u32,
    records: u64,
    /// A record in the making, and its raw part.
    bytes: Vec<u8>,
    raw: Vec<u8>,
}

struct Event {
    name: String,
    number: u64,
    form: Form,
    chain: Chain,
    attributes: Vec<u8>,
}

impl PerfData {
    fn new(recording: RecordingContext, place: OutputPath) -> Result<Self> {
        let mut mappings: Vec<(u32, Mapping)> = recording
            .symbols
            .user()
            .mappings()
            .map(|(pid, mapping)| (pid, *mapping))
            .collect();
        mappings.sort_by_key(|(_, mapping)| std::cmp::Reverse(mapping.from_ns));
        let mut order = Vec::new();
        let mut events = HashMap::default();
        for (class, number) in recording.info.events.iter().zip(1..) {
            order.push(class.id.0);
            events.insert(class.id.0, Event::new(class, number));
        }
        let mut it = Self {
            kallsyms: place.with(".kallsyms"),
            file: place.file()?,
            names: Names::new(&recording),
            info: recording.info,
            symbols: recording.symbols,
            tasks: recording.tasks,
            events,
            order,
            mappings,
            times: None,
            cpus: 0,
            records: 0,
            bytes: Vec::new(),
            raw: Vec::new(),
        };
        it.begin()?;
        Ok(it)
    }

    /// The head, numbers and attributes of events.
    fn begin(&mut self) -> Result<()> {
        let all = self.order.len() as u64;
        self.file.append(&[0; HEAD as usize])?;
        for number in 1..=all {
            self.file.append(&number.to_le_bytes())?;
        }
        for (id, place) in self.order.iter().zip(0..) {
            let event = &self.events[id];
            self.file.append(&event.attributes)?;
            self.file.append(&pair(HEAD + place * 8, 8))?;
        }
        self.kernel()?;
        for (tid, name) in self.names.begin() {
            self.comm((self.tasks.process(tid), tid), name.bytes(), (0, 0))?;
        }
        Ok(())
    }

    /// Says what a thread is called from a time on; on a CPU.
    fn comm(&mut self, thread: (u32, u32), name: &[u8], (time_ns, cpu): (u64, u32)) -> Result<()> {
        self.bytes.clear();
        words(&[thread.0, thread.1], &mut self.bytes);
        padded(name, &mut self.bytes);
        self.identify(thread, time_ns, cpu);
        self.put(kind::COMM, 0)
    }

    /// Says where the kernel's code lies: in the upper half. Without this perf names nothing of it; without the address of a symbol by which it finds out how
    /// far the kernel that it runs on was moved it warns of restricted maps.
    fn kernel(&mut self) -> Result<()> {
        let begin = self.symbols.code(|_| true).next().map(|code| code.start);
        let begin = begin
            .filter(|begin| begin.is_multiple_of(KERNEL_ALIGN))
            .unwrap_or(0);
        let found = self.symbols.resolve(begin).map(|found| found.name.to_owned());
        self.bytes.clear();
        words(&[u32::MAX, 0], &mut self.bytes);
        for word in [KERNEL, u64::MAX - KERNEL, begin] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        let name = found.as_deref().unwrap_or("_text");
        padded(format!("[kernel.kallsyms]{name}").as_bytes(), &mut self.bytes);
        self.identify((u32::MAX, 0), 0, 0);
        self.put(kind::MMAP, about::KERNEL)
    }

    /// Writes a record whose body is in `bytes`.
    fn put(&mut self, kind: u32, about: u16) -> Result<()> {
        let size = self.bytes.len() + 8;
        let mut head = [0; 8];
        head[..4].copy_from_slice(&kind.to_le_bytes());
        head[4..6].copy_from_slice(&about.to_le_bytes());
        head[6..].copy_from_slice(&(size.min(LONGEST) as u16).to_le_bytes());
        self.file.append(&head)?;
        self.file.append(&self.bytes)
    }

    /// Ends a record that is no sample with what samples have of a thread, a time, a CPU and an event.
    fn identify(&mut self, (pid, tid): (u32, u32), time_ns: u64, cpu: u32) {
        words(&[pid, tid], &mut self.bytes);
        self.bytes.extend_from_slice(&time_ns.to_le_bytes());
        words(&[cpu, 0], &mut self.bytes);
        self.bytes.extend_from_slice(&1u64.to_le_bytes());
    }

    /// Says what the record's thread is called, where that is new, and what was mapped until then.
    fn before(&mut self, record: &Record<'_>) -> Result<()> {
        self.names.learn_thread_names(record);
        if let Some(name) = self.names.new_of(record).cloned() {
            let thread = (record.pid, record.tid);
            self.comm(thread, name.bytes(), (record.time_ns, record.cpu))?;
        }
        while let Some((pid, mapping)) = self.mappings.pop_if(|(_, it)| it.from_ns <= record.time_ns) {
            let binary = self.symbols.user().binaries().get(mapping.binary as usize);
            let Some(binary) = binary.cloned() else { continue };
            self.mapping(pid, mapping, &binary)?;
        }
        Ok(())
    }

    fn mapping(&mut self, pid: u32, mapping: Mapping, binary: &Binary) -> Result<()> {
        let id = binary.build_id.as_deref().and_then(digits);
        self.bytes.clear();
        words(&[pid, pid], &mut self.bytes);
        for word in [mapping.start, mapping.end - mapping.start, mapping.offset] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        let mut file = [0; 24];
        if let Some(id) = &id {
            file[0] = id.len() as u8;
            file[4..4 + id.len()].copy_from_slice(id);
        }
        self.bytes.extend_from_slice(&file);
        // PROT_READ | PROT_EXEC, MAP_PRIVATE.
        words(&[5, 2], &mut self.bytes);
        padded(binary.path.as_bytes(), &mut self.bytes);
        self.identify((pid, pid), mapping.from_ns, 0);
        let about = about::USER | if id.is_some() { about::BUILD_ID } else { 0 };
        self.put(kind::MMAP2, about)
    }
}

impl Conversion for PerfData {
    fn learn_thread_names(&mut self, record: &Record<'_>) {
        self.names.learn_thread_names(record);
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.before(record)?;
        let Some(event) = self.events.get(&record.event.id.0) else {
            return Ok(());
        };
        let frames = event.chain.frames(record);
        let first = frames.iter().flatten().next();
        let ip = first.and_then(|frames| frames.iter().next()).unwrap_or(0);
        let about = match frames {
            [None, Some(_)] => about::USER,
            _ => about::KERNEL,
        };
        let out = &mut self.bytes;
        out.clear();
        out.extend_from_slice(&pair(event.number, ip));
        words(&[record.pid, record.tid], out);
        out.extend_from_slice(&record.time_ns.to_le_bytes());
        words(&[record.cpu, 0], out);
        out.extend_from_slice(&1u64.to_le_bytes());
        self.raw.clear();
        event.form.write(record, &self.symbols, &mut self.raw);
        // With its length it ends at a multiple of 8.
        self.raw.resize((self.raw.len() + 4).next_multiple_of(8) - 4, 0);
        if !event.chain.is_none() {
            // Frames that a record has no room for are the outermost.
            let mut room = (LONGEST - 8 - out.len() - 12 - self.raw.len()) / 8;
            let at = out.len();
            out.extend_from_slice(&[0; 8]);
            for (frames, context) in frames.iter().zip(CONTEXT) {
                if let Some(frames) = frames
                    && room > 1
                {
                    let chain = std::iter::once(context).chain(frames.iter()).take(room);
                    out.extend(chain.flat_map(u64::to_le_bytes));
                    room -= (frames.iter().count() + 1).min(room);
                }
            }
            let count = (out.len() - at) as u64 / 8 - 1;
            out[at..at + 8].copy_from_slice(&count.to_le_bytes());
        }
        words(&[self.raw.len() as u32], out);
        out.extend_from_slice(&self.raw);
        self.put(kind::SAMPLE, about)?;
        self.times = Some((
            self.times.map_or(record.time_ns, |(first, _)| first),
            record.time_ns,
        ));
        self.cpus = self.cpus.max(record.cpu.saturating_add(1));
        self.records += 1;
        if self.records.is_multiple_of(ROUND) {
            self.bytes.clear();
            self.put(kind::FINISHED_ROUND, 0)?;
        }
        Ok(())
    }

    fn lost(&mut self, cpu: u32, events: u64) -> Result<()> {
        let (_, time_ns) = self.times.unwrap_or_default();
        self.bytes.clear();
        for word in [1, events] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.identify((0, 0), time_ns, cpu);
        self.put(kind::LOST, 0)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let begin = HEAD + self.order.len() as u64 * (8 + ENTRY);
        let end = self.file.at();
        let sections = self.sections();
        let mut at = end + 16 * sections.len() as u64;
        let mut places = Vec::new();
        for (_, body) in &sections {
            places.extend_from_slice(&pair(at, body.len() as u64));
            at += body.len() as u64;
        }
        self.file.append(&places)?;
        for (_, body) in &sections {
            self.file.append(body)?;
        }
        let mut head = b"PERFILE2".to_vec();
        head.extend_from_slice(&pair(HEAD, ENTRY));
        let all = self.order.len() as u64;
        for (at, size) in [(HEAD + all * 8, all * ENTRY), (begin, end - begin), (0, 0)] {
            head.extend_from_slice(&pair(at, size));
        }
        let mut has = [0u64; 4];
        for (number, _) in &sections {
            has[*number as usize / 64] |= 1 << (number % 64);
        }
        head.extend(has.iter().flat_map(|word| word.to_le_bytes()));
        self.file.begin_with(&head)?;
        self.file.finish()?;
        if !self.symbols.is_empty() {
            let mut file = self.kallsyms.file()?;
            file.append(tracing_data::kallsyms(&self.symbols).as_bytes())?;
            file.finish()?;
        }
        Ok(())
    }
}

impl PerfData {
    /// Sections behind the data, by rising number.
    fn sections(&self) -> Vec<(u32, Vec<u8>)> {
        let events = || self.order.iter().map(|id| &self.events[id]);
        let mut tracing = Vec::new();
        let names = self.names.processes.to_lines();
        tracing_data::head(
            "0.6",
            events().map(|event| &event.form),
            &self.symbols,
            &names,
            &mut tracing,
        );
        let mut all = vec![(section::TRACING_DATA, tracing)];
        for (number, text) in [
            (section::HOSTNAME, &self.info.hostname),
            (section::OSRELEASE, &self.info.kernel_release),
            (section::VERSION, &format!("kestrel {}", self.info.tracer_version)),
            (section::ARCH, &self.info.machine),
        ] {
            all.push((number, counted(text)));
        }
        let mut cpus = Vec::new();
        words(&[self.cpus, self.cpus], &mut cpus);
        all.push((section::NRCPUS, cpus));
        let mut command = Vec::new();
        words(&[1], &mut command);
        command.extend_from_slice(&counted(&self.info.command));
        all.push((section::CMDLINE, command));
        let mut described = Vec::new();
        words(&[self.order.len() as u32, ATTRIBUTES], &mut described);
        for event in events() {
            described.extend_from_slice(&event.attributes);
            words(&[1], &mut described);
            described.extend_from_slice(&counted(&event.name));
            described.extend_from_slice(&event.number.to_le_bytes());
        }
        all.push((section::EVENT_DESC, described));
        let (first, last) = self.times.unwrap_or_default();
        all.push((section::SAMPLE_TIME, pair(first, last).to_vec()));
        // Nanoseconds a tick.
        all.push((section::CLOCKID, 1u64.to_le_bytes().to_vec()));
        let mut clock = Vec::new();
        words(&[1, CLOCK], &mut clock);
        let since_1970 = self.info.clock.seconds.saturating_mul(1_000_000_000);
        let since_1970 = since_1970.saturating_add(self.info.clock.nanoseconds.into());
        clock.extend_from_slice(&pair(since_1970, 0));
        all.push((section::CLOCK_DATA, clock));
        all
    }
}

impl Event {
    fn new(class: &EventClass, number: u64) -> Self {
        let chain = Chain::of(class);
        let chained = if chain.is_none() { 0 } else { CHAINED };
        let mut it = vec![0; ATTRIBUTES as usize];
        let mut put = |at: usize, bytes: &[u8]| it[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &TRACEPOINT.to_le_bytes());
        put(4, &ATTRIBUTES.to_le_bytes());
        put(8, &u64::from(class.id.0).to_le_bytes());
        // Every one is a sample.
        put(16, &1u64.to_le_bytes());
        put(24, &(SAMPLED | chained).to_le_bytes());
        put(40, &FLAGS.to_le_bytes());
        put(92, &CLOCK.to_le_bytes());
        Self {
            name: class.name.clone(),
            number,
            form: Form::new(class, chain),
            chain,
            attributes: it,
        }
    }
}

/// Two numbers of 8 bytes.
fn pair(one: u64, other: u64) -> [u8; 16] {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&one.to_le_bytes());
    both[8..].copy_from_slice(&other.to_le_bytes());
    both
}

fn words(all: &[u32], out: &mut Vec<u8>) {
    out.extend(all.iter().flat_map(|word| word.to_le_bytes()));
}

/// A text with its end, and zeroes up to a multiple of 8 bytes.
fn padded(text: &[u8], out: &mut Vec<u8>) {
    let kept = |byte: &u8| match byte {
        0 => b'?',
        byte => *byte,
    };
    out.extend(text.iter().take(4096).map(kept));
    let length = out.len() + 1;
    out.resize(length.next_multiple_of(8), 0);
}

/// A text behind its length, with zeroes up to a multiple of 64 bytes.
fn counted(text: &str) -> Vec<u8> {
    let length = (text.len() + 1).next_multiple_of(64);
    let mut all = (length as u32).to_le_bytes().to_vec();
    all.extend_from_slice(text.as_bytes());
    all.resize(4 + length, 0);
    all
}

/// A build id of at most 20 bytes.
fn digits(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs
        .collect::<Option<Vec<u8>>>()
        .filter(|id| !id.is_empty() && id.len() <= 20)
}
