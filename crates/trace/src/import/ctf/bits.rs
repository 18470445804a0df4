//! Bits of a packet, from a window that may end before the packet does.

/// Why reading stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The window ends: with more of the packet it goes on.
    Window,
    /// The packet's content ends.
    End,
    /// The bytes read cannot be right.
    Wrong(&'static str),
}

/// Bits that are read from a place; all places count from the packet's begin.
#[derive(Clone, Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Where the window begins, in bytes.
    from: u64,
    pub(super) at: u64,
    /// Where the packet's content ends.
    pub(super) end: u64,
    little: bool,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8], from: u64, at: u64, end: u64, little: bool) -> Self {
        Self {
            bytes,
            from,
            at,
            end,
            little,
        }
    }

    /// Goes on to a multiple of so many bits.
    pub(super) fn align(&mut self, bits: u64) {
        self.at = self.at.next_multiple_of(bits.max(1));
    }

    /// Number of bits that are left.
    pub(super) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// The bytes that hold these bits.
    fn holding(&self, bits: u64) -> Result<&'a [u8], Stop> {
        let end = self
            .at
            .checked_add(bits)
            .filter(|end| *end <= self.end)
            .ok_or(Stop::End)?;
        let (first, last) = (self.at / 8, end.div_ceil(8));
        let first = first
            .checked_sub(self.from)
            .ok_or(Stop::Wrong("it begins before its window"))?;
        let range = first as usize..(last - self.from) as usize;
        self.bytes.get(range).ok_or(Stop::Window)
    }

    /// An integer of at most 64 bits; longer ones are passed over and are none.
    pub(super) fn integer(
        &mut self,
        bits: u64,
        signed: bool,
        little: Option<bool>,
    ) -> Result<Option<i128>, Stop> {
        let bytes = self.holding(bits)?;
        let shift = self.at % 8;
        self.at += bits;
        if bits > 64 {
            return Ok(None);
        }
        let mut wide = [0; 16];
        let little = little.unwrap_or(self.little);
        let raw = if little {
            wide[..bytes.len()].copy_from_slice(bytes);
            u128::from_le_bytes(wide) >> shift
        } else {
            wide[16 - bytes.len()..].copy_from_slice(bytes);
            u128::from_be_bytes(wide) >> (bytes.len() as u64 * 8 - shift - bits)
        };
        let value = (raw & ((1 << bits) - 1)) as i128;
        Ok(Some(match signed && value >> (bits - 1) & 1 == 1 {
            true => value - (1 << bits),
            false => value,
        }))
    }

    /// A text up to its NUL, which is passed over.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Stop> {
        self.align(8);
        let first = (self.at / 8)
            .checked_sub(self.from)
            .ok_or(Stop::Wrong("it begins before its window"))?;
        let rest = self.bytes.get(first as usize..).ok_or(Stop::Window)?;
        let most = (self.left() / 8) as usize;
        let there = &rest[..rest.len().min(most)];
        match there.iter().position(|byte| *byte == 0) {
            Some(length) => {
                self.at += length as u64 * 8 + 8;
                Ok(&there[..length])
            }
            None if there.len() == most => Err(Stop::End),
            None => Err(Stop::Window),
        }
    }
}
