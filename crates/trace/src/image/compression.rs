//! Compression methods of pages in a kdump-compressed file, and their decompression; one row per method.

use super::lzo;
use flate2::{Decompress, FlushDecompress, Status};

/// A way of packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Plain,
    Zlib,
    Lzo,
    Snappy,
    Zstd,
}

/// Bits of a descriptor's flags (makedumpfile's diskdump_mod.h).
const METHODS: &[(u32, Method)] = &[
    (0x01, Method::Zlib),
    (0x02, Method::Lzo),
    (0x04, Method::Snappy),
    (0x20, Method::Zstd),
];
/// The page was not dumped, since the disk was full; one of the kernel's map of pages that was left out.
const LEFT_OUT: u32 = 0x08 | 0x10;

impl Method {
    pub(super) fn of(flags: u32) -> Result<Self, &'static str> {
        if flags & LEFT_OUT != 0 {
            return Err("pages were left out when the image was written");
        }
        let known = METHODS.iter().find(|(bit, _)| flags & bit != 0);
        match known {
            Some((_, method)) => Ok(*method),
            None if flags == 0 => Ok(Self::Plain),
            None => Err("pages are compressed in a way that is not known here"),
        }
    }
}

/// Room for a page, packed and unpacked.
pub(super) struct Unpacker {
    packed: Vec<u8>,
    page: Vec<u8>,
    zlib: Decompress,
    zstd: ruzstd::decoding::FrameDecoder,
    snappy: snap::raw::Decoder,
}

impl Unpacker {
    /// For pages of `block` bytes.
    pub(super) fn new(block: usize) -> Self {
        Self {
            packed: Vec::new(),
            page: vec![0; block],
            zlib: Decompress::new(true),
            zstd: ruzstd::decoding::FrameDecoder::new(),
            snappy: snap::raw::Decoder::new(),
        }
    }

    /// Room for the packed bytes; `None` for more than a page can take.
    pub(super) fn packed(&mut self, size: usize) -> Option<&mut [u8]> {
        // A page that packing makes larger is kept as it is; twice a page is more than any of them needs.
        if size > 2 * self.page.len() {
            return None;
        }
        self.packed.resize(size, 0);
        Some(&mut self.packed)
    }

    /// Unpacks what was put into [`Unpacker::packed`].
    pub(super) fn unpack(&mut self, method: Method) -> Result<&[u8], &'static str> {
        let whole = match method {
            Method::Plain => {
                let fits = self.packed.len() == self.page.len();
                if fits {
                    self.page.copy_from_slice(&self.packed);
                }
                fits
            }
            Method::Zlib => self.zlib(),
            Method::Lzo => lzo::unpack(&self.packed, &mut self.page),
            Method::Snappy => self.snappy.decompress(&self.packed, &mut self.page) == Ok(self.page.len()),
            Method::Zstd => {
                let size = self.zstd.decode_all(&self.packed, &mut self.page);
                size.is_ok_and(|size| size == self.page.len())
            }
        };
        if whole {
            Ok(&self.page)
        } else {
            Err("a compressed page is damaged")
        }
    }

    fn zlib(&mut self) -> bool {
        self.zlib.reset(true);
        let done = self
            .zlib
            .decompress(&self.packed, &mut self.page, FlushDecompress::Finish);
        matches!(done, Ok(Status::StreamEnd)) && self.zlib.total_out() == self.page.len() as u64
    }
}
