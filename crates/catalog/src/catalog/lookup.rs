//! The catalog: one kernel's events, looked up by event specifications among the kinds that it is given.

use super::glob::Glob;
use super::kind::{EventKind, Kinds, Resolved, TypesWanted, Via};
use super::spec::{as_in_scripts, text_of, with_kind};
use crate::code::CodeCache;
use crate::error::{Error, Result, nothing_matches};
use crate::executable;
use crate::facts::{Facts, ScriptView};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_compiler::lang::diag::nearest;
use kestrel_kernel::Host;
use kestrel_kernel::preemption::Preemption;
use std::collections::HashSet;
use std::ops::Deref;
use std::path::PathBuf;

/// The catalog of one kernel's events, over the facts of that kernel, which are read when first asked for.
#[derive(Debug)]
pub struct Catalog {
    known: CodeCache,
    kinds: Kinds,
}

impl Deref for Catalog {
    type Target = CodeCache;

    fn deref(&self) -> &CodeCache {
        &self.known
    }
}

/// Most names that are suggested for a mistyped one.
const NEAR: usize = 3;

impl Resolved {
    fn rename_as_in_scripts(&mut self) {
        let instances = self.instances.iter_mut().map(|instance| &mut instance.name);
        let contexts = self.strategies.iter_mut().map(|one| &mut one.context.name);
        for name in instances.chain(contexts) {
            if let Some(shown) = as_in_scripts(name) {
                *name = shown;
            }
        }
    }
}

impl Catalog {
    /// The catalog of a host, with these kinds of events.
    pub(super) fn with_kinds(host: Host, kinds: Kinds) -> Self {
        Self {
            known: CodeCache::new(Facts::new(host)),
            kinds,
        }
    }

    /// The kinds of events that it has.
    pub(super) fn kinds(&self) -> Kinds {
        self.kinds
    }

    /// The catalog so that hits in interrupts that come while a handler runs are handled, too, on kernels that do not preempt programs: by several programs for an
    /// event, as where they are preempted (docs/missed-events.md), at several times the cost.
    #[must_use]
    pub fn with_nested_hits(mut self) -> Self {
        self.known.facts_mut().take_preemption(Preemption {
            tracepoints: true,
            trampolines: true,
        });
        self
    }

    /// The catalog so that debug files of programs are looked for in these folders, too.
    #[must_use]
    pub fn with_debug_files(mut self, folders: Vec<PathBuf>) -> Self {
        self.known.facts_mut().look_into(folders);
        self
    }

    /// The catalog so that programs have a link for each function of the kernel, or of files, even where the kernel has links for many (`kprobe.multi`, `uprobe.multi`).
    #[must_use]
    pub fn without_multi_links(mut self, functions: bool, of_files: bool) -> Self {
        self.known.facts_mut().do_without_multi(functions, of_files);
        self
    }

    /// The catalog as a program of the language sees it: paths are shown as they are written, and patterns for them mean the files of a process, where there is one.
    #[must_use]
    pub fn for_script(mut self, process: Option<u32>) -> Self {
        self.known.facts_mut().see_as(ScriptView {
            process,
            command: None,
            forces_places: false,
        });
        self
    }

    /// The catalog as a program of the language sees it that has a command: which process it will be, and of which program.
    #[must_use]
    pub fn with_command(mut self, pid: u32, program: impl Into<PathBuf>) -> Self {
        self.known.facts_mut().see_command(pid, program.into());
        self
    }

    /// The catalog so that a program of the language may have probes of files where no instruction is known to begin: such a place is warned of, not refused.
    #[must_use]
    pub fn with_forced_places(mut self) -> Self {
        self.known.facts_mut().force_places();
        self
    }

    /// Whether a program or library has debug information (DWARF) about its functions' parameters, in its file or in a separate debug file.
    pub fn has_debug_info(&self, path: &str) -> bool {
        let file = executable::find(path).and_then(|path| self.executables().get(&path));
        file.is_ok_and(|file| file.debug_info().is_some())
    }

    /// The process that is the command of a program of the language, where it has one.
    pub fn command(&self) -> Option<u32> {
        self.script().and_then(|view| view.command)
    }

    /// Adds to events what is costly to know and wanted by few: the parameters and types of functions of programs.
    pub fn add_types(&self, wanted: TypesWanted, events: &mut Resolved) {
        if let Some(kind) = self.kinds.find(events.kind) {
            kind.add_types(self, wanted, events);
        }
    }

    /// Names that match a pattern and that ftrace does not list, of functions that it lists by a name that does not match: of several names for one address it
    /// lists one (`__do_sys_getppid`, not `__x64_sys_getppid`). One for each function.
    ///
    /// None where symbols cannot be read.
    ///
    /// # Errors
    /// When the kernel does not list its functions.
    pub(crate) fn other_names(&self, pattern: &Glob) -> Result<Vec<String>> {
        // `*` matches every listed name, so no other name is needed.
        if pattern.text() == "*" {
            return Ok(Vec::new());
        }
        let functions = self.functions()?;
        let Some(symbols) = self.symbols().ok().filter(|symbols| !symbols.is_restricted()) else {
            return Ok(Vec::new());
        };
        let mut seen = HashSet::new();
        let mut others = Vec::new();
        for symbol in symbols.functions().filter(|s| pattern.matches(s.name)) {
            if functions.has_in(symbol.module, symbol.name) {
                continue;
            }
            let at = || symbols.at_exactly(symbol.address);
            let listed = at().find(|s| functions.has_in(s.module, s.name));
            let is_other = listed.is_some_and(|listed| !pattern.matches(listed.name));
            if is_other && seen.insert(symbol.address) {
                others.push(symbol.name.to_owned());
            }
        }
        Ok(others)
    }

    /// Names of a kind that match; when there is none, an error with near names.
    pub(crate) fn expand(&self, kind: &dyn EventKind, patterns: &[Glob]) -> Result<Vec<String>> {
        let mut names = Vec::new();
        kind.names(self, patterns, &mut |name| names.push(name.to_owned()))?;
        if !names.is_empty() {
            return Ok(names);
        }
        let wanted: Vec<&str> = patterns.iter().map(Glob::text).collect();
        let wanted = wanted.join(":");
        let near = self.near(kind, &wanted);
        Err(nothing_matches(kind.name(), &wanted, near))
    }

    fn near(&self, kind: &dyn EventKind, wanted: &str) -> Vec<String> {
        let mut all = Vec::new();
        let listed = kind.names(self, &[], &mut |name| all.push(name.to_owned()));
        if listed.is_err() {
            return Vec::new();
        }
        let near = nearest(wanted, all.iter().map(String::as_str));
        near.into_iter()
            .take(NEAR)
            .map(|name| format!("{}:{name}", kind.name()))
            .collect()
    }

    /// Everything that an event specification stands for.
    ///
    /// # Errors
    /// When the kind is unknown, nothing matches, or this kernel cannot do it.
    pub fn resolve(&self, spec: &EventSpec, via: Via) -> Result<Vec<Resolved>> {
        let Some(first) = spec.parts.first() else {
            return Err(Error::wrong_shape(spec, "KIND:NAME"));
        };
        if let Some(kind) = self.kinds.find(&first.text) {
            let mut resolved = kind.resolve(self, spec, via)?;
            if self.script().is_some() {
                resolved.iter_mut().for_each(Resolved::rename_as_in_scripts);
            }
            return Ok(resolved);
        }
        if let Some(kind) = self.kinds.find_later(&first.text) {
            return Err(Error::NotYet {
                wanted: text_of(spec),
                kind,
            });
        }
        match self.kinds.default_kind() {
            Some(kind) if kind.row().parts == spec.parts.len() => {
                kind.resolve(self, &with_kind(spec, kind.name()), via)
            }
            _ => Err(self.unknown_kind(spec)),
        }
    }

    /// Exactly these events of a kind, in this order, as one set; `None` where they cannot be one.
    ///
    /// # Errors
    /// When this kernel cannot do it.
    pub fn set(&self, kind: &str, names: &[String], via: Via) -> Result<Option<Resolved>> {
        self.kinds
            .find(kind)
            .map_or(Ok(None), |kind| kind.set(self, names, via))
    }

    /// One event of a set with what the set's one program can know of it, where that is less than the event has by itself.
    ///
    /// # Errors
    /// When this kernel cannot be asked.
    pub fn member(&self, kind: &str, name: &str) -> Result<Option<Resolved>> {
        self.kinds
            .find(kind)
            .map_or(Ok(None), |kind| kind.member(self, name))
    }

    /// Number of tracepoints in a group, or in groups that match; 0 where the kernel does not list them.
    fn of_group(&self, group: &str) -> usize {
        let patterns = [Glob::new(group), Glob::new("*")];
        let mut count = 0;
        let default_kind = self.kinds.default_kind();
        let asked = default_kind.map(|kind| kind.names(self, &patterns, &mut |_| count += 1));
        asked.map_or(0, |asked| asked.map_or(0, |()| count))
    }

    /// Whether this kernel has a tracepoint in a group, or in one that matches.
    pub fn has_group(&self, group: &str) -> bool {
        self.of_group(group) > 0
    }

    /// `vfs_read` alone, or `kprob:vfs_read`: says which kinds there are, and which have such a name.
    fn unknown_kind(&self, spec: &EventSpec) -> Error {
        let text = text_of(spec);
        let last = Glob::new(spec.parts.last().map_or("", |p| p.text.as_str()));
        let mut near = Vec::new();
        for kind in self.kinds.all() {
            let patterns: Vec<Glob> = if kind.row().parts == 2 {
                vec![Glob::new("*"), last.clone()]
            } else {
                vec![last.clone()]
            };
            _ = kind.names(self, &patterns, &mut |name| {
                near.push(format!("{}:{name}", kind.name()))
            });
            if near.len() >= NEAR {
                break;
            }
        }
        // `sched` alone, as trace-cmd takes it.
        let of_group = self.of_group(&text);
        if of_group > 0 {
            near.insert(0, format!("{text}:* (the {of_group} tracepoints of this group)"));
        }
        near.truncate(NEAR);
        if near.is_empty() {
            let kinds: Vec<&str> = self.kinds.all().map(|k| k.name()).collect();
            let first = spec.parts.first().map_or("", |part| part.text.as_str());
            let shape = match nearest(first, kinds.iter().copied()).as_slice() {
                [meant, ..] => {
                    let rest = text.get(first.len()..).unwrap_or_default();
                    format!("{meant}{rest}, if the kind {meant} is meant")
                }
                [] => format!(
                    "KIND:NAME, with one of the kinds {}; or GROUP:EVENT for a tracepoint",
                    kinds.join(", ")
                ),
            };
            return Error::WrongShape { wanted: text, shape };
        }
        nothing_matches("event", &text, near)
    }
}
