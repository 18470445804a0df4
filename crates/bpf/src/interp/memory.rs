//! The interpreter's memory: regions at addresses, each with its permissions, and gaps between them, so that a stray access is caught.

use super::fault::Reason;
use std::collections::BTreeMap;

/// Kind of a region of memory, which says who may read and write it and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Kernel memory: read through `probe_read_kernel`, or directly where the machine allows it.
    Kernel,
    /// The process's memory: read through `probe_read_user`.
    User,
    /// The program's context: read directly, not written.
    Context,
    /// The program's stack: bytes must be written before they are read.
    Stack,
    /// A map's value, or other memory that a helper gave the program.
    Value,
    /// A map's value that programs may only read.
    ReadOnlyValue,
}

impl Space {
    fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel memory",
            Self::User => "user memory",
            Self::Context => "the context",
            Self::Stack => "the stack",
            Self::Value => "a map value",
            Self::ReadOnlyValue => "a read-only map value",
        }
    }
}

#[derive(Debug)]
struct Region {
    space: Space,
    bytes: Vec<u8>,
    /// Which bytes of a stack were written.
    written: Vec<bool>,
}

#[derive(Debug)]
pub(super) struct Memory {
    regions: BTreeMap<u64, Region>,
    next: u64,
}

/// Where the machine's own regions begin: the kernel's vmalloc area on x86-64.
const FIRST: u64 = 0xffff_c900_1000_0000;
/// Fewest bytes between two regions. An access that misses a region by less than this is reported with that region's bounds.
const GAP: u64 = 4096;

impl Default for Memory {
    fn default() -> Self {
        Self {
            regions: BTreeMap::new(),
            next: FIRST,
        }
    }
}

/// Kind of a memory access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Memory {
    /// Adds a region of zeros at a free address, and gives the address.
    pub(super) fn allocate(&mut self, space: Space, length: u64) -> u64 {
        let address = self.next;
        self.next = (address + length + 2 * GAP).next_multiple_of(GAP);
        self.insert(space, address, vec![0; length as usize]);
        address
    }

    pub(super) fn insert(&mut self, space: Space, address: u64, bytes: Vec<u8>) {
        let written = if space == Space::Stack {
            vec![false; bytes.len()]
        } else {
            Vec::new()
        };
        self.regions.insert(
            address,
            Region {
                space,
                bytes,
                written,
            },
        );
    }

    pub(super) fn remove(&mut self, address: u64) {
        self.regions.remove(&address);
    }

    /// The region that `address` is in, or misses by less than [`GAP`], and where it begins.
    fn nearest(&self, address: u64, size: u64) -> Result<(u64, &Region), Reason> {
        if address < GAP {
            return Err(Reason::NullPointer { address, size });
        }
        let bad = Reason::BadAddress { address, size };
        let below = self
            .regions
            .range(..=address)
            .next_back()
            .map(|(start, region)| (*start, region));
        let near = |(start, region): &(u64, &Region)| address - start < region.bytes.len() as u64 + GAP;
        if let Some(found) = below.filter(near) {
            return Ok(found);
        }
        // Just before a region: an access at a negative offset of it.
        match self.regions.range(address..).next() {
            Some((start, region)) if start - address < GAP => Ok((*start, region)),
            _ => Err(bad),
        }
    }

    /// The region that an access lies in as a whole, where it begins, and the range of its bytes.
    fn locate(&self, address: u64, size: u64) -> Result<(u64, std::ops::Range<usize>, &Region), Reason> {
        let (start, region) = self.nearest(address, size)?;
        let length = region.bytes.len() as u64;
        let offset = address.wrapping_sub(start);
        if offset > length || size > length - offset {
            let region = region.space.name();
            return Err(Reason::OutOfBounds {
                region,
                offset: offset as i64,
                size,
                length,
            });
        }
        Ok((start, offset as usize..(offset + size) as usize, region))
    }

    /// Reads bytes of one region, without asking for permission.
    pub(super) fn slice(&self, address: u64, size: u64) -> Result<&[u8], Reason> {
        let (_, range, region) = self.locate(address, size)?;
        region
            .bytes
            .get(range)
            .ok_or(Reason::BadAddress { address, size })
    }

    /// Writes bytes of one region, without asking for permission.
    pub(super) fn fill(&mut self, address: u64, bytes: &[u8]) -> Result<(), Reason> {
        let size = bytes.len() as u64;
        let (start, range, _) = self.locate(address, size)?;
        let Some(region) = self.regions.get_mut(&start) else {
            return Err(Reason::BadAddress { address, size });
        };
        if let Some(to) = region.bytes.get_mut(range.clone()) {
            to.copy_from_slice(bytes);
        }
        if let Some(written) = region.written.get_mut(range) {
            written.fill(true);
        }
        Ok(())
    }

    pub(super) fn space(&self, address: u64) -> Option<Space> {
        self.locate(address, 1).ok().map(|(_, _, region)| region.space)
    }

    /// Checks a memory access of an instruction: as [`Self::check`], and accesses of the stack must be aligned, as the verifier wants it on every processor.
    pub(super) fn check_instruction(
        &self,
        address: u64,
        size: u64,
        access: Access,
        kernel: bool,
    ) -> Result<(), Reason> {
        self.check(address, size, access, kernel)?;
        let (start, _, region) = self.locate(address, size)?;
        let offset = address.wrapping_sub(start) as i64 - region.bytes.len() as i64;
        if region.space == Space::Stack && offset % size.max(1).cast_signed() != 0 {
            return Err(Reason::MisalignedStack { offset, size });
        }
        Ok(())
    }

    /// Checks a direct access of a program; `kernel` also lets it read the kernel's memory.
    pub(super) fn check(&self, address: u64, size: u64, access: Access, kernel: bool) -> Result<(), Reason> {
        let (start, range, region) = self.locate(address, size)?;
        let allowed = match (region.space, access) {
            (Space::User, _) => false,
            (Space::Kernel, Access::Read) => kernel,
            (Space::Stack | Space::Value, _) => true,
            (Space::Context | Space::ReadOnlyValue, access) => access == Access::Read,
            (Space::Kernel, Access::Write) => false,
        };
        if !allowed {
            let what = if access == Access::Read { "reads" } else { "writes" };
            return Err(Reason::Forbidden {
                what,
                region: region.space.name(),
                address,
            });
        }
        if access == Access::Read && region.space == Space::Stack {
            let missing = region
                .written
                .get(range.clone())
                .and_then(|w| w.iter().position(|w| !w));
            if let Some(missing) = missing {
                let offset = (range.start + missing) as i64 - region.bytes.len() as i64;
                return Err(Reason::UninitialisedStack {
                    address: start + range.start as u64,
                    size,
                    offset,
                });
            }
        }
        Ok(())
    }
}
