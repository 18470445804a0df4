//! The messages of `perfetto_trace.proto` that are written, with the fields that are used.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "1")]
    pub(super) ftrace_events: Option<FtraceEventBundle>,
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    pub(super) sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "34")]
    pub(super) ftrace_stats: Option<FtraceStats>,
    #[prost(message, optional, tag = "59")]
    pub(super) trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(bool, optional, tag = "87")]
    pub(super) first_packet_on_sequence: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    pub(super) timestamp_clock_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) primary_trace_clock: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(super) clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<FtraceEvent>,
    #[prost(bool, optional, tag = "3")]
    pub(super) lost_events: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(oneof = "Ftrace", tags = "4, 17, 20, 114")]
    pub(super) event: Option<Ftrace>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Ftrace {
    #[prost(message, tag = "4")]
    Switch(SchedSwitch),
    #[prost(message, tag = "17")]
    Wakeup(SchedWakeup),
    #[prost(message, tag = "20")]
    Waking(SchedWakeup),
    #[prost(message, tag = "114")]
    WakeupNew(SchedWakeup),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    pub(super) prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(super) prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub(super) next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(super) next_prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedWakeup {
    #[prost(string, optional, tag = "1")]
    pub(super) comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prio: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) target_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceStats {
    #[prost(uint32, optional, tag = "1")]
    pub(super) phase: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) cpu_stats: Vec<FtraceCpuStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceCpuStats {
    #[prost(uint64, optional, tag = "1")]
    pub(super) cpu: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) dropped_events: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(super) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(super) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(super) tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) thread_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub(super) category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<DebugAnnotation>,
    #[prost(uint32, optional, tag = "9")]
    pub(super) r#type: Option<u32>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(super) track_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub(super) name_iid: Option<u64>,
    #[prost(oneof = "Annotated", tags = "2, 3, 4, 5, 6, 7")]
    pub(super) value: Option<Annotated>,
    #[prost(string, optional, tag = "10")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "11")]
    pub(super) dict_entries: Vec<DebugAnnotation>,
    #[prost(message, repeated, tag = "12")]
    pub(super) array_values: Vec<DebugAnnotation>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Annotated {
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(uint64, tag = "3")]
    Unsigned(u64),
    #[prost(int64, tag = "4")]
    Signed(i64),
    #[prost(double, tag = "5")]
    Float(f64),
    #[prost(string, tag = "6")]
    Text(String),
    #[prost(uint64, tag = "7")]
    Pointer(u64),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub(super) event_categories: Vec<Interned>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    pub(super) debug_annotation_names: Vec<Interned>,
}

/// `EventCategory`, `EventName`, `DebugAnnotationName`: a name and the number that stands for it from then on.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Interned {
    #[prost(uint64, optional, tag = "1")]
    pub(super) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
}
