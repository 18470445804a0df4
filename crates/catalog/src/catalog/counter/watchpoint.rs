//! `watchpoint`: the processor's debug registers, which fire when an address is written, read or executed.

use super::event::{counter_event_by, no_fields};
use crate::attach::{self, Mechanism};
use crate::catalog::glob::Glob;
use crate::catalog::kind::{Description, EventKind, KindRow, Resolved, Via};
use crate::catalog::lookup::Catalog;
use crate::error::{Error, Result};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::perf::{Breakpoint, Counter};
use kestrel_trace::event_kind;
use kestrel_trace::layout::Space;

/// The kind of events made by watchpoints on memory.
#[derive(Debug)]
pub(super) struct Watchpoint;

const ROW: KindRow = KindRow {
    listed: false,
    ..KindRow::new(event_kind::WATCHPOINT, 3)
};

/// The form of names of watchpoints.
const SHAPE: &str = "watchpoint:ADDRESS:LENGTH:MODE, as watchpoint:0x10000000:8:w";
/// Numbers of bytes that a debug register can watch.
const LENGTHS: &[u64] = &[1, 2, 4, 8];
/// The letters of modes, and the kernel's bit of each (`HW_BREAKPOINT_R`, `_W`, `_X`).
const MODES: &[(char, u32)] = &[('r', 1), ('w', 2), ('x', 4)];
const READ: u32 = 1;
const WRITE: u32 = 2;
const EXECUTE: u32 = 4;

impl EventKind for Watchpoint {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, _catalog: &Catalog, _patterns: &[Glob], _found: &mut dyn FnMut(&str)) -> Result<()> {
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(no_fields())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let [_, address, length, mode] = spec.parts.as_slice() else {
            return Err(Error::wrong_shape(spec, SHAPE));
        };
        let address = number(&address.text).ok_or_else(|| Error::wrong_shape(spec, SHAPE))?;
        let name = format!("watchpoint:{address:#x}:{}:{}", length.text, mode.text);
        let refused = |why| Error::Unsupported {
            what: name.clone(),
            why,
        };
        let length = number(&length.text).ok_or_else(|| Error::wrong_shape(spec, SHAPE))?;
        let breakpoint = breakpoint(address, length, &mode.text).map_err(refused)?;
        let mechanism = Mechanism::Counter(attach::Counter {
            counter: Counter::breakpoint(breakpoint, name.clone()),
            period: 1,
            every_cpu: true,
            process: catalog.script().and_then(|view| view.command.or(view.process)),
        });
        let mut resolved = counter_event_by(catalog, self.name(), name, mechanism);
        // Handlers read what is watched: addresses of processes lie in the lower half.
        if address <= i64::MAX as u64 {
            for strategy in &mut resolved.strategies {
                strategy.context.space = Space::User;
            }
        }
        Ok(vec![resolved])
    }
}

/// A number as C writes it.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The breakpoint for the debug registers, or the reason why there can be none.
fn breakpoint(address: u64, length: u64, mode: &str) -> std::result::Result<Breakpoint, String> {
    if address == 0 {
        return Err("nothing lies at address 0".to_owned());
    }
    if !LENGTHS.contains(&length) {
        return Err(format!("{length} bytes cannot be watched, only 1, 2, 4 or 8"));
    }
    let mut access = 0;
    for letter in mode.chars() {
        let Some((_, bit)) = MODES.iter().find(|(known, _)| *known == letter) else {
            return Err(format!(
                "`{letter}` is no mode: r reads, w writes, rw both, x executes"
            ));
        };
        if access & bit != 0 {
            return Err(format!("the mode `{letter}` is there twice"));
        }
        access |= bit;
    }
    match access {
        0 => Err("a mode is wanted: w writes, rw reads and writes, x executes".to_owned()),
        // x86's registers have none for reads alone (arch/x86/kernel/hw_breakpoint.c).
        READ if cfg!(target_arch = "x86_64") => {
            Err("this processor does not watch reads alone: rw has reads and writes".to_owned())
        }
        READ | WRITE | EXECUTE => Ok(access),
        _ if access & EXECUTE == 0 => Ok(access),
        _ => Err("x is watched alone".to_owned()),
    }
    .and_then(|access| {
        // An instruction begins at any byte. The kernel wants the size of a word for it.
        let length = match access == EXECUTE {
            true => size_of::<usize>() as u64,
            false if address.is_multiple_of(length) => length,
            false => {
                return Err(format!(
                    "{length} bytes can only be watched at an address that is a multiple of {length}"
                ));
            }
        };
        Ok(Breakpoint {
            address,
            length,
            access,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchpoint_addresses_and_lengths_are_checked() {
        let of = |address, length, mode| breakpoint(address, length, mode);
        let watched = |length, access| Breakpoint {
            address: 0x1000,
            length,
            access,
        };
        assert_eq!(of(0x1000, 8, "w"), Ok(watched(8, 2)));
        assert_eq!(of(0x1000, 1, "wr"), Ok(watched(1, 3)));
        assert_eq!(of(0x1000, 1, "x"), Ok(watched(8, 4)));
        let instruction = Breakpoint {
            address: 0x1003,
            ..watched(8, 4)
        };
        assert_eq!(of(0x1003, 8, "x"), Ok(instruction));
        for (address, length, mode, why) in [
            (0, 8, "w", "address 0"),
            (0x1000, 3, "w", "only 1, 2, 4 or 8"),
            (0x1000, 16, "w", "only 1, 2, 4 or 8"),
            (0x1004, 8, "w", "multiple of 8"),
            (0x1000, 8, "q", "`q` is no mode"),
            (0x1000, 8, "ww", "twice"),
            (0x1000, 8, "", "a mode is wanted"),
            (0x1000, 8, "wx", "x is watched alone"),
        ] {
            let message = of(address, length, mode).unwrap_err();
            assert!(message.contains(why), "{message}");
        }
        assert_eq!(
            (number("0x10"), number("16"), number("main")),
            (Some(16), Some(16), None)
        );
    }
}
