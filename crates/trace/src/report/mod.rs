//! The report: the usual questions about a trace answered in one pass, as data and as text.

mod text;

pub use text::{about, text};

use crate::aggregate::{self, KeptMaps};
use crate::analyze::{ANALYSES, Analysis, AnalysisKind, Count, Histogram, Timeline, Values};
use crate::ctf::directory::Trace;
use crate::ctf::read::{Losses, Reader, Source};
use crate::error::Result;
use crate::process::Processes;
use crate::record::Record;
use crate::summary::{Absent, CutShort, EventCount, Missed, Summary, UNFINISHED};
use crate::symbol::Symbols;
use serde::{Serialize, Serializer};

/// A trace at a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The machine that was traced.
    pub hostname: String,
    /// Release of the kernel that recorded.
    pub kernel_release: String,
    /// The command that recorded it.
    pub command: String,
    /// Time of the first record in wall-clock time, ns since 1970.
    pub begins_ns: u64,
    /// From the first to the last record, ns.
    pub span_ns: u64,
    /// Number of records.
    pub records: u64,
    /// Packets they came in.
    pub packets: u64,
    /// Tables of counts; each under its name in JSON.
    #[serde(flatten, serialize_with = "by_name")]
    pub tables: Vec<Table>,
    /// Records over time.
    pub timeline: Histogram,
    /// By the value of a field, where one was asked for.
    pub values: Option<FieldValues>,
    /// Contents of the handlers' maps at the end.
    pub maps: Vec<MapReport>,
    /// Missing records, as the packets count them.
    pub losses: Losses,
    /// Missing records, as the recorder counted by event and CPU; `None` if it left no summary.
    pub counted: Option<Vec<EventCount>>,
    /// Hits that the kernel brought to no program, if the recorder asked.
    pub missed: Option<Missed>,
    /// Records that the recorder wrote and that are not in the trace any more, by CPU: files were cut, damaged or removed.
    pub absent: Vec<Absent>,
    /// Why the recorder could write no more before it was to end.
    pub cut_short: Option<CutShort>,
    /// Notes of the recorder.
    pub notes: Vec<String>,
}

/// The answer of an analysis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The analysis' name.
    pub name: &'static str,
    /// The table's title.
    pub title: &'static str,
    /// The table's rows.
    pub rows: Vec<Count>,
}

impl Trace {
    /// Reads the trace to its end and answers the usual questions, and which values `field` takes, if one is named.
    pub fn report(mut self, field: Option<String>) -> Result<Report> {
        let options = Options {
            processes: self.processes,
            symbols: self.symbols,
            summary: self.summary,
            also: Vec::new(),
            field,
            maps: self.maps,
            remarks: self.remarks,
        };
        Report::read(&mut self.reader, options)
    }
}

fn by_name<S: Serializer>(tables: &[Table], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_map(tables.iter().map(|table| (table.name, &table.rows)))
}

/// Values of one field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FieldValues {
    /// The field's name.
    pub field: String,
    /// Counts, the largest first.
    pub counts: Vec<Count>,
}

/// A map of the handlers, for the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MapReport {
    /// Like [`aggregate::json`] has it.
    #[serde(flatten)]
    pub json: serde_json::Value,
    /// Like [`aggregate::text`] has it.
    #[serde(skip)]
    pub text: String,
}

/// Options of a report; `Trace::report` fills it from a directory.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Known names of threads.
    pub processes: Processes,
    /// Known symbols of the kernel.
    pub symbols: Symbols,
    /// Counts of the recorder.
    pub summary: Option<Summary>,
    /// Analyses beside the usual ones, by name.
    pub also: Vec<String>,
    /// Count the values of this field too.
    pub field: Option<String>,
    /// Contents of the handlers' maps.
    pub maps: KeptMaps,
    /// Notes for readers.
    pub remarks: Vec<String>,
}

fn shown(kept: &KeptMaps) -> Vec<MapReport> {
    let held = kept.maps.iter().filter(|map| !map.is_empty());
    held.map(|map| MapReport {
        json: aggregate::json(map, &kept.symbols),
        text: aggregate::text(map, &kept.symbols),
    })
    .collect()
}

/// A report under construction, for callers that read the records themselves.
#[derive(Debug)]
pub struct ReportBuilder {
    options: Options,
    analyses: Vec<(&'static AnalysisKind, Box<dyn Analysis>)>,
    timeline: Timeline,
    values: Option<Values>,
    records: u64,
}

impl ReportBuilder {
    /// A report without records.
    pub fn new(options: Options) -> Self {
        let asked = |kind: &&AnalysisKind| kind.usual || options.also.iter().any(|name| name == kind.name);
        let kinds = ANALYSES.iter().filter(asked);
        let values = options.field.as_ref();
        Self {
            analyses: kinds.map(|kind| (kind, (kind.new)(&options.processes))).collect(),
            timeline: Timeline::default(),
            values: values.map(|field| Values::new(field, options.symbols.clone())),
            records: 0,
            options,
        }
    }

    /// Takes the next record; of one that is not wanted only names of threads are learned.
    pub fn take(&mut self, record: &Record<'_>, wanted: bool) {
        let analyses = self.analyses.iter_mut();
        if !wanted {
            return analyses.for_each(|(_, analysis)| analysis.learn(record));
        }
        self.records += 1;
        analyses.for_each(|(_, analysis)| analysis.add(record));
        self.timeline.add(record);
        if let Some(values) = &mut self.values {
            values.add(record);
        }
    }

    /// The report, once `reader` is at its end.
    pub fn finish<R: Source>(self, reader: &Reader<R>) -> Report {
        let options = self.options;
        let timeline = self.timeline.finish();
        let info = reader.info();
        Report {
            hostname: info.hostname.clone(),
            kernel_release: info.kernel_release.clone(),
            command: info.command.clone(),
            begins_ns: info.clock.ns().saturating_add(timeline.begin_ns),
            span_ns: timeline.end_ns - timeline.begin_ns,
            records: self.records,
            packets: reader.packets(),
            tables: self
                .analyses
                .into_iter()
                .map(|(kind, analysis)| Table {
                    name: kind.name,
                    title: kind.title,
                    rows: analysis.finish(),
                })
                .collect(),
            timeline,
            values: options.field.zip(self.values).map(|(field, values)| FieldValues {
                field,
                counts: values.finish(),
            }),
            maps: shown(&options.maps),
            losses: reader.losses(),
            absent: options
                .summary
                .as_ref()
                .map(|summary| reader.absent(summary))
                .unwrap_or_default(),
            cut_short: options
                .summary
                .as_ref()
                .and_then(|summary| summary.cut_short.clone()),
            notes: options
                .summary
                .as_ref()
                // Without a summary the recorder did not come to its end, which the reader must know.
                .map_or_else(|| vec![UNFINISHED.to_owned()], |summary| summary.notes.clone())
                .into_iter()
                .chain(options.remarks)
                .collect(),
            missed: options.summary.as_ref().and_then(|summary| summary.missed),
            counted: options.summary.map(|summary| summary.events),
        }
    }
}

impl Report {
    /// Reads a trace to its end.
    pub fn read<R: Source>(reader: &mut Reader<R>, options: Options) -> Result<Self> {
        Self::of_chosen(reader, options, &mut |_| true)
    }

    /// Reads a trace to its end, and reports of those records that `wanted` says.
    pub fn of_chosen<R: Source>(
        reader: &mut Reader<R>,
        options: Options,
        wanted: &mut dyn FnMut(&Record<'_>) -> bool,
    ) -> Result<Self> {
        let mut report = ReportBuilder::new(options);
        while let Some(record) = reader.next()? {
            let wanted = wanted(&record);
            report.take(&record, wanted);
        }
        Ok(report.finish(reader))
    }

    /// The rows of an analysis; none where it was not asked for.
    pub fn table(&self, name: &str) -> &[Count] {
        let table = self.tables.iter().find(|table| table.name == name);
        table.map_or(&[], |table| &table.rows)
    }

    /// Events lost as the recorder counted them, or else as the packets say.
    pub fn lost(&self) -> u64 {
        let counted = self.counted.iter().flatten().map(|count| count.lost).sum();
        self.losses.lost.max(counted)
    }

    /// Events that the recorder wrote and that are not in the trace any more.
    pub fn absent(&self) -> u64 {
        self.absent.iter().map(|it| it.recorded - it.found).sum()
    }

    /// Events that the recorder says were overwritten by newer ones.
    pub fn overwritten(&self) -> u64 {
        self.counted.iter().flatten().map(|count| count.overwritten).sum()
    }
}
