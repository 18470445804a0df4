//! Recordings opened for reading: Kestrel's, and those of other tools.

use crate::exit::Failure;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::import;
use kestrel_trace::print::shown;
use std::path::Path;

/// Opens a recording, and says on stderr what of it is not understood.
pub(crate) fn open(path: &Path) -> Result<Trace, Failure> {
    let mut trace = import::open(path)?;
    say_remarks(&mut trace);
    Ok(trace)
}

/// Says on stderr what of a recording is not understood.
pub(crate) fn say_remarks(trace: &mut Trace) {
    for remark in trace.remarks.drain(..) {
        eprintln!("{}", shown(&remark));
    }
}
