//! Conversion to a profile for pprof (`profile.proto`, compressed with gzip): how many records had which stack in which thread.

use super::conversion::{Conversion, ConversionFormat, RecordingContext};
use super::place::OutputPath;
use crate::error::Result;
use crate::record::Record;
use crate::stacks::{CallTree, Frame, Stacks, Weight};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::collections::HashMap;
use std::io::Write as _;

pub(super) const FORMAT: ConversionFormat = ConversionFormat {
    name: "pprof",
    about: "a profile of the records' stacks, for pprof and what reads its files",
    file: "kestrel.pb.gz",
    begin: |recording, place| Ok(Box::new(Pprof::new(recording, place))),
};

/// The stack of records without one.
const NONE: &str = "[no stack]";

struct Pprof {
    place: OutputPath,
    stacks: Stacks,
    /// Offset from the trace's clock to the time since 1970, in ns.
    since_1970: u64,
    times: Option<(u64, u64)>,
    records: u64,
    comment: String,
}

impl Pprof {
    fn new(recording: RecordingContext, place: OutputPath) -> Self {
        let info = recording.info;
        let since_1970 = info.clock.seconds.saturating_mul(1_000_000_000);
        Self {
            place,
            stacks: Stacks::new(recording.symbols, recording.processes, Weight::Records),
            since_1970: since_1970.saturating_add(info.clock.nanoseconds.into()),
            times: None,
            records: 0,
            comment: info.command,
        }
    }
}

impl Conversion for Pprof {
    fn learn_thread_names(&mut self, record: &Record<'_>) {
        self.stacks.pass(record);
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.stacks.add(record);
        self.records += 1;
        let first = self.times.map_or(record.time_ns, |(first, _)| first);
        self.times = Some((first, record.time_ns));
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let tree = self.stacks.finish();
        let mut profile = Builder::default();
        for (number, node) in (0..).zip(tree.nodes()) {
            if node.own > 0 {
                profile.add(&tree, &tree.path(number), node.own);
            }
        }
        profile.none(self.records - tree.total());
        let (first, last) = self.times.unwrap_or_default();
        let mut profile = profile.finish(&self.comment);
        profile.time_nanos = self.since_1970.saturating_add(first).cast_signed();
        profile.duration_nanos = last.saturating_sub(first).cast_signed();
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        let failed = self.place.failed();
        packed.write_all(&profile.encode_to_vec()).map_err(failed)?;
        let packed = packed.finish().map_err(self.place.failed())?;
        let mut file = self.place.file()?;
        file.append(&packed)?;
        file.finish()
    }
}

/// A profile while it is built, with the numbers that strings, functions, locations and binaries have got in it.
#[derive(Default)]
struct Builder {
    profile: Profile,
    strings: HashMap<String, i64>,
    locations: HashMap<Frame, u64>,
    mappings: HashMap<String, u64>,
}

impl Builder {
    fn text(&mut self, text: &str) -> i64 {
        // The first text of a profile is empty.
        if self.profile.string_table.is_empty() {
            self.profile.string_table.push(String::new());
        }
        if text.is_empty() {
            return 0;
        }
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn mapping(&mut self, binary: &str) -> u64 {
        if binary.is_empty() {
            return 0;
        }
        if let Some(number) = self.mappings.get(binary) {
            return *number;
        }
        let id = self.profile.mapping.len() as u64 + 1;
        let filename = self.text(binary);
        self.profile.mapping.push(Mapping {
            id,
            filename,
            has_functions: true,
        });
        self.mappings.insert(binary.to_owned(), id);
        id
    }

    fn location(&mut self, frame: &Frame) -> u64 {
        if let Some(number) = self.locations.get(frame) {
            return *number;
        }
        let id = self.profile.location.len() as u64 + 1;
        let name = self.text(&frame.name);
        let mapping_id = self.mapping(&frame.binary);
        self.profile.function.push(Function {
            id,
            name,
            system_name: name,
        });
        self.profile.location.push(Location {
            id,
            mapping_id,
            line: vec![Line { function_id: id }],
        });
        self.locations.insert(frame.clone(), id);
        id
    }

    /// Adds the records of a stack, whose path in the tree begins with the thread's name.
    fn add(&mut self, tree: &CallTree, path: &[u32], records: u64) {
        let frame = |node: &u32| tree.frame_of(&tree.nodes()[*node as usize]);
        let Some((thread, frames)) = path.split_first() else {
            return;
        };
        let thread = frame(thread).name.clone();
        let mut location_id: Vec<u64> = frames
            .iter()
            .rev()
            .map(|node| self.location(frame(node)))
            .collect();
        if location_id.is_empty() {
            location_id.push(self.nowhere());
        }
        let (key, str) = (self.text("thread"), self.text(&thread));
        self.profile.sample.push(Sample {
            location_id,
            value: vec![records.cast_signed()],
            label: vec![Label { key, str }],
        });
    }

    fn nowhere(&mut self) -> u64 {
        self.location(&Frame {
            name: NONE.to_owned(),
            binary: String::new(),
            kernel: false,
        })
    }

    /// Adds records without a stack.
    fn none(&mut self, records: u64) {
        if records > 0 {
            let location = self.nowhere();
            self.profile.sample.push(Sample {
                location_id: vec![location],
                value: vec![records.cast_signed()],
                label: Vec::new(),
            });
        }
    }

    fn finish(mut self, comment: &str) -> Profile {
        let kind = ValueType {
            r#type: self.text("events"),
            unit: self.text("count"),
        };
        self.profile.sample_type = vec![kind.clone()];
        self.profile.period_type = Some(kind);
        self.profile.period = 1;
        self.profile.comment = vec![self.text(comment)];
        self.profile
    }
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}
