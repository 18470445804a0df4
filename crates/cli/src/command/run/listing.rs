//! `-l`: the events that match patterns, or those of a program, as bpftrace lists them.

use super::options::Options;
use crate::exit::{Exit, Failure};
use kestrel::btf::BtfKind;
use kestrel::catalog::{Catalog, EventKind, Glob, kinds};
use kestrel::plan::Plan;
use kestrel_trace::event_kind::{self, EventKindNames, Optional};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

/// Whether the words of `-l` are a program rather than patterns.
pub(super) fn is_program(options: &Options) -> bool {
    options.program.is_some()
        || options
            .script
            .as_deref()
            .is_some_and(|script| Path::new(script).is_file())
}

/// Lists the events of a program.
pub(super) fn of_program(plan: &Plan, options: &Options, catalog: &Catalog) -> Result<Exit, Failure> {
    let mut lines = Lines::of(options, catalog);
    let mut listed = HashSet::new();
    for hook in plan.hooks.iter().filter(|hook| !hook.companion) {
        let kind = kestrel::catalog::find_kind(hook.kind);
        // Events that the session itself fires are not the system's.
        let Some(kind) = kind.filter(|kind| !OF_THE_SESSION.contains(&kind.name())) else {
            continue;
        };
        for instance in &hook.instances {
            let prefix = format!("{}:", kind.name());
            let name = instance.name.strip_prefix(&prefix).unwrap_or(&instance.name);
            let name = without_count(kind, name);
            if listed.insert((kind.name(), name)) {
                lines.event(kind, name)?;
            }
        }
    }
    crate::screen::out().write_all(&lines.out)?;
    Ok(Exit::Done)
}

/// Kinds of events that the session itself fires.
const OF_THE_SESSION: [&str; 3] = ["begin", "end", "self"];

/// The name of an event without its period or count, which the list leaves to the user.
fn without_count<'a>(kind: &dyn EventKind, name: &'a str) -> &'a str {
    let counted = names(kind).optional == Optional::Count;
    match name.split_once(':') {
        Some((unit, count)) if !count.is_empty() && (counted || is_timer(kind)) => {
            // The shape that `line` shows.
            &name[..unit.len() + usize::from(!counted)]
        }
        _ => name,
    }
}

/// Whether events of a kind come at a period.
fn is_timer(kind: &dyn EventKind) -> bool {
    matches!(kind.name(), "interval" | "profile")
}

/// Kinds of events of the kernel's functions, to which `--traceable-functions` applies.
const OF_FUNCTIONS: [&str; 4] = ["kprobe", "kretprobe", "fentry", "fexit"];

/// Lists the events that match patterns, all of them where there are none; of functions those that are traceable, where the user has listed these.
pub(super) fn matching(
    options: &Options,
    catalog: &Catalog,
    traceable: Option<&HashSet<String>>,
) -> Result<Exit, Failure> {
    let words = options.script.iter().chain(&options.arguments);
    let mut given: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    if given.is_empty() {
        given.push("*".to_owned());
    }
    for file in given
        .iter()
        .filter(|given| given.ends_with(".bt") && !options.no_warnings)
    {
        eprintln!(
            "WARNING: It appears that '{file}' is a filename but the file does not exist. Treating '{file}' as a search pattern."
        );
    }
    let mut lines = Lines::of(options, catalog);
    for pattern in given.iter().flat_map(|given| patterns(given)) {
        let tags = ["struct ", "union ", "enum "].into_iter();
        if let Some((tag, name)) = tags
            .filter_map(|tag| Some((tag, pattern.strip_prefix(tag)?)))
            .next()
        {
            definitions((tag.trim(), name.trim()), options, catalog, &mut lines.out)?;
            continue;
        }
        let parts: Vec<&str> = pattern.split(':').collect();
        let (kind_pattern, parts) = match parts.as_slice() {
            [lone] => ("*", vec![*lone]),
            [kind, rest @ ..] => (*kind, rest.to_vec()),
            [] => continue,
        };
        for kind in listed(kind_pattern) {
            let Some(globs) = globs_for(kind, &parts, options.pid.is_some()) else {
                continue;
            };
            let mut fixed = kind.fixed_names();
            if !fixed.is_empty() {
                fixed.retain(|name| globs.first().is_none_or(|glob| glob.matches(name)));
                let mut fixed: Vec<String> = (fixed.iter())
                    .map(|name| format!("{}:{name}:\n", kind.name()))
                    .collect();
                fixed.sort_unstable();
                lines.out.extend(fixed.concat().into_bytes());
                continue;
            }
            // Kinds that this kernel does not list are left out; `kestrel doctor` says why.
            let mut names = kind.listed(catalog, &globs).unwrap_or_default();
            if let Some(traceable) = traceable.filter(|_| OF_FUNCTIONS.contains(&kind.name())) {
                names.retain(|name| traceable.contains(name.rsplit(':').next().unwrap_or(name)));
            }
            names.sort_unstable();
            for name in names {
                lines.event(kind, &name)?;
            }
        }
    }
    crate::screen::out().write_all(&lines.out)?;
    Ok(Exit::Done)
}

/// Patterns that commas part; commas in braces and quotes do not.
fn patterns(given: &str) -> impl Iterator<Item = &str> {
    given
        .split(',')
        .map(str::trim)
        .filter(|pattern| !pattern.is_empty())
}

/// The kinds that a pattern for them means.
fn listed(pattern: &str) -> Vec<&'static dyn EventKind> {
    if let Some(kind) = kestrel::catalog::find_kind(pattern) {
        return vec![kind];
    }
    let glob = Glob::new(pattern);
    let wanted = |kind: &&dyn EventKind| glob.matches(kind.name()) && names(*kind).in_scripts;
    kinds().filter(wanted).collect()
}

/// Facts of a kind, by its name.
fn names(kind: &dyn EventKind) -> EventKindNames {
    *event_kind::find(kind.name()).unwrap_or(&event_kind::TRACEPOINT)
}

/// The globs for a kind's parts; `None` where the pattern cannot mean it.
fn globs_for(kind: &dyn EventKind, parts: &[&str], of_process: bool) -> Option<Vec<Glob>> {
    let names = names(kind);
    let globs = |parts: &[&str]| parts.iter().map(|part| Glob::new(*part)).collect();
    match (kind.row().parts, parts.len()) {
        (_, 1) if parts[0] == "*" => (kind.name() != "uretprobe").then(Vec::new),
        (0, _) => None,
        // Functions of BPF programs.
        (1, 2 | 3) if parts[0] == "bpf" && matches!(kind.name(), "fentry" | "fexit") => Some(globs(parts)),
        // The period behind a clock.
        (1, 2) if parts[1].is_empty() => Some(globs(&parts[..1])),
        (1, 2) if names.optional == Optional::Module => Some(globs(parts)),
        // Marks of all providers.
        (3, 2) if names.optional == Optional::Provider => {
            Some(vec![Glob::new(parts[0]), Glob::new("*"), Glob::new(parts[1])])
        }
        // A unit before the period.
        (2, 1) if is_timer(kind) => Some(vec![Glob::new(parts[0]), Glob::new("*")]),
        (2, 1) if !names.subject.is_file() => Some(vec![Glob::new("*"), Glob::new(parts[0])]),
        // What a process runs; of all files there is too much.
        (2, 1) if of_process && kind.name() == "uprobe" => Some(globs(&["*", parts[0]])),
        (3, 1) if of_process => Some(globs(&["*", "*", parts[0]])),
        (wanted, given) if wanted == given => Some(globs(parts)),
        _ => None,
    }
}

/// The lines of a list, as they are made.
struct Lines<'a> {
    options: &'a Options,
    catalog: &'a Catalog,
    out: Vec<u8>,
    /// Files without debug information that a warning has named.
    stripped: HashSet<String>,
}

impl<'a> Lines<'a> {
    fn of(options: &'a Options, catalog: &'a Catalog) -> Self {
        Self {
            options,
            catalog,
            out: Vec::new(),
            stripped: HashSet::new(),
        }
    }

    /// An event, and with -v what is in `args`.
    fn event(&mut self, kind: &dyn EventKind, name: &str) -> Result<(), Failure> {
        // The period is the user's.
        let shown = match (kind.name(), name.strip_suffix("COUNT")) {
            (_, Some(unit)) => unit.to_owned(),
            (_, None) if names(kind).optional == Optional::Count => format!("{name}:"),
            ("fentry" | "fexit" | "rawtracepoint", None) if !name.contains(':') => format!("vmlinux:{name}"),
            _ => name.to_owned(),
        };
        match shown.as_str() {
            "" => writeln!(self.out, "{}", kind.name())?,
            shown => writeln!(self.out, "{}:{shown}", kind.name())?,
        }
        if !self.options.verbose {
            return Ok(());
        }
        self.say_if_stripped(kind, name);
        let Ok(description) = kind.describe(self.catalog, name) else {
            return Ok(());
        };
        // Where programs read parameters by number, bpftrace lists them so.
        let by_number = self.options.as_bpftrace && kind.name() == "kprobe";
        // What the kernel itself counts of an iterator's steps it does not list.
        let skipped = |name: &str| {
            self.options.as_bpftrace && kind.name() == "iter" && name == "meta"
        // A function's parameters are gone when it returns.
        || kind.name() == "kretprobe"
        };
        let fields = description.fields.iter().filter(|field| !skipped(&field.name));
        for (at, field) in fields.enumerate() {
            let name = match by_number {
                true => format!("arg{at}"),
                false => field.name.clone(),
            };
            writeln!(self.out, "    {}", declaration(kind, &field.ty, &name))?;
        }
        if let Some(returns) = &description.returns {
            writeln!(self.out, "    {returns} retval")?;
        }
        Ok(())
    }

    /// Says once of each file that it does not tell of its functions' parameters.
    fn say_if_stripped(&mut self, kind: &dyn EventKind, name: &str) {
        let Some((path, _)) = name.split_once(':').filter(|_| kind.name() == "uprobe") else {
            return;
        };
        if !self.options.no_warnings
            && !self.catalog.has_debug_info(path)
            && self.stripped.insert(path.to_owned())
        {
            eprintln!("WARNING: No DWARF found for \"{path}\", cannot show parameter info");
        }
    }
}

/// A field as C declares it, `char comm[16]`; one of a tracepoint that lies elsewhere in its record as the kernel's format does, `__data_loc char[] filename`.
fn declaration(kind: &dyn EventKind, ty: &str, name: &str) -> String {
    match ty.strip_suffix("[]") {
        Some(_) if kind.name() == "tracepoint" => format!("__data_loc {ty} {name}"),
        _ => {
            let (ty, length) = ty.split_at(ty.find('[').unwrap_or(ty.len()));
            format!("{ty} {name}{length}")
        }
    }
}

/// Writes the types of the kernel's whose names match. Where none does, only bpftrace's name of the command is content with that.
fn definitions(
    (tag, name): (&str, &str),
    options: &Options,
    catalog: &Catalog,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let types = catalog.types()?;
    let kind = match tag {
        "struct" => BtfKind::Struct,
        "union" => BtfKind::Union,
        _ => BtfKind::Enum,
    };
    let glob = Glob::new(name);
    let before = out.len();
    for id in types.ids() {
        let same = match types.kind(id) {
            Some(BtfKind::Enum64) => kind == BtfKind::Enum,
            found => found == Some(kind),
        };
        if same && glob.matches(types.name(id)) && !types.name(id).is_empty() {
            match options.verbose {
                true => writeln!(out, "vmlinux: {};\n", types.definition(id))?,
                false => writeln!(out, "{tag} {}", types.name(id))?,
            }
        }
    }
    match out.len() == before && !options.as_bpftrace {
        true => {
            let message = format!("this kernel has no {tag} {name}");
            Err(Failure::new(Exit::Failed, message))
        }
        false => Ok(()),
    }
}
