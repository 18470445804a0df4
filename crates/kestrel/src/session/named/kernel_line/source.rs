//! Arguments of a line as a block of the event language: expressions, and variables for addresses that are used twice.

use super::argument::{Argument, Fetch, STACK_WORDS, Store};
use kestrel_catalog::arch;

/// The number of words above the stack pointer that are the stack's in any case: the saved registers lie there (`struct pt_regs`).
const SURE_WORDS: u64 = 16;
/// Most strings of a line that are read whole; each of more is cut where the language cuts what it reads.
const WHOLE_STRINGS: usize = 3;
/// Longest string of the language.
const LONGEST_STRING: usize = 1023;
/// Where the language cuts what it reads, its NUL included.
const STRING: usize = 256;
/// Bytes of a record for all strings of a line together: the other arguments of the longest line have room behind them.
const STRINGS: usize = 2800;

/// Text of a block as it is made.
struct Block {
    at_return: bool,
    /// Statements before the record.
    statements: Vec<String>,
    /// The values of variables.
    variables: Vec<String>,
    /// The text behind an address whose string is read.
    cut: String,
}

/// The memory that an address is in: the kernel's or a process's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    Kernel,
    User,
    /// The process's below the middle of all addresses, the kernel's above it.
    Either,
}

/// The block that records the arguments.
pub(super) fn block(arguments: &[Argument], at_return: bool) -> String {
    let strings = arguments.iter().filter(|argument| is_string(argument));
    let strings: usize = strings
        .map(|argument| argument.elements.map_or(1, |count| count as usize))
        .sum();
    let mut block = Block {
        at_return,
        statements: Vec::new(),
        variables: Vec::new(),
        cut: match strings {
            0..=WHOLE_STRINGS => format!(", {LONGEST_STRING}"),
            _ if strings * STRING <= STRINGS => String::new(),
            _ => format!(", {}", (STRINGS / strings).saturating_sub(1).max(1)),
        },
    };
    let mut fields = Vec::new();
    for argument in arguments {
        match argument.elements {
            None => fields.push(format!("{} = {}", argument.name, block.argument(argument))),
            Some(elements) => {
                for index in 0..elements {
                    let element = block.element(argument, index);
                    fields.push(format!("{}_{index} = {element}", argument.name));
                }
            }
        }
    }
    block.statements.push(format!("record({})", fields.join(", ")));
    format!("{{ {} }}", block.statements.join("; "))
}

fn is_string(argument: &Argument) -> bool {
    let read = !matches!(argument.fetch, Fetch::Comm | Fetch::Text(_));
    read && matches!(argument.store, Store::Text { .. })
}

/// `(base + offset)` as far as there is one.
fn moved(base: &str, offset: i64) -> String {
    match offset {
        0 => base.to_owned(),
        below if below < 0 => format!("{base} - {}", below.unsigned_abs()),
        above => format!("{base} + {above}"),
    }
}

impl Block {
    fn argument(&mut self, argument: &Argument) -> String {
        match (&argument.fetch, argument.store) {
            (Fetch::Comm, _) => "comm".to_owned(),
            (Fetch::Text(text), _) => {
                let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
                format!("\"{quoted}\"")
            }
            (Fetch::Memory { base, offset, user }, Store::Text { user: far }) => {
                let place = self.address(base);
                self.string(&moved(&place, *offset), *user || far)
            }
            (value, Store::Text { user }) => {
                let place = self.value(value);
                self.string(&place, user)
            }
            (Fetch::Memory { base, offset, user }, store) => {
                let memory = memory(base, *user);
                let place = self.address(base);
                self.load(&place, *offset, memory, store)
            }
            (value, store) => {
                let value = self.value(value);
                kept(&value, store)
            }
        }
    }

    /// One element of an array: strings lie behind pointers that lie there.
    fn element(&mut self, argument: &Argument, index: u32) -> String {
        let Fetch::Memory { base, offset, user } = &argument.fetch else {
            // Of several strings at an address that is written down the kernel reads the first or, where it looks for a second, none.
            return match argument.elements {
                Some(1) => self.argument(argument),
                _ => self.string("0", false),
            };
        };
        let memory = memory(base, *user);
        let place = self.address(base);
        let at = |size: u32| offset.wrapping_add(i64::from(index) * i64::from(size));
        match argument.store {
            Store::Text { user } => {
                let pointer = self.load(&place, at(8), memory, WORD);
                let pointer = self.variable(&pointer);
                self.string(&pointer, user)
            }
            store => self.load(&place, at(bytes(store)), memory, store),
        }
    }

    fn string(&self, address: &str, user: bool) -> String {
        match user {
            true => format!("str(uptr({address}){})", self.cut),
            false => format!("str({address}{})", self.cut),
        }
    }

    /// A value of 64 bits that can stand anywhere in an expression.
    fn value(&mut self, fetch: &Fetch) -> String {
        let arch = arch::current();
        match fetch {
            Fetch::Register("ip") if !self.at_return => {
                // The kernel's handlers see what the breakpoint leaves; the language gives the instruction's own.
                format!("((uint64)reg(\"ip\") + {})", arch.breakpoint)
            }
            Fetch::Register(name @ ("ip" | "flags" | "cs" | "ss")) => format!("(uint64)reg(\"{name}\")"),
            Fetch::Register(name) => format!("reg(\"{name}\")"),
            Fetch::StackPointer => "reg(\"sp\")".to_owned(),
            Fetch::Stack(word) => {
                let load = format!("*(uint64 *)kptr({})", moved("reg(\"sp\")", *word as i64 * 8));
                match *word < SURE_WORDS {
                    true => load,
                    // Behind the end of the stack the kernel fetches 0.
                    false => {
                        let size = STACK_WORDS * 8;
                        let end = format!("(reg(\"sp\") + {}) / {size} == reg(\"sp\") / {size}", word * 8);
                        format!("({end} ? {load} : 0)")
                    }
                }
            }
            Fetch::ReturnValue => "(uint64)retval".to_owned(),
            Fetch::Argument(index) if self.at_return => format!("entry.arg{index}"),
            Fetch::Argument(index) => match (*index as usize).checked_sub(arch.arguments.len()) {
                None => format!("arg{index}"),
                // Behind the return address.
                Some(behind) => self.value(&Fetch::Stack(behind as u64 + 1)),
            },
            Fetch::Immediate(number) => number.to_string(),
            Fetch::Memory { base, offset, user } => {
                let memory = memory(base, *user);
                let place = self.address(base);
                self.load(&place, *offset, memory, WORD)
            }
            Fetch::Comm | Fetch::Text(_) => "0".to_owned(),
        }
    }

    /// A value as an address that may be used more than once.
    fn address(&mut self, base: &Fetch) -> String {
        let value = self.value(base);
        match base {
            Fetch::Memory { .. } | Fetch::Stack(_) | Fetch::Argument(_) => self.variable(&value),
            _ => value,
        }
    }

    fn variable(&mut self, value: &str) -> String {
        let simple = |c: char| c.is_ascii_alphanumeric() || matches!(c, '$' | '_' | '.');
        if value.chars().all(simple) {
            return value.to_owned();
        }
        if let Some(known) = self.variables.iter().position(|known| known == value) {
            return format!("$k{known}");
        }
        let name = format!("$k{}", self.variables.len());
        self.variables.push(value.to_owned());
        self.statements.push(format!("{name} = {value}"));
        name
    }

    fn load(&self, place: &str, offset: i64, memory: Memory, store: Store) -> String {
        let ty = match store {
            Store::Integer { bits, signed: true } => format!("int{bits}"),
            Store::Integer { bits, .. } | Store::Bits { container: bits, .. } => format!("uint{bits}"),
            Store::Symbol | Store::Text { .. } => "uint64".to_owned(),
        };
        let place = moved(place, offset);
        let of = |space: &str| format!("*({ty} *){space}({place})");
        let loaded = match memory {
            Memory::Kernel => of("kptr"),
            Memory::User => of("uptr"),
            Memory::Either => format!("(({place}) >> 63 == 0 ? {} : {})", of("uptr"), of("kptr")),
        };
        match store {
            Store::Integer { .. } => loaded,
            store => kept(&loaded, store),
        }
    }
}

const WORD: Store = Store::Integer {
    bits: 64,
    signed: false,
};

/// Bytes of an element.
fn bytes(store: Store) -> u32 {
    match store {
        Store::Integer { bits, .. } | Store::Bits { container: bits, .. } => bits / 8,
        Store::Symbol | Store::Text { .. } => 8,
    }
}

/// The memory that a fetch reads.
fn memory(base: &Fetch, user: bool) -> Memory {
    match base {
        _ if user => Memory::User,
        Fetch::StackPointer | Fetch::Register("sp") => Memory::Kernel,
        Fetch::Immediate(address) if *address >> 63 != 0 => Memory::Kernel,
        _ => Memory::Either,
    }
}

/// A value of 64 bits as it is kept.
fn kept(value: &str, store: Store) -> String {
    match store {
        Store::Integer {
            bits: 64,
            signed: false,
        } => value.to_owned(),
        Store::Integer { bits, signed } => {
            format!("({}int{bits})({value})", if signed { "" } else { "u" })
        }
        Store::Bits {
            container,
            shift,
            width,
            zeros,
        } => {
            let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
            let value = match container {
                64 => value.to_owned(),
                bits => format!("(uint{bits})({value})"),
            };
            match zeros {
                0 => format!("({value} >> {shift}) & {mask:#x}"),
                zeros => format!("(({value} >> {shift}) & {mask:#x}) << {zeros}"),
            }
        }
        Store::Symbol => format!("ksym({value})"),
        Store::Text { .. } => value.to_owned(),
    }
}
