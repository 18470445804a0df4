//! Parser of programs as text, in the form that the module `write` writes.

use super::{Piece, pieces};
use crate::Error;
use crate::asm::{Assembler, Label};
use crate::code::{Code, MapRef, RelocationTarget, SourceRange};
use crate::far::Fixup;
use crate::helper::Helper;
use crate::insn::Insn;
use crate::isa::{Imm64, Meaning, Row, TABLE};
use std::collections::HashMap;

/// Parses a program in the form that [`super::listing`] writes. A map is given by its name in `maps`, or by its index there.
///
/// A line may begin with its number (`12: exit`), as in the verifier's log. Errors name the line, counted from 1.
pub fn parse(text: &str, maps: &[&str]) -> Result<Code, Error> {
    let mut parser = Parser {
        asm: Assembler::new(),
        labels: HashMap::new(),
        maps,
    };
    for (number, line) in text.lines().enumerate() {
        parser.line(line).map_err(|what| Error::Text {
            line: number + 1,
            what,
        })?;
    }
    parser.asm.finish()
}

struct Parser<'a> {
    asm: Assembler,
    labels: HashMap<String, Label>,
    maps: &'a [&'a str],
}

/// The operands found in one line, as values for the fields of its instruction; a field that the line does not mention is zero.
#[derive(Default)]
struct Operands<'a> {
    dst: Option<u8>,
    src: Option<u8>,
    off: i16,
    imm: i32,
    /// Immediate of the second slot, where the instruction has two.
    high: i32,
    /// Target of a jump or local call by name, and the field that takes the distance to it.
    label: Option<(&'a str, Fixup)>,
    target: Option<RelocationTarget>,
}

impl Parser<'_> {
    /// Parses one line: a label, a source range, a raw instruction, or an instruction of the table.
    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.split(';').next().unwrap_or("");
        let mut words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        // A number before a colon is the line's own, as in the verifier's log; any other word there is a label.
        if let Some((first, rest)) = words.split_once(':')
            && !first.contains([' ', '['])
        {
            if first.parse::<usize>().is_err() {
                let label = self.label(first);
                self.asm.bind(label);
            }
            words = rest.trim_start().to_owned();
        }
        if words.is_empty() {
            return Ok(());
        }
        if let Some(range) = words.strip_prefix('@') {
            let (start, end) = range
                .split_once("..")
                .ok_or("a source range is written @START..END")?;
            let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
            self.asm.at(SourceRange {
                start: number(start)?,
                end: number(end)?,
            });
            return Ok(());
        }
        if let Some(raw) = words.strip_prefix(".insn ") {
            self.asm
                .raw(raw_insn(raw).ok_or("a raw instruction is written .insn CODE DST SRC OFF IMM")?);
            return Ok(());
        }
        let found = TABLE
            .iter()
            .find_map(|row| Some((row, match_row(row, &words, self.maps)?)));
        let (row, operands) = found.ok_or_else(|| format!("{words:?} is not an instruction"))?;
        self.emit(row, operands);
        Ok(())
    }

    /// Appends an instruction. Labels get their distances in `Assembler::finish`, maps and kernel functions theirs when the program is loaded.
    fn emit(&mut self, row: &Row, operands: Operands<'_>) {
        if let Some((name, fixup)) = operands.label {
            let label = self.label(name);
            self.asm.refer(label, fixup);
        }
        if let Some(target) = operands.target {
            self.asm.relocate(target);
        }
        let (dst, src) = (operands.dst.unwrap_or(0), operands.src.unwrap_or(0));
        self.asm.raw(row.encode(dst, src, operands.off, operands.imm));
        if row.slots() == 2 {
            self.asm.raw(Insn {
                imm: operands.high,
                ..Insn::default()
            });
        }
    }

    /// The label of that name, which may be used before it is bound.
    fn label(&mut self, name: &str) -> Label {
        if let Some(label) = self.labels.get(name) {
            return *label;
        }
        let label = self.asm.label();
        self.labels.insert(name.to_owned(), label);
        label
    }
}

/// Parses the five numbers of `.insn CODE DST SRC OFF IMM`.
fn raw_insn(text: &str) -> Option<Insn> {
    let numbers: Vec<i64> = text.split(' ').map(number).collect::<Option<_>>()?;
    let [code, dst, src, off, imm] = numbers[..] else {
        return None;
    };
    Some(Insn {
        code: code.try_into().ok()?,
        dst: u8::try_from(dst).ok().filter(|r| *r < 16)?,
        src: u8::try_from(src).ok().filter(|r| *r < 16)?,
        off: off.try_into().ok()?,
        imm: imm.try_into().ok()?,
    })
}

/// Parses a decimal or hexadecimal number of up to 64 bits, with an optional sign.
fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    if negative {
        0_i64.checked_sub_unsigned(value)
    } else {
        Some(value as i64)
    }
}

/// Parses a 32-bit immediate, signed or unsigned: `-1` and `0xffffffff` give the same bits.
fn immediate(text: &str) -> Option<i32> {
    let value = number(text)?;
    i32::try_from(value)
        .ok()
        .or_else(|| u32::try_from(value).ok().map(|v| v as i32))
}

/// Matches a line with the text template of a row; gives the operands, or `None` where the line is another instruction.
fn match_row<'a>(row: &Row, line: &'a str, maps: &[&str]) -> Option<Operands<'a>> {
    let mut operands = Operands::default();
    let mut rest = line;
    let mut list = pieces(row.text).peekable();
    while let Some(piece) = list.next() {
        match piece {
            Piece::Literal(literal) => rest = rest.strip_prefix(literal)?,
            Piece::Operand(letter) => {
                let end = match list.peek() {
                    Some(Piece::Literal(literal)) => rest.find(literal)?,
                    _ => rest.len(),
                };
                let (word, after) = rest.split_at(end);
                operand(letter, word, row, maps, &mut operands)?;
                rest = after;
            }
        }
    }
    rest.is_empty().then_some(operands)
}

/// Parses one operand into its field. The letters are explained at [`Row`].
fn operand<'a>(letter: char, word: &'a str, row: &Row, maps: &[&str], to: &mut Operands<'a>) -> Option<()> {
    // A register that is written twice has one field of the instruction: both have to name the same.
    match letter {
        'd' => to.dst = same(to.dst, register(word, 'r')?)?,
        'D' => to.dst = same(to.dst, register(word, 'w')?)?,
        's' => to.src = same(to.src, register(word, 'r')?)?,
        'S' => to.src = same(to.src, register(word, 'w')?)?,
        'o' => {
            to.off = number(word)
                .filter(|_| word.starts_with(['+', '-']))?
                .try_into()
                .ok()?
        }
        'j' => match distance(word) {
            Some(distance) => to.off = distance.try_into().ok()?,
            None => to.label = Some((name(word)?, Fixup::Offset)),
        },
        'J' => match distance(word) {
            Some(distance) => to.imm = distance.try_into().ok()?,
            None => to.label = Some((name(word)?, Fixup::Immediate)),
        },
        'l' => {
            let value = number(word)?;
            (to.imm, to.high) = (value as i32, (value >> 32) as i32);
        }
        'v' => to.high = number(word).and_then(|v| u32::try_from(v).ok())? as i32,
        'm' => match word.strip_prefix("fd ") {
            Some(fd) => to.imm = immediate(fd)?,
            None => to.target = Some(map_target(row, word, maps)?),
        },
        'h' => {
            to.imm = match word.strip_prefix('#') {
                Some(number) => number.parse::<u32>().ok()? as i32,
                None => Helper::by_name(word)?.0 as i32,
            }
        }
        'k' => match word.strip_prefix('#') {
            Some(number) => to.imm = immediate(number)?,
            None => to.target = Some(RelocationTarget::Kfunc(name(word)?.to_owned())),
        },
        _ => to.imm = immediate(word)?,
    }
    Some(())
}

/// Merges the mentions of a register that a template has twice, as in `r1 = -r1`: both must be the same.
fn same(before: Option<u8>, now: u8) -> Option<Option<u8>> {
    (before.is_none() || before == Some(now)).then_some(Some(now))
}

/// Parses a register's name, `r0` to `r10` or `w0` to `w10`; `r01` is none.
fn register(word: &str, prefix: char) -> Option<u8> {
    let digits = word.strip_prefix(prefix)?;
    let number = digits.parse::<u8>().ok().filter(|n| *n <= 10)?;
    (digits == number.to_string()).then_some(number)
}

/// Parses a jump distance, `pc+2`.
fn distance(word: &str) -> Option<i64> {
    number(word.strip_prefix("pc")?)
}

/// A word that can name a label or kernel function.
fn name(word: &str) -> Option<&str> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    (!word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit()) && word.chars().all(good))
        .then_some(word)
}

/// The relocation for a map's name or index; of the map itself, or of an address in its first value, as the row says.
fn map_target(row: &Row, word: &str, maps: &[&str]) -> Option<RelocationTarget> {
    let number = match maps.iter().position(|name| *name == word) {
        Some(at) => at as u32,
        None => word.parse().ok()?,
    };
    Some(match row.meaning {
        Meaning::Load64(Imm64::MapValue) => RelocationTarget::MapValue(MapRef(number)),
        _ => RelocationTarget::Map(MapRef(number)),
    })
}
