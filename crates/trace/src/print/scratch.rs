//! A line under construction, in room that is there before it is asked for: short strings and numbers are copied in blocks of a fixed size, which are a move or
//! two where appending to a `Vec` is two calls. What a value looks like is not decided here.

/// Bytes of room made behind what was appended.
const ROOM: usize = 256;
/// Bytes of a block.
const BLOCK: usize = 32;

/// Bytes, and as much room behind them as a block takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Written bytes, then room.
    bytes: Vec<u8>,
    end: usize,
}

/// A text that is written often.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    length: usize,
    /// The text and zeros, where it is no longer than that.
    block: [u8; BLOCK],
    /// The text, where it is longer.
    long: Vec<u8>,
}

impl Piece {
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut piece = Self::default();
        piece.set(text);
        piece
    }

    /// Text that was written so far.
    pub(crate) fn text(&self) -> &[u8] {
        self.block.get(..self.length).unwrap_or(&self.long)
    }

    /// Becomes another text.
    pub(crate) fn set(&mut self, text: &[u8]) {
        self.length = text.len();
        self.block = [0; BLOCK];
        self.long.clear();
        match self.block.get_mut(..text.len()) {
            Some(room) => room.copy_from_slice(text),
            None => self.long.extend_from_slice(text),
        }
    }
}

impl Default for Piece {
    fn default() -> Self {
        Self {
            length: 0,
            block: [0; BLOCK],
            long: Vec::new(),
        }
    }
}

/// The digits of all numbers below 100, the first in the low byte.
const PAIRS: [u16; 100] = {
    let mut pairs = [0; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = u16::from_le_bytes([b'0' + number / 10, b'0' + number % 10]);
        number += 1;
    }
    pairs
};

#[inline]
fn pair(number: u64) -> u16 {
    PAIRS[number as usize % 100]
}

/// The digits of a number below 10,000, the first in the low byte.
#[inline]
fn four(number: u64) -> u32 {
    u32::from(pair(number / 100)) | u32::from(pair(number % 100)) << 16
}

impl Scratch {
    /// Empties the scratch for another text.
    pub(crate) fn clear(&mut self) {
        self.end = 0;
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or_default()
    }

    /// Writes a block, of which so many bytes are kept.
    #[inline]
    fn put<const N: usize>(&mut self, block: [u8; N], kept: usize) {
        match self
            .bytes
            .get_mut(self.end..)
            .and_then(|room| room.first_chunk_mut())
        {
            Some(room) => *room = block,
            None => self.put_beyond(&block),
        }
        self.end += kept;
    }

    #[cold]
    fn put_beyond(&mut self, block: &[u8]) {
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(block);
        self.bytes.resize(self.bytes.len() * 2 + ROOM, 0);
    }

    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.put([byte], 1);
    }

    #[inline]
    pub(crate) fn two(&mut self, bytes: [u8; 2]) {
        self.put(bytes, 2);
    }

    #[inline]
    pub(crate) fn piece(&mut self, piece: &Piece) {
        if piece.length > BLOCK {
            return self.text(&piece.long);
        }
        self.put(piece.block, piece.length);
    }

    /// Writes a text of any length.
    pub(crate) fn text(&mut self, text: &[u8]) {
        match self.bytes.get_mut(self.end..self.end + text.len()) {
            Some(room) => {
                room.copy_from_slice(text);
                self.end += text.len();
            }
            None => self.append(|out| out.extend_from_slice(text)),
        }
    }

    /// Lets something be appended that knows vectors only.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.truncate(self.end);
        write(&mut self.bytes);
        self.end = self.bytes.len();
        self.bytes.resize(self.end + ROOM, 0);
    }

    /// Writes the first bytes of a text of 16, as many as [`plain`] says.
    #[inline]
    pub(crate) fn short(&mut self, text: [u8; 16], length: usize) {
        self.put(text, length);
    }

    #[inline]
    pub(crate) fn decimal(&mut self, value: u64) {
        match value {
            0..10 => self.byte(b'0' + value as u8),
            10..100 => self.put(pair(value).to_le_bytes(), 2),
            100..10_000 => self.up_to_four(value),
            10_000..100_000_000 => {
                self.up_to_four(value / 10_000);
                self.digits4(value % 10_000);
            }
            _ => {
                self.decimal(value / 100_000_000);
                self.digits4(value / 10_000 % 10_000);
                self.digits4(value % 10_000);
            }
        }
    }

    /// A number below 10,000 in as many digits as it has.
    #[inline]
    fn up_to_four(&mut self, value: u64) {
        let zeros = match value {
            0..10 => 3,
            10..100 => 2,
            100..1000 => 1,
            _ => 0,
        };
        self.put((four(value) >> (zeros * 8)).to_le_bytes(), 4 - zeros);
    }

    #[inline]
    fn digits4(&mut self, value: u64) {
        self.put(four(value).to_le_bytes(), 4);
    }

    #[inline]
    pub(crate) fn signed(&mut self, value: i64) {
        if value < 0 {
            self.byte(b'-');
        }
        self.decimal(value.unsigned_abs());
    }

    /// A number below a million in six digits.
    #[inline]
    pub(crate) fn digits6(&mut self, value: u64) {
        let digits = u64::from(pair(value / 10_000)) | u64::from(four(value % 10_000)) << 16;
        self.put(digits.to_le_bytes(), 6);
    }

    /// A number below a thousand in three digits.
    #[inline]
    pub(crate) fn digits3(&mut self, value: u64) {
        self.put((four(value) >> 8).to_le_bytes(), 3);
    }

    /// `0x2a`.
    #[inline]
    pub(crate) fn hexadecimal(&mut self, value: u64) {
        self.put(*b"0x", 2);
        let (high, low) = ((value >> 32) as u32, value as u32);
        if high == 0 {
            return self.nibbles(low);
        }
        self.nibbles(high);
        self.put(nibbles(low).to_be_bytes(), 8);
    }

    /// The hexadecimal digits that a number has.
    #[inline]
    fn nibbles(&mut self, value: u32) {
        let digits = (32 - (value | 1).leading_zeros()).div_ceil(4);
        // The first digit is the highest byte.
        self.put(
            (nibbles(value) << (64 - digits * 8)).to_be_bytes(),
            digits as usize,
        );
    }
}

const ONES: u128 = u128::from_le_bytes([1; 16]);
const HIGH: u128 = ONES << 7;

/// The highest bits of the bytes that are 0; exact up to the first of these.
#[inline]
fn zeros(bytes: u128) -> u128 {
    bytes.wrapping_sub(ONES) & !bytes & HIGH
}

/// The length of a text of 16 bytes up to its first NUL, if it is not empty and shown as it is.
#[inline]
pub(crate) fn plain(text: [u8; 16]) -> Option<usize> {
    let bytes = u128::from_le_bytes(text);
    let length = zeros(bytes).trailing_zeros() as usize / 8;
    let within = match length {
        0 => return None,
        16 => u128::MAX,
        length => (1 << (length * 8)) - 1,
    };
    // Bytes that are not ASCII, those below a space, and DEL.
    let low = !((bytes | HIGH).wrapping_sub(ONES << 5));
    let del = (bytes & !HIGH).wrapping_add(ONES);
    ((bytes | low | del) & HIGH & within == 0).then_some(length)
}

/// Whether a text of 16 bytes has a byte.
#[inline]
pub(crate) fn has(text: [u8; 16], byte: u8) -> bool {
    zeros(u128::from_le_bytes(text) ^ (ONES * u128::from(byte))) != 0
}

/// The hexadecimal digits of a number, the first in the highest byte.
#[inline]
fn nibbles(value: u32) -> u64 {
    let mut spread = u64::from(value);
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (spread + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    spread + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::escape::escape;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Scratch)) -> String {
        let mut line = Scratch::default();
        line.byte(b'<');
        write(&mut line);
        line.byte(b'>');
        String::from_utf8_lossy(line.bytes()).into_owned()
    }

    proptest! {
        #[test]
        fn numbers_look_as_everywhere(value: u64, shift in 0..64u32, small in 0..1_000_000u64) {
            for value in [value >> shift, small, 0, u64::MAX] {
                let signed = value.cast_signed();
                prop_assert_eq!(written(|line| line.decimal(value)), format!("<{value}>"));
                prop_assert_eq!(written(|line| line.signed(signed)), format!("<{signed}>"));
                prop_assert_eq!(written(|line| line.signed(signed.wrapping_neg())), format!("<{}>", signed.wrapping_neg()));
                prop_assert_eq!(written(|line| line.hexadecimal(value)), format!("<{value:#x}>"));
            }
            prop_assert_eq!(written(|line| line.digits6(small)), format!("<{small:06}>"));
            prop_assert_eq!(written(|line| line.digits3(small % 1000)), format!("<{:03}>", small % 1000));
        }

        #[test]
        fn strings_of_sixteen_bytes_are_those_that_need_no_escape(mut text: [u8; 16], end in 0..20usize, ascii: bool) {
            if ascii {
                text.iter_mut().for_each(|byte| *byte = 0x20 + *byte % 0x5f);
            }
            if let Some(byte) = text.get_mut(end) {
                *byte = 0;
            }
            let until = text.iter().position(|byte| *byte == 0).unwrap_or(16);
            let mut escaped = Vec::new();
            escape(&text[..until], &mut escaped);
            let shown = until > 0 && text[..until].iter().all(|byte| (0x20..0x7f).contains(byte));
            let mut line = Scratch::default();
            prop_assert_eq!(plain(text), shown.then_some(until));
            line.short(text, plain(text).unwrap_or(0));
            prop_assert_eq!(line.bytes(), if shown { &escaped[..] } else { &[] });
            for byte in [b'"', b',', text[3]] {
                prop_assert_eq!(has(text, byte), text.contains(&byte));
            }
        }

        #[test]
        fn pieces_of_any_length_follow_each_other(strings in prop::collection::vec("[a-z]{0,80}", 0..20)) {
            let mut line = Scratch::default();
            for text in &strings {
                line.piece(&Piece::new(text.as_bytes()));
                line.append(|out| out.push(b'.'));
            }
            let all: String = strings.iter().map(|text| format!("{text}.")).collect();
            prop_assert_eq!(line.bytes(), all.as_bytes());
        }
    }
}
