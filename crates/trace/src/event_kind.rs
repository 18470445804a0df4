//! Kinds of events by name, with what is known of them where no kernel is asked: in sources, in recordings, in lists of a script's probes. One constant and one row of
//! [`KINDS`] each; how a kernel is asked for the events of a kind is the catalog's matter.

/// Properties of a kind of events, for the compiler, the questions to recordings and the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKindNames {
    /// The canonical name, as in `kprobe:vfs_read`.
    pub name: &'static str,
    /// Shorter names: `k`.
    pub aliases: &'static [&'static str],
    /// The part of the name behind the kind.
    pub subject: Subject,
    /// Parts between the colons of a name that may be left out.
    pub optional: Optional,
    /// The program that sees an event of this kind.
    pub seen_by: SeenBy,
    /// The kind of the returns of the same functions.
    pub returns: Option<&'static str>,
    /// Whether bpftrace's language has this kind.
    pub in_scripts: bool,
}

/// The part of an event's name that follows its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Names of other things than functions: `hz`, `cycles`.
    Other,
    /// A function of the kernel.
    Function,
    /// An address, or a path to one, in which slashes are ordinary.
    Path,
    /// A program's or a library's file, then a function or place of it.
    FileFunction,
    /// A program's or a library's file, then a static probe of it.
    FileProbe,
}

impl Subject {
    /// Whether a path follows, in which slashes are ordinary.
    pub fn is_path(self) -> bool {
        self == Self::Path || self.is_file()
    }

    /// Whether a program's or a library's file follows, which recordings name by its whole path.
    pub fn is_file(self) -> bool {
        matches!(self, Self::FileFunction | Self::FileProbe)
    }

    /// Whether its events are about a function.
    pub fn is_function(self) -> bool {
        matches!(self, Self::Function | Self::FileFunction)
    }
}

/// Part of an event's name that may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optional {
    /// None.
    None,
    /// The count behind the last colon: `software:faults:`.
    Count,
    /// The file and the provider: `usdt::probe`, `usdt:./server:probe`.
    Provider,
    /// The module before the function: `kprobe:MODULE:FUNCTION`.
    Module,
}

/// Kind of program that sees an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenBy {
    /// The program of a static event of the kernel.
    Tracepoint,
    /// The program at an instruction, with the registers there.
    Kprobe,
    /// The program at a function's return.
    Kretprobe,
    /// The program at a function's entry, with its typed parameters.
    Fentry,
    /// The program at a function's return, with its typed parameters.
    Fexit,
    /// The program of a counter, a timer or a watchpoint.
    PerfEvent,
    /// The session's own: it fires them itself.
    Session,
}

impl EventKindNames {
    /// A kind of the language, of static events.
    const fn new(name: &'static str, aliases: &'static [&'static str]) -> Self {
        Self {
            name,
            aliases,
            subject: Subject::Other,
            optional: Optional::None,
            seen_by: SeenBy::Tracepoint,
            returns: None,
            in_scripts: true,
        }
    }

    const fn on(self, subject: Subject) -> Self {
        Self { subject, ..self }
    }

    const fn seen_by(self, seen_by: SeenBy) -> Self {
        Self { seen_by, ..self }
    }

    const fn returns(self, kind: &'static str) -> Self {
        Self {
            returns: Some(kind),
            ..self
        }
    }

    const fn may_leave_out(self, optional: Optional) -> Self {
        Self { optional, ..self }
    }

    const fn not_in_scripts(self) -> Self {
        Self {
            in_scripts: false,
            ..self
        }
    }

    /// Whether this is its name or one of its aliases.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

macro_rules! kinds {
    ($($constant:ident = $kind:expr;)*) => {
        $(#[allow(missing_docs, reason = "the name is the kind's")] pub const $constant: EventKindNames = $kind;)*
        /// All kinds.
        pub const KINDS: &[EventKindNames] = &[$($constant),*];
    };
}

use EventKindNames as Kind;

kinds! {
    TRACEPOINT = Kind::new("tracepoint", &["t", "tp"]);
    RAW_TRACEPOINT = Kind::new("rawtracepoint", &["rt", "raw_tracepoint", "raw_tp"]).may_leave_out(Optional::Module);
    KPROBE = Kind::new("kprobe", &["k"]).on(Subject::Function).seen_by(SeenBy::Kprobe).returns("kretprobe").may_leave_out(Optional::Module);
    KRETPROBE = Kind::new("kretprobe", &["kr"]).on(Subject::Function).seen_by(SeenBy::Kretprobe).may_leave_out(Optional::Module);
    JPROBE = Kind::new("jprobe", &["j"]).on(Subject::Function).seen_by(SeenBy::Kprobe).not_in_scripts();
    FENTRY = Kind::new("fentry", &["f", "kfunc"]).on(Subject::Function).seen_by(SeenBy::Fentry).returns("fexit").may_leave_out(Optional::Module);
    FEXIT = Kind::new("fexit", &["fr", "kretfunc"]).on(Subject::Function).seen_by(SeenBy::Fexit).may_leave_out(Optional::Module);
    UPROBE = Kind::new("uprobe", &["u"]).on(Subject::FileFunction).seen_by(SeenBy::Kprobe).returns("uretprobe");
    URETPROBE = Kind::new("uretprobe", &["ur"]).on(Subject::FileFunction).seen_by(SeenBy::Kretprobe);
    USDT = Kind::new("usdt", &["U"]).on(Subject::FileProbe).seen_by(SeenBy::Kprobe).may_leave_out(Optional::Provider);
    WATCHPOINT = Kind::new("watchpoint", &["w"]).on(Subject::Path).seen_by(SeenBy::PerfEvent);
    HARDWARE = Kind::new("hardware", &["h"]).seen_by(SeenBy::PerfEvent).may_leave_out(Optional::Count);
    SOFTWARE = Kind::new("software", &["s"]).seen_by(SeenBy::PerfEvent).may_leave_out(Optional::Count);
    PROFILE = Kind::new("profile", &["p"]).seen_by(SeenBy::PerfEvent);
    INTERVAL = Kind::new("interval", &["i"]).seen_by(SeenBy::PerfEvent);
    CLASS = Kind::new("class", &[]).not_in_scripts();
    MARK = Kind::new("mark", &[]).not_in_scripts();
    ITER = Kind::new("iter", &["it"]);
    BEGIN = Kind::new("begin", &["BEGIN"]).seen_by(SeenBy::Session);
    END = Kind::new("end", &["END"]).seen_by(SeenBy::Session);
    SELF = Kind::new("self", &[]).seen_by(SeenBy::Session);
    TEST = Kind::new("test", &[]).seen_by(SeenBy::Session);
    BENCH = Kind::new("bench", &[]).seen_by(SeenBy::Session);
}

/// The kind with this name or alias.
pub fn find(name: &str) -> Option<&'static EventKindNames> {
    KINDS.iter().find(|kind| kind.is_called(name))
}

/// What bpftrace says of an event of this kind one of whose `parts`, which follow the kind, is empty.
pub fn incomplete(kind: &EventKindNames, parts: &[&str]) -> Option<String> {
    let name = kind.name;
    let is = |kinds: &[EventKindNames]| kinds.iter().any(|one| one.name == name);
    Some(match parts {
        [_] if is(&[TRACEPOINT, SELF]) => format!("{name} probe type requires 2 arguments, found 1"),
        [_] if is(&[USDT]) => format!("{name} probe type requires 2 or 3 arguments, found 1"),
        [.., ""] if is(&[TRACEPOINT]) => format!("{name} probe must have a target"),
        [.., ""] if is(&[USDT]) => format!("{name} probe must have a target function or wildcard"),
        ["", _] if is(&[UPROBE, URETPROBE]) => format!("{name} should have a target"),
        [.., ""] if is(&[UPROBE, URETPROBE]) => {
            format!("{name} should be attached to a function, address, or source file and line (using DWARF)")
        }
        [.., ""] if is(&[KPROBE, KRETPROBE]) => {
            "kprobes should be attached to a function or an address".to_owned()
        }
        [.., ""] if is(&[FENTRY, FEXIT]) => "fentry/fexit should specify a function".to_owned(),
        [.., ""] if is(&[RAW_TRACEPOINT]) => format!("{name} should be attached to a function"),
        [.., ""] if is(&[INTERVAL, PROFILE]) => format!("Invalid rate of {name} probe: invalid integer: "),
        [""] if is(&[SOFTWARE, HARDWARE]) => format!("{name} probe must have a {name} event name"),
        [""] if is(&[TEST, BENCH]) => format!("{name} probes must have a name"),
        [_] if is(&[BEGIN, END]) => format!("{name} probe type requires 0 arguments, found 1"),
        _ => return None,
    })
}

/// Whether events of a kind are entries of the kernel's functions, whose parameters have numbers in the order of the function's.
pub fn is_function_entry(kind: &str) -> bool {
    find(kind).is_some_and(|kind| {
        kind.subject.is_function() && matches!(kind.seen_by, SeenBy::Kprobe | SeenBy::Fentry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_means_two_kinds() {
        let mut names: Vec<&str> = KINDS
            .iter()
            .flat_map(|kind| [&[kind.name], kind.aliases].concat())
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn events_without_a_part_are_refused_in_the_words_of_the_field() {
        for (event, said) in [
            ("uprobe::f", "uprobe should have a target"),
            (
                "kretprobe:",
                "kprobes should be attached to a function or an address",
            ),
            (
                "tracepoint:",
                "tracepoint probe type requires 2 arguments, found 1",
            ),
            ("tracepoint:sched:", "tracepoint probe must have a target"),
            ("i:s:", "Invalid rate of interval probe: invalid integer: "),
            ("hardware:", "hardware probe must have a hardware event name"),
        ] {
            let mut parts = event.split(':');
            let kind = find(parts.next().unwrap()).unwrap();
            let parts: Vec<&str> = parts.collect();
            assert_eq!(incomplete(kind, &parts).as_deref(), Some(said), "{event}");
        }
        assert_eq!(incomplete(&ITER, &[""]), None);
    }

    #[test]
    fn returns_are_of_a_kind_that_exists() {
        for kind in KINDS {
            let returns = kind.returns.map(|name| find(name).map(|found| found.subject));
            assert!(
                returns.is_none_or(|subject| subject == Some(kind.subject)),
                "{}",
                kind.name
            );
        }
    }
}
