//! Places of variables and functions of a probed program: where the loader put them is found from what the event itself knows, so that it needs no memory map.

use super::lookup::Catalog;
use super::uprobe;
use crate::executable::{Executable, Site};
use kestrel_compiler::check::globals::UserPlace;
use std::path::Path;

impl Catalog {
    /// The address of a symbol in the program that an event (`uprobe:PATH:FUNCTION`) probes. `None` where the program has no such symbol, or where the event does
    /// not tell the address at which it was loaded.
    pub fn user_place(&self, event: &str, symbol: &str) -> Option<UserPlace> {
        let mut parts = event.splitn(3, ':');
        let (kind, path, place) = (parts.next()?, parts.next()?, parts.next()?);
        let file = self.executables().get(Path::new(path)).ok()?;
        let (address, size) = file.symbol(symbol)?;
        let returns = uprobe::is_return(kind);
        let own = match returns {
            Some(false) => probed(&file, place),
            Some(true) => None,
            None => usdt_probe(&file, place),
        };
        let address = match (file.is_position_independent(), own) {
            (false, _) => format!("{address}"),
            // The event is at one known place of the program.
            (true, Some(own)) => format!("reg(\"ip\") - {own} + {address}"),
            // The kernel keeps where the code of the main program begins.
            (true, _) if file.is_program() => {
                format!(
                    "(uint64)curtask->mm->start_code - {} + {address}",
                    file.code_begin()?
                )
            }
            // The instruction is the caller's by now; the kernel keeps for the probe which function returns: `bp_addr` of `struct uprobe_dispatch_data`
            // (kernel/trace/trace_uprobe.c).
            (true, _) if returns == Some(true) => {
                let own = probed(&file, place)?;
                format!("*kptr((uint64 *)((uint64)curtask->utask->vaddr + 8)) - {own} + {address}")
            }
            (true, _) => return None,
        };
        Some(UserPlace { address, size })
    }
}

/// The address of the one place that an event is at, as the file has it.
fn probed(file: &Executable, place: &str) -> Option<u64> {
    match Site::read(place).offsets(file).ok()?.as_slice() {
        [one] => file.address_of(*one),
        _ => None,
    }
}

/// The address of the one place of a USDT probe, as the file has it.
fn usdt_probe(file: &Executable, probe: &str) -> Option<u64> {
    let (provider, name) = probe.split_once(':')?;
    match file.usdt_probes_named(provider, name).ok()?.as_slice() {
        [one] => file.address_of(one.offset),
        _ => None,
    }
}
