//! Images of memory in every form, built byte by byte.

use flate2::{Compression, write::ZlibEncoder};
use std::io::Write;

const PAGE: usize = 4096;

/// One memory in every form that is read.
pub fn all(memory: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("raw", memory.to_vec()),
        ("elf", elf64(memory)),
        ("elf, 32 bits", elf32(memory)),
        ("kdump, plain", kdump(memory, Packing::Plain)),
        ("kdump, zlib", kdump(memory, Packing::Zlib)),
        ("kdump, lzo", kdump(memory, Packing::Lzo)),
        ("kdump, snappy", kdump(memory, Packing::Snappy)),
        ("kdump, zstd", kdump(memory, Packing::Zstd)),
        ("kdump, flattened", flattened(&kdump(memory, Packing::Zlib))),
        ("elf, flattened", flattened(&elf64(memory))),
    ]
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Two runs of memory and a note; the second run begins in the middle of a page, and neither is aligned in the file.
pub fn elf64(memory: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 3 * 56 + 24];
    put(&mut bytes, 0, b"\x7fELF\x02\x01\x01");
    put(&mut bytes, 32, &64_u64.to_le_bytes());
    put(&mut bytes, 54, &56_u16.to_le_bytes());
    put(&mut bytes, 56, &3_u16.to_le_bytes());
    let half = memory.len() / PAGE / 2 * PAGE;
    let start = bytes.len() as u64;
    let runs = [
        (4_u32, 64 + 3 * 56, 0_u64, 24),
        (1, start, 0x1000, half as u64),
        (1, start + half as u64, 0xfff0, (memory.len() - half + 16) as u64),
    ];
    for (index, (ty, offset, physical, size)) in runs.into_iter().enumerate() {
        let at = 64 + index * 56;
        put(&mut bytes, at, &ty.to_le_bytes());
        for (field, value) in [(8, offset), (24, physical), (32, size), (40, size)] {
            put(&mut bytes, at + field, &value.to_le_bytes());
        }
    }
    bytes.extend_from_slice(&memory[..half]);
    bytes.extend([0xee; 16]);
    bytes.extend_from_slice(&memory[half..]);
    bytes
}

/// One run, and a number of headers that stands elsewhere.
pub fn elf32(memory: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 52 + 40 + 32];
    put(&mut bytes, 0, b"\x7fELF\x01\x01\x01");
    put(&mut bytes, 28, &92_u32.to_le_bytes());
    put(&mut bytes, 32, &52_u32.to_le_bytes());
    put(&mut bytes, 42, &32_u16.to_le_bytes());
    put(&mut bytes, 44, &0xffff_u16.to_le_bytes());
    put(&mut bytes, 52 + 28, &1_u32.to_le_bytes());
    let size = memory.len() as u32;
    for (field, value) in [(0, 1), (4, 124), (12, 0x10_0000), (16, size), (20, size)] {
        put(&mut bytes, 92 + field, &u32::to_le_bytes(value));
    }
    bytes.extend_from_slice(memory);
    bytes
}

#[derive(Clone, Copy, PartialEq)]
pub enum Packing {
    Plain,
    Zlib,
    Lzo,
    Snappy,
    Zstd,
}

fn pack(page: &[u8], packing: Packing) -> (u32, Vec<u8>) {
    match packing {
        Packing::Plain => (0, page.to_vec()),
        Packing::Zlib => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(page).unwrap();
            (1, encoder.finish().unwrap())
        }
        Packing::Lzo => (2, lzokay_native::compress(page).unwrap()),
        Packing::Snappy => (4, snap::raw::Encoder::new().compress_vec(page).unwrap()),
        Packing::Zstd => (
            0x20,
            ruzstd::encoding::compress_to_vec(page, ruzstd::encoding::CompressionLevel::Fastest),
        ),
    }
}

/// As makedumpfile writes it: the machine has twice as many pages as there are, every second was dumped, zeros are there once.
pub fn kdump(memory: &[u8], packing: Packing) -> Vec<u8> {
    let pages = memory.chunks_exact(PAGE);
    let most = 2 * pages.len() as u32;
    let mut bytes = vec![0; 4 * PAGE];
    put(&mut bytes, 0, b"KDUMP   ");
    put(&mut bytes, 8, &6_u32.to_le_bytes());
    for (index, value) in [PAGE as u32, 1, 2, most].into_iter().enumerate() {
        put(&mut bytes, 428 + 4 * index, &value.to_le_bytes());
    }
    put(&mut bytes, PAGE + 96, &u64::from(most).to_le_bytes());
    bytes[2 * PAGE..][..most as usize / 8 + 1].fill(0xff);
    for page in (1..most as usize).step_by(2) {
        bytes[3 * PAGE + page / 8] |= 1 << (page % 8);
    }
    let mut data = Vec::new();
    let base = bytes.len() + 24 * pages.len();
    let mut zeros = None;
    for page in pages {
        let (flags, packed) = pack(page, packing);
        let at = match zeros {
            Some(at) if page.iter().all(|byte| *byte == 0) => at,
            _ => base + data.len(),
        };
        if at == base + data.len() {
            data.extend_from_slice(&packed);
            if page.iter().all(|byte| *byte == 0) {
                zeros = Some(at);
            }
        }
        bytes.extend((at as u64).to_le_bytes());
        bytes.extend((packed.len() as u32).to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
    }
    bytes.extend(data);
    bytes
}

/// The pieces out of order, the first of them written twice, wrong at first.
pub fn flattened(whole: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    put(&mut bytes, 0, b"makedumpfile");
    put(&mut bytes, 16, &1_u64.to_be_bytes());
    put(&mut bytes, 24, &1_u64.to_be_bytes());
    let mut piece = |at: usize, content: &[u8]| {
        bytes.extend((at as u64).to_be_bytes());
        bytes.extend((content.len() as u64).to_be_bytes());
        bytes.extend_from_slice(content);
    };
    piece(0, &[0x55; 100]);
    let pieces: Vec<&[u8]> = whole.chunks(5000).collect();
    for (index, content) in pieces.iter().enumerate().rev() {
        piece(index * 5000, content);
    }
    bytes.extend([0xff; 16]);
    bytes
}
