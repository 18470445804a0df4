//! Detaching in the background where the kernel takes long; commands that attach something go first.

use kestrel_kernel::Host;
use kestrel_kernel::bpf::ProgramKind;
use kestrel_kernel::process::close_in_background;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

/// Most slow links that are closed in the foreground.
pub const AT_ONCE: usize = 4;

/// Whether the kernel takes long to detach links of programs of a kind (perf events and trampolines: some 0.1 s each).
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

/// Closes links that the kernel takes long to detach, in the background if they are many; returns the number that is closed there.
pub fn close_many(host: &Host, files: Vec<OwnedFd>) -> usize {
    let many = files.len();
    let turn = turn_file(host);
    // Where no other process can be started the links are closed here, when they are dropped.
    if many <= AT_ONCE || close_in_background(files, turn.map(OwnedFd::from)).is_err() {
        return 0;
    }
    many
}

/// Takes the lock that is held while links are attached: detaching in the background waits for it. In the kernel both wait for one lock (`event_mutex` of
/// kernel/trace), which each detached event holds for a grace period. Events being detached are masked already, so they can wait; a user cannot.
pub fn turn(host: &Host) -> Option<File> {
    let file = turn_file(host)?;
    file.lock_shared().ok()?;
    Some(file)
}

/// The file with that lock: tracefs's directory, which exists wherever events are attached that are slow to detach. `None` where every user may open it
/// (tracefs is not mounted, or for all), because any user could hold the lock for ever.
fn turn_file(host: &Host) -> Option<File> {
    let file = File::open(host.path("/sys/kernel/tracing")).ok()?;
    let everybody = file.metadata().ok()?.mode() & 0o007;
    (everybody == 0).then_some(file)
}
