//! Memory of replayed programs: regions of bytes. The upper half of an address is the region's number above [`FIRST`], and there is nothing between regions.

/// The upper half of the address of the region 0: no process and no kernel has memory at such addresses, which processors refuse.
const FIRST: u64 = 0x4000_0000;

/// A region's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionId(u32);

/// The memory regions of a replayed program.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The regions, at the index that is their number; the first is empty.
    regions: Vec<Vec<u8>>,
}

impl RegionId {
    /// The address of a byte of the region.
    #[inline(always)]
    pub(crate) fn address(self, offset: usize) -> u64 {
        (FIRST + u64::from(self.0)) << 32 | offset as u64
    }
}

/// The number of the region that an address would be in.
#[inline(always)]
fn region_of(address: u64) -> usize {
    (address >> 32).wrapping_sub(FIRST) as usize
}

/// An access outside of every region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside(pub(crate) u64);

impl Memory {
    /// Memory without regions.
    pub(crate) fn new() -> Self {
        Self {
            regions: vec![Vec::new()],
        }
    }

    /// A new region of so many zeroes.
    pub(crate) fn add(&mut self, bytes: usize) -> RegionId {
        self.regions.push(vec![0; bytes]);
        RegionId(self.regions.len() as u32 - 1)
    }

    /// The bytes of a region.
    #[inline(always)]
    pub(crate) fn region(&self, region: RegionId) -> &[u8] {
        self.regions.get(region.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// The bytes of a region, to be changed or to become more.
    #[inline(always)]
    pub(crate) fn region_mut(&mut self, region: RegionId) -> Option<&mut Vec<u8>> {
        self.regions.get_mut(region.0 as usize)
    }

    /// Whether an address is the program's own.
    #[inline]
    pub(crate) fn is_own(&self, address: u64) -> bool {
        region_of(address) < self.regions.len()
    }

    /// All bytes from an address to the end of its region.
    #[inline(always)]
    pub(crate) fn from(&self, address: u64) -> &[u8] {
        let region = self.regions.get(region_of(address));
        region
            .and_then(|bytes| bytes.get(address as u32 as usize..))
            .unwrap_or_default()
    }

    /// Bytes at an address.
    #[inline(always)]
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Result<&[u8], Outside> {
        self.from(address).get(..length).ok_or(Outside(address))
    }

    /// Bytes at an address, to be changed.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self, address: u64, length: usize) -> Result<&mut [u8], Outside> {
        let region = self.regions.get_mut(region_of(address));
        region
            .and_then(|bytes| bytes.get_mut(address as u32 as usize..)?.get_mut(..length))
            .ok_or(Outside(address))
    }

    /// Copies so many bytes from one address to another.
    pub(crate) fn copy(&mut self, from: u64, to: u64, length: usize) -> Result<(), Outside> {
        let (source, target) = (region_of(from), region_of(to));
        let (first, at) = (from as u32 as usize, to as u32 as usize);
        let mut region = std::mem::take(self.regions.get_mut(target).ok_or(Outside(to))?);
        let outcome = if source == target {
            match region.get(first..).is_some_and(|rest| rest.len() >= length) && region.len() >= at + length
            {
                true => {
                    region.copy_within(first..first + length, at);
                    Ok(())
                }
                false => Err(Outside(to)),
            }
        } else {
            let place = region.get_mut(at..).and_then(|rest| rest.get_mut(..length));
            match (self.bytes(from, length), place) {
                (Ok(bytes), Some(place)) => {
                    place.copy_from_slice(bytes);
                    Ok(())
                }
                (Err(outside), _) => Err(outside),
                (_, None) => Err(Outside(to)),
            }
        };
        if let Some(place) = self.regions.get_mut(target) {
            *place = region;
        }
        outcome
    }

    /// `N` bytes at an address, as one access reads them.
    #[inline(always)]
    pub(crate) fn load<const N: usize>(&self, address: u64) -> Result<[u8; N], Outside> {
        self.from(address).first_chunk().copied().ok_or(Outside(address))
    }

    /// `N` bytes at an address, as one access writes them.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, address: u64, value: [u8; N]) -> Result<(), Outside> {
        let place = self.bytes_mut(address, N)?.first_chunk_mut();
        *place.ok_or(Outside(address))? = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_outside_of_regions_are_faults() {
        let mut memory = Memory::new();
        let (one, two) = (memory.add(8), memory.add(16));
        memory.store(two.address(8), 7u64.to_le_bytes()).unwrap();
        assert_eq!(memory.load(two.address(8)), Ok(7u64.to_le_bytes()));
        for address in [
            0,
            4,
            1 << 32,
            one.address(1),
            two.address(9),
            two.address(1 << 31),
            u64::MAX,
        ] {
            assert_eq!(memory.load::<8>(address), Err(Outside(address)));
            assert_eq!(memory.store(address, [0; 8]), Err(Outside(address)));
        }
        assert_eq!(memory.bytes(one.address(8), 0), Ok(&[][..]));
    }
}
