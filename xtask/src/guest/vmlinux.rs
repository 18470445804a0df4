//! From a bzImage to the ELF file inside it, which boots faster (no decompression under emulation) and is what symbol
//! readers want. Layout: Documentation/arch/x86/boot.rst, "The real-mode kernel header".

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};

/// Offset of the setup size (sectors of 512 bytes), and of the payload's offset and length, in a bzImage.
const SETUP_SECTORS: usize = 0x1f1;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// The vmlinux ELF inside a bzImage.
pub(crate) fn extract(image: &[u8]) -> Result<Vec<u8>> {
    let word = |at: usize| -> Result<usize> {
        let bytes = image
            .get(at..at + 4)
            .context("a kernel image shorter than its header")?;
        Ok(u32::from_le_bytes(bytes.try_into()?) as usize)
    };
    ensure!(
        image.get(0x202..0x206) == Some(b"HdrS".as_slice()),
        "not a bzImage: no HdrS at 0x202"
    );
    let sectors = match image.get(SETUP_SECTORS) {
        Some(0) | None => 4,
        Some(sectors) => usize::from(*sectors),
    };
    let start = (sectors + 1) * 512 + word(PAYLOAD_OFFSET)?;
    let payload = image
        .get(start..start + word(PAYLOAD_LENGTH)?)
        .context("a kernel image shorter than its payload")?;
    let elf = decompress(payload)?;
    ensure!(
        elf.starts_with(b"\x7fELF"),
        "the kernel's payload is not an ELF file"
    );
    Ok(elf)
}

/// Decompresses by the magic at the start; what follows the stream (the kernel appends the size) is ignored.
pub(crate) fn decompress(packed: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    match packed {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed).context("zstd")?;
            decoder.read_to_end(&mut out).context("zstd")?;
        }
        [0x02, 0x21, 0x4c, 0x18, ..] => out = lz4_legacy(packed)?,
        [0xfd, b'7', b'z', ..] => {
            lzma_rs::xz_decompress(&mut std::io::Cursor::new(packed), &mut out).context("xz")?
        }
        [0x5d, 0, 0, ..] => {
            lzma_rs::lzma_decompress(&mut std::io::Cursor::new(packed), &mut out).context("lzma")?
        }
        [0x1f, 0x8b, ..] => {
            flate2::read::GzDecoder::new(packed)
                .read_to_end(&mut out)
                .context("gzip")?;
        }
        [0x7f, b'E', b'L', b'F', ..] => out.extend_from_slice(packed),
        _ => bail!(
            "a compression that is not known here: starts {:02x?}",
            packed.get(..6)
        ),
    }
    Ok(out)
}

/// LZ4's legacy frame: the magic, then blocks of at most 8 MiB, each behind its packed size; the kernel's build puts
/// the whole image's unpacked size after the last block, which reads as a block size that cannot be.
fn lz4_legacy(packed: &[u8]) -> Result<Vec<u8>> {
    const BLOCK: usize = 8 << 20;
    let mut out = Vec::new();
    let mut block = vec![0; BLOCK];
    let mut rest = &packed[4..];
    while let Some((size, tail)) = rest.split_first_chunk::<4>() {
        let size = u32::from_le_bytes(*size) as usize;
        let Some(bytes) = tail.get(..size).filter(|_| size > 0) else {
            break;
        };
        let length = lz4_flex::block::decompress_into(bytes, &mut block).context("lz4")?;
        out.extend_from_slice(&block[..length]);
        rest = &tail[size..];
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024 + 16];
        image[SETUP_SECTORS] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16u32.to_le_bytes());
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend_from_slice(payload);
        image
    }

    #[test]
    fn gzip_and_lz4_payloads_are_found_and_unpacked() {
        let elf = [b"\x7fELF".as_slice(), &[7; 5000]].concat();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&elf).unwrap();
        assert_eq!(extract(&image(&gzip.finish().unwrap())).unwrap(), elf);

        let block = lz4_flex::block::compress(&elf);
        let mut lz4 = vec![0x02, 0x21, 0x4c, 0x18];
        lz4.extend_from_slice(&(block.len() as u32).to_le_bytes());
        lz4.extend_from_slice(&block);
        lz4.extend_from_slice(&(elf.len() as u32).to_le_bytes());
        assert_eq!(extract(&image(&lz4)).unwrap(), elf);
    }

    #[test]
    fn a_file_that_is_no_kernel_image_is_refused() {
        assert!(extract(b"MZ").is_err());
        assert!(extract(&image(b"nothing known")).is_err());
        assert!(extract(&image(&[0x1f, 0x8b, 0, 0])).is_err());
    }
}
