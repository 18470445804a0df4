//! Processes whose stacks programs unwind in the kernel (`@[dw_ustack]`): their tables are put there before events of theirs need them.

use crate::exit::Failure;
use crate::foreground::Foreground;
use kestrel::kernel::Host;
use kestrel::kernel::process::PausedCommand;
use kestrel::session::Session;

/// Puts in what processes have mapped now; a command that has not begun has nothing of its own.
pub(super) fn learn_all(session: &Session, processes: &[u32], held: Option<&PausedCommand>) {
    let waiting = held.map(PausedCommand::pid);
    for pid in processes {
        match waiting == Some(*pid) {
            true => say(*pid, session.expect_stacks_of(*pid).map(|()| 0)),
            false => learn(session, *pid),
        }
    }
}

/// Puts in what a process has mapped now.
fn learn(session: &Session, pid: u32) {
    say(pid, session.unwind_stacks_of(pid));
}

fn say(pid: u32, learnt: kestrel::Result<usize>) {
    match learnt {
        Ok(0) => {}
        Ok(more) => eprintln!(
            "WARNING: process {pid} has more code than there is room for: frames in {more} of its mappings are found by frame pointers"
        ),
        Err(error) => eprintln!("WARNING: stacks of process {pid} are not unwound: {error}"),
    }
}

/// Lets the command go on to its exec. Where its stacks are unwound in the kernel, it is stopped before its first instruction until its tables are there.
pub(super) fn release(
    foreground: &mut Foreground,
    held: Option<PausedCommand>,
    session: &Session,
    host: &Host,
) -> Result<(), Failure> {
    if !session.unwinds_stacks() {
        return foreground.release(held);
    }
    foreground.release_by(held, |held| {
        let pid = held.pid();
        held.release_to_entry(host, &mut || learn(session, pid))
    })
}
