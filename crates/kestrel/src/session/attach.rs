//! Attaching one hook: which program kind each attachment wants, one link or many; what is attached is dropped with its links.

use super::processors::{Counting, OnCpu};
use crate::catalog::{Attachment, Catalog, Instance};
use crate::error::Result;
use crate::plan::{Hook, PlannedWay};
use kestrel_kernel::bpf::{
    AttachType, KprobeMulti, KprobeTargets, Link, LinkDetail, Map, Program, ProgramKind,
};
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::perf::{PerfEvent, Place, Target};
use kestrel_kernel::tracefs::TraceableFunction;
use std::collections::HashMap;

/// What keeps a program attached.
#[derive(Debug)]
pub(super) struct Links {
    links: Vec<Link>,
    /// Where CPUs have links one by one: what is counted, and the CPU of each link.
    counting: Option<Counting>,
    cpus: Vec<OnCpu>,
}

/// Loads the compiled handler as a program of a kind.
pub(super) type Load<'a> = dyn Fn(ProgramKind) -> Result<(Program, Vec<Map>)> + 'a;

impl From<Vec<Link>> for Links {
    fn from(links: Vec<Link>) -> Self {
        Self {
            links,
            counting: None,
            cpus: Vec::new(),
        }
    }
}

impl Links {
    pub(super) fn raw_tracepoint(program: &Program, tracepoint: &str) -> Result<Self> {
        Ok(vec![Link::raw_tracepoint(program, tracepoint, 0)?].into())
    }

    /// What is counted on CPUs one by one.
    pub(super) fn counting(&self) -> Option<Counting> {
        self.counting
    }

    /// Where CPUs have links one by one: the CPU of each.
    pub(super) fn cpus(&self) -> &[OnCpu] {
        &self.cpus
    }

    /// Adds a CPU's link, or puts it in the place of a dead one.
    pub(super) fn put(&mut self, place: Option<usize>, link: Link, on: OnCpu) {
        match place {
            Some(place) => (self.links[place], self.cpus[place]) = (link, on),
            None => {
                self.links.push(link);
                self.cpus.push(on);
            }
        }
    }

    /// One or many.
    pub(super) fn each(&self) -> &[Link] {
        &self.links
    }

    /// Hits that the kernel dropped before they reached the program, where it counts them per link.
    pub(super) fn missed(&self) -> Result<u64> {
        let mut sum = 0;
        for link in &self.links {
            sum += match link.info()?.detail {
                LinkDetail::KprobeMulti { missed, .. } | LinkDetail::Kprobe { missed, .. } => missed,
                _ => 0,
            };
        }
        Ok(sum)
    }
}

/// Loads and attaches.
pub(super) fn attach(
    hook: &Hook,
    way: &PlannedWay,
    catalog: &Catalog,
    load: &Load<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    match &way.attachment {
        Attachment::Tracepoint { group, name } => {
            let (program, maps) = load(ProgramKind::Tracepoint)?;
            let id = catalog.tracefs()?.event_id(group, name)?;
            let event = PerfEvent::tracepoint(id, &format!("{group}:{name}"), Target::All)?;
            let link = Link::perf_event(&program, &event, 0)?;
            Ok((program, maps, vec![link].into()))
        }
        Attachment::RawTracepoint { name } => {
            let (program, maps) = load(ProgramKind::RawTracepoint)?;
            let links = Links::raw_tracepoint(&program, name)?;
            Ok((program, maps, links))
        }
        Attachment::TypedTracepoint { id, .. } => {
            tracing(load, ProgramKind::TypedTracepoint(*id), AttachType::TRACE_RAW_TP)
        }
        Attachment::Trampoline {
            id, at_return: false, ..
        } => tracing(load, ProgramKind::FunctionEntry(*id), AttachType::TRACE_FENTRY),
        Attachment::Trampoline {
            id, at_return: true, ..
        } => tracing(load, ProgramKind::FunctionExit(*id), AttachType::TRACE_FEXIT),
        Attachment::Functions { at_return } => functions(hook, *at_return, catalog, load),
        Attachment::Counter { .. } => counter(&way.attachment, load),
    }
}

fn counter(attachment: &Attachment, load: &Load<'_>) -> Result<(Program, Vec<Map>, Links)> {
    let (program, maps) = load(ProgramKind::PerfEvent)?;
    let mut links = Links::from(Vec::new());
    links.counting = Counting::of(attachment);
    if let Some(counting) = links.counting {
        (links.links, links.cpus) = counting.attach(&program)?;
    }
    Ok((program, maps, links))
}

fn tracing(load: &Load<'_>, kind: ProgramKind, attach: AttachType) -> Result<(Program, Vec<Map>, Links)> {
    let (program, maps) = load(kind)?;
    let link = Link::tracing(&program, attach, 0)?;
    Ok((program, maps, vec![link].into()))
}

fn functions(
    hook: &Hook,
    at_return: bool,
    catalog: &Catalog,
    load: &Load<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    if hook.instances.len() > 1 {
        match many(hook, at_return, catalog, load) {
            Ok(attached) => return Ok(attached),
            Err(error) if !lacks_multi(&error) => return Err(error),
            Err(_) => {}
        }
    }
    let (program, maps) = load(ProgramKind::Kprobe)?;
    let mut links = Vec::with_capacity(hook.instances.len());
    for (index, instance) in hook.instances.iter().enumerate() {
        let place = Place::Symbol(symbol(instance), 0);
        let event = PerfEvent::kprobe(catalog.host(), place, at_return, Target::All)?;
        links.push(Link::perf_event(&program, &event, index as u64)?);
    }
    Ok((program, maps, links.into()))
}

fn symbol(instance: &Instance) -> &str {
    instance.symbol.as_deref().unwrap_or(&instance.name)
}

/// Whether the kernel has no multi links (no FPROBE, or older than 5.18), so that functions are to be attached one by one.
fn lacks_multi(error: &crate::Error) -> bool {
    let crate::Error::Kernel(error) = error else {
        return false;
    };
    error
        .errno()
        .is_some_and(|e| matches!(e.name(), Some("EOPNOTSUPP" | "EINVAL" | "ENOTSUPP")))
}

fn many(
    hook: &Hook,
    at_return: bool,
    catalog: &Catalog,
    load: &Load<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    let (program, maps) = load(ProgramKind::KprobeMulti)?;
    let cookies: Vec<u64> = (0..hook.instances.len() as u64).collect();
    let symbols: Vec<&str> = hook.instances.iter().map(symbol).collect();
    let known = entries(catalog, &symbols, &cookies).unwrap_or_default();
    let (addresses, at): (Vec<u64>, Vec<u64>) = known.into_iter().unzip();
    let (targets, cookies) = if addresses.is_empty() {
        (KprobeTargets::Symbols(&symbols), &cookies)
    } else {
        (KprobeTargets::Addresses(&addresses), &at)
    };
    let link = Link::kprobe_multi(
        &program,
        &KprobeMulti {
            targets,
            cookies,
            at_return,
            session: false,
        },
    )?;
    Ok((program, maps, vec![link].into()))
}

/// Addresses and cookies of functions; several for a name that several functions bear. ftrace lists where its call stands, which
/// may be behind an `endbr64`; the kernel finds a cookie by the function's own address (`bpf_kprobe_multi_cookie`), so the
/// symbol before each place is taken.
fn entries(catalog: &Catalog, symbols: &[&str], cookies: &[u64]) -> Result<Vec<(u64, u64)>> {
    let places = catalog.tracefs()?.traceable_functions_with_addresses()?;
    let table = Kallsyms::read(catalog.host())?;
    let wanted: HashMap<&str, u64> = symbols.iter().copied().zip(cookies.iter().copied()).collect();
    let entry = |f: &TraceableFunction| {
        let cookie = *wanted.get(f.name.as_str())?;
        let (symbol, _) = table.at(f.address?)?;
        Some((symbol.address, cookie))
    };
    Ok(places.iter().filter_map(entry).collect())
}
