//! kdump-compressed files, as makedumpfile, the kernel's diskdump and QEMU write them: a bitmap of pages, then descriptors, then the pages.
//!
//! ```text
//! block 0                       header: "KDUMP   ", version, names, block size, sizes of what follows
//! block 1 …                     sub header: which part of a dump in several files this is
//! … bitmap_blocks               two bitmaps of page numbers: those that the machine had, those that were dumped
//! …                             a descriptor for each page dumped: offset u64, size u32, flags u32, page flags u64
//! …                             the pages, compressed one by one
//! ```
//!
//! (makedumpfile's IMPLEMENTATION and diskdump_mod.h, QEMU's include/sysemu/dump.h.)

use super::bytes::{Fields, ReadAt, read_full};
use super::compression::{Method, Unpacker};
use super::found::{Each, PagePlace, Progress, Scanned, marked};
use crate::ctf::packet::Page;
use crate::error::Unreadable;
use crate::packet::PAGE;
use std::io;

/// The first bytes of such a file.
pub(super) const MAGIC: &[u8; 8] = b"KDUMP   ";

/// Bytes of a descriptor.
const DESCRIPTOR: usize = 24;
/// Descriptors read at once.
const BATCH: u64 = 4096;
/// The largest page of any kernel.
const LARGEST: u32 = 64 << 10;

const fn broken(what: &'static str) -> Unreadable {
    Unreadable::Broken {
        format: "a kdump-compressed file",
        what,
    }
}

/// A kdump-compressed file.
#[derive(Debug)]
pub struct Kdump<R> {
    file: R,
    /// Bytes of a page of the machine.
    block: u32,
    /// Offset of the first descriptor.
    descriptors: u64,
    /// Number of pages.
    pages: u64,
}

/// A page descriptor of a kdump file.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    offset: u64,
    size: u32,
    flags: u32,
}

impl Descriptor {
    fn parse(bytes: &[u8]) -> Self {
        let fields = Fields {
            bytes,
            big_endian: false,
        };
        Self {
            offset: fields.u64(0),
            size: fields.u32(8),
            flags: fields.u32(12),
        }
    }
}

/// Offsets in kdump headers of 64 and of 32 bits: time stamps and addresses differ.
struct Shape {
    block_size: usize,
    /// Of the sub header: the first and last page number of this file.
    pages: usize,
    /// From version 6 on: the same, and the number of pages, once more, as 64 bits; a machine of 32 bits does not need them.
    wide: Option<(usize, usize)>,
    long: fn(&Fields<'_>, usize) -> u64,
}

const SHAPES: [Shape; 2] = [
    Shape {
        block_size: 428,
        pages: 16,
        wide: Some((80, 96)),
        long: |fields, at| fields.u64(at),
    },
    Shape {
        block_size: 416,
        pages: 12,
        wide: None,
        long: |fields, at| u64::from(fields.u32(at)),
    },
];

impl<R: ReadAt> Kdump<R> {
    pub(super) fn new(file: R) -> Result<Self, Unreadable> {
        let mut header = [0; 512];
        read_full(&file, 0, &mut header)?;
        let header = Fields {
            bytes: &header,
            big_endian: false,
        };
        let version = header.u32(8);
        if version.swap_bytes() <= 0xff && version != 0 {
            return Err(broken(
                "of a big-endian machine, on which Kestrel does not record",
            ));
        }
        let sound = |size: u32| size.is_power_of_two() && (PAGE..=LARGEST).contains(&size);
        let shape = SHAPES.iter().find(|shape| sound(header.u32(shape.block_size)));
        let Some(shape) = shape else {
            return Err(broken("its header says no page size that a kernel could have"));
        };
        let number = |index: usize| header.u32(shape.block_size + 4 * index);
        let block = number(0);
        let (sub_header, bitmap, most) = (number(1), number(2), number(3));
        let mut sub = [0; 104];
        read_full(&file, u64::from(block), &mut sub)?;
        let sub = Fields {
            bytes: &sub,
            big_endian: false,
        };
        let wide = shape.wide.filter(|_| version >= 6);
        let most = match wide {
            Some((_, at)) => sub.u64(at).max(u64::from(most)),
            None => u64::from(most),
        };
        let range = Self::range(shape, wide.map(|(at, _)| at), &sub, most);
        let at = u64::from(block) * (1 + u64::from(sub_header));
        let bytes = u64::from(block) * u64::from(bitmap);
        // Of the two bitmaps the second counts; the oldest files have one.
        let half = bytes / 2;
        let dumped = if most > half * 8 { at } else { at + half };
        let pages = count(&file, dumped, range)?;
        Ok(Self {
            file,
            block,
            descriptors: at.saturating_add(bytes),
            pages,
        })
    }

    /// The page numbers that this file has descriptors for: all, but where a dump is split over several files.
    fn range(shape: &Shape, wide: Option<usize>, sub: &Fields<'_>, most: u64) -> (u64, u64) {
        let split = sub.u32(shape.pages - 4) != 0;
        let (start, end) = match wide {
            _ if !split => (0, most),
            Some(at) => (sub.u64(at), sub.u64(at + 8)),
            None => {
                let word = if shape.pages == 16 { 8 } else { 4 };
                let long = |at| (shape.long)(sub, at);
                (long(shape.pages), long(shape.pages + word))
            }
        };
        (start.min(most), end.min(most))
    }

    pub(super) fn scan(&self, each: Each<'_>, progress: Progress<'_>) -> io::Result<Scanned> {
        let block = u64::from(self.block);
        let mut scanned = Scanned::default();
        let mut unpacker = Unpacker::new(self.block as usize);
        // All pages of zeros share one place, which need not be unpacked again and again.
        let mut zeros = None;
        let mut batch = vec![0; DESCRIPTOR * BATCH as usize];
        let mut first = 0;
        while first < self.pages {
            let number = (self.pages - first).min(BATCH);
            let wanted = &mut batch[..number as usize * DESCRIPTOR];
            let at = self.descriptors.saturating_add(first * DESCRIPTOR as u64);
            let read = read_full(&self.file, at, wanted)? / DESCRIPTOR;
            for (index, bytes) in (first..).zip(wanted[..read * DESCRIPTOR].chunks_exact(DESCRIPTOR)) {
                let descriptor = Descriptor::parse(bytes);
                if zeros == Some(descriptor.offset) {
                    continue;
                }
                match self.unpack(descriptor, &mut unpacker)? {
                    Ok(page) => {
                        scanned.bytes += block;
                        for (at, page) in marked(page) {
                            each(PagePlace(index * block + at as u64), page);
                        }
                        if page.iter().all(|byte| *byte == 0) {
                            zeros = Some(descriptor.offset);
                        }
                    }
                    Err(why) => scanned.missed(1, || why.to_owned()),
                }
            }
            if (read as u64) < number {
                let missing = self.pages - first - read as u64;
                scanned.missed(missing, || {
                    "the file ends before the pages that it describes".to_owned()
                });
                break;
            }
            first += number;
            progress(first * block, self.pages * block);
        }
        Ok(scanned)
    }

    /// The bytes of a page, or why there are none.
    fn unpack<'u>(
        &self,
        descriptor: Descriptor,
        unpacker: &'u mut Unpacker,
    ) -> io::Result<Result<&'u [u8], &'static str>> {
        let packed = unpacker.packed(descriptor.size as usize);
        let Some(packed) = packed else {
            return Ok(Err("a page is said to be larger than a page"));
        };
        if read_full(&self.file, descriptor.offset, packed)? < packed.len() {
            return Ok(Err("the file ends before the pages that it describes"));
        }
        Ok(Method::of(descriptor.flags).and_then(|method| unpacker.unpack(method)))
    }

    pub(super) fn page(&self, place: PagePlace, to: &mut Page) -> io::Result<bool> {
        let block = u64::from(self.block);
        let (index, within) = (place.0 / block, (place.0 % block) as usize);
        let mut bytes = [0; DESCRIPTOR];
        let at = self.descriptors.saturating_add(index * DESCRIPTOR as u64);
        if read_full(&self.file, at, &mut bytes)? < DESCRIPTOR {
            return Ok(false);
        }
        let mut unpacker = Unpacker::new(self.block as usize);
        let unpacked = self.unpack(Descriptor::parse(&bytes), &mut unpacker)?;
        let page = unpacked.ok().and_then(|bytes| bytes.get(within..)?.first_chunk());
        if let Some(page) = page {
            *to = *page;
        }
        Ok(page.is_some())
    }
}

/// Bits set in a bitmap that begins at `at`, of those in `start..end`.
fn count(file: &impl ReadAt, at: u64, (start, end): (u64, u64)) -> io::Result<u64> {
    const CHUNK: u64 = 1 << 16;
    let mut bytes = vec![0; CHUNK as usize];
    let mut set = 0;
    let mut byte = start / 8;
    while byte < end.div_ceil(8) {
        let Some(from) = at.checked_add(byte) else { break };
        let wanted = (end.div_ceil(8) - byte).min(CHUNK) as usize;
        let read = read_full(file, from, &mut bytes[..wanted])?;
        if byte == start / 8
            && let Some(first) = bytes[..read].first_mut()
        {
            *first &= 0xff << (start % 8);
        }
        if byte + read as u64 == end.div_ceil(8)
            && !end.is_multiple_of(8)
            && let Some(last) = bytes[..read].last_mut()
        {
            *last &= (1 << (end % 8)) - 1;
        }
        set += bytes[..read]
            .iter()
            .map(|byte| u64::from(byte.count_ones()))
            .sum::<u64>();
        if read < wanted {
            break;
        }
        byte += read as u64;
    }
    Ok(set)
}
