//! The JSON of Chrome's `about:tracing` (Trace Event Format): every record is an instant of its thread with its fields as arguments.

use super::conversion::{Conversion, ConversionFormat, RecordingContext};
use super::names::Names;
use super::place::{NewFile, OutputPath};
use crate::error::Result;
use crate::export::json_value;
use crate::record::Record;
use crate::symbol::Symbols;
use serde_json::{Map, Value, json};

pub(super) const FORMAT: ConversionFormat = ConversionFormat {
    name: "chrome",
    about: "JSON of Chrome's about:tracing, for Perfetto's viewer, speedscope and others",
    file: "kestrel.trace.json",
    begin: |recording, place| Ok(Box::new(Chrome::new(recording, place)?)),
};

struct Chrome {
    file: NewFile,
    symbols: Symbols,
    names: Names,
    /// Separator before the next object.
    comma: &'static [u8],
}

impl Chrome {
    fn new(recording: RecordingContext, place: OutputPath) -> Result<Self> {
        let mut file = place.file()?;
        file.append(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        Ok(Self {
            file,
            names: Names::new(&recording),
            symbols: recording.symbols,
            comma: b"",
        })
    }

    fn put(&mut self, object: &[u8]) -> Result<()> {
        self.file.append(std::mem::replace(&mut self.comma, b",\n"))?;
        self.file.append(object)
    }
}

impl Conversion for Chrome {
    fn learn_thread_names(&mut self, record: &Record<'_>) {
        self.names.learn_thread_names(record);
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        self.names.learn_thread_names(record);
        let (pid, tid) = (record.pid, record.tid);
        if let Some(name) = self.names.new_of(record) {
            let named = json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name.text()}});
            self.put(named.to_string().as_bytes())?;
        }
        let mut arguments: Map<String, Value> = [("cpu".to_owned(), Value::from(record.cpu))]
            .into_iter()
            .collect();
        for (field, value) in record.fields() {
            let name = match arguments.contains_key(&field.name) {
                true => format!("args.{}", field.name),
                false => field.name.clone(),
            };
            arguments.insert(name, json_value(value, &self.symbols));
        }
        let (system, _) = record.event.name.rsplit_once(':').unwrap_or(("kestrel", ""));
        let event = json!({
            "ph": "i", "s": "t", "name": record.event.name, "cat": system, "pid": pid, "tid": tid, "args": arguments,
        });
        // Microseconds with three decimals: a number of JSON is exact, one of 64 bits with a binary point is not.
        let (us, ns) = (record.time_ns / 1000, record.time_ns % 1000);
        let event = event.to_string();
        let event = event.strip_suffix('}').unwrap_or(&event);
        self.put(format!("{event},\"ts\":{us}.{ns:03}}}").as_bytes())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.file.append(b"\n]}\n")?;
        self.file.finish()
    }
}
