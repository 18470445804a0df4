//! Features of a `perf.data` file: attributes of events, and the sections of *features* behind the data, or among the records of a pipe.

use super::super::input::{Input, text_of};
use super::super::tracing_data::TracingData;
use crate::convert::perf_data::section;
use crate::info::{ClockOffset, TraceInfo};
use crate::symbol::Symbols;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

/// Most bytes of a section that are read.
const MAX: u64 = 1 << 28;
/// Bytes of attributes up to what is read of them.
const MIN: u64 = 64;

/// Attributes with which an event was opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    pub(super) kind: u32,
    pub(super) config: u64,
    pub(super) sampled: u64,
    pub(super) counts: u64,
    pub(super) flags: u64,
    pub(super) ids: Vec<u64>,
    /// The event's name in `perf`.
    pub(super) name: Option<String>,
}

/// Facts of the file beside its records.
#[derive(Clone, Debug, Default)]
pub(super) struct Features {
    pub(super) attributes: Vec<Attributes>,
    pub(super) tracing: Option<TracingData>,
    hostname: String,
    release: String,
    version: String,
    machine: String,
    command: String,
    /// ns from 1970 to the clock's 0.
    since_1970: u64,
    pub(super) remarks: Vec<String>,
}

impl Attributes {
    /// Attributes in a file's head: `entry` bytes each.
    pub(super) fn of_file(
        file: &mut File,
        length: u64,
        place: (u64, u64),
        entry: u64,
    ) -> Result<Vec<Self>, String> {
        if entry < MIN + 16 {
            return Err(format!("its events' attributes are {entry} bytes long"));
        }
        let all =
            bytes(file, length, place).ok_or("the attributes of its events lie behind the file's end")?;
        let mut found = Vec::new();
        for bytes in all.chunks_exact(entry as usize) {
            let (attributes, ids) = bytes.split_at(bytes.len() - 16);
            let mut it = Self::parse(attributes).ok_or("the attributes of its events are cut")?;
            let mut ids = Input::new(ids);
            let place = ids.u64().zip(ids.u64()).unwrap_or_default();
            let ids = self::bytes(file, length, place)
                .ok_or("the numbers of its events lie behind the file's end")?;
            it.ids = longs(&ids);
            found.push(it);
        }
        Ok(found)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut input = Input::new(bytes);
        let (kind, _size, config, _period) = (input.u32()?, input.u32()?, input.u64()?, input.u64()?);
        Some(Self {
            kind,
            config,
            sampled: input.u64()?,
            counts: input.u64()?,
            flags: input.u64()?,
            ids: Vec::new(),
            name: None,
        })
    }
}

/// Bytes of a place of a file; none where they are not all there, or too many.
fn bytes(file: &mut File, length: u64, (at, size): (u64, u64)) -> Option<Vec<u8>> {
    if size > MAX || at.checked_add(size)? > length {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    file.seek(SeekFrom::Start(at)).ok()?;
    file.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn longs(bytes: &[u8]) -> Vec<u64> {
    let (longs, _) = bytes.as_chunks::<8>();
    longs.iter().map(|long| u64::from_le_bytes(*long)).collect()
}

/// A text behind its length.
fn counted(input: &mut Input<'_>) -> Option<String> {
    let length = input.u32()?;
    Some(text_of(input.take(length as usize)?))
}

impl Features {
    /// Reads the sections of a file, whose places stand at `at`, one for each bit that is set.
    pub(super) fn read(&mut self, file: &mut File, length: u64, at: u64, bits: &[u64]) -> Result<(), String> {
        let set = |number: &u32| {
            let word = bits.get(*number as usize / 64).copied().unwrap_or(0);
            word >> (number % 64) & 1 != 0
        };
        let numbers: Vec<u32> = (0..256).filter(set).collect();
        let Some(places) = bytes(file, length, (at, numbers.len() as u64 * 16)) else {
            self.remarks.push(
                "the file was cut: what describes it stood behind its data and is not there".to_owned(),
            );
            return Ok(());
        };
        let mut is_cut = false;
        for (number, place) in numbers.into_iter().zip(places.chunks_exact(16)) {
            let mut place = Input::new(place);
            let place = place.u64().zip(place.u64()).unwrap_or_default();
            if !SECTIONS.contains(&number) {
                is_cut |= place.0.saturating_add(place.1) > length;
                continue;
            }
            match bytes(file, length, place) {
                Some(body) => self.section(number, &body, place.0),
                None => self.remarks.push(format!(
                    "section {number} at byte {} is longer than the file",
                    place.0
                )),
            }
        }
        if is_cut {
            self.remarks.push(format!(
                "the file was cut at byte {length}, within what describes the machine: its records are complete"
            ));
        }
        Ok(())
    }

    /// Takes a section, which stands at a byte of the file.
    pub(super) fn section(&mut self, number: u32, body: &[u8], at: u64) {
        let mut input = Input::new(body);
        let done = match number {
            section::TRACING_DATA => {
                self.tracing(body, at);
                Some(())
            }
            section::HOSTNAME => counted(&mut input).map(|text| self.hostname = text),
            section::OSRELEASE => counted(&mut input).map(|text| self.release = text),
            section::VERSION => counted(&mut input).map(|text| self.version = text),
            section::ARCH => counted(&mut input).map(|text| self.machine = text),
            section::CMDLINE => self.command(&mut input),
            section::EVENT_DESC => self.described(&mut input),
            section::CLOCK_DATA => self.clock(&mut input),
            _ => Some(()),
        };
        if done.is_none() {
            self.remarks.push(format!(
                "section {number} at byte {at} is cut, or of another kind than known"
            ));
        }
    }

    /// Takes the description of tracepoints.
    pub(super) fn tracing(&mut self, body: &[u8], at: u64) {
        let mut input = Input::new(body);
        let read = TracingData::begin(&mut input).and_then(|mut data| {
            data.parts(&mut input)?;
            Ok(data)
        });
        match read {
            Ok(mut data) => {
                self.remarks.append(&mut data.remarks);
                self.tracing = Some(data);
            }
            Err(why) => self.remarks.push(format!(
                "the description of tracepoints at byte {at} is not understood (at its byte {}): {why}",
                input.at()
            )),
        }
    }

    fn command(&mut self, input: &mut Input<'_>) -> Option<()> {
        let count = input.u32()?;
        let mut words = Vec::new();
        for _ in 0..count {
            words.push(counted(input)?);
        }
        self.command = words.join(" ");
        Some(())
    }

    fn described(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (count, size) = (input.u32()?, input.u32()?);
        for index in 0..count as usize {
            input.take(size as usize)?;
            let ids = input.u32()?;
            let name = counted(input)?;
            let ids = longs(input.take((ids as usize).checked_mul(8)?)?);
            let of_ids = |it: &Attributes| ids.iter().any(|id| it.ids.contains(id));
            let place = self.attributes.iter().position(of_ids).unwrap_or(index);
            if let Some(attributes) = self.attributes.get_mut(place) {
                attributes.name = Some(name);
            }
        }
        Some(())
    }

    fn clock(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (_version, _clock) = (input.u32()?, input.u32()?);
        let (wall, own) = (input.u64()?, input.u64()?);
        self.since_1970 = wall.saturating_sub(own);
        Some(())
    }

    /// Takes attributes out of a pipe.
    pub(super) fn attributes_record(&mut self, body: &[u8], at: u64) {
        let size = body
            .get(4..)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |size| u32::from_le_bytes(*size) as usize);
        let parsed = body.split_at_checked(size).and_then(|(attributes, ids)| {
            let mut it = Attributes::parse(attributes)?;
            it.ids = longs(ids);
            Some(it)
        });
        match parsed {
            Some(it) if self.attributes.len() < EVENTS => self.attributes.push(it),
            _ => self.remarks.push(format!(
                "the attributes of an event at byte {at} are not understood"
            )),
        }
    }

    /// Takes a feature out of a pipe.
    pub(super) fn feature_record(&mut self, body: &[u8], at: u64) {
        let mut input = Input::new(body);
        if let Some(number) = input.u64()
            && let Ok(number) = u32::try_from(number)
        {
            self.section(number, input.rest(), at);
        }
    }

    /// Takes what a pipe says later of an event: its name.
    pub(super) fn update_record(&mut self, body: &[u8]) {
        const NAME: u64 = 2;
        let mut input = Input::new(body);
        if let (Some(NAME), Some(id)) = (input.u64(), input.u64()) {
            let it = self.attributes.iter_mut().find(|it| it.ids.contains(&id));
            if let Some(it) = it {
                it.name = Some(text_of(input.rest()));
            }
        }
    }

    /// Names of the kernel's addresses.
    pub(super) fn symbols(&self) -> Symbols {
        self.tracing
            .as_ref()
            .map(|data| data.symbols.clone())
            .unwrap_or_default()
    }

    /// The tool that wrote the file.
    pub(super) fn tool(&self) -> String {
        match self.version.as_str() {
            "" => "perf".to_owned(),
            own if own.starts_with("kestrel") => own.to_owned(),
            version => format!("perf {version}"),
        }
    }

    pub(super) fn info(&self) -> TraceInfo {
        TraceInfo {
            hostname: self.hostname.clone(),
            kernel_release: self.release.clone(),
            machine: self.machine.clone(),
            command: self.command.clone(),
            clock: ClockOffset {
                seconds: self.since_1970 / 1_000_000_000,
                nanoseconds: (self.since_1970 % 1_000_000_000) as u32,
            },
            ..TraceInfo::default()
        }
    }
}

/// Most events of a file.
const EVENTS: usize = 1 << 15;

/// Sections that are read; all others are about the machine.
const SECTIONS: &[u32] = &[
    section::TRACING_DATA,
    section::HOSTNAME,
    section::OSRELEASE,
    section::VERSION,
    section::ARCH,
    section::CMDLINE,
    section::EVENT_DESC,
    section::CLOCK_DATA,
];
