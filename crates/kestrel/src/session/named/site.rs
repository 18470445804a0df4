//! Sites of a named probe's hooks: as the kernel's links say, and its symbols where links do not.

use crate::plan::Hook;
use crate::session::state::{HookState, Instruction, SiteState};
use kestrel_catalog::attach::Sites;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::catalog::phase::Phase;
use kestrel_catalog::code::Code;
use kestrel_kernel::bpf::{Link, LinkDetail};
use kestrel_kernel::kallsyms::Kallsyms;

/// A site for each event of a hook; `events` are their names as they were before they bore the probe's.
pub(super) fn of(
    hook: &HookState,
    planned: &Hook,
    links: &[Link],
    events: &[String],
    catalog: &Catalog,
) -> Vec<SiteState> {
    let letter = letter(hook);
    let each = planned.instances.iter().zip(events).enumerate();
    each.map(|(at, (instance, event))| {
        let mut site = SiteState {
            event: spelled(planned.kind, event, hook.maxactive()),
            letter,
            // Those of programs and libraries are not the kernel's.
            symbol: instance.symbol.clone().filter(|_| letter != 't'),
            ..SiteState::default()
        };
        match hook.attached.as_ref().map(|mechanism| mechanism.sites()) {
            Some(Sites::Instruction(_, address)) => site.address = address,
            // The instruction after this one; where there are several, the first.
            Some(Sites::Instructions(sites)) => {
                if let Some(spot) = sites.first() {
                    site.address = spot.address;
                    site.symbol = Some(spot.place.symbol.clone());
                }
            }
            // Their links or the kernel's symbols say it.
            Some(Sites::Functions | Sites::Trampoline(..) | Sites::Fixed) | None => {}
        }
        let link_detail = links.get(at).filter(|_| links.len() == events.len());
        let link_detail = link_detail
            .and_then(|link| link.info().ok())
            .map(|info| info.detail);
        if let Some(LinkDetail::Kprobe { address, .. }) = link_detail
            && address != 0
        {
            site.address = address;
        }
        complete(&mut site, catalog.symbols().ok());
        site.about = about(&site.event, catalog);
        site
    })
    .collect()
}

/// The instruction that a `:post` or a `:fault` is about.
fn about(event: &str, catalog: &Catalog) -> Option<Instruction> {
    let (_, place) = event.split_once(':')?;
    let (place, phase) = place.rsplit_once(':')?;
    if !Phase::is_behind(phase) {
        return None;
    }
    let (function, instruction) = Code::new(catalog).ok()?.locate(&place.parse().ok()?).ok()?;
    Some(Instruction {
        address: instruction.address,
        symbol: function.symbol,
        offset: instruction.offset,
        module: function.module,
        phase: phase.to_owned(),
    })
}

/// Completes what the kernel's link does not say: the address of a symbol, its module.
fn complete(site: &mut SiteState, symbols: Option<&Kallsyms>) {
    let (Some(name), Some(symbols)) = (&site.symbol, symbols) else {
        return;
    };
    let at = symbols.at(site.address).map(|(symbol, _)| symbol);
    let mut named = symbols.named(name).filter(|symbol| symbol.is_text());
    let found = match (site.address, at) {
        (0, _) => named.next(),
        // A function may have several names; the one that was asked for is the best.
        (_, Some(at)) => named.find(|symbol| symbol.address == at.address).or(Some(at)),
        (_, None) => None,
    };
    let Some(symbol) = found.filter(|symbol| symbol.address != 0) else {
        return;
    };
    if site.address == 0 {
        site.address = symbol.address + u64::from(site.offset);
    }
    // The kernel moves an entry behind its `endbr64`.
    site.offset = (site.address - symbol.address) as u32;
    site.module = symbol.module.map(str::to_owned);
}

/// An event with its kind and the number of calls it follows, as it is typed.
fn spelled(kind: &str, event: &str, calls: Option<u32>) -> String {
    let whole = event == kind || event.starts_with(&format!("{kind}:"));
    let mut text = match whole || kind == "tracepoint" {
        true => event.to_owned(),
        false => format!("{kind}:{event}"),
    };
    if let Some(calls) = calls
        && !text.split(':').any(|part| Phase::calls_of(part).is_some())
    {
        text.push_str(&Phase::Return(calls).written());
    }
    text
}

/// The letter of the kernel's list of probes, and one of its own for jprobes.
fn letter(hook: &HookState) -> char {
    match &hook.attached {
        _ if hook.kind == "jprobe" => 'j',
        Some(mechanism) => mechanism.letter(),
        None => 't',
    }
}
