//! Unwind tables of programs (`.eh_frame`) as rows that programs in the kernel can search: from where on in a file which rule finds a frame's caller.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, Operation, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use kestrel_compiler::unwind::Rule;
use object::elf::PF_X;
use object::read::{Object, ObjectSection, ObjectSegment, ReadRef, SegmentFlags};
use std::ops::Range;

/// Most bytes of a table that is read.
const LONGEST: u64 = 1 << 28;

type Slice<'d> = EndianSlice<'d, LittleEndian>;
type Section<'d> = EhFrame<Slice<'d>>;

/// Rows of a file: places in it, in order, each with the rule that is valid from there on. `None` where the file has no tables, or is of another processor.
pub fn unwind_rows<'d, R: ReadRef<'d>>(bytes: R) -> Option<Vec<(u32, Rule)>> {
    let file = object::File::parse(bytes).ok()?;
    if file.architecture() != object::Architecture::X86_64 {
        return None;
    }
    let table = file.section_by_name(".eh_frame")?;
    let data = (table.size() <= LONGEST).then(|| table.data().ok())??;
    let address = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(table.address())
        .set_text(address(".text"))
        .set_got(address(".got"));
    let code = file.segments().filter(
        |segment| matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags & PF_X == PF_X),
    );
    let code: Vec<(Range<u64>, u64)> = code
        .filter_map(|segment| {
            let (at, size) = segment.file_range();
            let start = segment.address();
            Some((start..start.checked_add(size)?, at))
        })
        .collect();
    let place = |address: u64| {
        let (range, at) = code.iter().find(|(range, _)| range.contains(&address))?;
        u32::try_from(address - range.start + at).ok()
    };
    let mut functions = functions(&EhFrame::new(data, LittleEndian), &bases);
    functions.sort_by_key(|function| function.range.start);
    let mut rows: Vec<(u32, Rule)> = Vec::new();
    let mut end = None;
    for function in functions {
        if let Some(end) = end.filter(|end| *end < function.range.start).and_then(place) {
            rows.push((end, Rule::Gap));
        }
        end = Some(function.range.end);
        let placed = function.rows.iter();
        rows.extend(placed.filter_map(|(at, rule)| Some((place(*at)?, *rule))));
    }
    rows.extend(end.and_then(place).map(|end| (end, Rule::Gap)));
    // Segments may lie in a file in another order than in memory.
    rows.sort_by_key(|(at, _)| *at);
    rows.dedup_by(|next, row| next.1 == row.1);
    Some(rows)
}

/// A function's rows, by address.
struct Function {
    range: Range<u64>,
    rows: Vec<(u64, Rule)>,
}

fn functions(section: &Section<'_>, bases: &BaseAddresses) -> Vec<Function> {
    let mut found = Vec::new();
    let mut context = UnwindContext::new();
    let mut entries = section.entries(bases);
    // What is damaged ends the table.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(described) = partial.parse(Section::cie_from_offset) else {
            continue;
        };
        let start = described.initial_address();
        let Some(end) = start
            .checked_add(described.len())
            .filter(|end| *end > start && start > 0)
        else {
            continue;
        };
        let mut rows = Vec::new();
        match described.rows(section, bases, &mut context) {
            Ok(mut table) => loop {
                match table.next_row() {
                    Ok(Some(row)) => rows.push((row.start_address(), rule(section, row))),
                    Ok(None) => break,
                    Err(_) => {
                        rows = vec![(start, Rule::FramePointer)];
                        break;
                    }
                }
            },
            Err(_) => rows.push((start, Rule::FramePointer)),
        }
        found.push(Function {
            range: start..end,
            rows,
        });
    }
    found
}

/// The rule of a row; [`Rule::FramePointer`] where no other says what it does.
fn rule(section: &Section<'_>, row: &UnwindTableRow<usize>) -> Rule {
    let address = row.register(X86_64::RA);
    let saved = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Ok(None),
        Some(RegisterRule::Offset(offset)) => i32::try_from(offset).map(Some).map_err(|_| None),
        Some(RegisterRule::Expression(expression)) => Err(Some(expression)),
        _ => Err(None),
    };
    let known = match (row.cfa(), address, saved) {
        (_, None | Some(RegisterRule::Undefined), _) => Some(Rule::End),
        (CfaRule::RegisterAndOffset { register, offset }, Some(RegisterRule::Offset(-8)), Ok(rbp)) => {
            let cfa = i32::try_from(*offset).ok();
            cfa.and_then(|cfa| match *register {
                X86_64::RSP => Some(Rule::Stack { cfa, rbp }),
                X86_64::RBP => Some(Rule::Frame { cfa, rbp }),
                _ => None,
            })
        }
        (CfaRule::Expression(cfa), Some(RegisterRule::Offset(-8)), Ok(None)) => plt(section, cfa),
        (CfaRule::Expression(cfa), Some(RegisterRule::Expression(rip)), Err(Some(rbp))) => {
            signal(section, cfa, &rip, &rbp)
        }
        _ => None,
    };
    known
        .filter(|rule| rule.encoded().is_some())
        .unwrap_or(Rule::FramePointer)
}

fn operations<'d>(
    section: &Section<'d>,
    expression: &UnwindExpression<usize>,
) -> Option<Vec<Operation<Slice<'d>>>> {
    let mut operations = expression.get(section).ok()?.operations(gimli::Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 4,
    });
    let mut all = Vec::new();
    while let Some(operation) = operations.next().ok()? {
        all.push(operation);
    }
    Some(all)
}

/// The offset from a register that an expression adds.
fn offset_from(operation: &Operation<Slice<'_>>, from: Register) -> Option<i32> {
    match operation {
        Operation::RegisterOffset { register, offset, .. } if *register == from => {
            i32::try_from(*offset).ok()
        }
        _ => None,
    }
}

/// `rsp + 8 + ((rip & 15) >= N) * 8`, as linkers write for the stubs of a `.plt`.
fn plt(section: &Section<'_>, cfa: &UnwindExpression<usize>) -> Option<Rule> {
    let operations = operations(section, cfa)?;
    let [stack, code, mask, and, limit, reached, shift, shl, plus] = operations.as_slice() else {
        return None;
    };
    let number = |operation: &Operation<Slice<'_>>| match operation {
        Operation::UnsignedConstant { value } => Some(*value),
        _ => None,
    };
    let as_linkers_do = offset_from(stack, X86_64::RSP) == Some(8)
        && offset_from(code, X86_64::RA) == Some(0)
        && (number(mask), number(shift)) == (Some(15), Some(3))
        && matches!(
            (and, reached, shl, plus),
            (Operation::And, Operation::Ge, Operation::Shl, Operation::Plus)
        );
    let pushed_at = u8::try_from(number(limit)?).ok()?;
    as_linkers_do.then_some(Rule::Plt { pushed_at })
}

/// Registers that the kernel saved for a signal's handler: each is found at a distance from the stack pointer.
fn signal(
    section: &Section<'_>,
    cfa: &UnwindExpression<usize>,
    rip: &UnwindExpression<usize>,
    rbp: &UnwindExpression<usize>,
) -> Option<Rule> {
    let (cfa, rip, rbp) = (
        operations(section, cfa)?,
        operations(section, rip)?,
        operations(section, rbp)?,
    );
    let ([rsp, Operation::Deref { .. }], [rip], [rbp]) = (cfa.as_slice(), rip.as_slice(), rbp.as_slice())
    else {
        return None;
    };
    let [rsp, rip, rbp] = [rsp, rip, rbp].map(|operation| offset_from(operation, X86_64::RSP));
    let (rsp, rbp) = (rsp?, rbp?);
    (rip? == rsp + 8).then_some(Rule::Signal { rsp, rbp })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    extern "C" fn called(number: u64) -> u64 {
        std::hint::black_box(number) + 1
    }

    #[test]
    fn the_own_functions_begin_with_the_return_address_on_the_stack() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let rows = unwind_rows(bytes.as_slice()).unwrap();
        assert!(
            rows.is_sorted_by(|row, next| row.0 < next.0 && row.1 != next.1),
            "in order, and none for nothing"
        );
        assert_eq!(called(1), 2);
        let address = called as *const () as u64;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let place = maps.lines().find_map(|line| {
            let mut words = line.split([' ', '-']);
            let mut hex = || u64::from_str_radix(words.next()?, 16).ok();
            let (start, end) = (hex()?, hex()?);
            let offset = u64::from_str_radix(line.split(' ').nth(2)?, 16).ok()?;
            (start..end).contains(&address).then(|| address - start + offset)
        });
        let place = u32::try_from(place.unwrap()).unwrap();
        let row = rows.iter().rfind(|(at, _)| *at <= place);
        assert_eq!(row.map(|row| row.1), Some(Rule::Stack { cfa: 8, rbp: None }));
        assert_eq!(unwind_rows(b"no program".as_slice()), None);
    }
}
