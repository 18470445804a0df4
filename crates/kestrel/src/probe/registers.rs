//! The processor's registers as one hit saw them.

use super::Value;
use kestrel_catalog::arch::{self, Saved};
use std::fmt;

/// Registers of `struct pt_regs` at a hit, in the order in which the kernel prints them.
///
/// ```
/// # fn f(hit: &kestrel::probe::Hit) -> Option<()> {
/// let registers = hit.registers.as_ref()?;
/// println!("rax was {:#x}", registers.get("ax")?);
/// println!("{registers}");
/// # Some(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers(pub(super) Vec<(&'static str, Value)>);

/// Registers beside each other where they are printed.
const COLUMNS: usize = 4;

impl Registers {
    /// A register's bits. The name is the kernel's (`ax`, `r8`, `ip`, `flags`) or the processor's (`rax`, `eflags`): those that `reg("…")` takes.
    pub fn get(&self, name: &str) -> Option<u64> {
        let known = |saved: &&Saved| saved.name == name || saved.aliases.contains(&name);
        let name = arch::current().registers.iter().find(known)?.name;
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .and_then(|(_, value)| value.as_u64())
    }

    /// Every register with its name in the kernel and its value, the flags by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }
}

/// In columns, lines ending between them and not behind the last.
impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.iter().enumerate() {
            let between = match place {
                0 => "",
                place if place % COLUMNS == 0 => "\n",
                _ => " ",
            };
            let value = match value {
                Value::Hexadecimal(value) | Value::Pointer(value) => format!("{value:016x}"),
                other => other.to_string(),
            };
            write!(f, "{between}{name:>7} {value:<16}")?;
        }
        Ok(())
    }
}
