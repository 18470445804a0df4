//! A probe to be registered: its place, handlers and closure; the three kinds of probe build it.

use super::{Hit, Phase};
use kestrel_catalog::{Error, Result};
use std::fmt;

/// The closure that receives hits.
pub(super) type Closure = dyn FnMut(&Hit) + Send;

/// A probe of any kind, not registered yet: what [`Kprobe`](super::Kprobe), [`Jprobe`](super::Jprobe),
/// [`Kretprobe`](super::Kretprobe) and [`Tracepoint`](super::Tracepoint) become, so that [`register_all`](super::register_all) takes them together.
pub struct Probe {
    pub(super) kind: ProbeKind,
    pub(super) place: String,
    pub(super) offset: Option<u64>,
    pub(super) module: Option<String>,
    pub(super) filter: Option<String>,
    /// The blocks of handlers that were given, by phase.
    pub(super) handlers: Vec<(Phase, String)>,
    /// Closures with their priorities.
    pub(super) closures: Vec<(i32, Box<Closure>)>,
    pub(super) stack: bool,
    pub(super) registers: bool,
    /// Values of the entry: names and expressions.
    pub(super) entry: Vec<(String, String)>,
    pub(super) maxactive: Option<u32>,
    pub(super) disabled: bool,
}

/// The kinds of probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProbeKind {
    /// An instruction, or a function's entry.
    Kprobe,
    /// A function's call with its parameters.
    Jprobe,
    /// A function's return.
    Kretprobe,
    /// A tracepoint of the kernel.
    Tracepoint,
}

impl ProbeKind {
    /// The kind's name in the event language.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kprobe => "kprobe",
            Self::Jprobe => "jprobe",
            Self::Kretprobe => "kretprobe",
            Self::Tracepoint => "tracepoint",
        }
    }

    /// The letter that the kernel's list of probes (`debugfs/kprobes/list`) has for it; `t` for tracepoints, which it does not list.
    pub fn letter(self) -> char {
        match self {
            Self::Kprobe => 'k',
            Self::Jprobe => 'j',
            Self::Kretprobe => 'r',
            Self::Tracepoint => 't',
        }
    }

    /// The phase of a handler that names none.
    pub(super) fn phase(self) -> Phase {
        match self {
            Self::Kprobe => Phase::Pre,
            Self::Jprobe => Phase::Call,
            Self::Kretprobe => Phase::Return,
            Self::Tracepoint => Phase::Event,
        }
    }
}

impl Probe {
    pub(super) fn new(kind: ProbeKind, place: String) -> Self {
        Self {
            kind,
            place,
            offset: None,
            module: None,
            filter: None,
            handlers: Vec::new(),
            closures: Vec::new(),
            stack: false,
            registers: matches!(kind, ProbeKind::Kprobe | ProbeKind::Kretprobe),
            entry: Vec::new(),
            maxactive: None,
            disabled: false,
        }
    }

    /// A handler for a phase, in the place of one given before.
    pub(super) fn handle(&mut self, phase: Phase, text: &str) {
        self.handlers.retain(|(known, _)| *known != phase);
        self.handlers.push((phase, text.to_owned()));
    }

    /// The event as it is known: `kprobe:ext4:ext4_file_open+0x12`.
    pub fn name(&self) -> String {
        let mut name = self.kind.name().to_owned();
        if let Some(module) = &self.module {
            name = format!("{name}:{module}");
        }
        name = format!("{name}:{}", self.place);
        if let Some(offset) = self.offset {
            name = format!("{name}+{offset:#x}");
        }
        name
    }

    /// Whether it is a pattern, which stands for many functions.
    pub(super) fn is_pattern(&self) -> bool {
        self.place.contains(['*', '?', '['])
    }

    /// Checks that the place cannot be read as anything else in the event language, and that no option of the probe would be ignored.
    ///
    /// # Errors
    /// The objection to the probe.
    pub(super) fn check(&self) -> Result<()> {
        self.check_place()?;
        if self.handlers.is_empty() {
            return Ok(());
        }
        let unheard = |what: &str, instead: String| {
            Err(Error::Unsupported {
                what: format!("{what} of {}", self.name()),
                why: format!(
                    "that is for the handler by default, and this one has a text of its own, which records what it says: write {instead}"
                ),
            })
        };
        if let Some((name, expression)) = self.entry.first() {
            return unheard(
                &format!("entry(\"{name}\", \"{expression}\")"),
                format!("record({name} = entry.{expression}) in it"),
            );
        }
        if self.stack {
            return unheard("with_stack()", "record(kstack) in it".to_owned());
        }
        Ok(())
    }

    fn check_place(&self) -> Result<()> {
        let plain = |text: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "_.+*?[]-!".contains(c);
            !text.is_empty() && text.chars().all(known)
        };
        if self.kind == ProbeKind::Tracepoint {
            let mut parts = self.place.split(':');
            let whole = parts.by_ref().take(2).filter(|part| plain(part)).count() == 2;
            return match whole && parts.next().is_none() {
                true => Ok(()),
                false => Err(Error::WrongShape {
                    wanted: self.name(),
                    shape: "GROUP:NAME (sched:sched_switch), or patterns (sched:sched_wak*)".to_owned(),
                }),
            };
        }
        if plain(&self.place) && self.module.as_deref().is_none_or(plain) {
            return Ok(());
        }
        Err(Error::WrongShape {
            wanted: self.name(),
            shape: "a function's name, one with +OFFSET, a pattern (tcp_*) or an address (0x…)".to_owned(),
        })
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("name", &self.name())
            .field("filter", &self.filter)
            .field("handlers", &self.handlers)
            .field("closures", &self.closures.len())
            .field("entry", &self.entry)
            .field("disabled", &self.disabled)
            .finish_non_exhaustive()
    }
}
