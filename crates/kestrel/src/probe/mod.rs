//! Kprobes, jprobes, return probes and tracepoints under the names that kernel people know: registered, their hits handed to closures, unregistered when dropped; no
//! kernel module, and nothing that outlives its process in the kernel (see [`crate::session::store`] for that).
//!
//! | the kernel's (`linux/kprobes.h`) | here |
//! |---|---|
//! | `struct kprobe` with `pre_handler`, `post_handler`, `fault_handler` | [`Kprobe`] with [`pre`](Kprobe::pre), [`post`](Kprobe::post), [`fault`](Kprobe::fault) |
//! | `struct jprobe` (until 4.15) | [`Jprobe`] |
//! | `struct kretprobe` with `entry_handler`, `data_size`, `maxactive` | [`Kretprobe`] with [`entry`](Kretprobe::entry), [`maxactive`](Kretprobe::maxactive) |
//! | `register_kprobe`, `register_jprobe`, `register_kretprobe` | [`register`], or `.register()` |
//! | `register_trace_NAME`, `register_trace_prio_NAME` (`linux/tracepoint.h`) | [`Tracepoint`]; [`Registration::listen`] with a priority |
//! | `register_kprobes` and the like: all or none | [`register_all`] |
//! | `unregister_kprobe` and the like | [`unregister`], or dropping the [`Registration`] |
//! | `enable_kprobe`, `disable_kprobe` | [`Registration::enable_one`], [`Registration::disable_one`] |
//! | `debugfs/kprobes/enabled` | [`enable`], [`disable`] of all that were registered together |
//! | `nmissed` | [`Registration::missed`] |
//!
//! A handler is a program in the event language, which runs in the kernel as a BPF program, the moment the probe is hit. What it *records* (`record(regs)`, `record(args,
//! kstack)`) goes through a buffer to the probe's closure ([`on_hit`](Kprobe::on_hit)), which runs in the program, in the thread that calls
//! [`Registration::poll`], [`run_for`](Registration::run_for) or [`run_while`](Registration::run_while). A probe that is given a closure and no program records everything: registers, arguments by
//! name and type where BTF knows them, the thread's name, and the stack if it is asked for.
//!
//! ```no_run
//! use kestrel::probe::Kprobe;
//! use std::time::Duration;
//!
//! let mut probe = Kprobe::at("vfs_read")
//!     .filter("comm == \"cat\"")
//!     .on_hit(|hit| {
//!         let registers = hit.registers.as_ref().unwrap();
//!         println!("{} on CPU {}: ax is {:#x}", hit.comm, hit.cpu, registers.get("ax").unwrap());
//!     })
//!     .register()?;
//! probe.run_for(Duration::from_secs(1))?;
//! let ended = probe.unregister()?;
//! println!("{} hits, {} lost", ended.hits, ended.lost);
//! # Ok::<(), kestrel::Error>(())
//! ```
//!
//! Registering takes root, or CAP_BPF and CAP_PERFMON with a readable tracefs.

mod definition;
mod dispatch;
mod hit;
mod kinds;
mod registers;
mod registration;
mod sources;
mod value;

pub use crate::callbacks::Callback;
pub use crate::session::Missed;
pub use definition::{Probe, ProbeKind};
pub use hit::{Frame, Hit, Phase};
pub use kinds::{Jprobe, Kprobe, Kretprobe, Tracepoint};
pub use registers::Registers;
pub use registration::{FinalCounts, Listeners, Options, Registration, Status};
pub use value::Value;

use kestrel_catalog::Result;

/// Registers one probe (`register_kprobe`, `register_jprobe`, `register_kretprobe`); its handlers run when this returns, unless it was made disabled.
///
/// ```no_run
/// use kestrel::probe::{self, Kretprobe};
/// let mut registration = probe::register(Kretprobe::on("do_sys_openat2").on_hit(|hit| println!("{hit}")))?;
/// registration.poll()?;
/// probe::unregister(registration)?;
/// # Ok::<(), kestrel::Error>(())
/// ```
///
/// # Errors
/// [`Error::Register`](kestrel_catalog::Error::Register), with the reason: there is no such function or instruction, it cannot be probed (the message says which
/// can), a handler's text is wrong, the instruction cannot be followed (post), the kernel refuses, a privilege is missing. Nothing is attached then.
pub fn register(probe: impl Into<Probe>) -> Result<Registration> {
    register_all([probe.into()])
}

/// Registers many probes (`register_kprobes` and its kin), all or none: if one is refused, none is left, and the error names it.
///
/// Hits of all come in the order of their times. Many functions with the same handler (17 or more) are attached in one operation where the
/// kernel can; then the default handler records `arg0` to `arg5` without types and registers, and one alone cannot be disabled.
///
/// ```no_run
/// use kestrel::probe::{self, Jprobe, Kprobe, Kretprobe, Probe};
/// let probes: Vec<Probe> = vec![
///     Kprobe::at("vfs_read").on_hit(|hit| println!("entry: {hit}")).into(),
///     Kretprobe::on("vfs_read").on_hit(|hit| println!("return: {hit}")).into(),
///     Jprobe::on("vfs_write").on_hit(|hit| println!("call: {hit}")).into(),
/// ];
/// let mut registration = probe::register_all(probes)?;
/// registration.disable_one(2)?;
/// # Ok::<(), kestrel::Error>(())
/// ```
///
/// # Errors
/// As [`register`].
pub fn register_all<P: Into<Probe>>(probes: impl IntoIterator<Item = P>) -> Result<Registration> {
    Options::default().register_all(probes)
}

/// Takes probes off the kernel (`unregister_kprobe` and its kin); the hits that are left are given to the closures first.
///
/// # Errors
/// As [`Registration::unregister`].
pub fn unregister(registration: Registration) -> Result<FinalCounts> {
    registration.unregister()
}

/// Lets the handlers of probes run again: the switch of all that were registered together. A probe that was disabled by itself stays disabled.
pub fn enable(registration: &mut Registration) {
    registration.enable();
}

/// Keeps the handlers of probes from running, from the next hit on; they stay registered.
pub fn disable(registration: &mut Registration) {
    registration.disable();
}
