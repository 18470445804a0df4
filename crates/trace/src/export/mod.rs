//! A trace's records written out in a format, one after another: lines for people, formats for programs. One file and one row of [`FORMATS`] each; tables over all
//! records are `report`'s matter.

mod calls;
mod clock;
mod csv;
mod field;
mod format;
mod json;
mod line;
mod perf_script;
mod registers;
mod text;
mod tracefs;

pub use calls::{CallInProgress, Calls, Layout, Shown, as_calls};
pub use clock::Times;
pub use format::{CALLS, Export, Format, KnownNames, Style};
pub use json::{Json, json_value};
pub use text::Text;
pub use tracefs::Tracefs;

use crate::ctf::read::{Reader, Source};
use crate::error::{Error, Result};
use crate::event::EventClass;
use crate::record::Record;
use std::io::Write;

/// The formats; the first is for people.
pub static FORMATS: &[Format] = &[
    text::FORMAT,
    json::FORMAT,
    csv::FORMAT,
    perf_script::FORMAT,
    tracefs::FORMAT,
];

/// The format of that name.
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Bytes that are written at once.
const CHUNK: usize = 64 * 1024;

/// Writes all that is left in `reader`; gives the number of records. `name` stands for `out` in errors.
///
/// # Errors
/// Errors of reading and of writing.
pub fn all<R: Source>(
    reader: &mut Reader<R>,
    export: &mut dyn Export,
    out: &mut dyn Write,
    name: &str,
) -> Result<u64> {
    chosen(reader, &mut |_| true, export, out, name)
}

/// Writes those of the records left in `reader` that `wanted` says; gives their number. `name` stands for `out` in errors.
///
/// # Errors
/// Errors of reading and of writing.
pub fn chosen<R: Source>(
    reader: &mut Reader<R>,
    wanted: &mut dyn FnMut(&Record<'_>) -> bool,
    export: &mut dyn Export,
    out: &mut dyn Write,
    name: &str,
) -> Result<u64> {
    let mut bytes = Vec::with_capacity(CHUNK * 2);
    let events: Vec<EventClass> = reader.info().events.clone();
    export.begin(&events.iter().collect::<Vec<_>>(), &mut bytes);
    let mut records = 0;
    while let Some(record) = reader.next()? {
        if !wanted(&record) {
            export.learn(&record);
            continue;
        }
        export.record(&record, &mut bytes);
        records += 1;
        if bytes.len() >= CHUNK {
            out.write_all(&bytes).map_err(Error::io("write to", name))?;
            bytes.clear();
        }
    }
    export.finish(&mut bytes);
    let written = out.write_all(&bytes).and_then(|()| out.flush());
    written.map_err(Error::io("write to", name))?;
    Ok(records)
}
