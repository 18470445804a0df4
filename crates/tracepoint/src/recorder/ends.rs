//! Writes the contents of the rings when the process panics, exits, or is killed by a signal.

use super::files::{errno, set_errno};
use super::own;
use super::session::{Extent, Session};
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals of faults, which end a process.
const FAULTS: [c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGSYS,
    libc::SIGTRAP,
];
/// Signals by which others ask a process to end. They are not touched where the program handles or ignores them.
const REQUESTS: [c_int; 6] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGXCPU,
    libc::SIGXFSZ,
];

/// The signal actions that the recorder's own have replaced.
struct EarlierActions([std::sync::OnceLock<libc::sigaction>; 65]);

static BEFORE: EarlierActions = EarlierActions([const { std::sync::OnceLock::new() }; 65]);
static IS_WATCHING: AtomicBool = AtomicBool::new(false);

/// Installs what is called at panics, exits and forks, and with `signals` at signals. It is installed once and never removed.
pub(super) fn watch(signals: bool) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The process may go on after a panic.
            write(Extent::All);
            before(panic);
        }));
        at_exit_and_fork();
    });
    if signals && !IS_WATCHING.swap(true, Ordering::Relaxed) {
        FAULTS.iter().for_each(|signal| handle(*signal, true));
        REQUESTS.iter().for_each(|signal| handle(*signal, false));
    }
}

/// Writes the contents of the rings. A failure is ignored, because nobody is left to report it to.
fn write(extent: Extent) {
    if let Some(session) = Session::now() {
        _ = session.write(extent);
    }
}

extern "C" fn at_exit() {
    write(Extent::End);
}

/// Ends recording in the child of a fork, which has its parent's rings and files.
extern "C" fn in_child() {
    Session::end();
    own::forget();
}

#[allow(unsafe_code, reason = "functions of the C library")]
fn at_exit_and_fork() {
    // SAFETY: functions that are there as long as the program is.
    unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(None, None, Some(in_child));
    }
}

#[allow(unsafe_code, reason = "system calls")]
fn handle(signal: c_int, is_fault: bool) {
    // SAFETY: a structure of numbers, which the call fills.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks what is done about the signal.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &mut before) } != 0 {
        return;
    }
    if !is_fault && before.sa_sigaction != libc::SIG_DFL {
        return;
    }
    let kept = BEFORE
        .0
        .get(signal as usize)
        .is_some_and(|place| place.set(before).is_ok());
    if !kept {
        return;
    }
    // SAFETY: as above.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = died;
    ours.sa_sigaction = handler as usize;
    // SAFETY: the handler is of the form that the flag says, and calls what handlers may.
    unsafe {
        libc::sigemptyset(&mut ours.sa_mask);
        libc::sigaction(signal, &ours, std::ptr::null_mut());
    }
}

/// Handler of a signal: writes the rings, then lets the earlier action take place.
#[allow(unsafe_code, reason = "system calls")]
extern "C" fn died(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let error = errno();
    write(Extent::End);
    if let Some(before) = BEFORE.0.get(signal as usize).and_then(std::sync::OnceLock::get) {
        // SAFETY: what was there before.
        unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
    }
    // A fault happens again when the thread goes on, with all details for the next handler. Other signals are sent again, and wait until this handler has returned.
    // SAFETY: the kernel gives a handler of this form the structure.
    let comes_again = matches!(signal, libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE)
        && unsafe { info.as_ref() }.is_some_and(|info| info.si_code > 0);
    if !comes_again {
        // SAFETY: a number.
        unsafe { libc::raise(signal) };
    }
    set_errno(error);
}
