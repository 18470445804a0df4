//! Attaching one hook: which program kind each attachment wants, one link or many; what is attached is dropped with its links.

use super::own_event::{self, OwnEvent};
use super::processors::{Counting, OnCpu};
use crate::plan::{Hook, PlannedWay};
use kestrel_bpf::asm::Assembler;
use kestrel_bpf::isa::Reg;
use kestrel_catalog::catalog::kind::Spot;
use kestrel_catalog::catalog::tracepoint::syscall::read_for;
use kestrel_catalog::catalog::{Attachment, Catalog, Instance};
use kestrel_catalog::code::{Code, Wanted};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{
    AttachType, KprobeMulti, KprobeTargets, Link, LinkDetail, LinkInfo, Map, Program, ProgramKind,
    ProgramSpec, module_btf_id,
};
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::perf::{self, PerfEvent, Target};
use kestrel_kernel::process::close_apart;
use kestrel_kernel::tracefs::{TraceableFunction, Tracefs};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

/// What keeps a program attached. Links go first, so that their events can go.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Vec<Link>,
    events: Vec<OwnEvent>,
    /// Where CPUs have links one by one: what is counted, and the CPU of each link.
    counting: Option<Counting>,
    cpus: Vec<OnCpu>,
    /// Events of a set that the kernel did not let be attached, and why.
    missing: Vec<(String, String)>,
}

/// In which order the kernel runs the programs of one event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Tracepoints (kernel/tracepoint.c, `func_add`).
    OldestFirst,
    /// Trampolines (kernel/bpf/trampoline.c, `bpf_trampoline_add_prog`).
    NewestFirst,
}

/// One kprobe, or kretprobe.
struct Kprobe<'a> {
    place: perf::Place<'a>,
    at_return: bool,
    maxactive: Option<u32>,
    cookie: u64,
    /// Whether it is an event of tracefs by its name, which the kernel attaches whenever its module is loaded.
    awaited: bool,
}

/// Loads the compiled handler as a program of a kind.
pub(super) type Load<'a> = dyn Fn(ProgramKind) -> Result<(Program, Vec<Map>)> + 'a;

/// Loads the programs of a kind that are to be run behind the first one, where there are some, in this order.
pub(super) type LoadOthers<'a> = dyn Fn(ProgramKind) -> Result<Vec<Program>> + 'a;

impl From<Vec<Link>> for Links {
    fn from(links: Vec<Link>) -> Self {
        Self {
            links,
            ..Self::default()
        }
    }
}

impl Links {
    pub(super) fn raw_tracepoint(program: &Program, tracepoint: &str) -> Result<Self> {
        Ok(vec![Link::raw_tracepoint(program, tracepoint, 0)?].into())
    }

    /// Attaches a hook's programs, so that the kernel runs them in this order, in which their links are, too.
    fn one_after_another(
        first: &Program,
        others: &[Program],
        order: Order,
        attach: &dyn Fn(&Program) -> Result<Link>,
    ) -> Result<Self> {
        let mut programs: Vec<&Program> = std::iter::once(first).chain(others).collect();
        if order == Order::NewestFirst {
            programs.reverse();
        }
        let mut links = programs.into_iter().map(attach).collect::<Result<Vec<_>>>()?;
        if order == Order::NewestFirst {
            links.reverse();
        }
        Ok(links.into())
    }

    /// What is counted on CPUs one by one.
    pub(super) fn counting(&self) -> Option<&Counting> {
        self.counting.as_ref()
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

    /// Attaches a program to a kprobe.
    fn kprobe(&mut self, program: &Program, kprobe: &Kprobe<'_>, catalog: &Catalog) -> Result<()> {
        let &Kprobe {
            place,
            at_return,
            maxactive,
            cookie,
            awaited,
        } = kprobe;
        // Only tracefs takes a number of calls; and only it says how many returns were missed where links do not.
        if !awaited && maxactive.is_none() && (!at_return || self.events.is_empty()) {
            let event = PerfEvent::kprobe(catalog.host(), place, at_return, Target::All)?;
            let link = Link::perf_event(program, &event, cookie)?;
            if !at_return || matches!(link.info()?.detail, LinkDetail::Kprobe { .. }) {
                self.links.push(link);
                return Ok(());
            }
        }
        let tracefs = catalog.tracefs()?;
        let own = OwnEvent::define(tracefs.clone(), place, (at_return, maxactive), awaited)?;
        let id = tracefs.event_id(own_event::GROUP, own.name())?;
        let event = PerfEvent::tracepoint(id, &place.to_string(), Target::All)?;
        self.links.push(Link::perf_event(program, &event, cookie)?);
        self.events.push(own);
        Ok(())
    }

    /// Attaches a program to a kprobe at a symbol; `options` are whether it is at the return, and the calls that are followed.
    pub(super) fn kprobe_at(
        &mut self,
        program: &Program,
        (symbol, offset): (&str, u64),
        (at_return, maxactive): (bool, Option<u32>),
        catalog: &Catalog,
    ) -> Result<()> {
        let kprobe = Kprobe {
            place: perf::Place::Symbol(symbol, offset),
            at_return,
            maxactive,
            cookie: 0,
            awaited: false,
        };
        self.kprobe(program, &kprobe, catalog)
    }

    /// Events of a set that are missing, and why.
    pub(super) fn missing(&self) -> &[(String, String)] {
        &self.missing
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

    /// What the kernel says of them.
    pub(super) fn infos(&self) -> Result<Vec<LinkInfo>> {
        Ok(self
            .links
            .iter()
            .map(Link::info)
            .collect::<std::result::Result<_, _>>()?)
    }

    /// One or many.
    pub(super) fn each(&self) -> &[Link] {
        &self.links
    }
}

/// The kind of a program at a function's trampoline.
///
/// # Errors
/// When it is in a module that is not loaded.
pub(super) fn function_kind(attachment: &Attachment) -> Result<ProgramKind> {
    let Attachment::Trampoline {
        module,
        id,
        at_return,
        ..
    } = attachment
    else {
        return Ok(ProgramKind::Kprobe);
    };
    Ok(match (module, at_return) {
        (None, false) => ProgramKind::FunctionEntry(*id),
        (None, true) => ProgramKind::FunctionExit(*id),
        (Some(module), false) => ProgramKind::ModuleFunctionEntry(*id, module_btf_id(module)?),
        (Some(module), true) => ProgramKind::ModuleFunctionExit(*id, module_btf_id(module)?),
    })
}

/// A program that does nothing on the formatted tracepoint of a system call whose strings the kernel reads for that tracepoint (6.19): the hook's own programs, which are attached
/// elsewhere, then find them in memory. On the raw tracepoint they run later because they are attached later.
fn reading(hook: &Hook, way: &PlannedWay, catalog: &Catalog) -> Result<Option<Link>> {
    let ([one], false) = (
        hook.instances.as_slice(),
        matches!(way.attachment, Attachment::Tracepoint { .. }),
    ) else {
        return Ok(None);
    };
    let Some(event) = read_for(catalog, &one.name) else {
        return Ok(None);
    };
    let mut asm = Assembler::new();
    asm.mov(Reg::R0, 0).exit();
    let code = asm.finish().map_err(|error| Error::Compile {
        event: one.name.clone(),
        why: error.to_string(),
    })?;
    let nothing = Program::load(&ProgramSpec::new("k_read", ProgramKind::Tracepoint, &code, &[]))?;
    tracepoint(&nothing, &catalog.tracefs()?, event, 0).map(Some)
}

/// Loads and attaches; the links of the hook's own programs are the first.
pub(super) fn attach(
    hook: &Hook,
    way: &PlannedWay,
    catalog: &Catalog,
    load: &Load<'_>,
    others: &LoadOthers<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    let reading = reading(hook, way, catalog)?;
    let (program, maps, mut links) = attach_programs(hook, way, catalog, load, others)?;
    links.links.extend(reading);
    Ok((program, maps, links))
}

fn attach_programs(
    hook: &Hook,
    way: &PlannedWay,
    catalog: &Catalog,
    load: &Load<'_>,
    others: &LoadOthers<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    match &way.attachment {
        Attachment::Tracepoint { group, name } => {
            let (program, maps) = load(ProgramKind::Tracepoint)?;
            let link = tracepoint(&program, &catalog.tracefs()?, (group, name), 0)?;
            Ok((program, maps, vec![link].into()))
        }
        Attachment::Tracepoints => tracepoints(hook, catalog, load),
        Attachment::RawTracepoint { name } => {
            let (program, maps) = load(ProgramKind::RawTracepoint)?;
            let others = others(ProgramKind::RawTracepoint)?;
            let attach = |program: &Program| Ok(Link::raw_tracepoint(program, name, 0)?);
            let links = Links::one_after_another(&program, &others, Order::OldestFirst, &attach)?;
            Ok((program, maps, links))
        }
        Attachment::TypedTracepoint { id, .. } => {
            let kind = (ProgramKind::TypedTracepoint(*id), AttachType::TRACE_RAW_TP);
            tracing(kind, Order::OldestFirst, load, others)
        }
        Attachment::Trampoline { at_return, .. } => {
            let attach = match at_return {
                false => AttachType::TRACE_FENTRY,
                true => AttachType::TRACE_FEXIT,
            };
            let kind = (function_kind(&way.attachment)?, attach);
            tracing(kind, Order::NewestFirst, load, others)
        }
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
        Attachment::Entry { symbol } => entry(symbol, catalog, load),
        Attachment::Instructions { spots } => instructions(spots, (false, None), catalog, load),
        Attachment::Functions {
            at_return,
            alone,
            maxactive,
        } => functions(hook, (*at_return, *alone, *maxactive), catalog, load),
        Attachment::Counter { .. } => counter(&way.attachment, load),
    }
}

fn tracepoint(
    program: &Program,
    tracefs: &Tracefs,
    (group, name): (&str, &str),
    cookie: u64,
) -> Result<Link> {
    let id = tracefs.event_id(group, name)?;
    let event = PerfEvent::tracepoint(id, &format!("{group}:{name}"), Target::All)?;
    Ok(Link::perf_event(program, &event, cookie)?)
}

/// One program for all of them. Those that only a pattern named may be missing, as long as there is one.
fn tracepoints(hook: &Hook, catalog: &Catalog, load: &Load<'_>) -> Result<(Program, Vec<Map>, Links)> {
    let (program, maps) = load(ProgramKind::Tracepoint)?;
    let tracefs = catalog.tracefs()?;
    let mut links = Links::default();
    let mut refused = None;
    for (cookie, instance) in (0..).zip(&hook.instances) {
        let name = instance.name.split_once(':').unwrap_or((&instance.name, ""));
        match tracepoint(&program, &tracefs, name, cookie) {
            Ok(link) => links.links.push(link),
            Err(error) if hook.optional => {
                links.missing.push((instance.name.clone(), error.to_string()));
                refused = Some(error);
            }
            Err(error) => {
                close_many(links.into_files().collect());
                return Err(error);
            }
        }
    }
    match refused {
        Some(error) if links.links.is_empty() => Err(error),
        _ => Ok((program, maps, links)),
    }
}

fn counter(attachment: &Attachment, load: &Load<'_>) -> Result<(Program, Vec<Map>, Links)> {
    let (program, maps) = load(ProgramKind::PerfEvent)?;
    let mut links = Links::from(Vec::new());
    links.counting = Counting::of(attachment);
    if let Some(counting) = &links.counting {
        (links.links, links.cpus) = counting.attach(&program)?;
    }
    Ok((program, maps, links))
}

fn tracing(
    (kind, attach): (ProgramKind, AttachType),
    order: Order,
    load: &Load<'_>,
    others: &LoadOthers<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    let (program, maps) = load(kind)?;
    let others = others(kind)?;
    let attach = |program: &Program| Ok(Link::tracing(program, attach, 0)?);
    let links = Links::one_after_another(&program, &others, order, &attach)?;
    Ok((program, maps, links))
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
            awaited: spot.address == 0,
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
            awaited: false,
        };
        if let Err(error) = links.kprobe(&program, &kprobe, catalog) {
            // None stays if one fails; whoever reads why does not wait for those before it.
            if links.events.is_empty() {
                close_many(links.into_files().collect());
            }
            return Err(explain(catalog, symbol, error));
        }
    }
    Ok((program, maps, links))
}

/// Whether the kernel takes long to take down the links of a program of a kind (perf events and trampolines: some 0.1 s each).
pub(super) fn is_slow(kind: ProgramKind) -> bool {
    matches!(
        kind,
        ProgramKind::Tracepoint
            | ProgramKind::Kprobe
            | ProgramKind::FunctionEntry(_)
            | ProgramKind::FunctionExit(_)
            | ProgramKind::ModuleFunctionEntry(..)
            | ProgramKind::ModuleFunctionExit(..)
    )
}

/// Closes links that the kernel takes long to take down: many of them apart. Says for how many.
pub(super) fn close_many(files: Vec<OwnedFd>) -> usize {
    let many = files.len();
    let turn = turn_file(&Host::default());
    // Where there can be no other process, they are closed here, and that takes its time.
    if many <= AT_ONCE || close_apart(files, turn.map(OwnedFd::from)).is_err() {
        return 0;
    }
    many
}

/// Held by who attaches: whoever detaches apart waits. The kernel makes both wait for one lock (`event_mutex` of kernel/trace), and each event that
/// goes holds it for a grace period; what is going is masked, so it can wait, and a user cannot.
pub(super) fn turn(catalog: &Catalog) -> Option<File> {
    let file = turn_file(catalog.host())?;
    file.lock_shared().ok()?;
    Some(file)
}

/// What turns are taken by: tracefs, which is there wherever events are attached that take long to go. Where everybody may open it (it is not
/// mounted, or for all), anybody could keep the lock, and there are no turns.
fn turn_file(host: &Host) -> Option<File> {
    let file = File::open(host.path("/sys/kernel/tracing")).ok()?;
    let everybody = file.metadata().ok()?.mode() & 0o007;
    (everybody == 0).then_some(file)
}

/// So many slow links are closed by whoever has them.
pub(super) const AT_ONCE: usize = 4;

/// Why the kernel refuses a function, where its code tells: it says `EINVAL` to much.
fn explain(catalog: &Catalog, symbol: &str, error: kestrel_catalog::Error) -> kestrel_catalog::Error {
    let wanted = Wanted::Symbol {
        module: None,
        symbol: symbol.to_owned(),
        offset: None,
    };
    match Code::new(catalog).and_then(|code| code.probeable(&wanted)) {
        Err(why @ kestrel_catalog::Error::NoPlace { .. }) => why,
        _ => error,
    }
}

fn symbol(instance: &Instance) -> &str {
    instance.symbol.as_deref().unwrap_or(&instance.name)
}

/// Whether the kernel has no multi links (no FPROBE, or older than 5.18), so that functions are to be attached one by one.
fn lacks_multi(error: &kestrel_catalog::Error) -> bool {
    let kestrel_catalog::Error::Kernel(error) = error else {
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
    let attach = |targets: KprobeTargets<'_>, cookies: &[u64]| {
        let multi = KprobeMulti {
            targets,
            cookies,
            at_return,
            session: false,
        };
        Link::kprobe_multi(&program, &multi)
    };
    // The kernel finds names in one pass over its symbols, which is quicker than reading all of them here.
    let by_name = |symbols: &[&str], cookies: &[u64]| attach(KprobeTargets::Symbols(symbols), cookies);
    let link = match by_name(&symbols, &cookies) {
        Ok(link) => link,
        // Names that several functions bear it takes by address alone.
        Err(error) if says_which(&error) => {
            let known = entries(catalog, &symbols, &cookies).unwrap_or_default();
            let missing = symbols
                .iter()
                .zip(&cookies)
                .find(|(_, c)| !known.iter().any(|(_, k)| k == *c));
            if let Some((symbol, _)) = missing {
                return Err(explain(catalog, symbol, error.into()));
            }
            let (addresses, at): (Vec<u64>, Vec<u64>) = known.into_iter().unzip();
            attach(KprobeTargets::Addresses(&addresses), &at).map_err(|error| {
                let refused = |range: Range<usize>| {
                    attach(KprobeTargets::Addresses(&addresses[range.clone()]), &at[range]).is_err()
                };
                let place = first_refused(addresses.len(), &refused);
                let symbol = place.and_then(|place| symbols.get(at[place] as usize));
                symbol.map_or_else(
                    || error.clone().into(),
                    |symbol| explain(catalog, symbol, error.clone().into()),
                )
            })?
        }
        Err(error) => return Err(error.into()),
    };
    Ok((program, maps, vec![link].into()))
}

/// A function's entry.
fn entry(symbol: &str, catalog: &Catalog, load: &Load<'_>) -> Result<(Program, Vec<Map>, Links)> {
    let by_multi_link = || -> Result<_> {
        let (program, maps) = load(ProgramKind::KprobeMulti)?;
        let multi = KprobeMulti {
            targets: KprobeTargets::Symbols(&[symbol]),
            cookies: &[],
            at_return: false,
            session: false,
        };
        let link = Link::kprobe_multi(&program, &multi)?;
        Ok((program, maps, Links::from(vec![link])))
    };
    Ok(match by_multi_link() {
        Err(error) if lacks_multi(&error) => {
            let (program, maps) = load(ProgramKind::Kprobe)?;
            let mut links = Links::default();
            links.kprobe_at(&program, (symbol, 0), (false, None), catalog)?;
            (program, maps, links)
        }
        attached => attached?,
    })
}

/// Whether the kernel's refusal is about one of the functions rather than about links to many.
fn says_which(error: &kestrel_kernel::Error) -> bool {
    let name = error.errno().and_then(|errno| errno.name());
    matches!(name, Some("ESRCH" | "EADDRNOTAVAIL" | "ENOENT"))
}

/// The first of so many that is refused, if each part of them can be tried: a refusal of many does not say which one it is about.
fn first_refused(count: usize, refused: &dyn Fn(Range<usize>) -> bool) -> Option<usize> {
    let mut range = 0..count;
    if count == 0 {
        return None;
    }
    while range.len() > 1 {
        let middle = range.start + range.len() / 2;
        range = if refused(range.start..middle) {
            range.start..middle
        } else {
            middle..range.end
        };
    }
    refused(range.clone()).then_some(range.start)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refused_one_is_found() {
        for bad in 0..9 {
            assert_eq!(first_refused(9, &|range| range.contains(&bad)), Some(bad));
        }
        assert_eq!(
            first_refused(9, &|range| range.contains(&3) || range.contains(&7)),
            Some(3)
        );
        assert_eq!(first_refused(1, &|_| true), Some(0));
        assert_eq!(first_refused(5, &|_| false), None);
        assert_eq!(first_refused(0, &|_| true), None);
    }
}
