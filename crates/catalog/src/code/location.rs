//! Places in the kernel's code by name and by address: the symbol, how far it reaches, and what to say where there is none.

use super::function::{CodePlace, Extent, Function, Instruction, LONGEST, Why};
use super::{Code, unpatched};
use crate::error::{Error, Result, nothing_matches};
use kestrel_kernel::kallsyms::{Kallsyms, Symbol};

/// The name by which the kernel itself can be asked for where modules are named.
pub const KERNEL: &str = "vmlinux";
/// Addresses that a message lists at most.
const FEW: usize = 6;
/// Names close to a mistyped one that a message lists at most.
const NEAR: usize = 3;
/// Instructions on both sides of a wrong offset that a message lists.
const AROUND: usize = 2;

/// From a symbol to the next one behind it, of whatever kind.
fn extent(symbols: &Kallsyms, symbol: &Symbol<'_>) -> Extent {
    let end = symbols.next_address(symbol.address);
    let size = end.map_or(LONGEST, |end| end - symbol.address);
    Extent {
        module: symbol.module.map(str::to_owned),
        symbol: symbol.name.to_owned(),
        address: symbol.address,
        size: size.min(LONGEST),
    }
}

impl Code<'_> {
    pub(super) fn find(&self, module: Option<&str>, name: &str) -> Result<Extent> {
        let symbols = self.known.symbols()?;
        let there = |symbol: &Symbol<'_>| match module {
            None => true,
            Some(KERNEL) => symbol.module.is_none(),
            module => symbol.module == module,
        };
        let mut found: Vec<Symbol<'_>> = symbols
            .named(name)
            .filter(|s| is_code(symbols, s) && there(s))
            .collect();
        found.dedup_by_key(|symbol| symbol.address);
        match found.as_slice() {
            [] => Err(self.no_such(symbols, module, name)),
            [one] => Ok(extent(symbols, one)),
            several => Err(Error::NoPlace {
                wanted: name.to_owned(),
                why: ambiguous(several),
            }),
        }
    }

    pub(super) fn at(&self, address: u64) -> Result<Extent> {
        let kept = self.known.symbols()?;
        let own = kept
            .at(address)
            .is_some_and(|(symbol, _)| symbol.module.is_none() && is_code(kept, &symbol));
        // Near modules there may be programs and trampolines, which come and go.
        let now = if own {
            None
        } else {
            Some(Kallsyms::read(self.known.host())?)
        };
        let symbols = now.as_ref().unwrap_or(kept);
        let found = symbols.at(address).filter(|(symbol, _)| is_code(symbols, symbol));
        let extent = found.map(|(symbol, _)| extent(symbols, &symbol));
        extent
            .filter(|extent| address - extent.address < extent.size)
            .ok_or_else(|| Error::NoPlace {
                wanted: format!("{address:#x}"),
                why: "no function of the kernel or of a module lies there".to_owned(),
            })
    }

    fn no_such(&self, symbols: &Kallsyms, module: Option<&str>, name: &str) -> Error {
        let elsewhere: Vec<String> = symbols
            .named(name)
            .filter(Symbol::is_text)
            .map(|symbol| format!("{}:{name}", symbol.module.unwrap_or(KERNEL)))
            .collect();
        if let Some(module) = module {
            let known = module == KERNEL || symbols.iter().any(|s| s.module == Some(module));
            if !known {
                return Error::NoPlace {
                    wanted: format!("{module}:{name}"),
                    why: match symbols.named(module).any(|symbol| symbol.is_text()) {
                        true => format!(
                            "no module {module} is loaded; behind a function's place stand :pre, :post or :fault, behind a return's :maxactive=N"
                        ),
                        false => format!("no module {module} is loaded{}", there_is(&elsewhere)),
                    },
                };
            }
            if !elsewhere.is_empty() {
                return Error::NoPlace {
                    wanted: format!("{module}:{name}"),
                    why: format!("{module} has no function of this name{}", there_is(&elsewhere)),
                };
            }
        }
        if let Some(other) = symbols.named(name).next() {
            // Symbols of start-up code are left in kallsyms after their memory was given to others.
            let began = between(symbols, other.address, ("_sinittext", "_einittext"));
            let why = match began == Some(true) && other.is_text() {
                true => "it ran when the kernel started, which took its code away afterwards".to_owned(),
                false => format!("it is data at {:#x}, not a function", other.address),
            };
            return Error::NoPlace {
                wanted: name.to_owned(),
                why,
            };
        }
        let of_module = |s: &Symbol<'_>| module.is_none_or(|m| s.module.unwrap_or(KERNEL) == m);
        let names = symbols.functions().filter(of_module).map(|symbol| symbol.name);
        let near = kestrel_compiler::lang::diag::nearest(name, names);
        let near = near.into_iter().take(NEAR).map(str::to_owned).collect();
        nothing_matches("function", name, near)
    }
}

/// Whether a symbol stands in code. Some kernels' kallsyms call all symbols text: of the kernel's own only those between `_stext` and `_etext` are.
fn is_code(symbols: &Kallsyms, symbol: &Symbol<'_>) -> bool {
    let inside = between(symbols, symbol.address, ("_stext", "_etext")).unwrap_or(true);
    symbol.is_text() && (symbol.module.is_some() || inside)
}

/// Whether an address lies between two marks of the kernel's own; unknown where it has none such.
fn between(symbols: &Kallsyms, address: u64, (begin, end): (&str, &str)) -> Option<bool> {
    let bound = |name: &str| {
        let mut named = symbols.named(name);
        named
            .find(|symbol| symbol.module.is_none())
            .map(|symbol| symbol.address)
    };
    let (begin, end) = (bound(begin)?, bound(end)?);
    (begin < end).then(|| (begin..end).contains(&address))
}

fn there_is(elsewhere: &[String]) -> String {
    match elsewhere {
        [] => String::new(),
        several => format!("; there is {}", several[..several.len().min(FEW)].join(", ")),
    }
}

fn ambiguous(several: &[Symbol<'_>]) -> String {
    let name = several[0].name;
    let one = |symbol: &Symbol<'_>| match symbol.module {
        None => format!("{:#x}", symbol.address),
        Some(module) => format!("{:#x} in the module {module}", symbol.address),
    };
    let mut shown: Vec<String> = several.iter().take(FEW).map(one).collect();
    if several.len() > FEW {
        shown.push("…".to_owned());
    }
    let of_modules = several.iter().any(|s| s.module.is_some());
    format!(
        "{} functions have this name, at {}; say which one by its address, as in kprobe:{:#x}{}",
        several.len(),
        shown.join(", "),
        several[0].address,
        if of_modules {
            format!(", or by its module, as in kprobe:MODULE:{name} ({KERNEL} is the kernel itself)")
        } else {
            String::new()
        }
    )
}

impl Function {
    /// The instruction that begins at an offset.
    ///
    /// # Errors
    /// A sentence that says which there are instead.
    pub fn at(&self, offset: u64) -> std::result::Result<&Instruction, String> {
        let found = self.instructions.binary_search_by_key(&offset, |i| i.offset);
        let after = match found {
            Ok(index) => return Ok(&self.instructions[index]),
            Err(after) => after,
        };
        let end = self
            .instructions
            .last()
            .map_or(0, |last| last.offset + last.bytes.len() as u64);
        if offset >= end {
            return Err(format!(
                "{} is {end} bytes long: its last instruction is {}",
                self.symbol,
                self.instructions
                    .last()
                    .map_or_else(String::new, |i| self.shown(i)),
            ));
        }
        let inside = &self.instructions[after - 1];
        let from = after.saturating_sub(AROUND);
        let near = &self.instructions[from..(after + AROUND).min(self.instructions.len())];
        let near: Vec<String> = near.iter().map(|i| self.shown(i)).collect();
        Err(format!(
            "+{offset:#x} is inside the {}-byte instruction at +{:#x}; instructions near it are {}",
            inside.bytes.len(),
            inside.offset,
            near.join(", ")
        ))
    }

    /// Why none of it can be probed.
    pub fn barred(&self) -> Option<&Why> {
        let first = self.instructions.first()?.probeable.as_ref().err()?;
        let all = self.instructions.iter().all(|i| i.probeable.is_err());
        (all && first.is_whole()).then_some(first)
    }

    /// The name of a place in it.
    pub fn place(&self, offset: u64) -> CodePlace {
        CodePlace {
            module: self.module.clone(),
            symbol: self.symbol.clone(),
            offset,
        }
    }

    /// Where the kernel really puts a probe that is asked for at an address: behind an `endbr64` at the function's beginning.
    pub fn probed(&self, address: u64) -> u64 {
        match self.instructions.first() {
            Some(first) if address == self.address && unpatched::begins_with_endbr(&first.bytes) => {
                address + unpatched::ENDBR_SIZE
            }
            _ => address,
        }
    }

    /// Alternatives that can be probed instead, for the end of a message.
    pub(super) fn others(&self, instruction: &Instruction) -> String {
        let good = |i: &&Instruction| i.probeable.is_ok();
        let before = self
            .instructions
            .iter()
            .rev()
            .filter(good)
            .find(|i| i.offset < instruction.offset);
        let behind = self
            .instructions
            .iter()
            .filter(good)
            .find(|i| i.offset > instruction.offset);
        let near: Vec<String> = before.into_iter().chain(behind).map(|i| self.shown(i)).collect();
        match near.as_slice() {
            [] => String::new(),
            near => format!("; near it, {} can be probed", near.join(" and ")),
        }
    }

    fn shown(&self, instruction: &Instruction) -> String {
        format!("+{:#x} ({})", instruction.offset, instruction.text)
    }
}
