//! `trace.dat` of trace-cmd, version 6 (trace-cmd's Documentation/trace-cmd/trace-cmd.dat.v6.5.txt): what describes events, then the pages of each CPU as the
//! kernel's ring buffer has them (`include/linux/ring_buffer.h`), what was lost marked on the page behind it, and counted by CPU where no page follows.

use super::conversion::{Conversion, ConversionFormat, RecordingContext};
use super::kernel_form::Form;
use super::names::Names;
use super::place::OutputPath;
use super::stacks::Chain;
use super::tracing_data::{self, HEAD, PAGE};
use crate::error::Result;
use crate::info::TraceInfo;
use crate::packet::CPUS;
use crate::record::Record;
use crate::symbol::Symbols;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;

pub(super) const FORMAT: ConversionFormat = ConversionFormat {
    name: "trace-dat",
    about: "trace.dat, for trace-cmd report, KernelShark and what reads their files",
    file: "trace.dat",
    begin: |recording, place| Ok(Box::new(TraceDat::new(recording, place))),
};

/// A flag in the word behind a page's time, beside its length: events were lost before it; their number stands behind its records.
pub(crate) const LOST: u64 = 1 << 31;
pub(crate) const COUNTED: u64 = 1 << 30;
/// Bits of the time since the record before that are in a record's own head.
pub(crate) const DELTA: u32 = 27;
/// The type of a record that only brings time forward.
pub(crate) const EXTEND: u32 = 30;
/// The types of one that fills room, and of one that has an absolute time.
pub(crate) const PADDING: u32 = 29;
pub(crate) const STAMP: u32 = 31;
/// The longest record whose head has its length, in words.
const SHORT: usize = 28;

/// Options that stand behind the description of events.
pub(crate) mod option {
    pub(crate) const DONE: u16 = 0;
    pub(crate) const DATE: u16 = 1;
    pub(crate) const CPUSTAT: u16 = 2;
    pub(crate) const BUFFER: u16 = 3;
    pub(crate) const TRACECLOCK: u16 = 4;
    pub(crate) const UNAME: u16 = 5;
    pub(crate) const OFFSET: u16 = 7;
    pub(crate) const VERSION: u16 = 9;
    pub(crate) const TIME_SHIFT: u16 = 12;
    pub(crate) const TSC2NSEC: u16 = 14;
    // From here on they lead to sections of version 7.
    pub(crate) const HEADER_INFO: u16 = 16;
    pub(crate) const FTRACE_EVENTS: u16 = 17;
    pub(crate) const EVENT_FORMATS: u16 = 18;
    pub(crate) const KALLSYMS: u16 = 19;
    pub(crate) const CMDLINES: u16 = 21;
    pub(crate) const BUFFER_TEXT: u16 = 22;
}

struct TraceDat {
    place: OutputPath,
    info: TraceInfo,
    symbols: Symbols,
    names: Names,
    forms: HashMap<u16, Form, foldhash::fast::RandomState>,
    cpus: BTreeMap<u32, Cpu>,
    bytes: Vec<u8>,
}

/// The pages of a CPU: whole ones lie in a spool until the file's head is known.
struct Cpu {
    spool: File,
    page: Vec<u8>,
    /// Time of the last record.
    time_ns: u64,
    /// Lost before the page at hand, and before the next one.
    before: u64,
    next: u64,
    entries: u64,
    lost: u64,
}

impl TraceDat {
    fn new(recording: RecordingContext, place: OutputPath) -> Self {
        let form = |event| Form::new(event, Chain::default());
        let events = recording.info.events.iter();
        Self {
            place,
            names: Names::new(&recording),
            forms: events.map(|event| (event.id.0, form(event))).collect(),
            info: recording.info,
            symbols: recording.symbols,
            cpus: BTreeMap::new(),
            bytes: Vec::new(),
        }
    }

    fn cpu(&mut self, number: u32) -> Result<&mut Cpu> {
        if number >= CPUS {
            let why = format!("the recording says that it has a CPU {number}: it is damaged");
            return Err(self.place.failed()(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                why,
            )));
        }
        let spool = match self.cpus.contains_key(&number) {
            true => None,
            false => Some(self.place.spool(number)?),
        };
        if let Some(spool) = spool {
            self.cpus.insert(number, Cpu::new(spool));
        }
        self.cpus
            .get_mut(&number)
            .ok_or_else(|| self.place.failed()(std::io::ErrorKind::NotFound.into()))
    }

    /// All that stands before the pages but their places.
    fn head(&self, cpus: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let forms: BTreeMap<u16, &Form> = self.forms.iter().map(|(number, form)| (*number, form)).collect();
        let names = self.names.processes.to_lines();
        tracing_data::head("6", forms.into_values(), &self.symbols, &names, &mut out);
        out.extend_from_slice(&cpus.to_le_bytes());
        tracing_data::text("options  ", &mut out);
        let mut option = |number: u16, text: &str| {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
            tracing_data::text(text, &mut out);
        };
        for (number, cpu) in &self.cpus {
            let text = format!(
                "CPU: {number}\nentries: {}\noverrun: 0\ncommit overrun: 0\ndropped events: {}\n",
                cpu.entries, cpu.lost
            );
            option(option::CPUSTAT, &text);
        }
        option(
            option::TRACECLOCK,
            "local global counter uptime perf [mono] mono_raw boot",
        );
        let info = &self.info;
        option(
            option::UNAME,
            &format!("Linux {} {} {}", info.hostname, info.kernel_release, info.machine),
        );
        option(option::VERSION, &format!("kestrel {}", info.tracer_version));
        out.extend_from_slice(&0u16.to_le_bytes());
        tracing_data::text("flyrecord", &mut out);
        out
    }
}

impl Conversion for TraceDat {
    fn learn_thread_names(&mut self, record: &Record<'_>) {
        self.names.learn_thread_names(record);
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.names.learn_thread_names(record);
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        if let Some(form) = self.forms.get(&record.event.id.0) {
            form.write(record, &self.symbols, &mut bytes);
            let failed = self.place.failed();
            self.cpu(record.cpu)?
                .push(record.time_ns, &bytes)
                .map_err(failed)?;
        }
        self.bytes = bytes;
        Ok(())
    }

    fn lost(&mut self, cpu: u32, events: u64) -> Result<()> {
        let failed = self.place.failed();
        self.cpu(cpu)?.lose(events).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let failed = || self.place.failed();
        for cpu in self.cpus.values_mut() {
            cpu.leave().map_err(failed())?;
        }
        let cpus = self.cpus.keys().next_back().map_or(1, |last| last + 1);
        let head = self.head(cpus);
        let mut at = (head.len() + cpus as usize * 16).next_multiple_of(PAGE) as u64;
        let mut places = Vec::new();
        for number in 0..cpus {
            let size = match self.cpus.get(&number) {
                Some(cpu) => cpu.spool.metadata().map_err(failed())?.len(),
                None => 0,
            };
            places.extend_from_slice(&at.to_le_bytes());
            places.extend_from_slice(&size.to_le_bytes());
            at += size;
        }
        let mut file = self.place.clone().file()?;
        file.append(&head)?;
        file.append(&places)?;
        let padding = (file.at() as usize).next_multiple_of(PAGE) - file.at() as usize;
        file.append(&vec![0; padding])?;
        for cpu in self.cpus.values_mut() {
            file.append_all(&mut cpu.spool)?;
        }
        file.finish()
    }
}

impl Cpu {
    fn new(spool: File) -> Self {
        Self {
            spool,
            page: Vec::with_capacity(PAGE),
            time_ns: 0,
            before: 0,
            next: 0,
            entries: 0,
            lost: 0,
        }
    }

    /// Begins a page whose times count from this one.
    fn begin(&mut self, time_ns: u64) {
        self.page.clear();
        self.page.extend_from_slice(&time_ns.to_le_bytes());
        self.page.resize(HEAD, 0);
        self.time_ns = time_ns;
        self.before = std::mem::take(&mut self.next);
    }

    /// Ends the page at hand, where there is one.
    fn leave(&mut self) -> std::io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        let mut length = (self.page.len() - HEAD) as u64;
        if self.before > 0 {
            length |= LOST | COUNTED;
            self.page.extend_from_slice(&self.before.to_le_bytes());
        }
        self.page[8..HEAD].copy_from_slice(&length.to_le_bytes());
        self.page.resize(PAGE, 0);
        self.spool.write_all(&self.page)?;
        self.page.clear();
        Ok(())
    }

    fn lose(&mut self, events: u64) -> std::io::Result<()> {
        self.lost += events;
        self.next += events;
        self.leave()
    }

    /// Appends a record; one that no page has room for is cut.
    fn push(&mut self, time_ns: u64, bytes: &[u8]) -> std::io::Result<()> {
        let longest = PAGE - HEAD - 24;
        let bytes = &bytes[..bytes.len().min(longest)];
        // Its head, the time that is brought forward, a length of its own, and how many were lost.
        if self.page.is_empty() || self.page.len() + bytes.len() + 8 + 8 + 8 > PAGE {
            self.leave()?;
            self.begin(time_ns);
        }
        let delta = time_ns.saturating_sub(self.time_ns);
        self.time_ns = self.time_ns.max(time_ns);
        let (high, low) = ((delta >> DELTA) as u32, delta as u32 & ((1 << DELTA) - 1));
        let mut word = |word: u32| self.page.extend_from_slice(&word.to_le_bytes());
        let low = if high > 0 {
            word(low << 5 | EXTEND);
            word(high);
            0
        } else {
            low
        };
        let words = bytes.len().div_ceil(4);
        if words <= SHORT {
            word(low << 5 | words as u32);
        } else {
            word(low << 5);
            word(words as u32 * 4 + 4);
        }
        self.page.extend_from_slice(bytes);
        self.page.resize(self.page.len().next_multiple_of(4), 0);
        self.entries += 1;
        Ok(())
    }
}
