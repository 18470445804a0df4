//! Pieces of text that every printer is made of: numbers, names of numbers, frames, symbols.

use super::escape::escape;
use crate::layout::{Base, Names, Space};
use crate::symbol::Symbols;
use crate::syscall::Meaning;
use crate::user_symbol::{Line, code_address};
use crate::value::{Frames, flags, name_of};

/// Stands for the frames that a copy of a stack was too short for.
pub(crate) const TRUNCATED: &str = "(truncated)";

pub(crate) fn pad_left(blanks: usize, out: &mut Vec<u8>) {
    out.resize(out.len() + blanks, b' ');
}

/// A number in at least `width` digits.
pub(crate) fn padded(value: u64, width: usize, fill: u8, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value).as_bytes();
    out.resize(out.len() + width.saturating_sub(digits.len()), fill);
    out.extend_from_slice(digits);
}

pub(crate) fn separate(index: usize, separator: &[u8], out: &mut Vec<u8>) {
    if index > 0 {
        out.extend_from_slice(separator);
    }
}

pub(crate) fn decimal(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

pub(crate) fn unsigned(value: u64, base: Base, out: &mut Vec<u8>) {
    match base {
        Base::Decimal => decimal(value, out),
        Base::Hexadecimal => hexadecimal(value, out),
        Base::Octal => {
            out.push(b'0');
            if value != 0 {
                out.extend_from_slice(format!("{value:o}").as_bytes());
            }
        }
        Base::Named(meaning) => named(meaning, value.cast_signed(), out),
        Base::Float => out.extend_from_slice(f64::from_bits(value).to_string().as_bytes()),
    }
}

pub(super) fn named(meaning: Meaning, value: i64, out: &mut Vec<u8>) {
    let mut text = String::new();
    meaning.write(value, &mut text);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn hexadecimal(value: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"0x");
    let digits = (64 - (value | 1).leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        out.push(DIGITS[(value >> (digit * 4)) as usize & 15]);
    }
}

/// A frame of a stack: a kernel's as [`symbol`] has it, a process's as [`user_frame`] does, or its address.
pub(crate) fn frame(stack: &Frames<'_>, index: usize, address: u64, symbols: &Symbols, out: &mut Vec<u8>) {
    match stack.space {
        Space::Kernel => symbol(address, symbols, out),
        Space::User if user_frame(stack, index, address, symbols, out) => {}
        Space::User => hexadecimal(address, out),
    }
}

/// A frame of a process: `function+0x10 (/its/binary)`, or `[unknown] (/its/binary+0x1234)` with the place in the file. False where it is not known what lay there.
pub(crate) fn user_frame(
    stack: &Frames<'_>,
    index: usize,
    address: u64,
    symbols: &Symbols,
    out: &mut Vec<u8>,
) -> bool {
    let called = code_address(address, index == 0);
    let Some(location) = symbols.user().locate(stack.pid, stack.time_ns, called) else {
        return false;
    };
    let Some(code) = location.code() else {
        out.extend_from_slice(b"[unknown] (");
        escape(location.binary.path.as_bytes(), out);
        out.push(b'+');
        hexadecimal(location.at.saturating_add(address - called), out);
        out.push(b')');
        return true;
    };
    // Innermost first, as stacks are.
    for inlined in code.inlined.iter().rev() {
        escape(inlined.function.as_bytes(), out);
        source_line(inlined.line.as_ref(), out);
        out.extend_from_slice(b" (inlined) <- ");
    }
    escape(code.function.as_bytes(), out);
    out.push(b'+');
    hexadecimal(code.offset.saturating_add(address - called), out);
    out.extend_from_slice(b" (");
    escape(location.binary.path.as_bytes(), out);
    out.push(b')');
    source_line(code.line.as_ref(), out);
    true
}

/// ` file.c:12`, if it is known.
pub(crate) fn source_line(line: Option<&Line>, out: &mut Vec<u8>) {
    if let Some(line) = line {
        out.push(b' ');
        escape(line.file.as_bytes(), out);
        out.push(b':');
        decimal(line.number, out);
    }
}

/// `symbol+0x10 [module]`, or the address where no symbol is known.
pub(crate) fn symbol(address: u64, symbols: &Symbols, out: &mut Vec<u8>) {
    let Some(it) = symbols.resolve(address) else {
        return hexadecimal(address, out);
    };
    escape(it.name.as_bytes(), out);
    out.push(b'+');
    hexadecimal(it.offset, out);
    in_module(it.module, out);
}

/// A pointer by the symbol that it points to: `symbol` where that begins there, else as [`symbol`] has it.
pub(super) fn pointer(address: u64, symbols: &Symbols, out: &mut Vec<u8>) {
    match symbols.resolve(address) {
        Some(it) if it.offset == 0 => {
            escape(it.name.as_bytes(), out);
            in_module(it.module, out);
        }
        _ => symbol(address, symbols, out),
    }
}

/// ` [module]`, if it is one's.
fn in_module(module: Option<&str>, out: &mut Vec<u8>) {
    if let Some(module) = module {
        out.extend_from_slice(b" [");
        escape(module.as_bytes(), out);
        out.push(b']');
    }
}

pub(crate) fn enumeration(value: i64, signed: bool, names: &Names, out: &mut Vec<u8>) {
    match name_of(value, names) {
        Some(name) => escape(name.as_bytes(), out),
        None if signed => decimal(value, out),
        None => decimal(value as u64, out),
    }
}

pub(crate) fn flag_names(bits: u64, names: &Names, out: &mut Vec<u8>) {
    let start = out.len();
    let rest = flags(bits, names, |name| {
        if out.len() > start {
            out.push(b'|');
        }
        escape(name.as_bytes(), out);
    });
    if rest != 0 || out.len() == start {
        if out.len() > start {
            out.push(b'|');
        }
        hexadecimal(rest, out);
    }
}
