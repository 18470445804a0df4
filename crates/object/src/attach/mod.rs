//! Attaching programs of objects: one file per family of sections, one row each; which program type that takes is the section table's.

mod iterator;
mod kprobe;
mod kprobe_multi;
mod nothing;
mod perf_event;
mod raw_tracepoint;
mod request;
mod tracepoint;
mod tracing;
mod uprobe;
mod usdt;

use super::kernel::Kernel;
use super::map::BpfMap;
use super::settings::Settings;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::object::{Hook, Program as Declared, SectionKind};
use kestrel_catalog::attach::{KprobeVia, Links};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{AttachType, Program, ProgramKind, ProgramType};
use request::{AttachRequest, Binding};

/// Program kind and target to which a section's name binds a program.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) kind: ProgramKind,
    /// The module that the kind's type belongs to.
    pub(super) module: Option<String>,
    pub(super) target: String,
    /// The target as its section has it.
    written: String,
    pub(super) at_return: bool,
    /// Run by a program array's tail calls alone.
    pub(super) held: bool,
    section: &'static SectionKind,
    via: KprobeVia,
}

impl Bound {
    /// Binding of a program that an attached one calls, and so of its type; `None` where its section is of no known kind.
    pub(super) fn called(program: &Declared, kind: ProgramKind) -> Option<Self> {
        Some(Self {
            kind,
            module: None,
            target: String::new(),
            written: String::new(),
            at_return: false,
            held: true,
            section: program.section.kind()?,
            via: KprobeVia::Best,
        })
    }

    /// The function that its program is bound to as a trampoline.
    pub(super) fn traced_function(&self) -> Option<&str> {
        matches!(self.section.hook, Hook::Fentry | Hook::Fexit | Hook::FmodRet)
            .then(|| function(&self.target))
    }

    /// Singular noun and name of the iterated objects: a call or return of a function, a hit of a tracepoint. `None` where that is not one thing.
    pub(super) fn event(&self) -> Option<(&'static str, &str)> {
        let named = |what, name: &'_ str| {
            (!self.held && !name.is_empty() && !name.contains(['+', '*'])).then_some(what)
        };
        let target = self.target.as_str();
        let (what, name) = match self.section.hook {
            Hook::Kprobe | Hook::Kretprobe | Hook::KprobeMulti | Hook::KretprobeMulti | Hook::Classic => {
                let returns =
                    self.at_return || matches!(self.section.hook, Hook::Kretprobe | Hook::KretprobeMulti);
                (if returns { "return of" } else { "call of" }, function(target))
            }
            Hook::Fentry => ("call of", function(target)),
            Hook::Fexit => ("return of", function(target)),
            Hook::Tracepoint => ("hit of", target.rsplit(['/', ':']).next().unwrap_or(target)),
            Hook::RawTracepoint | Hook::RawTracepointWritable | Hook::TypedTracepoint => ("hit of", target),
            _ => return None,
        };
        named(what, name).map(|what| (what, name))
    }

    /// Whether another program sees the same in another way.
    pub(super) fn is_twin_of(&self, other: &Self) -> bool {
        self.section.hook != other.section.hook && self.event().is_some() && self.event() == other.event()
    }

    /// Whether it is of no family that is attached here.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.section.hook, Hook::Foreign | Hook::Syscall)
    }
}

/// The name of a function behind that of its module.
fn function(target: &str) -> &str {
    target.split_once(':').map_or(target, |(_, name)| name)
}

/// A family of hooks.
struct Family {
    hooks: &'static [Hook],
    /// The type that the program is bound to when it is loaded, with its module; or another program type than the section's.
    bind: fn(&AttachRequest<'_>) -> Result<Binding>,
    attach: fn(&AttachRequest<'_>, &Program, ProgramKind) -> Result<Links>,
}

/// A table: the families.
const FAMILIES: &[Family] = &[
    Family {
        hooks: &[
            Hook::Classic,
            Hook::Kprobe,
            Hook::Kretprobe,
            Hook::Ksyscall,
            Hook::Kretsyscall,
        ],
        bind: kprobe::bind,
        attach: kprobe::attach,
    },
    Family {
        hooks: &[Hook::KprobeMulti, Hook::KretprobeMulti, Hook::KprobeSession],
        bind: kprobe_multi::bind,
        attach: kprobe_multi::attach,
    },
    Family {
        hooks: &[
            Hook::Uprobe,
            Hook::Uretprobe,
            Hook::UprobeMulti,
            Hook::UretprobeMulti,
            Hook::UprobeSession,
        ],
        bind: uprobe::bind,
        attach: uprobe::attach,
    },
    Family {
        hooks: &[Hook::Tracepoint],
        bind: tracepoint::bind,
        attach: tracepoint::attach,
    },
    Family {
        hooks: &[Hook::RawTracepoint, Hook::RawTracepointWritable],
        bind: raw_tracepoint::bind,
        attach: raw_tracepoint::attach,
    },
    Family {
        hooks: &[
            Hook::TypedTracepoint,
            Hook::Fentry,
            Hook::Fexit,
            Hook::FmodRet,
            Hook::Lsm,
        ],
        bind: tracing::bind,
        attach: tracing::attach,
    },
    Family {
        hooks: &[Hook::Iter],
        bind: iterator::bind,
        attach: iterator::attach,
    },
    Family {
        hooks: &[Hook::PerfEvent],
        bind: |_| Ok(Binding::default()),
        attach: perf_event::attach,
    },
    Family {
        hooks: &[Hook::Usdt],
        bind: usdt::bind,
        attach: usdt::attach,
    },
    Family {
        hooks: &[Hook::Syscall, Hook::Foreign, Hook::Left],
        bind: nothing::bind,
        attach: nothing::attach,
    },
];

fn family(hook: Hook) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.hooks.contains(&hook))
}

/// Finds what a program is to be loaded as, before anything is made. One that is `held` by a program array may leave open what it is attached to.
pub(super) fn bind(
    kernel: &Kernel,
    program: &Declared,
    target: &str,
    held: bool,
    settings: &Settings,
) -> Result<Bound> {
    let wrong = |why: String| Error::Object {
        object: format!("program {}", program.name),
        why,
    };
    // A section of no known kind is still taken for a function's program where a target names one.
    let classic = || {
        kestrel_bpf::object::KINDS
            .iter()
            .find(|kind| kind.hook == Hook::Classic)
    };
    let asked = settings.targets.iter().any(|(name, _)| *name == program.name);
    let known = program.section.kind().or_else(|| classic().filter(|_| asked));
    let Some(section) = known else {
        let near = kestrel_compiler::lang::diag::nearest(
            program.section.text.split('/').next().unwrap_or(""),
            kestrel_bpf::object::KINDS
                .iter()
                .flat_map(|kind| kind.names.iter().copied()),
        );
        let near = if near.is_empty() {
            String::new()
        } else {
            format!("; did you mean {}?", near.join(", "))
        };
        return Err(wrong(format!(
            "its section `{}` is of no kind that is known{near}; {}=FUNCTION takes it for a kprobe program",
            program.section.text, program.name
        )));
    };
    let request = AttachRequest {
        kernel,
        name: &program.name,
        kind: section,
        target,
        written: &program.section.target,
        at_return: settings.at_return,
        via: settings.via,
        maps: &[],
    };
    let family = family(section.hook)
        .ok_or_else(|| wrong(format!("nothing here attaches sections like `{}`", section.shape)))?;
    let held = held && target.is_empty() && section.prefix.is_none();
    let binding = if held {
        Binding::default()
    } else {
        (family.bind)(&request)?
    };
    let plain = ProgramKind::Other(
        ProgramType(section.program),
        AttachType(section.attach),
        binding.id.unwrap_or(TypeId::VOID),
    );
    Ok(Bound {
        kind: binding.kind.unwrap_or(plain),
        module: binding.module,
        target: target.to_owned(),
        written: program.section.target.clone(),
        at_return: settings.at_return,
        held,
        section,
        via: settings.via,
    })
}

/// Attaches a loaded program.
pub(super) fn attach(
    kernel: &Kernel,
    name: &str,
    bound: &Bound,
    program: &Program,
    maps: &[BpfMap],
) -> Result<Links> {
    let request = AttachRequest {
        kernel,
        name,
        kind: bound.section,
        target: &bound.target,
        written: &bound.written,
        at_return: bound.at_return,
        via: bound.via,
        maps,
    };
    match family(bound.section.hook).filter(|_| !bound.held) {
        Some(family) => (family.attach)(&request, program, bound.kind),
        None => Ok(Links::default()),
    }
}
