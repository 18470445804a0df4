//! Recordings opened for reading: Kestrel's, and those of other tools.

use crate::exit::{Exit, Failure};
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

/// Refuses an output that would take the place of the recording that it is made of.
pub(crate) fn ensure_not_input(recording: &Path, output: &Path) -> Result<(), Failure> {
    match (recording.canonicalize(), output.canonicalize()) {
        (Ok(from), Ok(to)) if from == to => {
            let name = shown(&output.to_string_lossy()).into_owned();
            let failure = Failure::new(
                Exit::Usage,
                format!("{name} is the input: writing there would replace it"),
            );
            Err(failure.hint("give the output another name"))
        }
        _ => Ok(()),
    }
}
