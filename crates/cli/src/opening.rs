//! Recordings opened for reading: Kestrel's, and those of other tools.

use crate::exit::{Exit, Failure};
use kestrel::kernel::Host;
use kestrel::kernel::process::Interrupt;
use kestrel::symbols::symbols_if_running;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::import;
use kestrel_trace::print::shown;
use std::path::Path;

/// Opens a recording, and says on stderr what of it is not understood.
pub(crate) fn open(path: &Path) -> Result<Trace, Failure> {
    let mut trace = open_in_silence(path)?;
    say_remarks(&mut trace);
    Ok(trace)
}

/// Opens a recording; what of it is not understood is among its remarks.
pub(crate) fn open_in_silence(path: &Path) -> Result<Trace, kestrel_trace::Error> {
    let mut trace = import::open(path)?;
    take_names_of_running_kernel(&mut trace);
    Ok(trace)
}

/// Gives addresses the names of the kernel that runs, where it is the recorded one and the recording has none: perf keeps none, and does so itself.
fn take_names_of_running_kernel(trace: &mut Trace) {
    let Some((name, address)) = &trace.kernel_symbol else {
        return;
    };
    let release = &trace.reader.info().kernel_release;
    if let Some(symbols) = symbols_if_running(release, (name, *address), &Host::default()) {
        trace.symbols = symbols.with_user(trace.symbols.user().clone());
    }
}

/// Lets reading fail as soon as the command is interrupted, so that what it has begun to write is removed.
pub(crate) fn stop_when_interrupted(trace: &mut Trace, interrupt: &Interrupt) {
    trace.reader.stop_when(interrupt.flag());
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
