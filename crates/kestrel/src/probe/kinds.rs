//! The kinds of probe as people write them: each says what it can and nothing else, and becomes a [`Probe`].

use super::definition::{Probe, ProbeKind};
use super::{Hit, Phase, Registration};
use kestrel_catalog::Result;

/// A probe on one instruction, or on a function's entry: `struct kprobe` and `register_kprobe` of `linux/kprobes.h`.
///
/// ```no_run
/// use kestrel::probe::{Kprobe, Phase};
/// use std::time::Duration;
///
/// let mut probe = Kprobe::at("vfs_read")
///     .pre("record(regs)")
///     .post("record(regs)")
///     .on_hit(|hit| match hit.phase {
///         Phase::Pre => println!("before {hit}"),
///         _ => println!("after {hit}"),
///     })
///     .register()?;
/// probe.run_for(Duration::from_secs(1))?;
/// # Ok::<(), kestrel::Error>(())
/// ```
#[derive(Debug)]
pub struct Kprobe(Probe);

/// A probe that sees a function's call with its parameters, by name and type: `struct jprobe` and `register_jprobe`, which Linux had until 4.15. A
/// function has one jprobe at a time; a second one registered together with it is refused.
///
/// ```no_run
/// use kestrel::probe::Jprobe;
/// let mut probe = Jprobe::on("do_sys_openat2")
///     .handler("record(args.dfd, name = str(args.filename))")
///     .on_hit(|hit| println!("{} opens {}", hit.comm, hit.get("name").unwrap()))
///     .register()?;
/// # Ok::<(), kestrel::Error>(())
/// ```
#[derive(Debug)]
pub struct Jprobe(Probe);

/// A probe on a function's returns: `struct kretprobe` and `register_kretprobe` of `linux/kprobes.h`.
///
/// ```no_run
/// use kestrel::probe::Kretprobe;
/// let mut probe = Kretprobe::on("vfs_read")
///     .entry("count", "args.count")
///     .entry("began", "nsecs")
///     .on_hit(|hit| println!("{} of {}", hit.returned().unwrap(), hit.get("count").unwrap()))
///     .register()?;
/// # Ok::<(), kestrel::Error>(())
/// ```
#[derive(Debug)]
pub struct Kretprobe(Probe);

/// A tracepoint of the kernel: what `register_trace_NAME` and `register_trace_prio_NAME` of `linux/tracepoint.h` do, with closures in a program instead of functions in a module.
///
/// ```no_run
/// use kestrel::probe::Tracepoint;
/// use std::time::Duration;
///
/// let mut probe = Tracepoint::on("sched:sched_process_fork")
///     .on_hit(|hit| println!("{} has a child: {}", hit.comm, hit.get("child_pid").unwrap()))
///     .register()?;
/// let first = probe.listen(0, 10, |hit| println!("called before: {hit}"))?;
/// probe.run_for(Duration::from_secs(1))?;
/// drop(first);
/// probe.run_for(Duration::from_secs(1))?;
/// # Ok::<(), kestrel::Error>(())
/// ```
#[derive(Debug)]
pub struct Tracepoint(Probe);

impl Tracepoint {
    /// The tracepoint `GROUP:NAME`, or all that a pattern names (`sched:sched_wak*`).
    pub fn on(event: impl Into<String>) -> Self {
        Self(Probe::new(ProbeKind::Tracepoint, event.into()))
    }

    /// A handler in the event language, with the fields as `args.NAME`. Without one all are recorded.
    #[must_use]
    pub fn handler(mut self, text: &str) -> Self {
        self.0.handle(Phase::Event, text);
        self
    }
}

impl Kprobe {
    /// A probe at a function's first instruction, at `function+0xOFFSET`, or on every function that a pattern names (`tcp_*`), which
    /// is one probe and attached as one operation where the kernel can. Stands for `symbol_name` of `struct kprobe`.
    pub fn at(place: impl Into<String>) -> Self {
        Self(Probe::new(ProbeKind::Kprobe, place.into()))
    }

    /// A probe at an address in the kernel's text: `addr` of `struct kprobe`.
    pub fn at_address(address: u64) -> Self {
        Self::at(format!("{address:#x}"))
    }

    /// The offset from the function's start in bytes; must be that of an instruction (`kestrel probe show FUNCTION` lists them).
    /// Stands for `offset` of `struct kprobe`.
    #[must_use]
    pub fn offset(mut self, bytes: u64) -> Self {
        self.0.offset = Some(bytes);
        self
    }

    /// A handler in the event language, run before the instruction (`pre_handler`). What it records goes to the closure.
    #[must_use]
    pub fn pre(mut self, text: &str) -> Self {
        self.0.handle(Phase::Pre, text);
        self
    }

    /// A handler in the event language, run after the instruction (`post_handler`), once for each run of it, in the same task.
    /// Instructions that cannot be followed (an indirect jump, a return) are refused.
    #[must_use]
    pub fn post(mut self, text: &str) -> Self {
        self.0.handle(Phase::Post, text);
        self
    }

    /// A handler in the event language, run when the instruction faulted (`fault_handler`, which Linux had until 5.13), with the arguments
    /// `args.address`, `args.trap` and `args.error_code`. It sees faults that the kernel recovers from, those of accesses to user memory among
    /// them; it cannot change what comes of them.
    #[must_use]
    pub fn fault(mut self, text: &str) -> Self {
        self.0.handle(Phase::Fault, text);
        self
    }

    /// Leaves the registers out of what the default handler records: hits take a third of the room.
    #[must_use]
    pub fn without_registers(mut self) -> Self {
        self.0.registers = false;
        self
    }
}

impl Jprobe {
    /// A jprobe on a function: `kp.symbol_name` of `struct jprobe`.
    pub fn on(function: impl Into<String>) -> Self {
        Self(Probe::new(ProbeKind::Jprobe, function.into()))
    }

    /// A handler in the event language (`entry` of `struct jprobe`), with the parameters as `args.NAME`. Without one all are recorded.
    #[must_use]
    pub fn handler(mut self, text: &str) -> Self {
        self.0.handle(Phase::Call, text);
        self
    }
}

impl Kretprobe {
    /// A probe on a function's returns: `kp.symbol_name` of `struct kretprobe`. A pattern (`tcp_*`) stands for many functions.
    pub fn on(function: impl Into<String>) -> Self {
        Self(Probe::new(ProbeKind::Kretprobe, function.into()))
    }

    /// A handler in the event language (`handler` of `struct kretprobe`), with `retval` and `entry.…`. Without one the return value, the
    /// registers and the entry data are recorded.
    #[must_use]
    pub fn handler(mut self, text: &str) -> Self {
        self.0.handle(Phase::Return, text);
        self
    }

    /// Keeps a value of the call's entry until its return, where the hit has it under this name: `entry_handler` and `data_size` of `struct
    /// kretprobe`. The expression is one that the event language takes behind `entry.`: `args.NAME`, `arg0`, `nsecs`, `reg("di")`. Only for the
    /// default handler; a handler that you write uses `entry.args.NAME`, and both together are refused.
    #[must_use]
    pub fn entry(mut self, name: &str, expression: &str) -> Self {
        self.0.entry.push((name.to_owned(), expression.to_owned()));
        self
    }

    /// How many calls of the function can be on their way at once (1 to 4096): `maxactive` of `struct kretprobe`. Returns of more are missed,
    /// and counted by [`Registration::missed`].
    #[must_use]
    pub fn maxactive(mut self, calls: u32) -> Self {
        self.0.maxactive = Some(calls);
        self
    }

    /// Leaves the registers out of what the default handler records.
    #[must_use]
    pub fn without_registers(mut self) -> Self {
        self.0.registers = false;
        self
    }
}

/// Methods of all kinds.
macro_rules! kind {
    ($kind:ident) => {
        impl $kind {
            /// A condition in the event language that must hold for any of the handlers to run: `pid == 42`, `comm == "cat"`.
            #[must_use]
            pub fn filter(mut self, condition: &str) -> Self {
                self.0.filter = Some(condition.to_owned());
                self
            }

            /// Records the kernel's call stack with the default handler; a handler that you write uses `kstack`, and both together are refused.
            #[must_use]
            pub fn with_stack(mut self) -> Self {
                self.0.stack = true;
                self
            }

            /// Registers it disabled (`KPROBE_FLAG_DISABLED`): nothing is handled until it is enabled.
            #[must_use]
            pub fn disabled(mut self) -> Self {
                self.0.disabled = true;
                self
            }

            /// Adds the closure that receives every hit that one of the handlers records, oldest first, in the thread that calls
            /// [`Registration::poll`] or one of its kin: user space, shortly after the event, so it may take its time, allocate and print.
            #[must_use]
            pub fn on_hit(mut self, closure: impl FnMut(&Hit) + Send + 'static) -> Self {
                self.0.closures.retain(|(priority, _)| *priority != 0);
                self.0.closures.push((0, Box::new(closure)));
                self
            }

            /// Adds a closure with a priority: higher ones are given a hit first, and [`on_hit`](Self::on_hit)'s has 0. [`Registration::listen`] registers closures later, and unregisters
            /// them.
            #[must_use]
            pub fn on_hit_with(mut self, priority: i32, closure: impl FnMut(&Hit) + Send + 'static) -> Self {
                self.0.closures.push((priority, Box::new(closure)));
                self
            }

            /// Registers it; see [`register`](super::register).
            ///
            /// # Errors
            /// As [`register`](super::register).
            pub fn register(self) -> Result<Registration> {
                super::register(self)
            }
        }

        impl From<$kind> for Probe {
            fn from(probe: $kind) -> Self {
                probe.0
            }
        }
    };
}

kind!(Kprobe);
kind!(Jprobe);
kind!(Kretprobe);
kind!(Tracepoint);

/// Methods of the kinds that are on functions.
macro_rules! of_function {
    ($kind:ident) => {
        impl $kind {
            /// Restricts a function's name to this module, where several have it; `vmlinux` is the kernel itself.
            #[must_use]
            pub fn module(mut self, module: &str) -> Self {
                self.0.module = Some(module.to_owned());
                self
            }
        }
    };
}

of_function!(Kprobe);
of_function!(Jprobe);
of_function!(Kretprobe);
