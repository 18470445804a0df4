//! Errors of live tracing: what was attempted, on what, why not, what to do.

use crate::verifier::{Refusal, Rejection};
use crate::waiting::Waiting;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_kernel::Errno;
use kestrel_trace::files::Objection;
use std::fmt;

impl Error {
    /// The kernel's error number, where the kernel refused something.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Kernel(error) => error.errno(),
            _ => None,
        }
    }

    /// Whether something ran short that has nothing to do with the event: files, memory, or time without a signal.
    pub fn is_shortage(&self) -> bool {
        let short = |errno| {
            matches!(
                errno,
                Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EINTR | Errno::EAGAIN
            )
        };
        match self {
            Self::Io { error, .. } => error.raw_os_error().is_some_and(|number| short(Errno(number))),
            error => error.errno().is_some_and(short),
        }
    }

    /// Closure for `map_err`: `action` failed on `subject`, such as the path of a file.
    pub fn io(action: &'static str, subject: impl std::fmt::Display) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::Io {
            action,
            subject: subject.to_string(),
            error,
        }
    }
}

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// Names that come close to one that does not exist, looked for when they are to be shown: a program that goes on without a probe shows none.
pub struct Near(Box<dyn Fn() -> Vec<String> + Send + Sync>);

impl Near {
    /// A list that `find` fills when it is first asked.
    pub(crate) fn new(find: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Self {
        Self(Box::new(find))
    }

    /// The names, the nearest first.
    pub fn names(&self) -> Vec<String> {
        (self.0)()
    }
}

impl fmt::Debug for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Near").field(&self.names()).finish()
    }
}

/// Why tracing did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused something.
    #[error(transparent)]
    Kernel(#[from] kestrel_kernel::Error),
    /// Reading or writing a trace failed.
    #[error(transparent)]
    Trace(#[from] kestrel_trace::Error),
    /// BTF could not be read.
    #[error("cannot read the kernel's types (BTF): {0}")]
    Types(#[from] kestrel_bpf::Error),
    /// An event specification matches nothing.
    #[error("{} no {what} `{wanted}`{}", whose(.what), near_text(.near))]
    NoSuchEvent {
        /// The kind, for people: `tracepoint`, `traceable function`.
        what: String,
        /// The name that was asked for, as typed.
        wanted: String,
        /// Names that come close.
        near: Vec<String>,
    },
    /// A program or library has no such function.
    #[error("{file} has no function `{wanted}`{}", missing_function(*.stripped, .near))]
    NoFunction {
        /// The file that was searched.
        file: String,
        /// The name that was asked for, as typed.
        wanted: String,
        /// Names that come close.
        near: Near,
        /// Whether it names no function at all.
        stripped: bool,
    },
    /// The text of an event or handler is wrong.
    #[error("{} in `{source_text}`", count(.diagnostics.len()))]
    Program {
        /// The text of the event or handler.
        source_text: String,
        /// Diagnostics, with places in the text.
        diagnostics: Vec<Diagnostic>,
    },
    /// No probe of a program has an event here that its filter lets through.
    #[error("No probes to attach")]
    NothingToAttach {
        /// The program's text.
        source_text: String,
        /// Why its probes were left out, as far as that is known.
        warnings: Vec<Diagnostic>,
    },
    /// A table file is wrong, by itself or on this kernel.
    #[error("{} in {file}", count(.diagnostics.len()))]
    Table {
        /// The file, as people know it.
        file: String,
        /// The table file's text.
        source_text: String,
        /// Diagnostics, with places in the text.
        diagnostics: Vec<Diagnostic>,
    },
    /// There is no parameter of this name.
    #[error("{place} has no parameter `{wanted}`{}", known_text(.known))]
    NoSuchParameter {
        /// The name that was asked for, as typed.
        wanted: String,
        /// Where it was looked for.
        place: String,
        /// Parameters that are there.
        known: Vec<String>,
    },
    /// There is no table of this name.
    #[error("{place} has no table `{wanted}`; it has {}", .known.join(", "))]
    NoSuchTable {
        /// The name that was asked for, as typed.
        wanted: String,
        /// Where it was looked for.
        place: String,
        /// Tables that are there.
        known: Vec<String>,
    },
    /// There is no handler of this name.
    #[error("the session {session} has no handler `{wanted}`{}", near_text(.near))]
    NoSuchHandler {
        /// The name that was asked for, as typed.
        wanted: String,
        /// Where it was looked for.
        session: String,
        /// Names that come close.
        near: Vec<String>,
    },
    /// More than one handler fits what was asked for.
    #[error("`{wanted}` may be any of {} handlers: {}", .names.len(), few(.names))]
    WhichHandler {
        /// The name that was asked for, as typed.
        wanted: String,
        /// Names of those that it may be.
        names: Vec<String>,
    },
    /// A place in the kernel's code that cannot be probed, or does not exist.
    #[error("cannot probe `{wanted}`: {why}")]
    NoPlace {
        /// The place that was asked for, as typed.
        wanted: String,
        /// Why not, and what there is.
        why: String,
    },
    /// The instruction that runs after this one cannot be known beforehand.
    #[error("cannot follow the instruction at {place} ({text}): {why}")]
    NotFollowed {
        /// Where it is: `vfs_read+0x12`.
        place: String,
        /// The instruction as text.
        text: String,
        /// Why it cannot be followed.
        why: String,
    },
    /// A probe cannot be registered, so none of those given with it is.
    #[error("cannot register {probe}{}: {}", and_others(*.others), reason(.why))]
    Register {
        /// The probe's event.
        probe: String,
        /// Number of others that were to be registered with it.
        others: usize,
        /// The error of registering it.
        why: Box<Error>,
    },
    /// A function has a jprobe already.
    #[error(
        "a second {event}: a function has one jprobe at a time, which stands for its call; put both handlers into one block, or use kprobe:{function}"
    )]
    SecondJprobe {
        /// The jprobe's event.
        event: String,
        /// The function that has a jprobe already.
        function: String,
    },
    /// The device through which marks come cannot be had.
    #[error("cannot see marks: {0}")]
    Mark(kestrel_kernel::Error),
    /// This kernel cannot do it.
    #[error("{what}: {why}")]
    Unsupported {
        /// The name or thing asked for.
        what: String,
        /// Why this kernel cannot.
        why: String,
    },
    /// An event's name does not have the parts that its kind wants.
    #[error("`{wanted}` does not name an event: it should read {shape}")]
    WrongShape {
        /// The name of the event, as typed.
        wanted: String,
        /// How such a name is written.
        shape: String,
    },
    /// An option that is not possible with these events or this scope.
    #[error("{option} is not possible here: {why}")]
    NotHere {
        /// The option, as typed.
        option: String,
        /// Why not, and what is.
        why: &'static str,
    },
    /// An event of a kind that the language knows and Kestrel does not have yet.
    #[error("`{wanted}` is not yet supported: Kestrel has no events of the kind {kind} so far")]
    NotYet {
        /// The event, as typed.
        wanted: String,
        /// The kind of the event.
        kind: &'static str,
    },
    /// An event that a program fires itself (`begin`), elsewhere than in a program.
    #[error("`{wanted}` happens in programs alone, which `kestrel run` runs")]
    OfPrograms {
        /// The event, as typed.
        wanted: String,
    },
    /// The verifier refused a program that was made from a text, with the last strategy tried.
    #[error(transparent)]
    Rejected(Box<Rejection>),
    /// A compiled object is damaged, or asks for something that makes no sense.
    #[error("{object}: {why}")]
    Object {
        /// The object's file.
        object: String,
        /// The objection.
        why: String,
    },
    /// The verifier refused a program of an object.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// A generated program could not be made.
    #[error("cannot compile the handler of {event}: {why}")]
    Compile {
        /// The handler's event.
        event: String,
        /// Why it cannot be compiled.
        why: String,
    },
    /// There is no such session, or none at all.
    #[error("{}", no_session(.wanted.as_deref(), .names))]
    NoSession {
        /// The session that was asked for, as typed; `None` if none was named.
        wanted: Option<String>,
        /// Names that exist.
        names: Vec<String>,
    },
    /// No session was named, and there are several.
    #[error("there are {} sessions: {}; say which one is meant", .names.len(), .names.join(", "))]
    WhichSession {
        /// Names that exist.
        names: Vec<String>,
    },
    /// A session of this name runs already.
    #[error("a session {name} runs already")]
    SessionExists {
        /// The session's name.
        name: String,
    },
    /// A name cannot be used.
    #[error("`{name}` cannot be the name of a {what}: it should be {shape}")]
    Name {
        /// The noun for what it should name.
        what: &'static str,
        /// The name, as typed.
        name: String,
        /// The shape of names.
        shape: &'static str,
    },
    /// The state in a session's pins is not one that this Kestrel understands.
    #[error("cannot read the session {session}: {why}")]
    State {
        /// The session's name.
        session: String,
        /// Why its pins cannot be read.
        why: String,
    },
    /// Another command is changing the session.
    #[error("{waiting}; given up after {seconds:.1} s")]
    Busy {
        /// The session, and the process that changes it.
        waiting: Waiting,
        /// Seconds that it was waited for.
        seconds: f64,
    },
    /// The directory of the sessions belongs to another user.
    #[error(
        "{path} belongs to user {owner} and has mode {mode:o}: sessions are kept only in a directory of root's own"
    )]
    Foreign {
        /// The directory of the sessions.
        path: String,
        /// The user that owns it.
        owner: u32,
        /// The file's permissions.
        mode: u32,
    },
    /// Persistent sessions belong to root, and the caller is another user.
    #[error("persistent sessions belong to root, and this process is user {user}'s")]
    NotRoot {
        /// The user that the process belongs to.
        user: u32,
    },
    /// There is no probe of this name.
    #[error("the session {session} has no probe `{wanted}`{}", near_text(.near))]
    NoSuchProbe {
        /// The name that was asked for, as typed.
        wanted: String,
        /// Where it was looked for.
        session: String,
        /// Names that come close.
        near: Vec<String>,
    },
    /// There is a probe of this name already.
    #[error("there is a probe `{name}` in the session {session} already")]
    ProbeExists {
        /// The probe's name.
        name: String,
        /// The session that has it.
        session: String,
    },
    /// A named probe could not be made.
    #[error("cannot add the probe {name}: {error}")]
    OfProbe {
        /// The probe's name.
        name: String,
        /// The error of adding it.
        #[source]
        error: Box<Error>,
    },
    /// A line of the kernel's `kprobe_events` is not understood, or says what has no counterpart.
    #[error("{why}\n    {line}\n    {:at$}^", "", at = line.get(..*at).map_or(0, |before| before.chars().count()))]
    KernelLine {
        /// The line, as it was given.
        line: String,
        /// Where in it, in bytes.
        at: usize,
        /// The part that is wrong, and why.
        why: String,
    },
    /// A table cannot be changed now.
    #[error("cannot {action} the table {table}: {why}")]
    TableInUse {
        /// The attempted action, in words: `unload`.
        action: &'static str,
        /// On which table.
        table: String,
        /// Why it cannot be changed.
        why: String,
    },
    /// A session has numbers for no more kinds of record.
    #[error(
        "{wanted} more kinds of record for {event}: a session has room for 65,536 in all, and this would make {needed}; start another session for these tables"
    )]
    NoRoom {
        /// The event whose handlers need them.
        event: String,
        /// Number of missing ones.
        wanted: usize,
        /// Number of kinds of record that the session would have.
        needed: u32,
    },
    /// The session sees system calls at their functions, where a table's objects are not run; a load makes the hooks anew at the tracepoint.
    #[error("the session sees {} at the call's function, where no program of an object is run", .events.join(", "))]
    AtFunction {
        /// Numbers of the hooks.
        hooks: Vec<u32>,
        /// The system calls' events.
        events: Vec<String>,
    },
    /// There is no buffer of this name.
    #[error("the session has no buffer {wanted}; it has {}", .known.join(", "))]
    NoSuchBuffer {
        /// The name that was asked for, as typed.
        wanted: String,
        /// Buffers that are there.
        known: Vec<String>,
    },
    /// The buffer that handlers' messages go through cannot be steered.
    #[error(
        "the buffer {buffer} is the agent's: it cannot be frozen, thawed or reset, for messages would be lost"
    )]
    AgentsBuffer {
        /// The buffer's name.
        buffer: String,
    },
    /// A buffer cannot be resized so.
    #[error("cannot resize the buffer {buffer}: {why}")]
    Resize {
        /// The buffer's name.
        buffer: String,
        /// Why it cannot be resized.
        why: String,
    },
    /// A buffer of a session that runs cannot be made or removed.
    #[error("cannot {action} the buffer {buffer}: {why}")]
    Buffer {
        /// The attempted action, in words.
        action: &'static str,
        /// The buffer's name.
        buffer: String,
        /// Why it cannot be done.
        why: String,
    },
    /// A file asks for what only root's own files and the caller's may, and others could have written it.
    #[error("{file} {refused}: {objection}")]
    Untrusted {
        /// The file, as it was named.
        file: String,
        /// The refused thing, in words.
        refused: &'static str,
        /// The objection: what others could change.
        objection: Objection,
    },
    /// A bare word names a table file that comes with Kestrel, and there is none of that name.
    #[error("no table file `{wanted}` comes with Kestrel{}", near_text(.near))]
    NoSuchFile {
        /// The name that was asked for, as typed.
        wanted: String,
        /// Names that come close.
        near: Vec<String>,
        /// Whether a file of this name lies where the command runs.
        here: bool,
    },
    /// A table file could not be read.
    #[error("cannot read table file {file}: {error}")]
    TableFile {
        /// The file as it was named.
        file: String,
        /// The system's answer.
        error: std::io::Error,
    },
    /// Input or output outside the kernel failed.
    #[error("cannot {action} {subject}: {error}")]
    Io {
        /// The attempted action, in words: `write`.
        action: &'static str,
        /// The subject of the action.
        subject: String,
        /// The system's answer.
        error: std::io::Error,
    },
}

/// The error for a specification that nothing matches, with near names.
pub(crate) fn nothing_matches(what: &str, wanted: &str, near: Vec<String>) -> Error {
    Error::NoSuchEvent {
        what: what.to_owned(),
        wanted: wanted.to_owned(),
        near,
    }
}

/// The kernel's answer as the standard library has it.
pub fn into_io(error: kestrel_kernel::Error) -> std::io::Error {
    match error.errno() {
        Some(errno) => std::io::Error::from_raw_os_error(errno.0),
        None => std::io::Error::other(error),
    }
}

fn no_session(wanted: Option<&str>, names: &[String]) -> String {
    match (wanted, names) {
        (None, _) => "no session runs".to_owned(),
        (Some(wanted), []) => format!("no session {wanted} runs, nor any other"),
        (Some(wanted), names) => format!("no session {wanted} runs; there is {}", names.join(", ")),
    }
}

/// The first few of many names.
fn few(names: &[String]) -> String {
    const FEW: usize = 8;
    let shown = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        all if all > FEW => format!("{shown}, …"),
        _ => shown,
    }
}

fn missing_function(stripped: bool, near: &Near) -> String {
    match stripped {
        true => {
            "; it is stripped: its functions have no names, and can be probed by address (0x…)".to_owned()
        }
        false => near_text(&near.names()),
    }
}

/// Who has no such event: the kernel, unless the kind says where else it was looked for.
fn whose(what: &str) -> &'static str {
    match what.contains(" in ") {
        true => "there is",
        false => "this kernel has",
    }
}

fn near_text(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    format!("; did you mean {}?", near.join(", "))
}

fn and_others(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => ", and so not the other probe either".to_owned(),
        others => format!(", and so none of the other {others} probes"),
    }
}

/// An error in one piece, what is wrong with a text included.
fn reason(error: &Error) -> String {
    let Error::Program { diagnostics, .. } = error else {
        return error.to_string();
    };
    let one = |d: &Diagnostic| match d.hints.as_slice() {
        [] => d.message.clone(),
        hints => format!("{} ({})", d.message, hints.join("; ")),
    };
    let all: Vec<String> = diagnostics.iter().map(one).collect();
    format!("{error}: {}", all.join("; "))
}

fn known_text(known: &[String]) -> String {
    if known.is_empty() {
        return " nor any other".to_owned();
    }
    format!("; it has {}", known.join(", "))
}

fn count(n: usize) -> String {
    if n == 1 {
        "an error".to_owned()
    } else {
        format!("{n} errors")
    }
}
