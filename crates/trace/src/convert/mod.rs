//! A recording as files of other tools: one file and one row of [`FORMATS`] each. Records come one after another, and what is kept of them does not grow with
//! their number. Formats that are appended to, line by line, are `export`'s.

mod chrome;
mod conversion;
mod ctf;
mod folded;
mod kernel_form;
mod names;
mod parquet;
pub(crate) mod perf_data;
mod perfetto;
mod place;
mod pprof;
mod stacks;
pub(crate) mod trace_dat;
mod tracing_data;

pub use conversion::{Conversion, ConversionFormat, RecordingContext};
pub use place::OutputPath;

use crate::ctf::read::{Reader, Source};
use crate::error::Result;
use crate::record::Record;
use crate::summary::Summary;
use std::collections::BTreeMap;

/// The formats.
pub static FORMATS: &[ConversionFormat] = &[
    perf_data::FORMAT,
    trace_dat::FORMAT,
    perfetto::FORMAT,
    chrome::FORMAT,
    parquet::FORMAT,
    pprof::FORMAT,
    folded::FORMAT,
    ctf::FORMAT,
];

/// The format of that name.
pub fn find_format(name: &str) -> Option<&'static ConversionFormat> {
    FORMATS.iter().find(|target| target.name == name)
}

/// Counts of the records that a conversion was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Records that the conversion was given.
    pub records: u64,
    /// Records that the file has no place for.
    pub left_out: u64,
}

/// Writes those of the records left in `reader` that `wanted` says, and what was lost between them; gives how many there are.
///
/// # Errors
/// Errors of reading and of writing.
pub fn convert<R: Source>(
    reader: &mut Reader<R>,
    summary: Option<&Summary>,
    wanted: &mut dyn FnMut(&Record<'_>) -> bool,
    mut conversion: Box<dyn Conversion>,
) -> Result<Converted> {
    let (mut records, mut met) = (0, 0);
    let mut written: BTreeMap<u32, u64> = BTreeMap::new();
    loop {
        let note = |lost| tell(&lost, &mut written, conversion.as_mut());
        let Some(record) = reader.next_noting(&mut met, note)? else {
            break;
        };
        if wanted(&record) {
            conversion.record(&record)?;
            records += 1;
        } else {
            conversion.learn_thread_names(&record);
        }
    }
    tell(&reader.lost_by_cpu(), &mut written, conversion.as_mut())?;
    // Losses behind the last packet are known to the recorder only.
    let mut counted: BTreeMap<u32, u64> = BTreeMap::new();
    for count in summary.into_iter().flat_map(|summary| &summary.events) {
        *counted.entry(count.cpu).or_default() += count.lost;
    }
    tell(&counted, &mut written, conversion.as_mut())?;
    let left_out = conversion.left_out();
    conversion.finish()?;
    Ok(Converted { records, left_out })
}

/// Reports to a conversion the losses of each CPU, less those already reported.
fn tell(
    lost: &BTreeMap<u32, u64>,
    written: &mut BTreeMap<u32, u64>,
    conversion: &mut dyn Conversion,
) -> Result<()> {
    for (cpu, events) in lost {
        let before = written.entry(*cpu).or_default();
        if events > before {
            conversion.lost(*cpu, events - *before)?;
            *before = *events;
        }
    }
    Ok(())
}
