//! ELF core files: where each `PT_LOAD` has memory; notes are passed over, for nothing but the pages is needed.

use super::bytes::{Fields, ReadAt, read_full};
use super::runs::Run;
use crate::error::Unreadable;
use crate::packet::PAGE;

/// The first bytes of such a file.
pub(super) const MAGIC: &[u8] = b"\x7fELF";

const PT_LOAD: u32 = 1;
/// In `e_phnum`: the number stands in `sh_info` of the first section header.
const PN_XNUM: u16 = 0xffff;
/// Program headers read at most: of 64 KiB of memory each, 64 GiB; real files have hundreds.
const MAX: u64 = 1 << 20;

const fn broken(what: &'static str) -> Unreadable {
    Unreadable::Broken {
        format: "an ELF file",
        what,
    }
}

/// Offsets in ELF headers of either class (ELF specification, gABI 4).
struct Class {
    /// Of the file header: program header offset, section header offset, size and number of program headers.
    phoff: usize,
    shoff: usize,
    phentsize: usize,
    /// Offset in a section header.
    sh_info: usize,
    /// Of a program header: offset, virtual address, physical address, bytes in the file.
    ph: [usize; 4],
    /// Size of a program header.
    ph_size: u16,
    long: fn(&Fields<'_>, usize) -> u64,
}

const ELF64: Class = Class {
    phoff: 32,
    shoff: 40,
    phentsize: 54,
    sh_info: 44,
    ph: [8, 16, 24, 32],
    ph_size: 56,
    long: |fields, at| fields.u64(at),
};

const ELF32: Class = Class {
    phoff: 28,
    shoff: 32,
    phentsize: 42,
    sh_info: 28,
    ph: [4, 8, 12, 16],
    ph_size: 32,
    long: |fields, at| u64::from(fields.u32(at)),
};

/// The runs of memory in an ELF core file, each from its first page boundary on.
pub(super) fn runs(file: &impl ReadAt) -> Result<Vec<Run>, Unreadable> {
    let mut header = [0; 64];
    let read = read_full(file, 0, &mut header)?;
    if read < 52 {
        return Err(broken("it ends within its header"));
    }
    let class = match header[4] {
        1 => ELF32,
        2 => ELF64,
        _ => return Err(broken("of neither 32 nor 64 bits")),
    };
    let big_endian = header[5] == 2;
    let fields = Fields {
        bytes: &header,
        big_endian,
    };
    let size = fields.u16(class.phentsize);
    if size < class.ph_size {
        return Err(broken("it has no program headers, so no memory"));
    }
    let number = match fields.u16(class.phentsize + 2) {
        PN_XNUM => {
            let mut section = [0; 64];
            read_full(file, (class.long)(&fields, class.shoff), &mut section)?;
            let section = Fields {
                bytes: &section,
                big_endian,
            };
            u64::from(section.u32(class.sh_info))
        }
        number => u64::from(number),
    };
    // The file may be cut: only as many headers as can be there.
    let table = (class.long)(&fields, class.phoff);
    let room = file.size()?.saturating_sub(table) / u64::from(size);
    let mut bytes = vec![0; (number.min(room).min(MAX) * u64::from(size)) as usize];
    let read = read_full(file, table, &mut bytes)?;
    let headers = bytes[..read].chunks_exact(usize::from(size));
    let runs: Vec<Run> = headers
        .filter_map(|bytes| run(&class, &Fields { bytes, big_endian }))
        .collect();
    if runs.is_empty() {
        return Err(broken("it holds no memory"));
    }
    Ok(runs)
}

/// The pages of one program header.
fn run(class: &Class, header: &Fields<'_>) -> Option<Run> {
    if header.u32(0) != PT_LOAD {
        return None;
    }
    let [offset, virtual_address, physical, bytes] = class.ph.map(|at| (class.long)(header, at));
    // Where no physical address is known, -1 stands; within a page both are alike.
    let address = if physical == u64::MAX {
        virtual_address
    } else {
        physical
    };
    let page = u64::from(PAGE);
    let before = (page - address % page) % page;
    Some(Run {
        start: offset.checked_add(before)?,
        bytes: bytes.checked_sub(before).filter(|bytes| *bytes >= page)?,
    })
}
