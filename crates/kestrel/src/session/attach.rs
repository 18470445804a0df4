//! Attaching one hook: which program kind each attachment wants, one link or many; what is attached is dropped with its links.

use super::own_event::{self, OwnEvent};
use crate::catalog::kind::Spot;
use crate::catalog::{Attachment, Catalog, Instance};
use crate::code::{Code, Wanted};
use crate::error::Result;
use crate::plan::{Hook, PlannedWay};
use kestrel_kernel::bpf::{
    AttachType, KprobeMulti, KprobeTargets, Link, LinkDetail, Map, Program, ProgramKind,
};
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::perf::{self, PerfEvent, Target};
use kestrel_kernel::tracefs::TraceableFunction;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// What keeps a program attached. Links go first, so that their events can go.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Vec<Link>,
    events: Vec<OwnEvent>,
}

/// One kprobe, or kretprobe.
struct Kprobe<'a> {
    place: perf::Place<'a>,
    at_return: bool,
    maxactive: Option<u32>,
    cookie: u64,
}

/// Loads the compiled handler as a program of a kind.
pub(super) type Load<'a> = dyn Fn(ProgramKind) -> Result<(Program, Vec<Map>)> + 'a;

impl Links {
    pub(super) fn raw_tracepoint(program: &Program, tracepoint: &str) -> Result<Self> {
        Ok(Self::one(Link::raw_tracepoint(program, tracepoint, 0)?))
    }

    fn one(link: Link) -> Self {
        Self {
            links: vec![link],
            events: Vec::new(),
        }
    }

    /// Attaches a program to a kprobe.
    fn kprobe(&mut self, program: &Program, kprobe: &Kprobe<'_>, catalog: &Catalog) -> Result<()> {
        let &Kprobe {
            place,
            at_return,
            maxactive,
            cookie,
        } = kprobe;
        // Only tracefs takes a number of calls; and only it says how many returns were missed where links do not.
        if maxactive.is_none() && (!at_return || self.events.is_empty()) {
            let event = PerfEvent::kprobe(catalog.host(), place, at_return, Target::All)?;
            let link = Link::perf_event(program, &event, cookie)?;
            if !at_return || matches!(link.info()?.detail, LinkDetail::Kprobe { .. }) {
                self.links.push(link);
                return Ok(());
            }
        }
        let tracefs = catalog.tracefs()?;
        let own = OwnEvent::kretprobe(tracefs.clone(), place, maxactive)?;
        let id = tracefs.event_id(own_event::GROUP, own.name())?;
        let event = PerfEvent::tracepoint(id, &place.to_string(), Target::All)?;
        self.links.push(Link::perf_event(program, &event, cookie)?);
        self.events.push(own);
        Ok(())
    }

    /// Events of tracefs that were made for them.
    pub(super) fn events(&self) -> &[OwnEvent] {
        &self.events
    }

    /// Whoever has the pins takes the events away.
    pub(super) fn leave(&mut self) {
        self.events.iter_mut().for_each(OwnEvent::leave);
    }

    /// Their descriptors.
    pub(super) fn into_files(self) -> impl Iterator<Item = OwnedFd> {
        self.links.into_iter().map(OwnedFd::from)
    }

    /// One or many.
    pub(super) fn each(&self) -> &[Link] {
        &self.links
    }

    /// Hits that the kernel dropped before they reached the program, where it counts them per link.
    pub(super) fn missed(&self) -> Result<u64> {
        if !self.events.is_empty() {
            return own_event::missed(self.events.iter().map(OwnEvent::name));
        }
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
            Ok((program, maps, Links::one(link)))
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
        Attachment::Instruction {
            place,
            address,
            by_name,
            at_return,
            maxactive,
        } => {
            let spot = Spot {
                place: place.clone(),
                address: *address,
                by_name: *by_name,
            };
            instructions(
                std::slice::from_ref(&spot),
                (*at_return, *maxactive),
                catalog,
                load,
            )
        }
        Attachment::Instructions { spots } => instructions(spots, (false, None), catalog, load),
        Attachment::Functions {
            at_return,
            alone,
            maxactive,
        } => functions(hook, (*at_return, *alone, *maxactive), catalog, load),
    }
}

fn tracing(load: &Load<'_>, kind: ProgramKind, attach: AttachType) -> Result<(Program, Vec<Map>, Links)> {
    let (program, maps) = load(kind)?;
    let link = Link::tracing(&program, attach, 0)?;
    Ok((program, maps, Links::one(link)))
}

fn instructions(
    spots: &[Spot],
    (at_return, maxactive): (bool, Option<u32>),
    catalog: &Catalog,
    load: &Load<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    let (program, maps) = load(ProgramKind::Kprobe)?;
    let mut links = Links::default();
    for spot in spots {
        let symbol = match &spot.place.module {
            Some(module) => format!("{module}:{}", spot.place.symbol),
            None => spot.place.symbol.clone(),
        };
        let place = if spot.by_name {
            perf::Place::Symbol(&symbol, spot.place.offset)
        } else {
            perf::Place::Address(spot.address)
        };
        let kprobe = Kprobe {
            place,
            at_return,
            maxactive,
            cookie: 0,
        };
        links.kprobe(&program, &kprobe, catalog)?;
    }
    Ok((program, maps, links))
}

fn functions(
    hook: &Hook,
    (at_return, alone, maxactive): (bool, bool, Option<u32>),
    catalog: &Catalog,
    load: &Load<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    if hook.instances.len() > 1 && !alone {
        match many(hook, at_return, catalog, load) {
            Ok(attached) => return Ok(attached),
            Err(error) if !lacks_multi(&error) => return Err(error),
            Err(_) => {}
        }
    }
    let (program, maps) = load(ProgramKind::Kprobe)?;
    let mut links = Links::default();
    for (cookie, instance) in (0..).zip(&hook.instances) {
        let symbol = symbol(instance);
        let place = perf::Place::Symbol(symbol, 0);
        let kprobe = Kprobe {
            place,
            at_return,
            maxactive,
            cookie,
        };
        links
            .kprobe(&program, &kprobe, catalog)
            .map_err(|error| explain(catalog, symbol, error))?;
    }
    Ok((program, maps, links))
}

/// Why the kernel refuses a function, where its code tells: it says `EINVAL` to much.
fn explain(catalog: &Catalog, symbol: &str, error: crate::Error) -> crate::Error {
    let wanted = Wanted::Symbol {
        module: None,
        symbol: symbol.to_owned(),
        offset: None,
    };
    match Code::new(catalog).and_then(|code| code.probeable(&wanted)) {
        Err(why @ crate::Error::NoPlace { .. }) => why,
        _ => error,
    }
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
    Ok((program, maps, Links::one(link)))
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
