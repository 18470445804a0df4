//! Registers of the processor as a block of lines in columns, where a record holds them all; one register alone is a field like others.

use crate::layout::Field;
use crate::print::{escape::escape, pad_left, value};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use std::ops::Range;

/// The fields that `record(regs)` writes on x86-64, in its order.
const REGISTERS: [&str; 21] = [
    "ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    "ip", "flags", "cs", "ss", "orig_ax",
];
/// Registers beside each other.
const COLUMNS: usize = 4;

/// Places of the registers among a record's fields, where they are all there.
pub(super) fn places<'f>(fields: impl Iterator<Item = &'f Field>) -> Range<usize> {
    let names: Vec<&str> = fields.map(|field| field.name.as_str()).collect();
    let found = names
        .windows(REGISTERS.len())
        .position(|names| names == REGISTERS);
    found.map_or(0..0, |first| first..first + REGISTERS.len())
}

/// Appends the lines; nothing where there are no registers.
pub(super) fn block(record: &Record<'_>, places: Range<usize>, symbols: &Symbols, out: &mut Vec<u8>) {
    let start = places.start;
    for (place, (field, it)) in record.fields().enumerate().skip(start).take(places.len()) {
        let column = (place - start) % COLUMNS;
        if column == 0 {
            pad_left(16, out);
        }
        let name = field.name.as_bytes();
        pad_left(
            5_usize.saturating_sub(name.len()).max(1) - usize::from(column == 0),
            out,
        );
        escape(name, out);
        out.push(b' ');
        let from = out.len();
        match it {
            Value::Unsigned { value, size: 8, .. } => {
                out.extend_from_slice(format!("{value:016x}").as_bytes());
            }
            other => value(other, symbols, out),
        }
        if column == COLUMNS - 1 || place + 1 == places.end {
            out.push(b'\n');
        } else {
            pad_left((from + 16).saturating_sub(out.len()), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Base, FieldType, Layout};

    #[test]
    fn they_are_found_together_or_not_at_all() {
        let ty = FieldType::Integer {
            size: 8,
            signed: false,
            base: Base::Hexadecimal,
        };
        let layout = |names: &[&str]| Layout::new(names.iter().map(|n| ((*n).to_owned(), ty.clone())));
        let mut names = vec!["x"];
        names.extend(REGISTERS);
        assert_eq!(places(layout(&names).shown()), 1..22);
        names.remove(3);
        assert_eq!(places(layout(&names).shown()), 0..0);
    }
}
