//! Several recordings as one: records in the order of their times, events, buffers, names and losses of all.
//!
//! ```text
//! same uuid       parts of one recording (`record --switch-output`, an agent's log, `cut`): they share buffers, and streams go on
//! same boot       one clock: times stay; buffers of each, NAME of the first and NAME-2, NAME-3 … of the others where they have the same
//! another boot    times by the wall clock, from each one's own clock to that of the one that booted first
//! ```

use super::directory::Trace;
use super::packed::StreamIn;
use super::read::Reader;
use super::rewrite::{Placed, Rewriter, SideData};
use super::write::Written;
use crate::aggregate::KeptMaps;
use crate::error::{Error, Result};
use crate::event::{EventClass, EventId};
use crate::info::{BufferInfo, ClockOffset, TraceInfo, Uuid};
use crate::names::KeptNames;
use crate::packet::{OF_THREADS, ring_of};
use crate::process::Processes;
use crate::stack_pieces::PIECE;
use crate::summary::{EventCount, Missed, Summary};
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::user_symbol::UserSymbols;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::path::Path;

/// Recordings without a boot's name are of one boot where their machine and kernel are the same and their clocks are no further apart: that of a wall
/// clock that was set in between.
const SAME_BOOT_NS: u64 = 2_000_000_000;

/// A recording to be merged.
#[derive(Debug)]
struct Source {
    name: String,
    reader: Reader<StreamIn>,
    summary: Option<Summary>,
    /// Buffers and events by what they are called here.
    buffers: BTreeMap<u32, u32>,
    events: BTreeMap<u16, EventId>,
    /// The boot: an index.
    boot: usize,
    /// Nanoseconds added to its times.
    later_ns: u64,
    /// Losses of its streams, by buffer and CPU as they are numbered here.
    lost: BTreeMap<(u32, u32), u64>,
}

/// Number of a recording's buffer, or of a thread's ring, in the merged trace.
fn ring_called(buffers: &BTreeMap<u32, u32>, number: u32) -> Option<u32> {
    let of_thread = || {
        let (place, thread) = BufferInfo::split(number);
        let place = buffers.get(&place).filter(|_| place & OF_THREADS != 0)?;
        Some(BufferInfo::numbered(*place, thread))
    };
    buffers.get(&number).copied().or_else(of_thread)
}

/// Recordings that become one.
#[derive(Debug)]
pub struct Merge {
    info: TraceInfo,
    sources: Vec<Source>,
    beside: SideData,
    maps: Option<KeptMaps>,
    /// Boots that they are of.
    boots: usize,
    remarks: Vec<String>,
}

/// Result of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Records written.
    pub records: u64,
    /// Amount written.
    pub written: Written,
}

impl Merge {
    /// Makes ready to merge recordings, each with its name for messages.
    ///
    /// # Errors
    /// [`Error::Contradiction`] where they have more kinds of events together than a trace has numbers for.
    pub fn new(traces: Vec<(String, Trace)>) -> Result<Self> {
        let mut merge = Self {
            info: TraceInfo::default(),
            sources: Vec::new(),
            beside: SideData::default(),
            maps: None,
            boots: 0,
            remarks: Vec::new(),
        };
        let infos: Vec<TraceInfo> = traces
            .iter()
            .map(|(_, trace)| trace.reader.info().clone())
            .collect();
        let boots = Boots::of(&infos);
        merge.boots = boots.first.len();
        merge.info = described(&infos, &boots);
        // Sources keep the readers alone: what lies beside the records (symbols, threads, maps) is joined once, when all numbers of events are known.
        let mut sides = Vec::new();
        let mut known = BTreeMap::new();
        for ((at, info), (name, trace)) in infos.iter().enumerate().zip(traces) {
            let events = merge.add_events(info)?;
            let buffers = merge.add_buffers(info, &mut known);
            merge.sources.push(Source {
                name,
                buffers,
                events,
                boot: boots.of[at],
                later_ns: boots.later_ns(boots.of[at]),
                lost: BTreeMap::new(),
                reader: trace.reader,
                summary: trace.summary.clone(),
            });
            sides.push((
                trace.summary,
                trace.symbols,
                trace.processes,
                trace.tasks,
                trace.maps,
                trace.calls,
            ));
        }
        merge.join(&infos, sides);
        Ok(merge)
    }

    /// Remarks about the merge: what could not be joined, and by which clock times are.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Numbers of the events of a recording here. Events of one name and one layout are one.
    fn add_events(&mut self, info: &TraceInfo) -> Result<BTreeMap<u16, EventId>> {
        let mut numbers = BTreeMap::new();
        for event in &info.events {
            let same = |known: &&EventClass| {
                **known
                    == EventClass {
                        id: known.id,
                        ..event.clone()
                    }
            };
            if let Some(known) = self.info.events.iter().find(same) {
                numbers.insert(event.id.0, known.id);
                continue;
            }
            let id = self.free_number(event.id)?;
            self.info.events.push(EventClass { id, ..event.clone() });
            numbers.insert(event.id.0, id);
        }
        Ok(numbers)
    }

    /// A number that no event has: the wanted one, or the first behind all.
    fn free_number(&self, wanted: EventId) -> Result<EventId> {
        let used: BTreeSet<u16> = self.info.events.iter().map(|event| event.id.0).collect();
        let mut free = std::iter::once(wanted.0)
            .chain(1..PIECE.0)
            .filter(|id| !used.contains(id));
        free.next().map(EventId).ok_or_else(|| {
            Error::Contradiction(
                "the recordings have more kinds of events together than one can have".to_owned(),
            )
        })
    }

    /// Numbers of the buffers of a recording here; `known` are those that were entered, by identity and number there.
    fn add_buffers(
        &mut self,
        info: &TraceInfo,
        known: &mut BTreeMap<(Uuid, u32), u32>,
    ) -> BTreeMap<u32, u32> {
        let mut numbers = BTreeMap::new();
        for buffer in &info.buffers {
            let key = (info.uuid, buffer.number);
            let number = known
                .get(&key)
                .copied()
                .unwrap_or_else(|| self.add_buffer(buffer));
            known.insert(key, number);
            numbers.insert(buffer.number, number);
        }
        numbers
    }

    /// Enters a buffer by a name that none has; gives its number.
    fn add_buffer(&mut self, buffer: &BufferInfo) -> u32 {
        let resized = buffer.resized();
        let used: Vec<u32> = self.info.buffers.iter().map(BufferInfo::place).collect();
        // The place says whether rings are those of threads.
        let free = match buffer.place() & OF_THREADS {
            0 => 0..OF_THREADS,
            _ => OF_THREADS..2 * OF_THREADS,
        };
        let mut free = std::iter::once(buffer.place())
            .chain(free)
            .filter(|place| !used.contains(place));
        let place = free.next().unwrap_or_default();
        let names: Vec<String> = self.info.buffers.iter().map(|known| known.stream(0)).collect();
        let as_called = |at: u32| BufferInfo {
            number: BufferInfo::numbered(place, resized),
            name: match at {
                1 => buffer.name.clone(),
                at => format!("{}-{at}", buffer.name),
            },
            ..buffer.clone()
        };
        let free = (1..).map(as_called).find(|one| !names.contains(&one.stream(0)));
        let free = free.unwrap_or_else(|| buffer.clone());
        let number = free.number;
        self.info.buffers.push(free);
        number
    }

    /// Joins what lies beside the records.
    fn join(&mut self, infos: &[TraceInfo], sides: Vec<Side>) {
        let mut summaries = Vec::new();
        let (mut user, mut names) = (UserSymbols::default(), KeptNames::default());
        let mut with_maps = Vec::new();
        let (mut dropped, mut is_first) = (0, true);
        let mut of_pids: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for (source, side) in self.sources.iter().zip(&sides) {
            for (pid, _) in side.1.user().mappings() {
                of_pids.entry(pid).or_default().insert(source.boot);
            }
        }
        for (source, (summary, symbols, processes, tasks, maps, calls)) in self.sources.iter().zip(sides) {
            let is_of_first = source.boot == self.sources[0].boot;
            let beside = &mut self.beside;
            user.extend(symbols.user(), source.later_ns, |pid| {
                of_pids.get(&pid).is_none_or(|boots| boots.len() == 1)
            });
            names.join(symbols.kept_names());
            let (joined, lost_names) = match is_first {
                true => (symbols.clone(), 0),
                false => beside.symbols.joined(&symbols, is_of_first),
            };
            beside.symbols = joined;
            dropped += lost_names;
            match is_of_first {
                true => beside.processes.extend(processes),
                false => beside.processes.join(processes),
            }
            match is_first {
                true => beside.tasks = tasks,
                false => beside.tasks.extend(tasks),
            }
            if let Some(unwound) = source.reader.unwound() {
                beside.unwound.extend(unwound, source.later_ns);
            }
            if !maps.maps.is_empty() {
                with_maps.push(maps);
            }
            match (&mut beside.calls, calls) {
                (none @ None, calls) => *none = calls,
                // Files that were open when the first recording began say nothing of the processes of another.
                (Some(kept), Some(_)) if infos.iter().any(|info| info.uuid != infos[0].uuid) => {
                    kept.files.clear()
                }
                _ => {}
            }
            summaries.push(summary);
            is_first = false;
        }
        let symbols = std::mem::take(&mut self.beside.symbols);
        self.beside.symbols = symbols.with_user(user).with_kept_names(names);
        let conflicts = of_pids.values().filter(|boots| boots.len() > 1).count();
        if self.boots > 1 {
            self.remarks.push("they are of different boots or machines: times are put together by the wall clock, and what has the same number on both, as CPUs and threads, is not told apart".to_owned());
        }
        for (count, what) in [
            (dropped, "names of kernel addresses"),
            (conflicts, "processes' mappings"),
        ] {
            if count > 0 {
                self.remarks.push(format!(
                    "{count} {what} are left out: the recordings contradict each other"
                ));
            }
        }
        match with_maps.len() {
            0 => {}
            1 => self.maps = with_maps.pop(),
            _ => self
                .remarks
                .push("maps of handlers stay behind: each recording has its own".to_owned()),
        }
        let (summary, unfinished) = sum(infos, &summaries, &self.remarks);
        if unfinished > 0 {
            self.remarks.push(format!(
                "{unfinished} of them had no counts of their own: their records are counted, what they lost is known as far as their packets tell"
            ));
        }
        self.beside.summary = Some(summary);
    }

    /// Writes the new trace, compressed at a level or plain.
    ///
    /// # Errors
    /// Errors of reading and of writing.
    pub fn write(&mut self, path: &Path, level: Option<u8>) -> Result<Merged> {
        let mut rewriter = Rewriter::create_of(path, self.info.clone(), level)?;
        let mut order = BinaryHeap::new();
        for at in 0..self.sources.len() {
            self.put_in_order(at, &mut order)?;
        }
        let mut merged = Merged::default();
        let mut lost: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        while let Some(Reverse((time_ns, at))) = order.pop() {
            let source = &mut self.sources[at];
            if let Some((buffer, record, of_stream)) = source.reader.at_hand_with_losses() {
                let event = source.events.get(&record.event.id.0).copied();
                let buffer = ring_called(&source.buffers, buffer);
                let (Some(event), Some(buffer)) = (event, buffer) else {
                    return Err(Error::Contradiction(format!(
                        "{} has a record of an event or a buffer that it does not describe",
                        source.name
                    )));
                };
                let key = ring_of(buffer, record.cpu);
                // Each recording's streams count their losses from 0, and several may become one stream here: differences add up.
                let before = source.lost.insert(key, of_stream).unwrap_or(0);
                let lost = lost.entry(key).or_default();
                *lost += of_stream.saturating_sub(before);
                let place = Placed {
                    buffer,
                    event,
                    time_ns,
                    lost_before: 0,
                };
                rewriter.record_as(place, &record, *lost)?;
                merged.records += 1;
            }
            self.put_in_order(at, &mut order)?;
        }
        if let Some(summary) = &mut self.beside.summary {
            count_recorded(summary, rewriter.recorded());
        }
        merged.written = rewriter.end(&self.beside, self.maps.as_ref())?;
        Ok(merged)
    }

    /// The recordings, with their names and what their recorders counted: what is missing from each is known when all was written.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Reader<StreamIn>, Option<&Summary>)> {
        let sources = self.sources.iter();
        sources.map(|source| (source.name.as_str(), &source.reader, source.summary.as_ref()))
    }

    /// Goes to a recording's next record.
    fn put_in_order(&mut self, at: usize, order: &mut BinaryHeap<Reverse<(u64, usize)>>) -> Result<()> {
        let source = &mut self.sources[at];
        if source.reader.has_next()?
            && let Some(time_ns) = source.reader.time_at_hand()
        {
            order.push(Reverse((time_ns.saturating_add(source.later_ns), at)));
        }
        Ok(())
    }
}

/// Puts the number of records that were read in the place of those that the recorders wrote.
fn count_recorded(summary: &mut Summary, found: Vec<EventCount>) {
    for count in &mut summary.events {
        count.recorded = 0;
    }
    for count in found {
        let known = summary.events.iter_mut();
        let mut known = known.filter(|known| known.event == count.event && known.cpu == count.cpu);
        match known.next() {
            Some(known) => known.recorded = count.recorded,
            None => summary.events.push(count),
        }
    }
}

/// Data beside a recording's records.
type Side = (
    Option<Summary>,
    Symbols,
    Processes,
    Tasks,
    KeptMaps,
    Option<crate::calls::Kept>,
);

/// The boots that recordings are of.
#[derive(Debug, Default)]
struct Boots {
    /// Of each recording: an index.
    of: Vec<usize>,
    /// The first recording of each, and its clock.
    first: Vec<(usize, ClockOffset)>,
}

impl Boots {
    fn of(infos: &[TraceInfo]) -> Self {
        let mut boots = Self::default();
        for (at, info) in infos.iter().enumerate() {
            let known = boots
                .first
                .iter()
                .position(|(first, _)| is_same_boot(&infos[*first], info));
            boots.of.push(known.unwrap_or(boots.first.len()));
            if known.is_none() {
                boots.first.push((at, info.clock));
            }
        }
        boots
    }

    /// The one that booted first: no time is before its clock's 0.
    fn oldest(&self) -> Option<(usize, ClockOffset)> {
        let first = self.first.iter().copied();
        first.min_by_key(|(_, clock)| wall_ns(*clock))
    }

    fn later_ns(&self, boot: usize) -> u64 {
        let of = self.first.get(boot).map_or(0, |(_, clock)| wall_ns(*clock));
        let oldest = self.oldest().map_or(0, |(_, clock)| wall_ns(clock));
        of.saturating_sub(oldest)
    }
}

fn wall_ns(clock: ClockOffset) -> u64 {
    clock
        .seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::from(clock.nanoseconds))
}

fn is_same_boot(one: &TraceInfo, other: &TraceInfo) -> bool {
    if one.uuid == other.uuid {
        return true;
    }
    if !one.boot.is_empty() && !other.boot.is_empty() {
        return one.boot == other.boot;
    }
    let place = |info: &TraceInfo| {
        (
            info.hostname.clone(),
            info.kernel_release.clone(),
            info.machine.clone(),
        )
    };
    place(one) == place(other) && wall_ns(one.clock).abs_diff(wall_ns(other.clock)) <= SAME_BOOT_NS
}

/// Description of the new trace, but for buffers and events.
fn described(infos: &[TraceInfo], boots: &Boots) -> TraceInfo {
    let joined = |of: fn(&TraceInfo) -> &String, between: &str| {
        let mut all: Vec<&str> = Vec::new();
        for info in infos {
            if !all.contains(&of(info).as_str()) {
                all.push(of(info));
            }
        }
        all.join(between)
    };
    let uuids: BTreeSet<[u8; 16]> = infos.iter().map(|info| info.uuid.0).collect();
    TraceInfo {
        uuid: one_identity(&uuids),
        clock: boots.oldest().map(|(_, clock)| clock).unwrap_or_default(),
        hostname: joined(|info| &info.hostname, "+"),
        boot: match boots.first.len() {
            1 => infos[0].boot.clone(),
            _ => String::new(),
        },
        kernel_release: joined(|info| &info.kernel_release, "+"),
        machine: joined(|info| &info.machine, "+"),
        tracer_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: joined(|info| &info.command, "; "),
        session: joined(|info| &info.session, "+"),
        buffers: Vec::new(),
        events: Vec::new(),
    }
}

/// An identity made of several: that of one alone, else one that the same ones give again, whatever their order.
fn one_identity(uuids: &BTreeSet<[u8; 16]>) -> Uuid {
    let mut all = uuids.iter();
    let (Some(first), 1) = (all.next(), uuids.len()) else {
        // FNV-1a of 128 bits.
        let bytes = uuids.iter().flatten();
        let hash = bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
            (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        });
        let mut bytes = hash.to_be_bytes();
        // Version 8, variant 1 (RFC 9562): made by a rule of one's own.
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        return Uuid(bytes);
    };
    Uuid(*first)
}

/// Sum of the recorders' counts; gives also of how many nothing is known.
fn sum(infos: &[TraceInfo], summaries: &[Option<Summary>], notes: &[String]) -> (Summary, usize) {
    let known: Vec<&Summary> = summaries.iter().flatten().collect();
    let mut counts: BTreeMap<(&str, u32), EventCount> = BTreeMap::new();
    for count in known.iter().flat_map(|summary| &summary.events) {
        let sum = counts
            .entry((&count.event, count.cpu))
            .or_insert_with(|| EventCount {
                event: count.event.clone(),
                cpu: count.cpu,
                ..EventCount::default()
            });
        sum.recorded = sum.recorded.saturating_add(count.recorded);
        sum.lost = sum.lost.saturating_add(count.lost);
        sum.overwritten = sum.overwritten.saturating_add(count.overwritten);
    }
    let started = known.iter().map(|summary| summary.started_ns).min().unwrap_or(0);
    let ended = known
        .iter()
        .map(|summary| summary.started_ns.saturating_add(summary.duration_ns))
        .max();
    // A count that one of the recorders does not know is not known of all together.
    let missed: Option<Vec<Missed>> = known.iter().map(|summary| summary.missed).collect();
    let frozen: Option<Vec<u64>> = known.iter().map(|summary| summary.frozen).collect();
    let mut summary = Summary {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: infos.first().map(|info| info.command.clone()).unwrap_or_default(),
        started_ns: started,
        duration_ns: ended.unwrap_or(0).saturating_sub(started),
        events: counts.into_values().collect(),
        frozen: frozen.map(|all| all.into_iter().fold(0, u64::saturating_add)),
        missed: missed.map(|all| Missed {
            hits: all.iter().map(|missed| missed.hits).fold(0, u64::saturating_add),
            at_least: all.iter().any(|missed| missed.at_least),
        }),
        notes: Vec::new(),
        limits: Vec::new(),
        cut_short: known.iter().find_map(|summary| summary.cut_short.clone()),
    };
    let all = known.iter().flat_map(|summary| &summary.notes).chain(notes);
    for note in all {
        if !summary.notes.contains(note) {
            summary.notes.push(note.clone());
        }
    }
    let limits = known.iter().flat_map(|summary| &summary.limits);
    for limit in limits {
        if !summary.limits.contains(limit) {
            summary.limits.push(limit.clone());
        }
    }
    (summary, summaries.len() - known.len())
}
