//! The directory of a BTF blob, computed by one pass and kept for later readers: where each type begins, and the types in the order of their
//! names' hashes, so that a name is found without looking through all of them.
//!
//! ```text
//! number of types n, number of named types m, where each type begins (n numbers), places of the named ones among them by hash (m numbers)
//! ```
//!
//! All numbers have 32 bits, little-endian. One that does not fit the blob is not used; one that lies finds wrong types or none, and nothing worse.

use super::Btf;
use super::names::hash;
use super::numbers::Numbers;
use super::raw::{TypeId, u32_at};

impl Btf {
    /// The directory of this blob, for [`Btf::parse_with`].
    pub fn directory(&self) -> Vec<u8> {
        let named = self
            .labels()
            .iter()
            .zip(0_u32..)
            .filter(|(label, _)| **label != 0);
        let mut order: Vec<(u32, u32)> = named
            .map(|(label, place)| (self.hash_of(*label), place))
            .collect();
        order.sort_unstable();
        let head = [self.offsets.len() as u32, order.len() as u32].into_iter();
        let places = order.into_iter().map(|(_, place)| place);
        head.chain(self.offsets.iter())
            .chain(places)
            .flat_map(u32::to_le_bytes)
            .collect()
    }

    /// The types of this blob that may be of that name, in order, as the directory has them.
    pub(super) fn listed(&self, order: &Numbers, name: &str) -> Vec<TypeId> {
        let wanted = hash(name.as_bytes());
        let hash_at = |at: usize| {
            let place = order.get(at)? as usize;
            let label = u32_at(&self.data, self.offsets.get(place)? as usize)?;
            Some((self.hash_of(label), place as u32))
        };
        let (mut low, mut high) = (0, order.len());
        while low < high {
            let middle = low.midpoint(high);
            match hash_at(middle) {
                Some((hash, _)) if hash < wanted => low = middle + 1,
                _ => high = middle,
            }
        }
        (low..order.len())
            .map_while(hash_at)
            .take_while(|(hash, _)| *hash == wanted)
            .map(|(_, place)| TypeId(self.first_id + place))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::write::Builder;
    use super::*;
    use crate::btf::BtfKind;
    use bytes::Bytes;

    fn blob() -> Bytes {
        let mut b = Builder::new();
        let int = b.int("int", 4);
        for number in 0..80 {
            b.structure(&format!("s{number}"), &[("flags", int), ("pid", int)]);
        }
        b.structure("same", &[("one", int)]);
        b.typedef("same", int);
        b.structure("", &[("nameless", int)]);
        Bytes::from(b.finish())
    }

    #[test]
    fn types_are_found_as_without_it() {
        let plain = Btf::parse(blob()).unwrap();
        let directory = Bytes::from(plain.directory());
        let listed = Btf::parse_with(blob(), directory.clone()).unwrap();
        assert!(listed.order.is_some());
        assert_eq!(listed.len(), plain.len());
        for name in ["int", "same", "s0", "s79", "s80", "", "flags", "nameless"] {
            let all = |btf: &Btf| btf.find_all(name).collect::<Vec<_>>();
            assert_eq!(all(&listed), all(&plain), "{name}");
        }
        for id in plain.ids() {
            assert_eq!(listed.name(id), plain.name(id));
        }
        assert_eq!(listed.directory(), plain.directory());
        let task = listed.find(BtfKind::Struct, "s77").unwrap();
        assert_eq!(
            listed.find_member(task, "pid").map(|place| place.bit_offset),
            Some(32)
        );
    }

    #[test]
    fn a_directory_of_something_else_is_not_used_and_damage_is_harmless() {
        let plain = Btf::parse(blob()).unwrap();
        let whole = plain.directory();
        for length in (0..whole.len()).step_by(7) {
            let btf = Btf::parse_with(blob(), whole[..length].to_vec()).unwrap();
            assert!(btf.order.is_none(), "cut at {length}");
            assert!(btf.find(BtfKind::Struct, "s77").is_some());
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x81;
            let btf = Btf::parse_with(blob(), damaged).unwrap();
            for name in ["int", "s77", "same"] {
                for id in btf.find_all(name) {
                    assert_eq!(btf.name(id), name);
                }
            }
        }
    }
}
