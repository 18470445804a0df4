//! Attaching one hook: its programs by the mechanism of its strategy, and what makes the kernel read strings for them.

use crate::plan::{Hook, PlannedStrategy};
use kestrel_bpf::asm::Assembler;
use kestrel_bpf::isa::Reg;
use kestrel_catalog::attach::{Events, Formatted, Links, Load, LoadOthers};
use kestrel_catalog::catalog::tracepoint::syscall::read_for;
use kestrel_catalog::catalog::{Catalog, Instance};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Map, Program, ProgramKind, ProgramSpec};

/// Loads and attaches; the links of the hook's own programs are the first.
pub(in crate::session) fn attach(
    hook: &Hook,
    strategy: &PlannedStrategy,
    catalog: &Catalog,
    load: &Load<'_>,
    others: &LoadOthers<'_>,
) -> Result<(Program, Vec<Map>, Links)> {
    let reading = reading(hook, strategy, catalog)?;
    let names: Vec<&str> = hook.instances.iter().map(name).collect();
    let events = Events {
        known: catalog,
        names: &names,
        optional: hook.optional || hook.may_be_missing,
    };
    let (program, maps, mut links) = strategy.mechanism.load_and_attach(&events, load, others)?;
    links.extend([reading]);
    Ok((program, maps, links))
}

/// The function, or the whole name where the event is none.
fn name(instance: &Instance) -> &str {
    instance.symbol.as_deref().unwrap_or(&instance.name)
}

/// A program that does nothing on the formatted tracepoint of a system call whose strings the kernel reads for that tracepoint (6.19): the hook's own programs, which are attached
/// elsewhere, then find them in memory. On the raw tracepoint they run later because they are attached later.
fn reading(hook: &Hook, strategy: &PlannedStrategy, catalog: &Catalog) -> Result<Links> {
    if strategy.mechanism.formatted() != Formatted::No {
        return Ok(Links::default());
    }
    let instances = hook.instances.iter();
    let events: Vec<_> = instances.filter_map(|one| read_for(catalog, &one.name)).collect();
    let Some((group, name)) = events.first() else {
        return Ok(Links::default());
    };
    let mut asm = Assembler::new();
    asm.mov(Reg::R0, 0).exit();
    let code = asm.finish().map_err(|error| Error::Compile {
        event: format!("{group}:{name}"),
        why: error.to_string(),
    })?;
    let nothing = Program::load(&ProgramSpec::new("k_read", ProgramKind::Tracepoint, &code, &[]))?;
    let mut links = Links::default();
    let tracefs = catalog.tracefs()?;
    for event in events {
        links.tracepoint(&nothing, &tracefs, event, 0)?;
    }
    Ok(links)
}
