//! Probes of a program whose events do not exist here: an error, a warning or nothing, as its setting `missing_probes` says.

use super::events::{Matched, about, is_name};
use super::hook::Hook;
use super::misnamed;
use super::planner::Planner;
use super::source::ProgramText;
use kestrel_catalog::catalog::{Glob, find_kind, text_of};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::ast::{EventSpec, Probe, Span};
use kestrel_compiler::lang::config::MissingProbes;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_compiler::lang::number_of;
use kestrel_kernel::bpf::ProgramKind;
use kestrel_kernel::{Errno, Error as Kernel};
use std::io::ErrorKind;

/// Number of attachments of a hook: one for all functions that the kernel attaches a program to at once.
fn links(hook: &Hook) -> usize {
    let events = hook.instances.len();
    let first = hook.strategies.first();
    let kinds = first.and_then(|strategy| strategy.mechanism.program_kinds(events).ok());
    match kinds.as_deref() {
        Some([ProgramKind::KprobeMulti | ProgramKind::UprobeMulti, ..]) => 1,
        _ => events,
    }
}

/// The words of bpftrace where patterns, and some names, stand for nothing.
const NO_ATTACH_POINTS: &str = "Probe has no valid attach points. If this is expected, set the 'missing_probes' config variable to 'warn'.";

/// Those where a kprobe's offset is none of an instruction.
const NO_INSTRUCTION: &str =
    "Possible attachment attempt in the middle of an instruction, try a different offset.";

const HINT: &str = "if this is expected, set the `missing_probes` config variable to \"warn\"";

impl Planner<'_> {
    /// Handles an event that was not found, as the program's `missing_probes` says.
    ///
    /// # Errors
    /// The error itself where no program is planned or where it is not about the event's name; else a diagnostic at its place.
    pub(super) fn missing(&mut self, spec: &EventSpec, error: Error) -> Result<()> {
        let Some(policy) = self.missing_probes else {
            return Err(error);
        };
        if self.turn.number > 0 {
            // It was said in the first turn.
            return Ok(());
        }
        if let Error::Object { why, .. } = &error
            && let Some(said) = misnamed::no_instruction(spec, why)
        {
            let near = why.split_once("; ").map(|(_, near)| near.to_owned());
            return self.unattached(spec, policy, Some((said, near)), None);
        }
        if let Some(why) = misnamed::ticks_too_often(&error) {
            return self.unattached(spec, policy, None, Some(why));
        }
        let unavailable = policy != MissingProbes::Error && is_unavailable(&error);
        if !is_missing(&error) && !unavailable {
            return Err(self.misnamed(spec, error));
        }
        if let Some(message) = raw_address(spec).filter(|_| self.options.allows_unsafe) {
            let found = Diagnostic::error(spec.span, message).hint(error.to_string());
            let found = found.not_attachable(true);
            return Err(self.refusal(vec![found]));
        }
        let nothing = matches!(error, Error::NoSuchEvent { .. } | Error::NoFunction { .. });
        // Of what a pattern matches all may be barred from kprobes.
        let nothing = nothing || matches!(error, Error::NoPlace { .. }) && !is_name(spec);
        if policy == MissingProbes::Error && nothing && (!is_name(spec) || is_of_many(spec)) {
            // A pattern may match nothing as long as its probe has other events.
            self.unmatched.push((spec.span, error.to_string()));
            return Ok(());
        }
        let name = bpftrace_name(spec);
        let untraceable = match policy {
            MissingProbes::Ignore => None,
            _ => not_traceable(spec),
        };
        match policy {
            MissingProbes::Error => {
                let why = error.to_string();
                let said = match name.split_once(' ') {
                    Some(("rawtracepoint", _)) if spec.parts.len() == 2 => NO_ATTACH_POINTS.to_owned(),
                    Some(("fentry" | "fexit", _)) if of_programs(spec) => NO_ATTACH_POINTS.to_owned(),
                    Some(("iter", iterator)) => {
                        format!("iter {iterator} not available for your kernel version.")
                    }
                    Some((group, _)) if find_kind(group).is_none() && !self.catalog.has_group(group) => {
                        format!("Invalid probe type: {group}")
                    }
                    _ if is_inside_instruction(spec, &error) => NO_INSTRUCTION.to_owned(),
                    _ => format!("No matches for {name}."),
                };
                self.nothing_matched = ![NO_ATTACH_POINTS, NO_INSTRUCTION].contains(&said.as_str());
                // Where unsafe places are allowed, bpftrace tries to attach whatever is named.
                let tried = self.options.allows_unsafe
                    && matches!(name.split_once(' '), Some(("kprobe" | "kretprobe", _)));
                let at_attaching = said == NO_INSTRUCTION || tried;
                let found = Diagnostic::error(spec.span, said).not_attachable(at_attaching);
                let unloaded = not_loaded(spec, &why).map(|message| Diagnostic::error(spec.span, message));
                let untraceable = untraceable
                    .filter(|_| unloaded.is_none())
                    .map(|message| Diagnostic::warning(spec.span, message));
                let found = [found.hint(why).hint(HINT)];
                Err(self.refusal(unloaded.into_iter().chain(untraceable).chain(found).collect()))
            }
            MissingProbes::Warn => {
                if let Some(message) = untraceable {
                    self.warn(spec.span, message);
                }
                let message = format!("No matches for {name}. Skipping.");
                let why = unavailable.then(|| error.to_string());
                self.warning(Diagnostic::warning(spec.span, message).maybe_hint(why));
                Ok(())
            }
            MissingProbes::Ignore => Ok(()),
        }
    }

    /// Handles a probe of which bpftrace finds out when it attaches, so that it names no place in the script: what it says first, with a hint, and a hint of ours.
    fn unattached(
        &mut self,
        spec: &EventSpec,
        policy: MissingProbes,
        first: Option<(String, Option<String>)>,
        hint: Option<String>,
    ) -> Result<()> {
        let unattached = format!("Unable to attach probe: {}.", misnamed::attached_name(spec));
        match policy {
            MissingProbes::Error => {
                let last = "If this is expected, set the 'missing_probes' config variable to 'warn'.";
                let last = Diagnostic::error(Span::NOWHERE, format!("{unattached} {last}")).maybe_hint(hint);
                let first = first.map(|(said, near)| Diagnostic::error(Span::NOWHERE, said).maybe_hint(near));
                let all = first.into_iter().chain([last]);
                Err(self.refusal(all.map(|found| found.not_attachable(true)).collect()))
            }
            MissingProbes::Warn => {
                if let Some((said, near)) = first {
                    self.warning(Diagnostic::warning(Span::NOWHERE, said).maybe_hint(near));
                }
                let skipped = Diagnostic::warning(Span::NOWHERE, format!("{unattached} Skipping."));
                self.warning(skipped.maybe_hint(hint));
                Ok(())
            }
            MissingProbes::Ignore => Ok(()),
        }
    }

    /// Refuses a program's probe at a bare address where nothing unsafe is allowed.
    pub(super) fn refuse_bare_address(&self, spec: &EventSpec) -> Result<()> {
        let is_program = self.missing_probes.is_some();
        if !is_program || self.options.allows_unsafe || raw_address(spec).is_none() {
            return Ok(());
        }
        let found = Diagnostic::error(spec.span, "Probing by address requires --unsafe");
        let hint = "an address may lie inside an instruction; a function has its offsets checked: kprobe:FUNCTION+OFFSET";
        Err(self.refusal(vec![found.hint(hint)]))
    }

    /// The error about an event's name, at its place where it says no more than that.
    fn misnamed(&self, spec: &EventSpec, error: Error) -> Error {
        let no_place = matches!(error, Error::Object { .. }) && names_a_place(spec);
        if let Some(said) = misnamed::sentence(spec, &error) {
            let why = match error {
                Error::WrongShape { shape, .. } => Some(format!("it should read {shape}")),
                Error::Unsupported { why, .. } => Some(why),
                Error::Object { why, .. } if why.starts_with("no program of this name") => Some(why),
                Error::Object { why, .. } => why.split_once("; ").map(|(_, near)| near.to_owned()),
                other => Some(other.to_string()),
            };
            let found = Diagnostic::error(spec.span, said).maybe_hint(why);
            return self.refusal(vec![found.not_attachable(no_place)]);
        }
        match about(error) {
            Ok((message, hint)) => {
                let found = Diagnostic::error(spec.span, message).maybe_hint(hint);
                self.refusal(vec![found.not_attachable(no_place)])
            }
            // The file of a probe in a program or library.
            Err(error @ Error::Trace(_)) => {
                let hint = "a program is named by its path, a library by its path or as libNAME";
                self.refusal(vec![Diagnostic::error(spec.span, error.to_string()).hint(hint)])
            }
            Err(error) => error,
        }
    }

    /// Whether a function may be probed, where the user has listed those that may: with `--unsafe` one that is named is probed all the same.
    ///
    /// # Errors
    /// As [`Planner::missing`], where one is named that may not.
    pub(super) fn is_traceable(&mut self, spec: &EventSpec, found: Matched) -> Result<bool> {
        let Some(listed) = self.options.traceable.clone() else {
            return Ok(true);
        };
        let name = self.events.full_name(found);
        let barred = |wanted| Error::NoPlace {
            wanted,
            why: "the list of --traceable-functions does not have it".to_owned(),
        };
        let function = match name.split_once(':') {
            Some(("kprobe" | "kretprobe" | "fentry" | "fexit", function)) => function,
            _ => return Ok(true),
        };
        let function = function.rsplit(':').next().unwrap_or(function);
        if listed.contains(function) {
            return Ok(true);
        }
        match not_traceable(spec) {
            Some(message) if self.options.allows_unsafe => {
                self.warn(spec.span, message);
                Ok(true)
            }
            // The other functions of a pattern are probed. This one is named only if none of them can be.
            None if !is_name(spec) => {
                let is_said = self.unmatched.iter().any(|(span, _)| *span == spec.span);
                if self.missing_probes == Some(MissingProbes::Error) && !is_said {
                    self.unmatched.push((spec.span, barred(name).to_string()));
                }
                Ok(false)
            }
            _ => self.missing(spec, barred(name)).map(|()| false),
        }
    }

    /// Refuses a program of more probes or programs than its settings allow.
    pub(super) fn within_limits(&self, program: &ProgramText, hooks: &[Hook]) -> Result<()> {
        let own = || hooks.iter().filter(|hook| !hook.companion);
        let probes: usize = own().map(|hook| links(hook) * hook.merged_probes).sum();
        let (limits, programs) = (&program.config, own().count());
        let (message, setting) = if probes as u64 > limits.max_probes {
            let limit = limits.max_probes;
            let message = format!(
                "Can't attach to {probes} probes because it exceeds the current limit of {limit} probes."
            );
            (message, "MAX_PROBES")
        } else if programs as u64 > limits.max_bpf_progs {
            let limit = limits.max_bpf_progs;
            let message = format!(
                "Your program is trying to generate more than {programs} BPF programs, which exceeds the current limit of {limit}"
            );
            (message, "MAX_BPF_PROGS")
        } else {
            return Ok(());
        };
        let lower = setting.to_lowercase();
        let hint = format!(
            "You can increase the limit through the BPFTRACE_{setting} environment variable, or by config = {{ {lower} = N }}: each probe is a hit at its place, on every CPU"
        );
        let span = program.probes.first().map_or(Span::NOWHERE, |probe| probe.span);
        Err(self.refusal(vec![Diagnostic::error(span, message).hint(hint)]))
    }

    /// Whether the filter of probes lets an event through.
    pub(super) fn is_wanted(&self, found: Matched) -> bool {
        let filter = self.options.probe_filter.as_ref();
        filter.is_none_or(|filter| {
            let name = self.events.full_name(found);
            matches!(name.as_str(), "begin:begin" | "end:end") || filter.matches(&name)
        })
    }

    /// Says of a probe that none of its events exist.
    pub(super) fn without_events(&mut self, probe: &Probe) {
        if self.missing_probes == Some(MissingProbes::Warn) && self.options.probe_filter.is_none() {
            // The words that scripts' tests know, here and below.
            let message = "Probe has no valid attach points. It is being removed which may cause issues with program behavior.";
            self.warn(probe.span, message.to_owned());
        }
    }

    /// The error of a probe whose patterns match nothing, if that is what it is without events for.
    pub(super) fn nothing_matches(&mut self, probe: &Probe) -> Option<Error> {
        let unmatched = std::mem::take(&mut self.unmatched);
        if self.options.probe_filter.is_some() || unmatched.is_empty() {
            return None;
        }
        let (first, last) = (probe.events.first()?, probe.events.last()?);
        let span = Span {
            start: first.span.start,
            end: last.span.end,
        };
        let found = Diagnostic::error(span, NO_ATTACH_POINTS);
        let found = unmatched
            .into_iter()
            .fold(found, |found, (_, why)| found.hint(why));
        Some(self.refusal(vec![found]))
    }

    /// Adds to the error of a probe that it has no other events.
    pub(super) fn alone(&self, probe: &Probe, error: Error) -> Error {
        match error {
            Error::Program {
                source_text,
                mut diagnostics,
            } if probe.events.len() == 1 && self.nothing_matched => {
                let message = "Probe has no valid attach points.";
                diagnostics.push(Diagnostic::error(probe.span, message));
                Error::Program {
                    source_text,
                    diagnostics,
                }
            }
            error => error,
        }
    }

    /// The error of a program none of whose probes can be attached.
    pub(super) fn nothing_left(&self) -> Error {
        Error::NothingToAttach {
            source_text: self.source.text.to_string(),
            warnings: self.warnings.iter().map(|(_, warning)| warning.clone()).collect(),
        }
    }

    fn warn(&mut self, span: Span, message: String) {
        self.warning(Diagnostic::warning(span, message));
    }

    fn warning(&mut self, warning: Diagnostic) {
        let text = self.source.text.to_string();
        self.warnings.push((text, warning));
    }

    pub(super) fn refusal(&self, diagnostics: Vec<Diagnostic>) -> Error {
        Error::Program {
            source_text: self.source.text.to_string(),
            diagnostics,
        }
    }
}

/// Whether a specification without a pattern may mean any number of events: functions of C++ (`uprobe:FILE:cpp:NAME`), probes of all that a process runs
/// (`usdt::NAME`), a raw tracepoint of the kernel or of any module.
fn is_of_many(spec: &EventSpec) -> bool {
    match spec.parts.as_slice() {
        [_, _, word, _] if word.text == "cpp" => true,
        [kind, _] => find_kind(&kind.text).is_some_and(|kind| kind.name() == "rawtracepoint"),
        [_, path, _, ..] => path.text.is_empty(),
        _ => false,
    }
}

/// Whether a function of the kernel is there and the offset behind it is what is wrong.
fn is_inside_instruction(spec: &EventSpec, error: &Error) -> bool {
    let has_offset = spec
        .parts
        .last()
        .is_some_and(|part| part.offset.is_some_and(|offset| offset > 0));
    let said = ["is inside the", "bytes long"];
    has_offset && matches!(error, Error::NoPlace { why, .. } if said.iter().any(|part| why.contains(part)))
}

/// Whether an error says that there is no such event, file or function.
fn is_missing(error: &Error) -> bool {
    match error {
        Error::NoSuchEvent { .. } | Error::NoFunction { .. } | Error::NoPlace { .. } => true,
        // A file without any has not the one that is named.
        Error::Object { why, .. } => why.starts_with("it has no USDT probes"),
        Error::Kernel(Kernel::System { errno, .. }) => *errno == Errno::ENOENT,
        Error::Trace(kestrel_trace::Error::Io { source, .. }) => source.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

/// Whether it names a function of BPF programs: `fentry:bpf:NAME`.
fn of_programs(spec: &EventSpec) -> bool {
    spec.parts.len() > 2 && spec.parts[1].text == "bpf"
}

/// Whether an error says that this kernel has no events of the kind.
fn is_unavailable(error: &Error) -> bool {
    match error {
        Error::Unsupported { .. } => true,
        Error::Kernel(Kernel::System { errno, .. }) => {
            errno.is_permission() || matches!(*errno, Errno::ENODEV | Errno::EOPNOTSUPP)
        }
        _ => false,
    }
}

/// Whether an event of a program's file is at an offset in a function, or at an address.
fn names_a_place(spec: &EventSpec) -> bool {
    let Some(place) = spec.parts.last() else {
        return false;
    };
    // A line of the source is looked up before anything is attached.
    let is_line = spec.parts.iter().any(|part| part.text.contains('@'));
    let is_address = number_of(&place.text).is_some_and(|address| address > 0);
    !is_line && (place.offset.is_some() || is_address)
}

/// Message about an address that is to be probed as it is, and cannot be.
fn raw_address(spec: &EventSpec) -> Option<String> {
    let [kind, place] = spec.parts.as_slice() else {
        return None;
    };
    let address = u64::from_str_radix(place.text.strip_prefix("0x")?, 16).ok()?;
    let kind = find_kind(&kind.text)?.name();
    matches!(kind, "kprobe" | "kretprobe").then(|| format!("Unable to attach probe: {kind}:{address}"))
}

/// Why a function that is named without a pattern cannot be probed.
fn not_traceable(spec: &EventSpec) -> Option<String> {
    let [kind, .., function] = spec.parts.as_slice() else {
        return None;
    };
    let kind = find_kind(&kind.text)?.name();
    let is_plain = Glob::new(&function.text).is_plain() && function.offset.is_none();
    (matches!(kind, "kprobe" | "kretprobe") && is_plain).then(|| {
        format!(
            "{} is not traceable (either non-existing, inlined, or marked as \"notrace\"); attaching to it will likely fail",
            function.text
        )
    })
}

/// That the module of a function of the kernel is not there.
fn not_loaded(spec: &EventSpec, why: &str) -> Option<String> {
    let [kind, module, _] = spec.parts.as_slice() else {
        return None;
    };
    let kind = find_kind(&kind.text)?.name();
    let is_that = matches!(kind, "kprobe" | "kretprobe") && why.ends_with("is not loaded");
    is_that.then(|| {
        let event = bpftrace_name(spec).replacen(' ', ":", 1);
        format!("specified module {} in probe {event} is not loaded.", module.text)
    })
}

/// An event as bpftrace names it in messages: its kind, a space, the rest. What is missing is the function, so that no offset behind it is
/// said; where none is allowed it is part of the name.
fn bpftrace_name(spec: &EventSpec) -> String {
    let mut spec = spec.clone();
    let kind = spec.parts.first().and_then(|kind| find_kind(&kind.text));
    let keeps_offset = kind.is_some_and(|kind| matches!(kind.name(), "fentry" | "fexit"));
    if kind.is_some_and(|kind| kind.name() == "usdt") && spec.parts.len() == 4 {
        // The provider is not said.
        spec.parts.remove(2);
    }
    for part in &mut spec.parts {
        if let Some(offset) = part.offset.take().filter(|_| keeps_offset) {
            part.text = format!("{}+{offset}", part.text);
        }
    }
    let text = text_of(&spec);
    match text.split_once(':') {
        Some((kind, rest)) => {
            let kind = find_kind(kind).map_or(kind, |kind| kind.name());
            format!("{kind} {rest}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_compiler::lang::parse_events;

    #[test]
    fn modules_that_are_not_there_are_named() {
        let said = |event: &str| {
            let (probe, _) = parse_events(event);
            not_loaded(&probe.events[0], "cannot probe: the module m is not loaded")
        };
        let wanted = "specified module m in probe kretprobe:m:f is not loaded.";
        assert_eq!(said("kr:m:f").as_deref(), Some(wanted));
        assert_eq!(said("fentry:m:f"), None);
        assert_eq!(said("kprobe:f"), None);
    }

    #[test]
    fn offsets_inside_instructions_are_told_from_missing_functions() {
        let is_inside = |event: &str, why: &str| {
            let (probe, _) = parse_events(event);
            let wanted = event.to_owned();
            let why = why.to_owned();
            is_inside_instruction(&probe.events[0], &Error::NoPlace { wanted, why })
        };
        assert!(is_inside(
            "kprobe:f+1",
            "+0x1 is inside the 4-byte instruction at +0x0"
        ));
        assert!(is_inside(
            "kprobe:f+999",
            "f is 5 bytes long: its last instruction is +0x4"
        ));
        assert!(!is_inside("kprobe:f", "f is on the kernel's blacklist"));
        assert!(!is_inside("kprobe:m:f+4", "the module m is not loaded"));
    }
}
