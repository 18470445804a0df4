//! Maps as structs of numbers in the section `maps`: tc's `struct bpf_elf_map` (36 bytes) and the older `struct bpf_map_def` (16 to 28 bytes).

use super::declared::{Filling, Inner, Map, Pinning, Source};
use super::kind;
use crate::Error;
use crate::btf::{Btf, BtfKind, TypeId};

const SECTION: &str = "maps";
/// Nine numbers: type, size_key, size_value, max_elem, flags, id, pinning, inner_id, inner_idx (iproute2's `bpf_elf.h`).
const ELF_MAP: usize = 36;
/// Type, key and value size, entries; then flags, inner map, NUMA node.
const MAP_DEF: std::ops::RangeInclusive<usize> = 16..=28;

fn wrong(map: &str, what: impl std::fmt::Display) -> Error {
    Error::Object(format!("the map {map}: {what}"))
}

pub(super) fn read(source: &Source<'_>) -> Result<Vec<Map>, Error> {
    let Some((index, section)) = source.elf.section(SECTION) else {
        return Ok(Vec::new());
    };
    let mut symbols: Vec<_> = source
        .elf
        .symbols_in(index)
        .filter(|s| !s.whole_section && !s.function && !s.name.is_empty())
        .collect();
    symbols.sort_by_key(|symbol| symbol.value);
    if symbols.is_empty() && !section.data.is_empty() {
        return Err(Error::Object(
            "its section maps has no symbols: which map is which cannot be known".into(),
        ));
    }
    let mut maps = Vec::new();
    for (at, symbol) in symbols.iter().enumerate() {
        let end = symbols
            .get(at + 1)
            .map_or(section.data.len() as u64, |next| next.value);
        // Old compilers give symbols no size: then a map reaches up to the next one.
        let size = if symbol.size > 0 {
            symbol.size
        } else {
            end.saturating_sub(symbol.value)
        };
        let bytes = usize::try_from(symbol.value).ok().and_then(|start| {
            section
                .data
                .get(start..start.checked_add(usize::try_from(size).ok()?)?)
        });
        let bytes =
            bytes.ok_or_else(|| wrong(&symbol.name, "it reaches past the end of the section maps"))?;
        let map = define(&symbol.name, bytes)?;
        let (key, value) = source.btf.map_or((None, None), |btf| annotated(btf, &map));
        maps.push(Map {
            place: (index, symbol.value),
            key,
            value,
            ..map
        });
    }
    Ok(maps)
}

fn define(name: &str, bytes: &[u8]) -> Result<Map, Error> {
    let words: Vec<u32> = bytes
        .chunks_exact(4)
        .filter_map(|word| word.first_chunk().map(|word| u32::from_le_bytes(*word)))
        .collect();
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let map = Map {
        name: name.to_owned(),
        kind: word(0),
        key_size: word(1),
        value_size: word(2),
        entries: word(3),
        flags: word(4),
        ..Map::default()
    };
    match bytes.len() {
        ELF_MAP => {
            let pinning = match word(6) {
                0 => Pinning::None,
                1 => Pinning::Object,
                2 => Pinning::Global,
                other => {
                    return Err(wrong(
                        name,
                        format!("its pinning is {other}; known are 0 (none), 1 (object) and 2 (global)"),
                    ));
                }
            };
            // Which map holds which is known when all maps are.
            Ok(Map {
                pinning,
                id: word(5),
                numbers: Some((word(7), word(8))),
                ..map
            })
        }
        size if MAP_DEF.contains(&size) => Ok(map),
        size => Err(wrong(
            name,
            format!("it has {size} bytes; struct bpf_elf_map has {ELF_MAP}, struct bpf_map_def 16 to 28"),
        )),
    }
}

/// `BPF_ANNOTATE_KV_PAIR` leaves a struct with a key and a value behind.
fn annotated(btf: &Btf, map: &Map) -> (Option<TypeId>, Option<TypeId>) {
    let Some(id) = btf.find(BtfKind::Struct, &format!("____btf_map_{}", map.name)) else {
        return (None, None);
    };
    let member = |name: &str, size: u32| {
        let ty = btf.find_member(id, name)?.ty;
        (btf.size_of(ty) == Some(u64::from(size))).then_some(ty)
    };
    (member("key", map.key_size), member("value", map.value_size))
}

/// Connects maps of maps with their templates: a map of maps has its template's number, the template the slot that it fills.
pub(super) fn connect(maps: &mut [Map]) -> Result<(), Error> {
    let known: Vec<_> = maps
        .iter()
        .map(|map| (map.id, map.numbers.map_or(u32::MAX, |(_, slot)| slot)))
        .collect();
    for (index, map) in maps.iter_mut().enumerate() {
        let Some((wanted, _)) = map.numbers.filter(|_| kind::is_of_maps(map.kind)) else {
            continue;
        };
        let held = known
            .iter()
            .enumerate()
            .find(|(other, (id, _))| *other != index && *id == wanted && wanted != 0);
        let (held, slot) = held.map(|(held, (_, slot))| (held, *slot)).ok_or_else(|| {
            wrong(
                &map.name,
                format!("it holds maps like the one with id {wanted}, and there is none"),
            )
        })?;
        map.inner = Some(Inner::Map(held));
        if slot != u32::MAX {
            map.filling.push((slot, Filling::Map(held)));
        }
    }
    Ok(())
}
