//! Perfetto's protocol buffers: switches and wakeups of the scheduler are what its own tracer makes of ftrace, so that threads get their states; every other
//! record is an instant of its thread, with its fields as annotations.

mod schema;

use super::conversion::{Conversion, ConversionFormat, RecordingContext};
use super::names::Names;
use super::place::{NewFile, OutputPath};
use crate::error::Result;
use crate::event::EventClass;
use crate::export::json_value;
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use prost::Message as _;
use schema::{
    Annotated, Clock, ClockSnapshot, DebugAnnotation, Ftrace, FtraceCpuStats, FtraceEvent, FtraceEventBundle,
    FtraceStats, Interned, InternedData, SchedSwitch, SchedWakeup, ThreadDescriptor, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent,
};
use std::collections::{BTreeMap, HashMap, HashSet};

pub(super) const FORMAT: ConversionFormat = ConversionFormat {
    name: "perfetto",
    about: "Perfetto's protocol buffers, for its viewer and trace_processor",
    file: "kestrel.pftrace",
    begin: |recording, place| Ok(Box::new(Perfetto::new(recording, place)?)),
};

/// Numbers of clocks (`BuiltinClock`).
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;
const BOOTTIME: u32 = 6;
/// `SEQ_INCREMENTAL_STATE_CLEARED`: names are numbered from here on. `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to them.
const CLEARED: u32 = 1;
const NEEDS: u32 = 2;
/// `TYPE_INSTANT`.
const INSTANT: u32 = 3;
/// `END_OF_TRACE`.
const END: u32 = 2;
/// Events of a bundle at most.
const BUNDLE: usize = 256;
/// The annotation of instants that says where they happened.
const CPU: &str = "cpu";
/// All packets are of one writer.
const SEQUENCE: u32 = 1;

struct Perfetto {
    file: NewFile,
    symbols: Symbols,
    names: Names,
    /// ns of the wall clock when the trace's was 0.
    since_1970: u64,
    begun: bool,
    events: HashMap<u16, Encoding, foldhash::fast::RandomState>,
    /// Numbers of the names of fields and of systems that were interned; `new` are those that the next packet defines.
    fields: HashMap<String, u64>,
    systems: HashMap<String, u64>,
    new: InternedData,
    tracks: HashSet<u64, foldhash::fast::RandomState>,
    bundle: FtraceEventBundle,
    lost: BTreeMap<u32, u64>,
    bytes: Vec<u8>,
}

/// Encoding of an event's records: one of these, or both.
#[derive(Clone, Debug)]
struct Encoding {
    scheduler: Option<Sched>,
    /// None where the scheduler's message has all fields.
    instant: Option<Instant>,
}

/// Numbers of the names that an instant refers to.
#[derive(Clone, Debug)]
struct Instant {
    event: u64,
    system: u64,
    /// By field; none of those that the scheduler's message has.
    fields: Vec<Option<u64>>,
}

/// Events of the scheduler that Perfetto knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sched {
    Switch,
    Wakeup,
    Waking,
    WakeupNew,
}

const SCHEDULER: [(&str, Sched); 4] = [
    ("sched:sched_switch", Sched::Switch),
    ("sched:sched_wakeup", Sched::Wakeup),
    ("sched:sched_waking", Sched::Waking),
    ("sched:sched_wakeup_new", Sched::WakeupNew),
];

impl Sched {
    /// The event, where its records name the threads that it is about.
    fn of(event: &EventClass) -> Option<Self> {
        let (_, it) = SCHEDULER.iter().find(|(name, _)| *name == event.name)?;
        let needed: &[&str] = match it {
            Self::Switch => &["prev_pid", "next_pid"],
            _ => &["pid"],
        };
        let has = |name: &&str| event.layout.shown().any(|field| field.name == **name);
        needed.iter().all(has).then_some(*it)
    }

    /// The fields that the event's message has.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Switch => &[
                "prev_comm",
                "prev_pid",
                "prev_prio",
                "prev_state",
                "next_comm",
                "next_pid",
                "next_prio",
            ],
            Self::Wakeup | Self::Waking | Self::WakeupNew => &["comm", "pid", "prio", "target_cpu"],
        }
    }

    fn event(self, record: &Record<'_>) -> Ftrace {
        let text = |name: &str| record.get(name)?.as_text().map(std::borrow::Cow::into_owned);
        let number = |name: &str| record.get(name)?.as_i64();
        let short = |name: &str| number(name).map(|it| it as i32);
        let wakeup = || SchedWakeup {
            comm: text("comm"),
            pid: short("pid"),
            prio: short("prio"),
            target_cpu: short("target_cpu"),
        };
        match self {
            Self::Switch => Ftrace::Switch(SchedSwitch {
                prev_comm: text("prev_comm"),
                prev_pid: short("prev_pid"),
                prev_prio: short("prev_prio"),
                prev_state: number("prev_state"),
                next_comm: text("next_comm"),
                next_pid: short("next_pid"),
                next_prio: short("next_prio"),
            }),
            Self::Wakeup => Ftrace::Wakeup(wakeup()),
            Self::Waking => Ftrace::Waking(wakeup()),
            Self::WakeupNew => Ftrace::WakeupNew(wakeup()),
        }
    }
}

impl Perfetto {
    fn new(recording: RecordingContext, place: OutputPath) -> Result<Self> {
        let clock = recording.info.clock;
        let since_1970 = clock.seconds.saturating_mul(1_000_000_000);
        Ok(Self {
            file: place.file()?,
            names: Names::new(&recording),
            symbols: recording.symbols,
            since_1970: since_1970.saturating_add(clock.nanoseconds.into()),
            begun: false,
            events: HashMap::default(),
            fields: HashMap::new(),
            systems: HashMap::new(),
            new: InternedData::default(),
            tracks: HashSet::default(),
            bundle: FtraceEventBundle::default(),
            lost: BTreeMap::new(),
            bytes: Vec::new(),
        })
    }

    /// Appends a packet: field 1 of a trace.
    fn put(&mut self, packet: TracePacket) -> Result<()> {
        let packet = TracePacket {
            trusted_packet_sequence_id: SEQUENCE,
            ..packet
        };
        self.bytes.clear();
        self.bytes.push(1 << 3 | 2);
        prost::encoding::encode_varint(packet.encoded_len() as u64, &mut self.bytes);
        packet.encode_raw(&mut self.bytes);
        self.file.append(&self.bytes)
    }

    /// Writes the first packet, which relates the clocks: times are those of the monotonic clock. The boot-time clock, in which readers take ftrace's events to
    /// be, is given as equal to it.
    fn begin(&mut self, time_ns: u64) -> Result<()> {
        self.begun = true;
        let clock = |clock_id, timestamp| Clock {
            clock_id: Some(clock_id),
            timestamp: Some(timestamp),
        };
        self.put(TracePacket {
            first_packet_on_sequence: Some(true),
            sequence_flags: Some(CLEARED),
            clock_snapshot: Some(ClockSnapshot {
                clocks: vec![
                    clock(MONOTONIC, time_ns),
                    clock(BOOTTIME, time_ns),
                    clock(REALTIME, time_ns.saturating_add(self.since_1970)),
                ],
                primary_trace_clock: Some(MONOTONIC),
            }),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(MONOTONIC),
            }),
            ..TracePacket::default()
        })?;
        let lost: Vec<u32> = self.lost.keys().copied().collect();
        lost.into_iter().try_for_each(|cpu| self.mark_lost(cpu))
    }

    /// Says at this place that events of a CPU were lost.
    fn mark_lost(&mut self, cpu: u32) -> Result<()> {
        self.flush()?;
        self.bundle.cpu = Some(cpu);
        self.bundle.lost_events = Some(true);
        Ok(())
    }

    /// Writes the ftrace events that were collected.
    fn flush(&mut self) -> Result<()> {
        if self.bundle.event.is_empty() && self.bundle.lost_events.is_none() {
            return Ok(());
        }
        let bundle = std::mem::take(&mut self.bundle);
        self.put(TracePacket {
            ftrace_events: Some(bundle),
            ..TracePacket::default()
        })
    }

    fn ftrace(&mut self, record: &Record<'_>, sched: Sched) -> Result<()> {
        if self.bundle.cpu != Some(record.cpu) || self.bundle.event.len() >= BUNDLE {
            self.flush()?;
            self.bundle.cpu = Some(record.cpu);
        }
        self.bundle.event.push(FtraceEvent {
            timestamp: Some(record.time_ns),
            pid: Some(record.tid),
            event: Some(sched.event(record)),
        });
        Ok(())
    }

    fn instant(&mut self, record: &Record<'_>, instant: &Instant) -> Result<()> {
        let track = self.track(record)?;
        let fields = record.fields().zip(&instant.fields);
        let annotations = fields.filter_map(|((_, value), name)| {
            let name = (*name)?;
            let annotated = annotation(value, &self.symbols)?;
            Some(DebugAnnotation {
                name_iid: Some(name),
                ..annotated
            })
        });
        let cpu = DebugAnnotation {
            name: Some(CPU.to_owned()),
            value: Some(Annotated::Unsigned(record.cpu.into())),
            ..DebugAnnotation::default()
        };
        let debug_annotations = std::iter::once(cpu).chain(annotations).collect();
        let new = std::mem::take(&mut self.new);
        self.put(TracePacket {
            timestamp: Some(record.time_ns),
            sequence_flags: Some(NEEDS),
            interned_data: (new != InternedData::default()).then_some(new),
            track_event: Some(TrackEvent {
                category_iids: vec![instant.system],
                debug_annotations,
                r#type: Some(INSTANT),
                name_iid: Some(instant.event),
                track_uuid: Some(track),
            }),
            ..TracePacket::default()
        })
    }

    /// Track of the record's thread, described before its first record and again when the thread's name changes. Each CPU's idle thread has its own.
    fn track(&mut self, record: &Record<'_>) -> Result<u64> {
        let idle = record.tid == 0;
        let uuid = match idle {
            true => 1 << 33 | u64::from(record.cpu),
            false => 1 << 32 | u64::from(record.tid),
        };
        let named = self.names.new_of(record).map(|name| name.text().to_owned());
        if self.tracks.insert(uuid) || named.is_some() {
            let thread = (!idle).then(|| ThreadDescriptor {
                pid: Some(record.pid as i32),
                tid: Some(record.tid.into()),
                thread_name: named,
            });
            self.put(TracePacket {
                track_descriptor: Some(TrackDescriptor {
                    uuid: Some(uuid),
                    name: idle.then(|| format!("idle, CPU {}", record.cpu)),
                    thread,
                }),
                ..TracePacket::default()
            })?;
        }
        Ok(uuid)
    }

    /// Encoding of an event's records; interns its names.
    fn encoding(&mut self, event: &EventClass) -> Encoding {
        let scheduler = Sched::of(event);
        let in_message = scheduler.map_or(&[][..], Sched::fields);
        let is_annotated = |name: &str| !in_message.contains(&name);
        if scheduler.is_some() && !event.layout.shown().any(|field| is_annotated(&field.name)) {
            return Encoding {
                scheduler,
                instant: None,
            };
        }
        let name = u64::from(event.id.0);
        self.new.event_names.push(interned(name, &event.name));
        let (system, _) = event.name.rsplit_once(':').unwrap_or(("kestrel", ""));
        let system = number(system, &mut self.systems, &mut self.new.event_categories);
        let fields = event.layout.shown().map(|field| {
            let name = match field.name.as_str() {
                CPU => "args.cpu",
                name => name,
            };
            let names = &mut self.new.debug_annotation_names;
            is_annotated(&field.name).then(|| number(name, &mut self.fields, names))
        });
        let fields = fields.collect();
        Encoding {
            scheduler,
            instant: Some(Instant {
                event: name,
                system,
                fields,
            }),
        }
    }
}

impl Conversion for Perfetto {
    fn learn_thread_names(&mut self, record: &Record<'_>) {
        self.names.learn_thread_names(record);
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        if !self.begun {
            self.begin(record.time_ns)?;
        }
        self.names.learn_thread_names(record);
        let encoding = match self.events.remove(&record.event.id.0) {
            Some(encoding) => encoding,
            None => self.encoding(record.event),
        };
        if let Some(sched) = encoding.scheduler {
            self.ftrace(record, sched)?;
        }
        if let Some(instant) = &encoding.instant {
            self.instant(record, instant)?;
        }
        self.events.insert(record.event.id.0, encoding);
        Ok(())
    }

    fn lost(&mut self, cpu: u32, events: u64) -> Result<()> {
        *self.lost.entry(cpu).or_default() += events;
        // The clocks come first in the file, with the first record; the marks of losses before it come behind them.
        match self.begun {
            true => self.mark_lost(cpu),
            false => Ok(()),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if !self.begun {
            self.begin(0)?;
        }
        self.flush()?;
        let cpu_stats = self.lost.iter().map(|(cpu, events)| FtraceCpuStats {
            cpu: Some((*cpu).into()),
            dropped_events: Some(*events),
        });
        let stats = FtraceStats {
            phase: Some(END),
            cpu_stats: cpu_stats.collect(),
        };
        self.put(TracePacket {
            ftrace_stats: Some(stats),
            ..TracePacket::default()
        })?;
        self.file.finish()
    }
}

fn interned(iid: u64, name: &str) -> Interned {
    Interned {
        iid: Some(iid),
        name: Some(name.to_owned()),
    }
}

/// The number of a name; a new one is described.
fn number(name: &str, known: &mut HashMap<String, u64>, new: &mut Vec<Interned>) -> u64 {
    if let Some(number) = known.get(name) {
        return *number;
    }
    let number = known.len() as u64 + 1;
    known.insert(name.to_owned(), number);
    new.push(interned(number, name));
    number
}

/// A value as an annotation; `None` where it could not be read.
fn annotation(value: Value<'_>, symbols: &Symbols) -> Option<DebugAnnotation> {
    let plain = |value| {
        let value = Some(value);
        Some(DebugAnnotation {
            value,
            ..DebugAnnotation::default()
        })
    };
    match value {
        Value::Signed { value, .. } => plain(Annotated::Signed(value)),
        Value::Bool(value) => plain(Annotated::Bool(value)),
        Value::Pointer {
            address,
            symbolic: false,
        } => plain(Annotated::Pointer(address)),
        Value::Text(text) => plain(Annotated::Text(String::from_utf8_lossy(text).into_owned())),
        // Lists, names and the rest are what they are in JSON.
        value => of_json(&json_value(value, symbols)),
    }
}

fn of_json(value: &serde_json::Value) -> Option<DebugAnnotation> {
    use serde_json::Value as Json;
    let mut it = DebugAnnotation::default();
    it.value = match value {
        Json::Null => return None,
        Json::Bool(value) => Some(Annotated::Bool(*value)),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => Some(Annotated::Unsigned(value)),
            (None, Some(value)) => Some(Annotated::Signed(value)),
            (None, None) => Some(Annotated::Float(number.as_f64()?)),
        },
        Json::String(text) => Some(Annotated::Text(text.clone())),
        Json::Array(all) => {
            it.array_values = all.iter().map(|it| of_json(it).unwrap_or_default()).collect();
            None
        }
        Json::Object(all) => {
            let entry = |(name, value)| DebugAnnotation {
                name: Some(String::clone(name)),
                ..of_json(value).unwrap_or_default()
            };
            it.dict_entries = all.iter().map(entry).collect();
            None
        }
    };
    Some(it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventId;
    use crate::layout::{Base, FieldType, Layout};
    use prost::Message;

    /// The file's packets: each is a field 1 of the trace.
    #[derive(Clone, PartialEq, Message)]
    struct Trace {
        #[prost(message, repeated, tag = "1")]
        packet: Vec<TracePacket>,
    }

    fn named_thread_fields(names: &[&str]) -> impl Iterator<Item = (String, FieldType)> {
        let ty = |name: &str| match name.ends_with("comm") {
            true => FieldType::CharArray { size: 16 },
            false => FieldType::Integer {
                size: 4,
                signed: true,
                base: Base::Decimal,
            },
        };
        names.iter().map(move |name| ((*name).to_owned(), ty(name)))
    }

    #[test]
    fn switches_with_more_fields_are_ftraces_and_instants_with_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let mut file = (FORMAT.begin)(RecordingContext::default(), OutputPath::at(&path).unwrap()).unwrap();
        let cases: [&[&str]; 3] = [
            &["prev_pid", "prev_state", "next_pid"],
            &["prev_pid", "prev_state", "next_pid", "weight"],
            // Without the next thread it is not known what the CPU ran.
            &["prev_pid", "weight"],
        ];
        for (id, fields) in (1u16..).zip(cases) {
            let event = EventClass {
                id: EventId(id),
                name: "sched:sched_switch".to_owned(),
                kind: "tracepoint".to_owned(),
                layout: Layout::new(named_thread_fields(fields)),
                action: None,
                print: None,
            };
            let bytes = vec![id as u8; event.layout.fixed_end() as usize];
            let record = Record {
                time_ns: id.into(),
                cpu: 0,
                pid: 5,
                tid: 5,
                event: &event,
                bytes: &bytes,
                unwound: None,
                rest: &[],
            };
            file.record(&record).unwrap();
        }
        file.finish().unwrap();
        let trace = Trace::decode(&*std::fs::read(path).unwrap()).unwrap();
        let bundles = trace
            .packet
            .iter()
            .filter_map(|packet| packet.ftrace_events.as_ref());
        let switches: Vec<_> = bundles
            .flat_map(|bundle| &bundle.event)
            .map(|event| event.timestamp)
            .collect();
        assert_eq!(switches, [Some(1), Some(2)]);
        let instants = trace
            .packet
            .iter()
            .filter_map(|packet| Some((packet.timestamp?, packet.track_event.as_ref()?)));
        let instants: Vec<_> = instants
            .map(|(time, instant)| (time, instant.debug_annotations.len()))
            .collect();
        // The CPU is the first annotation.
        assert_eq!(instants, [(2, 2), (3, 3)]);
    }

    #[test]
    fn losses_before_the_first_record_are_marked_behind_the_clocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let mut file = (FORMAT.begin)(RecordingContext::default(), OutputPath::at(&path).unwrap()).unwrap();
        file.lost(1, 5).unwrap();
        file.lost(0, 2).unwrap();
        file.finish().unwrap();
        let trace = Trace::decode(&*std::fs::read(path).unwrap()).unwrap();
        let [first, marks @ .., last] = trace.packet.as_slice() else {
            panic!("{trace:?}");
        };
        assert!(first.clock_snapshot.is_some() && first.first_packet_on_sequence == Some(true));
        let marks: Vec<(Option<u32>, Option<bool>)> = marks
            .iter()
            .map(|packet| packet.ftrace_events.as_ref().unwrap())
            .map(|bundle| (bundle.cpu, bundle.lost_events))
            .collect();
        assert_eq!(marks, [(Some(0), Some(true)), (Some(1), Some(true))]);
        let stats = last.ftrace_stats.as_ref().unwrap();
        let dropped: Vec<Option<u64>> = stats.cpu_stats.iter().map(|cpu| cpu.dropped_events).collect();
        assert_eq!(dropped, [Some(2), Some(5)]);
    }
}
