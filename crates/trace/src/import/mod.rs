//! Recordings of other tools, read as if they were Kestrel's: one file and one row of [`FORMATS`] each.
//!
//! A format says which events there are, as event classes, and gives the records of each of its streams one by one. What is behind this door sees pages as
//! Kestrel's own recorder writes them (`pages`), so every command reads every format, in order of time and in bounded memory. A file is known by its
//! content, not by its name. What is in it and not understood is named among the trace's remarks, or where it is met among the losses; the rest is read.

mod ctf;
mod draft;
mod foreign;
mod input;
mod kernel_event;
mod pages;
mod perf_data;
mod trace_dat;
mod tracing_data;

use crate::ctf::directory::{self, Trace};
use crate::error::{Error, Result};
pub use foreign::Format;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The formats of files.
pub static FORMATS: &[Format] = &[perf_data::FORMAT, trace_dat::FORMAT];

/// Bytes at the beginning of a file by which formats are recognised.
const HEAD: u64 = 16;

/// Opens a recording: a trace directory, or a file of one of [`FORMATS`].
///
/// # Errors
/// As [`directory::open`]; [`Error::Unknown`] of a file of no format, [`Error::Foreign`] of one that cannot be read.
pub fn open(path: &Path) -> Result<Trace> {
    let failed = |source| Error::Open {
        path: path.into(),
        source,
    };
    let meta = std::fs::metadata(path).map_err(failed)?;
    if !meta.is_file() {
        return folder(path);
    }
    let mut file = File::open(path).map_err(failed)?;
    let mut head = Vec::new();
    (&mut file).take(HEAD).read_to_end(&mut head).map_err(failed)?;
    let Some(format) = FORMATS.iter().find(|format| head.starts_with(format.magic)) else {
        return Err(Error::Unknown {
            path: path.into(),
            formats: FORMATS.iter().map(|format| format.name).collect(),
        });
    };
    let foreign = (format.open)(file, meta.len()).map_err(|why| Error::Foreign {
        path: path.into(),
        format: format.name,
        why,
    })?;
    Ok(foreign.trace(format.name))
}

/// Opens what lies in a folder: a trace of Kestrel's, or of another tracer, perhaps in a folder in it.
fn folder(path: &Path) -> Result<Trace> {
    let found = ctf::traces_under(path);
    match found.as_slice() {
        [] if is_threaded(path) => {
            return Err(Error::Foreign {
                path: path.into(),
                format: perf_data::FORMAT.name,
                why: THREADED.to_owned(),
            });
        }
        [] => return directory::open(path),
        [trace] if ctf::is_own(trace) => return directory::open(trace),
        // Kestrel's own are merged by name, where it can be said what becomes of them.
        several if several.iter().any(|trace| ctf::is_own(trace)) => {
            return Err(Error::Several {
                path: path.into(),
                traces: found,
            });
        }
        _ => {}
    }
    // The parts of a session: a trace for the kernel and one for programs, one for each process, those before and after each rotation.
    let foreign = ctf::open(&found).map_err(|(path, why)| Error::Foreign {
        path,
        format: ctf::NAME,
        why,
    })?;
    Ok(foreign.trace(ctf::NAME))
}

const THREADED: &str =
    "it is a folder, as `perf record --threads` writes: recorded without --threads it is a file";

/// Whether a folder is a `perf.data` of several files, a thread's each.
fn is_threaded(path: &Path) -> bool {
    let magic = perf_data::FORMAT.magic;
    let mut head = vec![0; magic.len()];
    let read = File::open(path.join("data")).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == magic
}
