//! Numbers and strings out of foreign bytes, one after the other, with what to say where they end too early.

/// Bytes that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, at: 0 }
    }

    /// Bytes taken so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Remaining bytes.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        self.at += bytes;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        Some(*self.take(1)?.first()?)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(*self.take(2)?.first_chunk()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// The bytes after a 64-bit length.
    pub(super) fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u64()?;
        self.take(usize::try_from(length).ok()?)
    }

    /// A text up to its NUL, which is taken, too.
    pub(super) fn text(&mut self) -> Option<String> {
        let bytes = self.bytes_to_nul()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The bytes up to a NUL, which is taken, too.
    pub(super) fn bytes_to_nul(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let bytes = self.take(end)?;
        self.take(1)?;
        Some(bytes)
    }
}

/// The text in bytes up to a NUL.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
