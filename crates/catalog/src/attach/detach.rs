//! Detaching in the background what the kernel takes long to detach; commands that attach at the same time go first.

use kestrel_kernel::Host;
use kestrel_kernel::bpf::ProgramKind;
use kestrel_kernel::process::close_apart;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

/// Fewer slow links than this are closed in the foreground.
pub const AT_ONCE: usize = 4;

/// Whether the kernel takes long to take down the links of a program of a kind (perf events and trampolines: some 0.1 s each).
pub fn is_slow(kind: ProgramKind) -> bool {
    matches!(
        kind,
        ProgramKind::Tracepoint
            | ProgramKind::Kprobe
            | ProgramKind::FunctionEntry(_)
            | ProgramKind::FunctionExit(_)
            | ProgramKind::ModuleFunctionEntry(..)
            | ProgramKind::ModuleFunctionExit(..)
            | ProgramKind::ProgramFunctionEntry(..)
            | ProgramKind::ProgramFunctionExit(..)
    )
}

/// Closes links that the kernel takes long to take down: many of them in the background. Says for how many.
pub fn close_many(host: &Host, files: Vec<OwnedFd>) -> usize {
    let many = files.len();
    let turn = turn_file(host);
    // Where there can be no other process, they are closed here, and that takes its time.
    if many <= AT_ONCE || close_apart(files, turn.map(OwnedFd::from)).is_err() {
        return 0;
    }
    many
}

/// A lock held while links are attached: detaching in the background waits for it. The kernel makes both wait for one lock (`event_mutex` of kernel/trace), and each event
/// that goes holds it for a grace period; what is going is masked, so it can wait, and a user cannot.
pub fn turn(host: &Host) -> Option<File> {
    let file = turn_file(host)?;
    file.lock_shared().ok()?;
    Some(file)
}

/// The file whose lock is the turn: tracefs, which is there wherever events are attached that take long to go. Where everybody may open it (it is not
/// mounted, or for all), anybody could keep the lock, and there are no turns.
fn turn_file(host: &Host) -> Option<File> {
    let file = File::open(host.path("/sys/kernel/tracing")).ok()?;
    let everybody = file.metadata().ok()?.mode() & 0o007;
    (everybody == 0).then_some(file)
}
