//! Maps declared as variables of the section `.maps`, whose *types* have the attributes (libbpf's style).

use super::declared::{Filling, Inner, Map, Pinning, Source};
use super::kind;
use crate::Error;
use crate::btf::{Btf, Member, Type, TypeId};

const SECTION: &str = ".maps";

fn wrong(map: &str, what: impl std::fmt::Display) -> Error {
    Error::Object(format!("the map {map}: {what}"))
}

/// An attribute of a BTF-style map declaration, one member of its struct.
struct Attribute {
    name: &'static str,
    set: fn(&mut Map, &Btf, &Member<'_>) -> Result<(), Error>,
}

/// The attributes that a declaration can have.
const ATTRIBUTES: &[Attribute] = &[
    Attribute {
        name: "type",
        set: |map, btf, member| number(btf, map, member).map(|n| map.kind = n),
    },
    Attribute {
        name: "key_size",
        set: |map, btf, member| number(btf, map, member).map(|n| map.key_size = n),
    },
    Attribute {
        name: "value_size",
        set: |map, btf, member| number(btf, map, member).map(|n| map.value_size = n),
    },
    Attribute {
        name: "max_entries",
        set: |map, btf, member| number(btf, map, member).map(|n| map.entries = n),
    },
    Attribute {
        name: "map_flags",
        set: |map, btf, member| number(btf, map, member).map(|n| map.flags = n),
    },
    Attribute {
        name: "map_extra",
        set: |map, btf, member| wide(btf, map, member).map(|n| map.extra = n),
    },
    // The NUMA node is accepted and ignored: it is a wish about speed that no program depends on.
    Attribute {
        name: "numa_node",
        set: |map, btf, member| number(btf, map, member).map(drop),
    },
    Attribute {
        name: "pinning",
        set: pinning,
    },
    Attribute {
        name: "key",
        set: |map, btf, member| {
            typed(btf, map, member).map(|(ty, size)| (map.key, map.key_size) = (Some(ty), size))
        },
    },
    Attribute {
        name: "value",
        set: |map, btf, member| {
            typed(btf, map, member).map(|(ty, size)| (map.value, map.value_size) = (Some(ty), size))
        },
    },
    Attribute {
        name: "values",
        set: values,
    },
];

/// Reads the maps that the section `.maps` declares.
pub(super) fn read(source: &Source<'_>) -> Result<Vec<Map>, Error> {
    let Some((section, _)) = source.elf.section(SECTION) else {
        return Ok(Vec::new());
    };
    let btf = source
        .btf
        .ok_or_else(|| Error::Object("it has a section .maps but no types (.BTF): compile with -g".into()))?;
    let mut maps = Vec::new();
    let variables = btf.ids().filter_map(|id| match btf.ty(id) {
        Type::Datasec {
            name: SECTION,
            entries,
            ..
        } => Some(entries.variables()),
        _ => None,
    });
    for variable in variables.flatten() {
        let Type::Var { name, ty, .. } = btf.ty(variable.ty) else {
            continue;
        };
        let map = define(btf, name, ty, true)?;
        maps.push(Map {
            place: (section, u64::from(variable.offset)),
            ..map
        });
    }
    Ok(maps)
}

/// Reads one map from the type of its variable; `outer` is false for the template of the maps in a map.
fn define(btf: &Btf, name: &str, ty: TypeId, outer: bool) -> Result<Map, Error> {
    let Type::Struct(composite) = btf.resolved(ty) else {
        return Err(wrong(name, "it is not a struct"));
    };
    let mut map = Map {
        name: name.to_owned(),
        ..Map::default()
    };
    for member in composite.members() {
        let attribute = ATTRIBUTES.iter().find(|attribute| attribute.name == member.name);
        let attribute =
            attribute.ok_or_else(|| wrong(name, format!("the attribute `{}` is unknown", member.name)))?;
        if !outer && attribute.name == "values" {
            return Err(wrong(name, "maps in maps hold no maps"));
        }
        (attribute.set)(&mut map, btf, &member)?;
    }
    if map.kind == 0 {
        return Err(wrong(
            name,
            "it does not say its type: `__uint(type, BPF_MAP_TYPE_…)`",
        ));
    }
    if map.value_size == 0 {
        map.value_size = kind::default_value_size(map.kind);
    }
    if map.key_size == 0 {
        map.key_size = kind::default_key_size(map.kind);
    }
    Ok(map)
}

/// The value of an attribute that is a 32-bit number.
fn number(btf: &Btf, map: &Map, member: &Member<'_>) -> Result<u32, Error> {
    let number = wide(btf, map, member)?;
    u32::try_from(number)
        .map_err(|_| wrong(&map.name, format!("`{}` is {number:#x}, too large", member.name)))
}

/// The value of an attribute that is a number. `__uint(name, N)` is `int (*name)[N]`; `__ulong(name, N)` is an enumerator, by itself, behind a pointer or in
/// an array of one.
fn wide(btf: &Btf, map: &Map, member: &Member<'_>) -> Result<u64, Error> {
    let enumerator = |ty: TypeId| match btf.resolved(ty) {
        Type::Enum(values) => values.values().next().map(|v| v.value as u64),
        _ => None,
    };
    let count = match btf.resolved(member.ty) {
        Type::Ptr(to) => match btf.resolved(to) {
            Type::Array { count, .. } => Some(u64::from(count)),
            _ => enumerator(to),
        },
        Type::Array { element, .. } => enumerator(element),
        _ => enumerator(member.ty),
    };
    count.ok_or_else(|| {
        wrong(
            &map.name,
            format!("`{}` is not a number in the way of `__uint({0}, N)`", member.name),
        )
    })
}

/// Type and size of an attribute that is a type: `__type(name, T)` is `T *name`.
fn typed(btf: &Btf, map: &Map, member: &Member<'_>) -> Result<(TypeId, u32), Error> {
    let Type::Ptr(to) = btf.resolved(member.ty) else {
        return Err(wrong(
            &map.name,
            format!("`{}` is not a type in the way of `__type({0}, T)`", member.name),
        ));
    };
    let size = btf.size_of(to).and_then(|size| u32::try_from(size).ok());
    let size =
        size.ok_or_else(|| wrong(&map.name, format!("the type of its {} has no size", member.name)))?;
    Ok((to, size))
}

fn pinning(map: &mut Map, btf: &Btf, member: &Member<'_>) -> Result<(), Error> {
    map.pinning = match number(btf, map, member)? {
        0 => Pinning::None,
        1 => Pinning::ByName,
        other => {
            return Err(wrong(
                &map.name,
                format!("there is no way of pinning with number {other}"),
            ));
        }
    };
    Ok(())
}

/// The attribute `values` of a map of maps or of programs: `__array(values, T)` is `T *values[]`.
fn values(map: &mut Map, btf: &Btf, member: &Member<'_>) -> Result<(), Error> {
    let strange = || {
        wrong(
            &map.name,
            "`values` is not an array of pointers to maps or functions",
        )
    };
    let Type::Array { element, .. } = btf.resolved(member.ty) else {
        return Err(strange());
    };
    let Type::Ptr(to) = btf.resolved(element) else {
        return Err(strange());
    };
    match btf.resolved(to) {
        Type::FuncProto(_) => {}
        Type::Struct(_) => {
            let name = format!("{}.inner", map.name);
            map.inner = Some(Inner::Template(Box::new(define(btf, &name, to, false)?)));
        }
        _ => return Err(strange()),
    }
    map.slots_at = u64::from(member.bit_offset / 8);
    map.value_size = 4;
    Ok(())
}

/// Fills the slots of maps of maps and of programs: a relocation in the section says what each slot holds.
pub(super) fn fill(source: &Source<'_>, maps: &mut [Map]) -> Result<(), Error> {
    let Some((section, data)) = source.elf.section(SECTION) else {
        return Ok(());
    };
    for relocation in &data.relocations {
        let declared = |map: &Map| map.place.0 == section && map.place.1 <= relocation.offset;
        // Several maps share the section: the owner is the last one that begins before the slot.
        let owner = maps
            .iter()
            .enumerate()
            .filter(|(_, map)| declared(map))
            .max_by_key(|(_, map)| map.place.1);
        let symbol = source.elf.symbols.get(relocation.symbol);
        let (Some((owner, map)), Some(symbol)) = (owner, symbol) else {
            return Err(Error::Object(format!(
                "the relocation at {:#x} of section .maps belongs to no map",
                relocation.offset
            )));
        };
        let slot = (relocation.offset - map.place.1)
            .checked_sub(map.slots_at)
            .filter(|at| at.is_multiple_of(8) && map.slots_at != 0);
        let slot = slot
            .and_then(|at| u32::try_from(at / 8).ok())
            .ok_or_else(|| wrong(&map.name, "a relocation points beside its slots"))?;
        let filling = match symbol.section {
            Some(place) if place == section => {
                let held = maps.iter().position(|map| map.place == (section, symbol.value));
                Filling::Map(held.ok_or_else(|| {
                    wrong(
                        &map.name,
                        format!("slot {slot} holds {}, which is no map", symbol.name),
                    )
                })?)
            }
            Some(_) if symbol.function => Filling::Program(symbol.name.clone()),
            _ => {
                return Err(wrong(
                    &map.name,
                    format!(
                        "slot {slot} holds `{}`, which is neither a map nor a function",
                        symbol.name
                    ),
                ));
            }
        };
        if let Some(map) = maps.get_mut(owner) {
            map.filling.push((slot, filling));
        }
    }
    Ok(())
}
