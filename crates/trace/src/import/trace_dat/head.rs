//! The head of a `trace.dat`: of version 6 in one piece, of version 7 in sections that options lead to.

use super::super::input::{Input, text_of};
use super::super::tracing_data::TracingData;
use crate::convert::trace_dat::option;
use crate::packet::CPUS;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

/// Range of a CPU's records in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// The name of the tracing instance; empty for the first.
    pub(super) buffer: String,
    pub(super) cpu: u32,
    pub(super) at: u64,
    pub(super) size: u64,
    /// Whether they come in compressed chunks.
    pub(super) packed: bool,
}

/// Compression of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Packing {
    #[default]
    None,
    Zlib,
    Zstd,
}

/// Conversion from the numbers in the file to ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// ns from 1970 to the clock's 0, of `record --date`.
    pub(super) wall_ns: u64,
    /// ns that are added.
    offset: i64,
    /// Multiplier, bits to shift, and ticks to take off, of a processor's counter.
    counter: Option<(u32, u32, u64)>,
}

/// The parsed head of a file.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) data: TracingData,
    pub(super) page: u32,
    pub(super) packed: Packing,
    pub(super) parts: Vec<Part>,
    pub(super) clock: Clock,
    clock_name: String,
    /// Events that were lost, by CPU, as far as the kernel counted them.
    pub(super) lost: BTreeMap<u32, u64>,
    pub(super) hostname: String,
    pub(super) release: String,
    pub(super) machine: String,
    pub(super) tool: String,
    pub(super) remarks: Vec<String>,
}

/// Most bytes of a description.
const MAX: u64 = 1 << 28;
/// Bytes of it that are read first.
const FIRST: u64 = 1 << 20;
/// Most parts of a file's options.
const OPTIONS: usize = 64;

/// Clocks of the kernel's tracer that count something other than ns.
const COUNTERS: &[&str] = &["counter", "x86-tsc", "ppc-tb"];

impl Clock {
    pub(super) fn ns(&self, time: u64) -> u64 {
        let time = match self.counter {
            None => time,
            Some((multiplier, shift, from)) => {
                let ticks = u128::from(time.saturating_sub(from)) * u128::from(multiplier);
                (ticks >> shift.min(127)) as u64
            }
        };
        time.saturating_add_signed(self.offset)
    }
}

impl Packing {
    fn of(name: &str) -> Result<Self, String> {
        Ok(match name {
            "none" => Self::None,
            "zlib" => Self::Zlib,
            "zstd" => Self::Zstd,
            other => {
                return Err(format!(
                    "it is compressed by {other}, which is not read (zlib and zstd are)"
                ));
            }
        })
    }

    /// Unpacks what is so many bytes long then; none where it is not.
    pub(super) fn unpack(self, packed: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let most = size as u64 + 1;
        match self {
            Self::None => bytes.extend_from_slice(packed),
            Self::Zlib => {
                _ = flate2::read::ZlibDecoder::new(packed)
                    .take(most)
                    .read_to_end(&mut bytes)
                    .ok()?
            }
            Self::Zstd => {
                let unpacker = zstd::stream::read::Decoder::new(packed).ok()?;
                unpacker.take(most).read_to_end(&mut bytes).ok()?;
            }
        }
        (bytes.len() == size).then_some(bytes)
    }
}

/// Bytes of a place of the file; none where they are not all there, or too many.
fn bytes(file: &File, length: u64, at: u64, size: u64) -> Option<Vec<u8>> {
    if size > MAX || at.checked_add(size)? > length {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

impl Head {
    pub(super) fn read(file: &File, length: u64) -> Result<Self, String> {
        let mut size = FIRST;
        loop {
            let there = size.min(length);
            let start = bytes(file, length, 0, there).ok_or("its beginning cannot be read")?;
            let mut input = Input::new(&start);
            let placed = |why: String, input: &Input<'_>| format!("{why}, at byte {}", input.at());
            let read = TracingData::begin(&mut input);
            let read = read.map_err(|why| placed(why, &input)).and_then(|data| {
                let mut head = Self {
                    page: data.page,
                    data,
                    tool: "trace-cmd".to_owned(),
                    ..Self::default()
                };
                match head.data.version.as_str() {
                    "6" => (head.whole(&mut input, file, length)).map_err(|why| placed(why, &input))?,
                    // Its sections have places of their own, which the sentences name.
                    "7" => head.sections(&mut input, file, length)?,
                    other => return Err(format!("it is of version {other}; versions 6 and 7 are read")),
                }
                head.remarks.extend(head.clock_remark());
                Ok(head)
            });
            match read {
                // The description may be longer than the part that was read.
                Err(_) if there < length.min(MAX) => size = size.saturating_mul(8).min(MAX),
                Err(why) => return Err(why),
                Ok(head) => return Ok(head),
            }
        }
    }

    /// Reads version 6.
    fn whole(&mut self, input: &mut Input<'_>, file: &File, length: u64) -> Result<(), String> {
        self.data.parts(input)?;
        let cut = || "it ends before its records' places".to_owned();
        let cpus = input.u32().filter(|cpus| *cpus <= CPUS).ok_or_else(cut)?;
        let mut instances = Vec::new();
        loop {
            match input.take(10).ok_or_else(cut)? {
                b"options  \0" => {
                    while let number @ 1.. = input.u16().ok_or_else(cut)? {
                        let size = input.u32().ok_or_else(cut)?;
                        let body = input.take(size as usize).ok_or_else(cut)?;
                        if number == option::BUFFER {
                            instances.push(body.to_vec());
                        } else {
                            self.option(number, body);
                        }
                    }
                }
                b"flyrecord\0" => break,
                b"latency  \0" => {
                    return Err("its records are text (trace-cmd extract of a latency tracer): trace-cmd report reads that".to_owned());
                }
                other => {
                    return Err(format!(
                        "{:?} is not what a file of version 6 goes on with",
                        String::from_utf8_lossy(other)
                    ));
                }
            }
        }
        // The main buffer's places stand here, those of an instance where its option says.
        self.places(input, "", cpus).ok_or_else(cut)?;
        // Then the clock, where an option without a value announces it.
        if let Some(text) = input.u64().and_then(|size| input.take(size.try_into().ok()?)) {
            self.name_clock(&text_of(text));
        }
        for instance in instances {
            let mut body = Input::new(&instance);
            let read = body.u64().zip(body.text()).and_then(|(at, name)| {
                let bytes = bytes(
                    file,
                    length,
                    at,
                    (u64::from(cpus) * 16 + 10).min(length.saturating_sub(at)),
                )?;
                let mut input = Input::new(bytes.strip_prefix(b"flyrecord\0").unwrap_or(&bytes));
                self.places(&mut input, &name, cpus)
            });
            if read.is_none() {
                self.remarks.push(
                    "the records of a tracing instance lie behind the file's end and are not read".to_owned(),
                );
            }
        }
        Ok(())
    }

    /// Takes the clocks that the kernel has, with the one that was used in brackets.
    fn name_clock(&mut self, clocks: &str) {
        let chosen = clocks.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        if let Some((name, _)) = chosen {
            self.clock_name = name.to_owned();
        }
    }

    /// Reads places and sizes of the records of all CPUs.
    fn places(&mut self, input: &mut Input<'_>, buffer: &str, cpus: u32) -> Option<()> {
        for cpu in 0..cpus {
            let (at, size) = (input.u64()?, input.u64()?);
            self.parts.push(Part {
                buffer: buffer.to_owned(),
                cpu,
                at,
                size,
                packed: false,
            });
        }
        Some(())
    }

    /// Reads version 7.
    fn sections(&mut self, input: &mut Input<'_>, file: &File, length: u64) -> Result<(), String> {
        let (name, _version) = input.text().zip(input.text()).ok_or("it ends within its head")?;
        self.packed = Packing::of(&name)?;
        let mut at = input.u64().ok_or("it ends within its head")?;
        let mut places = BTreeMap::new();
        let mut buffers = Vec::new();
        // Each section of options has the place of the next; a damaged file's may form a circle.
        for _ in 0..OPTIONS {
            if at == 0 {
                break;
            }
            let (_, options) = self.section(file, length, at)?;
            let from = at;
            let mut input = Input::new(&options);
            at = 0;
            while let (Some(number), Some(size)) = (input.u16(), input.u32()) {
                let body = input
                    .take(size as usize)
                    .ok_or_else(|| format!("option {number} of the section at byte {from} is cut"))?;
                let mut body_input = Input::new(body);
                match number {
                    option::DONE => {
                        at = body_input.u64().unwrap_or(0);
                        break;
                    }
                    option::BUFFER => buffers.push(body.to_vec()),
                    option::HEADER_INFO..=option::CMDLINES => {
                        places.insert(number, body_input.u64().unwrap_or(0));
                    }
                    option::BUFFER_TEXT => self
                        .remarks
                        .push("records that are text (a latency tracer's) are not read".to_owned()),
                    _ => self.option(number, body),
                }
            }
        }
        // The header of pages has the lowest number: no record can be read without it, while any other section may be missing.
        for (number, at) in places {
            let (_, body) = self.section(file, length, at)?;
            let mut input = Input::new(&body);
            let read = match number {
                option::HEADER_INFO => self.data.pages(&mut input),
                option::FTRACE_EVENTS => self.data.own_events(&mut input),
                option::EVENT_FORMATS => self.data.systems(&mut input),
                option::KALLSYMS => {
                    let text = input.u32().and_then(|size| input.take(size as usize));
                    text.map(|text| self.data.kallsyms(text))
                        .ok_or("its symbols are cut".to_owned())
                }
                option::CMDLINES => input
                    .long()
                    .map(|names| self.data.names(names))
                    .ok_or("its names of threads are cut".to_owned()),
                _ => Ok(()),
            };
            if let Err(why) = read {
                let what = format!(
                    "section {number} at byte {at}: {why} (at its byte {})",
                    input.at()
                );
                match number {
                    option::HEADER_INFO => return Err(what),
                    _ => self.remarks.push(what),
                }
            }
        }
        for buffer in buffers {
            if self.buffer(&buffer, file, length).is_none() {
                self.remarks.push(
                    "a tracing instance is described by less than its CPUs need, and is not read".to_owned(),
                );
            }
        }
        Ok(())
    }

    /// Takes the description of a tracing instance.
    fn buffer(&mut self, body: &[u8], file: &File, length: u64) -> Option<()> {
        let mut input = Input::new(body);
        let (at, name, _clock) = (input.u64()?, input.text()?, input.text()?);
        let (page, cpus) = (input.u32()?, input.u32()?);
        let head = bytes(file, length, at, SECTION)?;
        let packed = head.get(2).is_some_and(|flags| flags & 1 != 0);
        self.page = page;
        for _ in 0..cpus {
            let (cpu, at, size) = (input.u32()?, input.u64()?, input.u64()?);
            self.parts.push(Part {
                buffer: name.clone(),
                cpu,
                at,
                size,
                packed,
            });
        }
        Some(())
    }

    /// The number and the body of a section.
    fn section(&self, file: &File, length: u64, at: u64) -> Result<(u16, Vec<u8>), String> {
        // The list of sections is the last thing that trace-cmd writes: without it nothing says where the records are.
        if at >= length {
            return Err(format!(
                "it was truncated: it has {length} bytes, and its list of sections is at byte {at}"
            ));
        }
        let head = || {
            let head = bytes(file, length, at, SECTION)?;
            let mut input = Input::new(&head);
            Some((input.u16()?, input.u16()?, input.u32()?, input.u64()?))
        };
        let body = head().and_then(|(number, flags, _name, size)| {
            let body = bytes(file, length, at + SECTION, size)?;
            Some((number, flags, body))
        });
        let (number, flags, body) =
            body.ok_or_else(|| format!("the section at byte {at} was truncated, or its size is damaged"))?;
        if flags & 1 == 0 {
            return Ok((number, body));
        }
        let unpack = || {
            let mut input = Input::new(&body);
            let (packed, size) = (input.u32()?, input.u32()?);
            let packed = input.take(packed as usize)?;
            if u64::from(size) > MAX {
                return None;
            }
            self.packed.unpack(packed, size as usize)
        };
        let text = unpack().ok_or_else(|| format!("the compressed section at byte {at} is damaged"))?;
        Ok((number, text))
    }

    /// A remark about a clock whose times are none.
    pub(super) fn clock_remark(&self) -> Option<String> {
        let name = &self.clock_name;
        let is_count = COUNTERS.contains(&name.as_str()) && self.clock.counter.is_none();
        is_count.then(|| {
            format!("its times are what the clock {name} counts, shown as ns: `trace-cmd record -C mono` has times, `-C tsc2nsec` the processor's counter as ns")
        })
    }

    /// Takes an option that both versions have.
    pub(super) fn option(&mut self, number: u16, body: &[u8]) {
        let text = text_of(body);
        let mut input = Input::new(body);
        match number {
            option::CPUSTAT => self.counts(&text),
            option::UNAME => {
                let mut words = text.split(' ').skip(1).map(str::to_owned);
                (self.hostname, self.release) =
                    (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                self.machine = words.last().unwrap_or_default();
            }
            option::VERSION => {
                let version = text.split_whitespace().next().unwrap_or_default();
                self.tool = match text.starts_with("kestrel") {
                    true => text.clone(),
                    false => format!("trace-cmd {version}"),
                };
            }
            option::DATE => match text
                .strip_prefix("0x")
                .map(|digits| u64::from_str_radix(digits, 16))
            {
                Some(Ok(microseconds)) => self.clock.wall_ns = microseconds.saturating_mul(1000),
                _ => self
                    .remarks
                    .push(format!("the date of its clock, {text:?}, is not understood")),
            },
            option::TRACECLOCK => self.name_clock(&text),
            option::OFFSET => match text.trim().parse() {
                Ok(offset) => self.clock.offset = offset,
                Err(_) => self
                    .remarks
                    .push(format!("the offset of its clock, {text:?}, is not understood")),
            },
            option::TSC2NSEC => {
                if let (Some(multiplier), Some(shift), Some(from)) = (input.u32(), input.u32(), input.u64()) {
                    self.clock.counter = Some((multiplier, shift, from));
                }
            }
            option::TIME_SHIFT => self.remarks.push(
                "the clock's corrections between guest and host (option 12) are not applied".to_owned(),
            ),
            _ => {}
        }
    }

    /// Takes what the kernel counted of a CPU.
    fn counts(&mut self, text: &str) {
        let mut cpu = None;
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let Ok(value) = value.trim().parse::<u64>() else {
                continue;
            };
            match (name.trim(), cpu) {
                ("CPU", _) => cpu = u32::try_from(value).ok(),
                ("overrun" | "commit overrun" | "dropped events", Some(cpu)) => {
                    let lost = self.lost.entry(cpu).or_default();
                    *lost = lost.saturating_add(value);
                }
                _ => {}
            }
        }
    }
}

/// Bytes of a section's head.
const SECTION: u64 = 16;
