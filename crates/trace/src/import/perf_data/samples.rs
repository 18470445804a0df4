//! The second pass over a `perf.data` file: its samples as records, in order of time.

use super::super::draft::{Draft, Events};
use super::super::input::Input;
use super::super::kernel_event::KernelEvent;
use super::features::{Attributes, Features};
use super::records::Records;
use crate::convert::perf_data::{CONTEXT, FLAG_SAMPLE_ID_ALL, TRACEPOINT, kind, sampled};
use crate::event::{EventClass, EventId};
use crate::layout::{Base, FieldType, Layout, Space};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::io;

/// Sample ids, which tell the event of a sample: by its number, which stands at a place that all events of a file have in common.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    by_id: HashMap<u64, usize, foldhash::fast::RandomState>,
    /// Words of the sample before the number, and in other records from their end; none where there is one event without numbers.
    place: Option<(usize, usize)>,
}

/// Trailer of records that are no samples (`sample_id_all`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trailer {
    pub(super) time_ns: u64,
    pub(super) cpu: u32,
}

/// Words that stand before a number in a sample.
const BEFORE_ID: [u64; 4] = [sampled::IP, sampled::TID, sampled::TIME, sampled::ADDR];

impl Ids {
    pub(super) fn new(attributes: &[Attributes]) -> Self {
        let mut by_id = HashMap::default();
        for (index, it) in attributes.iter().enumerate() {
            by_id.extend(it.ids.iter().map(|id| (*id, index)));
        }
        let place = attributes
            .first()
            .filter(|_| attributes.len() > 1)
            .and_then(|first| {
                if first.sampled & sampled::IDENTIFIER != 0 {
                    return Some((0, 1));
                }
                if first.sampled & sampled::ID == 0 {
                    return None;
                }
                let before = BEFORE_ID.iter().filter(|bit| first.sampled & **bit != 0);
                let behind = [sampled::CPU, sampled::STREAM_ID];
                let behind = behind.iter().filter(|bit| first.sampled & **bit != 0);
                Some((before.count(), behind.count() + 1))
            });
        Self { by_id, place }
    }

    /// The event of a sample; the first where it does not say.
    fn of_sample(&self, body: &[u8]) -> Option<usize> {
        let Some((before, _)) = self.place else {
            return Some(0);
        };
        let id = body.get(before * 8..)?.first_chunk()?;
        self.by_id.get(&u64::from_le_bytes(*id)).copied()
    }

    /// Trailer of a record that is no sample.
    pub(super) fn trailer(&self, body: &[u8], attributes: &[Attributes]) -> Option<Trailer> {
        let event = match self.place {
            None => 0,
            Some((_, behind)) => {
                let at = body.len().checked_sub(behind * 8)?;
                let id = u64::from_le_bytes(*body.get(at..)?.first_chunk()?);
                // Records of perf itself are of no event.
                self.by_id.get(&id).copied().unwrap_or(0)
            }
        };
        let it = attributes.get(event)?;
        if it.flags & FLAG_SAMPLE_ID_ALL == 0 {
            return None;
        }
        let has = |bit| it.sampled & bit != 0;
        let order = [
            sampled::TID,
            sampled::TIME,
            sampled::ID,
            sampled::STREAM_ID,
            sampled::CPU,
            sampled::IDENTIFIER,
        ];
        let words = order.iter().filter(|bit| has(**bit)).count();
        let mut input = Input::new(body.get(body.len().checked_sub(words * 8)?..)?);
        let mut trailer = Trailer::default();
        for bit in order.into_iter().filter(|bit| has(*bit)) {
            let word = input.u64()?;
            match bit {
                sampled::TIME => trailer.time_ns = word,
                sampled::CPU => trailer.cpu = word as u32,
                _ => {}
            }
        }
        Some(trailer)
    }
}

/// The events of a file.
#[derive(Debug, Default)]
pub(super) struct PerfEvents {
    events: Vec<PerfEvent>,
    attributes: Vec<Attributes>,
    ids: Ids,
    pub(super) remarks: Vec<String>,
}

impl PerfEvents {
    pub(super) fn classes(&self) -> Vec<EventClass> {
        self.events.iter().map(|event| event.class().clone()).collect()
    }
}

/// An event, and where what samples have of it goes.
#[derive(Debug)]
struct PerfEvent {
    what: What,
    /// Indices of fields.
    kernel: Option<usize>,
    user: Option<usize>,
    ip: Option<usize>,
    addr: Option<usize>,
    period: Option<usize>,
    raw: Option<usize>,
}

#[derive(Debug)]
enum What {
    Tracepoint(KernelEvent),
    Other(EventClass),
}

impl PerfEvent {
    fn class(&self) -> &EventClass {
        match &self.what {
            What::Tracepoint(event) => &event.class,
            What::Other(class) => class,
        }
    }
}

/// Parts of samples that are not shown.
const UNSEEN: &[(u64, &str)] = &[
    (
        sampled::READ,
        "counts, of which perf script makes samples of the other events of a group (-e '{A,B}:S')",
    ),
    (sampled::BRANCH_STACK, "branches"),
    (sampled::REGS_USER, "registers of the process"),
    (
        sampled::STACK_USER,
        "copies of the process's stack, in which perf finds call chains (--call-graph dwarf)",
    ),
    (sampled::WEIGHT | sampled::WEIGHT_STRUCT, "weights"),
    (sampled::DATA_SRC, "sources of data"),
    (sampled::TRANSACTION, "transactions"),
    (sampled::REGS_INTR, "registers"),
    (sampled::PHYS_ADDR, "physical addresses"),
    (sampled::AUX, "processor traces"),
    (sampled::CGROUP, "control groups"),
];

/// The events of a file as classes.
pub(super) fn events(features: &Features) -> PerfEvents {
    let mut all = PerfEvents {
        ids: Ids::new(&features.attributes),
        attributes: features.attributes.clone(),
        ..PerfEvents::default()
    };
    for (attributes, number) in features.attributes.iter().zip(1..) {
        let event = event(features, attributes, EventId(number), &mut all.remarks);
        let name = &event.class().name;
        let unseen: Vec<&str> = UNSEEN
            .iter()
            .filter(|(bits, _)| attributes.sampled & bits != 0)
            .map(|(_, what)| *what)
            .collect();
        if !unseen.is_empty() {
            all.remarks.push(format!(
                "samples of {name} have more, which is not shown: {}",
                unseen.join(", ")
            ));
        }
        for (bit, what) in [
            (sampled::TIME, "times: they stand in the order of the file"),
            (sampled::CPU, "CPUs: all are shown on CPU 0"),
            (sampled::TID, "threads"),
        ] {
            if attributes.sampled & bit == 0 {
                all.remarks.push(format!("samples of {name} have no {what}"));
            }
        }
        all.events.push(event);
    }
    all
}

fn event(features: &Features, attributes: &Attributes, id: EventId, remarks: &mut Vec<String>) -> PerfEvent {
    let stack = |space| FieldType::Stack { space, max: 1024 };
    let pointer = || FieldType::Pointer { symbolic: true };
    let mut more = Vec::new();
    if attributes.sampled & sampled::CALLCHAIN != 0 {
        more.push(("kstack".to_owned(), stack(Space::Kernel)));
        more.push(("ustack".to_owned(), stack(Space::User)));
    }
    let tracing = features
        .tracing
        .as_ref()
        .filter(|_| attributes.kind == TRACEPOINT);
    let format = tracing.and_then(|data| {
        data.events
            .iter()
            .find(|(_, format)| format.id == attributes.config)
    });
    let what = if let Some((system, format)) = format {
        let mut event = KernelEvent::new(system, format, id, more, remarks);
        // The file's own name may have characters that names in formats cannot have.
        let named = attributes.name.as_ref();
        if let Some(own) = named.filter(|own| plain(own) == plain(&event.class.name)) {
            event.class.name.clone_from(own);
        }
        What::Tracepoint(event)
    } else {
        let named = attributes.name.as_deref();
        let name = match (attributes.kind, named) {
            (TRACEPOINT, named) => {
                let name = named.map_or_else(|| format!("tracepoint:{}", attributes.config), str::to_owned);
                remarks.push(format!(
                    "the format of {name} (tracepoint {}) is not in the file: its records have their bytes alone",
                    attributes.config
                ));
                name
            }
            (kind, named) => {
                let own = OWN
                    .iter()
                    .find(|(of, number, _)| (*of, *number) == (kind, attributes.config));
                let own = own.map(|(.., name)| *name);
                let name = named
                    .or(own)
                    .map_or_else(|| format!("{:#x}", attributes.config), str::to_owned);
                match kind {
                    0 | 3 => format!("hardware:{name}"),
                    1 => format!("software:{name}"),
                    _ if named.is_some() => name,
                    kind => format!("type {kind}:{name}"),
                }
            }
        };
        let integer = |base| FieldType::Integer {
            size: 8,
            signed: false,
            base,
        };
        let mut fields = Vec::new();
        if attributes.kind != TRACEPOINT {
            for (bit, name, ty) in [
                (sampled::IP, "ip", pointer()),
                (sampled::ADDR, "addr", pointer()),
                (sampled::PERIOD, "period", integer(Base::Decimal)),
            ] {
                if attributes.sampled & bit != 0 {
                    fields.push((name.to_owned(), ty));
                }
            }
        }
        if attributes.sampled & sampled::RAW != 0 {
            fields.push(("raw".to_owned(), FieldType::Bytes { max: 1 << 12 }));
        }
        fields.extend(more);
        let kind = match attributes.kind {
            0 | 3 => "hardware",
            1 => "software",
            _ => "tracepoint",
        };
        What::Other(EventClass {
            id,
            name,
            kind: kind.to_owned(),
            layout: Layout::new(fields),
            action: None,
            print: None,
        })
    };
    let mut it = PerfEvent {
        what,
        kernel: None,
        user: None,
        ip: None,
        addr: None,
        period: None,
        raw: None,
    };
    let own = match &it.what {
        What::Tracepoint(event) => event.own,
        What::Other(_) => 0,
    };
    let names: Vec<String> = it
        .class()
        .layout
        .fields()
        .iter()
        .map(|field| field.name.clone())
        .collect();
    let find = |name: &str| {
        names
            .iter()
            .skip(own)
            .position(|own| own == name)
            .map(|at| at + own)
    };
    (it.kernel, it.user, it.raw) = (find("kstack"), find("ustack"), find("raw"));
    (it.ip, it.addr, it.period) = (find("ip"), find("addr"), find("period"));
    it
}

/// A name with the characters that names in formats have.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(plain).collect()
}

/// Names of the kernel's own counters, by type and number.
const OWN: &[(u32, u64, &str)] = &[
    (0, 0, "cycles"),
    (0, 1, "instructions"),
    (0, 2, "cache-references"),
    (0, 3, "cache-misses"),
    (0, 4, "branches"),
    (0, 5, "branch-misses"),
    (1, 0, "cpu-clock"),
    (1, 1, "task-clock"),
    (1, 2, "page-faults"),
    (1, 3, "context-switches"),
    (1, 4, "cpu-migrations"),
    (1, 5, "minor-faults"),
    (1, 6, "major-faults"),
];

/// Samples in order of time.
#[derive(Debug)]
pub(super) struct Samples {
    records: Records,
    events: PerfEvents,
    draft: Draft,
    /// Records that wait for those that may be earlier.
    waiting: BinaryHeap<Reverse<Waiting>>,
    bytes: usize,
    number: u64,
    /// The greatest time met, the greatest at the end of the last round, and the one up to which all records are here.
    newest_ns: u64,
    round_ns: u64,
    whole_ns: u64,
    /// Whether there are too many.
    full: bool,
    ended: bool,
    damage: Option<String>,
}

/// A record that waits.
#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    time_ns: u64,
    number: u64,
    cpu: u32,
    lost: u64,
    bytes: Box<[u8]>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time_ns, self.number).cmp(&(other.time_ns, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Most bytes of records that wait: where a file asks for more, the earliest half goes on, and records that come too late after that are reported.
const MAX: usize = 1 << 28;
/// Bytes that each takes beside its own.
const EACH: usize = 64;

impl Samples {
    pub(super) fn new(records: Records, events: PerfEvents) -> Self {
        Self {
            records,
            events,
            draft: Draft::default(),
            waiting: BinaryHeap::new(),
            bytes: 0,
            number: 0,
            newest_ns: 0,
            round_ns: 0,
            whole_ns: 0,
            full: false,
            ended: false,
            damage: None,
        }
    }

    fn broken(&mut self, what: impl FnOnce() -> String) {
        self.damage.get_or_insert_with(what);
    }

    /// Reads a record of the file.
    fn step(&mut self) -> io::Result<()> {
        let Some(record) = self.records.next()? else {
            self.ended = true;
            return Ok(());
        };
        match record.kind {
            kind::SAMPLE => self.sample(record.at),
            kind::LOST => self.lost(8),
            kind::LOST_SAMPLES => self.lost(0),
            // The newest record at the end of the round before has nothing before it that is still to come.
            kind::FINISHED_ROUND => {
                self.whole_ns = self.whole_ns.max(self.round_ns);
                self.round_ns = self.newest_ns;
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self) {
        let draft = &self.draft;
        self.newest_ns = self.newest_ns.max(draft.time_ns);
        self.bytes += draft.bytes().len() + EACH;
        self.waiting.push(Reverse(Waiting {
            time_ns: draft.time_ns,
            number: self.number,
            cpu: draft.cpu,
            lost: draft.lost,
            bytes: draft.bytes().into(),
        }));
        self.number += 1;
    }

    /// Takes a record of lost events, whose number stands at an offset.
    fn lost(&mut self, at: usize) {
        let body = self.records.body();
        let lost = body.get(at..).and_then(|bytes| bytes.first_chunk());
        let Some(lost) = lost.map(|lost| u64::from_le_bytes(*lost)) else {
            return;
        };
        let trailer = self.events.ids.trailer(body, &self.events.attributes);
        let Trailer { time_ns, cpu } = trailer.unwrap_or(Trailer {
            time_ns: self.newest_ns,
            cpu: 0,
        });
        self.draft.only_lost(time_ns, cpu, lost);
        self.push();
    }

    fn sample(&mut self, at: u64) {
        let body = self.records.body();
        let Some(index) = self.events.ids.of_sample(body) else {
            self.broken(|| format!("at byte {at}: a sample of an event that the file does not describe"));
            return;
        };
        let (Some(event), Some(attributes)) =
            (self.events.events.get(index), self.events.attributes.get(index))
        else {
            self.broken(|| format!("at byte {at}: a sample, and the file describes no event"));
            return;
        };
        match sample(body, event, attributes, self.newest_ns, &mut self.draft) {
            Some(true) => self.push(),
            Some(false) => {
                self.push();
                self.broken(|| format!("at byte {at}: a sample is longer than a record may be, and is cut"));
            }
            None => self.broken(|| format!("at byte {at}: a sample that is shorter than its event says")),
        }
    }
}

impl Events for Samples {
    fn next(&mut self, draft: &mut Draft) -> io::Result<bool> {
        loop {
            self.full = self.bytes > if self.full { MAX / 2 } else { MAX };
            let may = |first: &Waiting| self.ended || self.full || first.time_ns <= self.whole_ns;
            if self.waiting.peek().is_some_and(|Reverse(first)| may(first)) {
                let Some(Reverse(first)) = self.waiting.pop() else {
                    return Ok(false);
                };
                self.bytes -= first.bytes.len() + EACH;
                draft.put(first.time_ns, first.cpu, first.lost, &first.bytes);
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            self.step()?;
        }
    }

    fn damage(&mut self) -> Option<String> {
        self.records.damage().or_else(|| self.damage.take())
    }
}

/// Makes a sample a record; none where it is too short, false where some of it was cut.
fn sample(
    body: &[u8],
    event: &PerfEvent,
    attributes: &Attributes,
    newest_ns: u64,
    draft: &mut Draft,
) -> Option<bool> {
    let has = |bit| attributes.sampled & bit != 0;
    let mut input = Input::new(body);
    let mut word = |bit| -> Option<Option<u64>> {
        match has(bit) {
            true => Some(Some(input.u64()?)),
            false => Some(None),
        }
    };
    word(sampled::IDENTIFIER)?;
    let ip = word(sampled::IP)?;
    let thread = word(sampled::TID)?.unwrap_or(0);
    let time_ns = word(sampled::TIME)?.unwrap_or(newest_ns);
    let addr = word(sampled::ADDR)?;
    word(sampled::ID)?;
    word(sampled::STREAM_ID)?;
    let cpu = word(sampled::CPU)?.unwrap_or(0) as u32;
    let period = word(sampled::PERIOD)?;
    if has(sampled::READ) {
        counts(&mut input, attributes.counts)?;
    }
    let class = event.class();
    draft.begin(class, time_ns, cpu, (thread as u32, (thread >> 32) as u32));
    for (index, value) in [(event.ip, ip), (event.addr, addr), (event.period, period)] {
        if let Some(field) = index.and_then(|index| class.layout.fields().get(index))
            && let Some(value) = value
        {
            draft.set(field, &value.to_le_bytes());
        }
    }
    if has(sampled::CALLCHAIN) {
        let count = usize::try_from(input.u64()?).ok()?;
        let chain = input.take(count.checked_mul(8)?)?;
        let mut space = event.kernel;
        for address in chain.as_chunks::<8>().0 {
            match u64::from_le_bytes(*address) {
                mark if mark == CONTEXT[0] => space = event.kernel,
                mark if mark == CONTEXT[1] => space = event.user,
                // Others' contexts: a hypervisor's, a guest's.
                mark if mark >= CONTEXTS => space = None,
                _ => {
                    if let Some(index) = space {
                        draft.hold(index, address);
                    }
                }
            }
        }
    }
    if has(sampled::RAW) {
        let size = input.u32()?;
        let raw = input.take(size as usize)?;
        match (&event.what, event.raw) {
            (What::Tracepoint(tracepoint), _) => tracepoint.read(raw, draft),
            (_, Some(index)) => draft.hold(index, raw),
            _ => {}
        }
    }
    Some(draft.end(class))
}

/// The least of the numbers in call chains that are marks (`PERF_CONTEXT_MAX`).
const CONTEXTS: u64 = -4095i64 as u64;

/// Passes over what was read of counters (`PERF_FORMAT_…`).
fn counts(input: &mut Input<'_>, format: u64) -> Option<()> {
    const TIMES: u64 = 1 | 1 << 1;
    const OF_EACH: u64 = 1 << 2 | 1 << 4;
    const GROUP: u64 = 1 << 3;
    let times = (format & TIMES).count_ones() as usize;
    let each = (format & OF_EACH).count_ones() as usize + 1;
    let words = match format & GROUP {
        0 => times + each,
        _ => usize::try_from(input.u64()?)
            .ok()?
            .checked_mul(each)?
            .checked_add(times)?,
    };
    input.take(words.checked_mul(8)?).map(|_| ())
}
