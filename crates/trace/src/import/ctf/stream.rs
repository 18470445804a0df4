//! The records of a stream of another tracer: its packets one by one, a window of each in memory.

use super::super::draft::{Draft, Events};
use super::bits::{Bits, Stop};
use super::class::value::{Scope, walk};
use super::class::{Class, Thread};
use super::tsdl::StreamClass;
use super::types::{Integer, Type};
use crate::packet::CPUS;
use crate::process::Processes;
use crate::record::Record;
use crate::tasks::Tasks;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// State that all streams of a trace share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) little: bool,
    pub(super) packet_header: Option<Type>,
    pub(super) streams: Vec<StreamClass>,
    /// By the number of the stream's class and its own.
    pub(super) classes: HashMap<(u64, u64), Class, foldhash::fast::RandomState>,
    /// Cycles of its clock in a second.
    pub(super) frequency: u64,
    /// How much later than those of the other traces that are read with it its clock begins.
    pub(super) shift_ns: i128,
    /// The process that all of its records are of; 0 where they are of several.
    pub(super) process: u32,
}

/// The first word of a packet.
const MAGIC: i128 = 0xc1fc_1fc1;
/// Bytes of a packet that are in memory, at first and at most.
const WINDOW: usize = 1 << 17;
const MAX: usize = 1 << 26;
/// Events of each stream from which names are learned before all others.
const SURVEYED: u32 = 1 << 14;
/// The event by which a stream says which thread runs.
const SWITCH: &str = "sched:sched_switch";

/// A stream's records.
#[derive(Debug)]
pub(super) struct Stream {
    name: String,
    file: File,
    length: u64,
    shared: Arc<Shared>,
    /// Where the packet at hand begins and the next one, in bytes of the file.
    packet: u64,
    next_packet: u64,
    /// The next event, and the end of the packet's events, in bits of the packet.
    at: u64,
    end: u64,
    window: Vec<u8>,
    /// Where the window begins in the packet, in bytes.
    from: u64,
    /// The stream's class, by its index.
    class: usize,
    cpu: u32,
    /// Time of the clock, in cycles.
    cycles: u64,
    /// Time at which the packet at hand was left, in cycles.
    left_at: u64,
    discarded: Option<u64>,
    sequence: Option<u64>,
    lost: u64,
    absent: u64,
    previous_ns: u64,
    /// The thread that runs, as the last switch said.
    running: u32,
    /// Whether a switch was read, and what the first one says of the thread that ran until then.
    switched: bool,
    ran_first: Option<RanFirst>,
    /// Thread of the last event.
    thread: Thread,
    ended: bool,
    damage: Option<String>,
}

/// The thread that ran until the first switch of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RanFirst {
    /// Time of the switch.
    pub(super) time_ns: u64,
    /// The thread's number.
    pub(super) thread: u32,
    /// The thread's name at that time; empty where the switch does not have it.
    pub(super) name: String,
}

/// Threads that the first events of a stream name.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// The thread that ran until the first switch.
    pub(super) first: Option<RanFirst>,
    /// Whether a context or a switch says of which thread a record is.
    pub(super) knows_threads: bool,
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    content: Option<u64>,
    size: Option<u64>,
    begin: Option<u64>,
    end: Option<u64>,
    discarded: Option<u64>,
    sequence: Option<u64>,
    cpu: Option<u64>,
    class: usize,
    /// Bits of header and context.
    bits: u64,
}

impl Stream {
    pub(super) fn new(name: String, file: File, length: u64, shared: Arc<Shared>, number: u32) -> Self {
        Self {
            name,
            file,
            length,
            shared,
            packet: 0,
            next_packet: 0,
            at: 0,
            end: 0,
            window: Vec::new(),
            from: 0,
            class: 0,
            cpu: number,
            cycles: 0,
            left_at: u64::MAX,
            discarded: None,
            sequence: None,
            lost: 0,
            absent: 0,
            previous_ns: 0,
            running: 0,
            switched: false,
            ran_first: None,
            thread: Thread::default(),
            ended: false,
            damage: None,
        }
    }

    /// This stream, given the thread that runs at its beginning.
    pub(super) fn running(self, thread: u32) -> Self {
        Self {
            running: thread,
            ..self
        }
    }

    /// Learns names of threads and their processes from the first events; says which thread ran until the first switch, and whether any record says of which
    /// thread it is.
    pub(super) fn survey(mut self, processes: &mut Processes, tasks: &mut Tasks) -> io::Result<Survey> {
        let mut found = Survey::default();
        let mut draft = Draft::default();
        for _ in 0..SURVEYED {
            if !self.next(&mut draft)? {
                break;
            }
            let (pid, tid) = self.thread.numbers(0, self.shared.process);
            found.knows_threads |= self.thread.is_known() || self.running != 0;
            if tid != 0 {
                tasks.insert(tid, pid);
                if !self.thread.name.is_empty() {
                    processes.insert(tid, &self.thread.name[..]);
                }
            }
        }
        found.knows_threads |= self.ran_first.is_some();
        found.first = self.ran_first;
        Ok(found)
    }

    fn broken(&mut self, at: u64, what: &str) {
        let name = &self.name;
        self.damage
            .get_or_insert_with(|| format!("{name}, at byte {at}: {what}"));
    }

    /// Reads the packet from a byte on.
    fn look(&mut self, from: u64, bytes: usize) -> io::Result<()> {
        let left = self.length.saturating_sub(self.packet + from);
        let size = (bytes as u64).min(left) as usize;
        self.window.resize(size, 0);
        self.from = from;
        let mut done = 0;
        while done < size {
            match self
                .file
                .read_at(&mut self.window[done..], self.packet + from + done as u64)
            {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.window.truncate(done);
        Ok(())
    }

    /// Goes to the next packet; false at the end.
    fn load(&mut self) -> io::Result<bool> {
        self.packet = self.next_packet;
        let left = self.length.saturating_sub(self.packet);
        if left == 0 {
            return Ok(false);
        }
        self.look(0, WINDOW)?;
        let at = self.packet;
        let head = match self.head() {
            Ok(head) => head,
            Err(stop) => {
                let why = match stop {
                    Stop::Wrong(why) => why,
                    Stop::Window | Stop::End => "a packet's head is cut",
                };
                self.broken(at, &format!("{why}; what is behind it is not read"));
                return Ok(false);
            }
        };
        // A stream whose packets do not say how long they are is one packet.
        let size = head.size.unwrap_or(left.saturating_mul(8));
        let content = head.content.unwrap_or(size);
        if !size.is_multiple_of(8) || size / 8 == 0 || content > size || head.bits > content {
            self.broken(
                at,
                &format!(
                    "a packet of {size} bits with {content} bits of content; what is behind it is not read"
                ),
            );
            return Ok(false);
        }
        // From here on the next packet's place is known, so an error inside of this one loses no other.
        self.next_packet = at + size / 8;
        (self.at, self.end) = (head.bits, content);
        if self.next_packet > self.length {
            self.broken(
                at,
                &format!(
                    "the file was cut: of a packet of {} bytes {left} are there",
                    size / 8
                ),
            );
            self.end = self.end.min(left * 8);
        }
        self.class = head.class;
        // Tracers of others have numbers there that are no CPU's: such a packet stays with the CPU before it, or with its stream's number.
        let cpu = head.cpu.and_then(|cpu| u32::try_from(cpu).ok());
        self.cpu = cpu.filter(|cpu| *cpu < CPUS).unwrap_or(self.cpu);
        let before = self.cycles;
        self.cycles = head.begin.unwrap_or(before);
        if self.cycles < before {
            self.broken(at, "a packet begins before an event of the packet before it");
        }
        // Tracers that do not know when a packet ends have 0 there.
        self.left_at = head.end.filter(|end| *end != 0).unwrap_or(u64::MAX);
        if self.left_at < self.cycles {
            self.broken(at, "a packet ends before it begins");
            self.left_at = u64::MAX;
        }
        // The count runs over the whole stream: what this packet adds was lost before its end.
        let is_part = self.discarded.is_none() && head.sequence.is_some_and(|sequence| sequence > 0);
        if let Some(discarded) = head.discarded {
            // Of a stream whose begin is elsewhere (a part of a rotated session) it is not known how much of the count is of this part.
            let before = self.discarded.unwrap_or(if is_part { discarded } else { 0 });
            self.lost = self.lost.saturating_add(discarded.saturating_sub(before));
            // A packet that is left late, by a writer that was preempted, has a later count than the packet behind it: the highest count counts. One that fell
            // by more than half of 32 bits began anew.
            self.discarded = Some(match before.saturating_sub(discarded) > u64::from(u32::MAX / 2) {
                true => discarded,
                false => before.max(discarded),
            });
        }
        // A tracer that overwrites its oldest packets leaves gaps, which are no damage.
        if let Some(sequence) = head.sequence
            && let Some(before) = self.sequence.replace(sequence)
        {
            if sequence <= before {
                self.broken(at, "packets are not in the order of their numbers");
            }
            let absent = sequence.saturating_sub(before.saturating_add(1));
            self.absent = self.absent.saturating_add(absent);
        }
        Ok(true)
    }

    fn head(&self) -> Result<Head, Stop> {
        let shared = &self.shared;
        let mut bits = Bits::new(&self.window, 0, 0, self.window.len() as u64 * 8, shared.little);
        let mut scope: Scope<'_> = Vec::new();
        let mut none = |_: &Integer, _| {};
        if let Some(ty) = &shared.packet_header {
            walk(ty, "", &mut bits, &mut scope, &mut none)?;
        }
        let find = |scope: &Scope<'_>, name: &str| {
            let found = scope.iter().find(|(known, ..)| *known == name);
            found.map(|(_, value, _)| *value)
        };
        if find(&scope, "magic").is_some_and(|magic| magic != MAGIC) {
            return Err(Stop::Wrong("it is not the beginning of a packet"));
        }
        // A trace with one kind of stream need not number it (CTF 1.8.3).
        let id = find(&scope, "stream_id").unwrap_or(0);
        let class = shared.streams.iter().position(|class| i128::from(class.id) == id);
        let class = match class {
            Some(class) => class,
            None => {
                return Err(Stop::Wrong(
                    "a packet of a stream that the metadata do not describe",
                ));
            }
        };
        scope.clear();
        if let Some(ty) = &shared.streams[class].packet_context {
            walk(ty, "", &mut bits, &mut scope, &mut none)?;
        }
        let long = |name: &str| find(&scope, name).and_then(|value| u64::try_from(value).ok());
        Ok(Head {
            content: long("content_size"),
            size: long("packet_size"),
            begin: long("timestamp_begin"),
            end: long("timestamp_end"),
            discarded: long("events_discarded"),
            sequence: long("packet_seq_num"),
            cpu: long("cpu_id"),
            class,
            bits: bits.at,
        })
    }

    /// Reads the event at hand; the place behind it, and whether it had room.
    fn event(&self, draft: &mut Draft) -> Result<Read, Stop> {
        let shared = &*self.shared;
        let stream = shared
            .streams
            .get(self.class)
            .ok_or(Stop::Wrong("it is of no stream"))?;
        let mut bits = Bits::new(&self.window, self.from, self.at, self.end, shared.little);
        let mut scope: Scope<'_> = Vec::new();
        let mut cycles = self.cycles;
        if let Some(ty) = &stream.event_header {
            walk(ty, "", &mut bits, &mut scope, &mut |integer, value| {
                cycles = advanced(cycles, integer.bits, value);
            })?;
        }
        // The last one: LTTng's extended headers have an `id` of their own behind the one that announces them.
        let id = scope
            .iter()
            .rev()
            .find(|(name, ..)| *name == "id")
            .map_or(0, |(_, id, _)| *id);
        let key = (stream.id, u64::try_from(id).unwrap_or(u64::MAX));
        let wrong_time = match cycles {
            cycles if cycles < self.cycles => Some("an event is earlier than the one before it"),
            cycles if cycles > self.left_at => Some("an event is later than its packet ends"),
            _ => None,
        };
        // What is wrong here must not put off the events behind it.
        let cycles = cycles.min(self.left_at);
        let class = shared
            .classes
            .get(&key)
            .ok_or(Stop::Wrong("an event that the metadata do not describe"))?;
        // Readers rely on times that do not run backwards within a stream.
        let time_ns = i128::from(nanoseconds(cycles, shared.frequency)).saturating_add(shared.shift_ns);
        let time_ns = u64::try_from(time_ns).unwrap_or(0).max(self.previous_ns);
        draft.begin(&class.event, time_ns, self.cpu, (0, 0));
        let mut thread = Thread::default();
        class.read(&mut bits, &mut scope, draft, &mut thread)?;
        let whole = draft.end(&class.event);
        draft.of_thread(thread.numbers(self.running, shared.process));
        // It would be read again and again.
        if bits.at == self.at {
            return Err(Stop::Wrong("an event without a bit"));
        }
        Ok(Read {
            at: bits.at,
            cycles,
            time_ns,
            whole,
            wrong_time,
            thread,
            switch: match class.event.name == SWITCH {
                true => Some(Switch::of(class, draft, time_ns, !self.switched)),
                false => None,
            },
        })
    }
}

/// An event that was read.
#[derive(Clone, Debug)]
struct Read {
    at: u64,
    cycles: u64,
    time_ns: u64,
    whole: bool,
    /// What is wrong with its time, if anything.
    wrong_time: Option<&'static str>,
    thread: Thread,
    switch: Option<Switch>,
}

/// A switch: the thread that ran until then, where that is asked for, and the one that runs from now on.
#[derive(Clone, Debug)]
struct Switch {
    from: Option<RanFirst>,
    to: Option<u32>,
}

impl Switch {
    fn of(class: &Class, draft: &Draft, time_ns: u64, is_first: bool) -> Self {
        let record = Record {
            time_ns,
            cpu: 0,
            pid: 0,
            tid: 0,
            event: &class.event,
            bytes: draft.bytes(),
            unwound: None,
            rest: &[],
        };
        let thread = |field| u32::try_from(record.get(field)?.as_u64()?).ok();
        let name = || {
            record
                .get("prev_comm")
                .and_then(|value| value.as_text())
                .unwrap_or_default()
        };
        Self {
            from: match is_first {
                true => thread("prev_pid").map(|thread| RanFirst {
                    time_ns,
                    thread,
                    name: name().into_owned(),
                }),
                false => None,
            },
            to: thread("next_pid"),
        }
    }
}

/// A clock whose low bits are known.
fn advanced(before: u64, bits: u64, value: u64) -> u64 {
    if bits >= 64 {
        return value;
    }
    let mask = (1 << bits) - 1;
    let now = before & !mask | value & mask;
    match now < before {
        true => now.wrapping_add(1 << bits),
        false => now,
    }
}

/// Cycles in ns.
pub(super) fn nanoseconds(cycles: u64, frequency: u64) -> u64 {
    match frequency {
        1_000_000_000 => cycles,
        frequency => (u128::from(cycles) * 1_000_000_000 / u128::from(frequency.max(1))) as u64,
    }
}

impl Events for Stream {
    fn next(&mut self, draft: &mut Draft) -> io::Result<bool> {
        let mut bytes = WINDOW;
        loop {
            if self.ended {
                return Ok(false);
            }
            if self.at >= self.end {
                if !self.load()? {
                    self.ended = true;
                    let lost = std::mem::take(&mut self.lost);
                    draft.only_lost(self.previous_ns, self.cpu, lost);
                    return Ok(lost > 0);
                }
                continue;
            }
            let place = self.packet + self.at / 8;
            match self.event(draft) {
                Ok(read) => {
                    draft.lost = std::mem::take(&mut self.lost);
                    draft.absent = std::mem::take(&mut self.absent);
                    (self.at, self.cycles, self.previous_ns) = (read.at, read.cycles, read.time_ns);
                    if let Some(Switch { from, to }) = read.switch {
                        if !std::mem::replace(&mut self.switched, true) {
                            self.ran_first = from;
                        }
                        self.running = to.unwrap_or(self.running);
                    }
                    self.thread = read.thread;
                    if let Some(what) = read.wrong_time {
                        self.broken(place, what);
                    }
                    if !read.whole {
                        self.broken(place, "an event is longer than a record may be, and is cut");
                    }
                    return Ok(true);
                }
                Err(Stop::Window)
                    if bytes <= MAX && self.packet + self.from + (self.window.len() as u64) < self.length =>
                {
                    // The event reaches beyond what is in memory: from its begin, more of the file is read each time.
                    self.look(self.at / 8, bytes)?;
                    bytes *= 2;
                }
                Err(stop) => {
                    let why = match stop {
                        Stop::Wrong(why) => why,
                        Stop::End => "an event reaches beyond its packet",
                        Stop::Window => "an event is longer than what can be read at once, or than the file",
                    };
                    self.broken(place, &format!("{why}; the rest of the packet is not read"));
                    self.at = self.end;
                }
            }
        }
    }

    fn damage(&mut self) -> Option<String> {
        self.damage.take()
    }
}
