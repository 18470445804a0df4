//! Relocations of instructions: one row per kind, first match wins.

use super::link::{Linker, Reference, Site};
use crate::Error;
use crate::insn::Insn;
use crate::isa::{PSEUDO_CALL, PSEUDO_FUNC};

/// A kind of relocation.
pub(super) struct RelocationKind {
    /// Name of the kind in messages.
    pub(super) name: &'static str,
    fits: fn(&Linker<'_>, &Site<'_>) -> bool,
    apply: fn(&mut Linker<'_>, &Site<'_>) -> Result<(), Error>,
}

/// A table: all kinds.
pub(super) const KINDS: &[RelocationKind] = &[
    RelocationKind {
        name: "map",
        fits: |linker, site| site.is_load() && in_maps(linker, site),
        apply: map,
    },
    RelocationKind {
        name: "global data",
        fits: |linker, site| site.is_load() && data_map(linker, site).is_some(),
        apply: data,
    },
    RelocationKind {
        name: "kernel configuration",
        fits: |linker, site| site.is_load() && kconfig(linker, site).is_some(),
        apply: configuration,
    },
    RelocationKind {
        name: "kernel symbol",
        fits: |_, site| site.is_load() && site.symbol.section.is_none(),
        apply: symbol,
    },
    RelocationKind {
        name: "address of a function",
        fits: |linker, site| site.is_load() && in_code(linker, site),
        apply: address,
    },
    RelocationKind {
        name: "call",
        fits: |linker, site| site.is_call() && in_code(linker, site),
        apply: call,
    },
    RelocationKind {
        name: "call of a kernel function",
        fits: |_, site| site.is_call() && site.symbol.section.is_none(),
        apply: kernel_call,
    },
];

/// Carries out the relocation at a site.
pub(super) fn apply(linker: &mut Linker<'_>, site: &Site<'_>) -> Result<(), Error> {
    match KINDS.iter().find(|kind| (kind.fits)(linker, site)) {
        Some(kind) => (kind.apply)(linker, site),
        None => Err(site.wrong(format!(
            "it has type {} and refers to `{}`, which instruction code {:#04x} cannot; what can be referred to: {}",
            site.relocation.kind,
            site.symbol.name,
            site.insn.code,
            KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
        ))),
    }
}

fn section_name<'a>(linker: &'a Linker<'_>, site: &Site<'_>) -> Option<&'a str> {
    linker
        .object
        .elf
        .sections
        .get(site.symbol.section?)
        .map(|section| section.name.as_str())
}

fn in_maps(linker: &Linker<'_>, site: &Site<'_>) -> bool {
    matches!(section_name(linker, site), Some("maps" | ".maps"))
}

fn in_code(linker: &Linker<'_>, site: &Site<'_>) -> bool {
    site.symbol
        .section
        .and_then(|section| linker.object.elf.sections.get(section))
        .is_some_and(|section| section.code)
}

/// Where in its section the instruction points: symbols of whole sections leave that to the immediate.
fn target(site: &Site<'_>) -> i64 {
    (site.symbol.value as i64).wrapping_add(i64::from(site.insn.imm))
}

fn map(linker: &mut Linker<'_>, site: &Site<'_>) -> Result<(), Error> {
    let at = if site.symbol.whole_section {
        target(site)
    } else {
        site.symbol.value as i64
    };
    let found = linker
        .object
        .maps
        .iter()
        .position(|map| Some(map.place.0) == site.symbol.section && map.place.1 as i64 == at);
    let found = found.ok_or_else(|| {
        site.wrong(format!(
            "no map begins where it points, {at:#x} in the section of maps"
        ))
    })?;
    linker.refer(site, Reference::Map(found), 0);
    Ok(())
}

fn data_map(linker: &Linker<'_>, site: &Site<'_>) -> Option<usize> {
    let section = site.symbol.section?;
    linker
        .object
        .maps
        .iter()
        .position(|map| map.is_data && map.place.0 == section)
}

fn data(linker: &mut Linker<'_>, site: &Site<'_>) -> Result<(), Error> {
    let found = data_map(linker, site).ok_or_else(|| site.wrong("no data"))?;
    let size = linker.object.maps.get(found).map_or(0, |map| map.value_size);
    let at = target(site);
    // One past the end is an address that loops compare with.
    if at < 0 || at > i64::from(size) {
        return Err(site.wrong(format!("it points at byte {at} of a section with {size}")));
    }
    linker.refer(site, Reference::MapValue(found), at as i32);
    Ok(())
}

/// The map of configuration, and the place of the variable in it.
fn kconfig(linker: &Linker<'_>, site: &Site<'_>) -> Option<(usize, u32)> {
    if site.symbol.section.is_some() {
        return None;
    }
    linker
        .object
        .maps
        .iter()
        .enumerate()
        .find_map(|(index, map)| match &map.content {
            super::map::Content::Kconfig(variables) => {
                let variable = variables
                    .iter()
                    .find(|variable| variable.name == site.symbol.name)?;
                Some((index, variable.offset))
            }
            _ => None,
        })
}

fn configuration(linker: &mut Linker<'_>, site: &Site<'_>) -> Result<(), Error> {
    let (map, offset) = kconfig(linker, site).ok_or_else(|| site.wrong("no such variable"))?;
    let at = (i32::try_from(offset).ok()).and_then(|offset| offset.checked_add(site.insn.imm.max(0)));
    let at = at.ok_or_else(|| site.wrong("it points behind all configuration"))?;
    linker.refer(site, Reference::MapValue(map), at);
    Ok(())
}

fn symbol(linker: &mut Linker<'_>, site: &Site<'_>) -> Result<(), Error> {
    let known = linker
        .object
        .externs
        .ksyms
        .iter()
        .find(|known| known.name == site.symbol.name);
    let known = known.ok_or_else(|| {
        site.wrong(format!(
            "`{}` is defined nowhere in it: if it is of another object, link the two first (`bpftool gen object ALL.o THIS.o OTHER.o`); kernel symbols are declared `extern … __ksym`",
            site.symbol.name
        ))
    })?;
    let reference = Reference::Symbol {
        name: known.name.clone(),
        ty: known.ty,
        weak: site.symbol.weak,
    };
    linker.refer(site, reference, 0);
    Ok(())
}

fn address(linker: &mut Linker<'_>, site: &Site<'_>) -> Result<(), Error> {
    let section = site.symbol.section.unwrap_or(usize::MAX);
    linker.call(site.here, section, Some(target(site)), &site.function.name)?;
    if let Some(insn) = linker.out.insns.get_mut(site.here) {
        insn.src = PSEUDO_FUNC;
    }
    Ok(())
}

fn call(linker: &mut Linker<'_>, site: &Site<'_>) -> Result<(), Error> {
    let section = site.symbol.section.unwrap_or(usize::MAX);
    // The immediate counts instructions from the one behind the call, and is -1 where the symbol says it all.
    let at = (i64::try_from(site.symbol.value).ok())
        .and_then(|start| start.checked_add((i64::from(site.insn.imm) + 1) * Insn::BYTES as i64));
    let at = at.ok_or_else(|| site.wrong("it calls a place outside of every section"))?;
    linker.call(site.here, section, Some(at), &site.function.name)?;
    if let Some(insn) = linker.out.insns.get_mut(site.here) {
        insn.src = PSEUDO_CALL;
    }
    Ok(())
}

fn kernel_call(linker: &mut Linker<'_>, site: &Site<'_>) -> Result<(), Error> {
    let reference = Reference::Function {
        name: site.symbol.name.clone(),
        weak: site.symbol.weak,
    };
    linker.out.references.push((site.here, reference));
    Ok(())
}

impl Linker<'_> {
    /// Notes a reference of a 64-bit load, whose second half gets `second`.
    fn refer(&mut self, site: &Site<'_>, reference: Reference, second: i32) {
        if let Some(insn) = self.out.insns.get_mut(site.here) {
            insn.imm = 0;
        }
        if let Some(insn) = self.out.insns.get_mut(site.here + 1) {
            insn.imm = second;
        }
        self.out.references.push((site.here, reference));
    }
}
