//! `perf.data` (tools/perf/Documentation/perf.data-file-format.txt, `include/uapi/linux/perf_event.h`), of `perf record` into a file or a pipe, compressed or not.
//! The file is read twice: once for its events, threads and memory, then for its samples, which are put in order as far as the file's own marks
//! (`FINISHED_ROUND`) ask for. `convert::perf_data` has the opposite direction, and the numbers.

mod features;
mod records;
mod samples;
mod survey;

use super::foreign::{Foreign, Format, Stream};
use features::{Attributes, Features};
use records::{Range, Records};
use samples::Samples;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use survey::Survey;

pub(super) const FORMAT: Format = Format {
    name: "perf.data",
    magic: b"PERFILE2",
    open,
};

/// Bytes of a file's head; that of a pipe has only the magic and its own length.
const HEAD: usize = crate::convert::perf_data::HEAD as usize;
const PIPE_HEAD: u64 = 16;

fn open(mut file: File, length: u64) -> Result<Foreign, String> {
    let in_words = |error: std::io::Error| error.to_string();
    let mut head = [0; HEAD];
    file.seek(SeekFrom::Start(0)).map_err(in_words)?;
    let there = (&mut file).take(HEAD as u64).read(&mut head).map_err(in_words)?;
    let word = |at: usize| {
        head.get(at..)?
            .first_chunk()
            .map(|bytes| u64::from_le_bytes(*bytes))
    };
    let (Some(size), true) = (word(8), there >= PIPE_HEAD as usize) else {
        return Err("its head is cut".to_owned());
    };
    let mut features = Features::default();
    // The output of perf into a pipe has its attributes and features among the records; a file has them at offsets in its head.
    let range = if size == PIPE_HEAD {
        Range::new(PIPE_HEAD, length)
    } else {
        if there < HEAD {
            return Err("its head is cut".to_owned());
        }
        if size != HEAD as u64 {
            return Err(format!("its head is {size} bytes long, not {HEAD}"));
        }
        let (entry, at, bytes) = (word(16), word(24), word(32));
        let (data, data_bytes) = (word(40).unwrap_or(0), word(48).unwrap_or(0));
        let place = (at.unwrap_or(0), bytes.unwrap_or(0));
        features.attributes = Attributes::of_file(&mut file, length, place, entry.unwrap_or(0))?;
        let bits: Vec<u64> = (0..4).filter_map(|at| word(72 + at * 8)).collect();
        match data_bytes {
            // perf writes the length of the data when it ends; the sections of features come after it.
            0 if length > data => {
                features
                    .remarks
                    .push("perf record did not end: its head says that there are no data; they are read to the file's end, without what describes tracepoints".to_owned());
                Range::new(data, length)
            }
            _ => {
                let end = data.saturating_add(data_bytes);
                features.read(&mut file, length, end, &bits)?;
                if end > length {
                    features.remarks.push(format!(
                        "the file was cut: its data end at byte {end}, the file at {length}"
                    ));
                }
                Range::new(data.min(length), end.min(length))
            }
        }
    };
    let again = || file.try_clone().map_err(in_words);
    // Records of several CPUs are not in the order of time: a mapping or a name can stand behind the sample that needs it, hence two passes.
    let survey = Survey::new(features, Records::new(again()?, range)).map_err(in_words)?;
    let events = samples::events(&survey.features);
    let survey_remarks = survey.remarks();
    let Survey {
        features,
        processes,
        tasks,
        user,
        samples,
        kernel_symbol,
        ..
    } = survey;
    let mut remarks = features.remarks.clone();
    remarks.extend(events.remarks.iter().cloned());
    remarks.extend(survey_remarks);
    let symbols = features.symbols();
    let mut foreign = Foreign {
        info: features.info(),
        kernel_symbol: kernel_symbol.filter(|_| symbols.is_empty()),
        symbols: symbols.with_user(user),
        processes,
        tasks,
        tool: features.tool(),
        packets: samples,
        remarks,
        streams: Vec::new(),
    };
    foreign.info.events = events.classes();
    let samples = Samples::new(Records::new(again()?, range), events);
    foreign.streams.push(Stream {
        buffer: String::new(),
        cpu: 0,
        events: Box::new(samples),
    });
    Ok(foreign)
}
