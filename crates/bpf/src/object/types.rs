//! The object's own types, made fit for the kernel: what a compiler leaves open (where variables lie, what is defined elsewhere) is filled in.

use super::elf::Elf;
use crate::Error;
use crate::btf::{Btf, BtfKind, Type, TypeId};
use bytes::Bytes;

/// A variable or function that the kernel is to provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extern {
    pub(super) name: String,
    /// The type, `None` for a variable of type `void`: just an address.
    pub(super) ty: Option<TypeId>,
    pub(super) function: bool,
}

/// Externs of an object: what it asks of the kernel by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Externs {
    pub(super) kconfig: Vec<Extern>,
    pub(super) ksyms: Vec<Extern>,
}

/// The words of a blob that was parsed, writable.
struct Words<'b> {
    btf: &'b Btf,
    bytes: Vec<u8>,
}

impl Words<'_> {
    /// Word `index` from a type's header on: 0 name, 1 info, 2 size or type, 3… what follows.
    fn get(&self, id: TypeId, index: usize) -> u32 {
        let at = self.btf.position(id).map(|at| at + index * 4);
        at.and_then(|at| self.bytes.get(at..)?.first_chunk())
            .map_or(0, |word| u32::from_le_bytes(*word))
    }

    fn set(&mut self, id: TypeId, index: usize, value: u32) {
        let at = self.btf.position(id).map(|at| at + index * 4);
        if let Some(word) = at.and_then(|at| self.bytes.get_mut(at..)?.first_chunk_mut()) {
            *word = value.to_le_bytes();
        }
    }
}

const KIND_BITS: u32 = 0x1f00_0000;

/// Fills in what is open and takes out what is defined elsewhere.
pub(super) fn complete(btf: &Btf, elf: &Elf) -> Result<(Bytes, Externs), Error> {
    let mut words = Words {
        btf,
        bytes: btf.bytes().to_vec(),
    };
    let mut externs = Externs::default();
    for id in btf.ids() {
        let Type::Datasec { name, size, entries } = btf.ty(id) else {
            continue;
        };
        let list = match name {
            ".kconfig" => Some(&mut externs.kconfig),
            ".ksyms" => Some(&mut externs.ksyms),
            _ => None,
        };
        match list {
            Some(list) => {
                let int = four_byte_int(btf)
                    .ok_or_else(|| Error::Object("its types have no 4-byte integer".into()))?;
                for variable in entries.variables() {
                    list.extend(extern_of(btf, variable.ty));
                }
                as_struct(
                    &mut words,
                    id,
                    entries.variables().map(|v| v.ty),
                    int,
                    name == ".ksyms",
                );
            }
            None => place_variables(&mut words, elf, id, name, size),
        }
    }
    hidden_functions(&mut words, elf);
    Ok((Bytes::from(words.bytes), externs))
}

fn four_byte_int(btf: &Btf) -> Option<TypeId> {
    btf.ids()
        .find(|id| matches!(btf.ty(*id), Type::Int(int) if int.size == 4 && int.bits == 32))
}

/// The variable or function of another file that a type declares.
fn extern_of(btf: &Btf, id: TypeId) -> Option<Extern> {
    let (name, ty, function) = match btf.ty(id) {
        Type::Var { name, ty, .. } => (
            name,
            Some(ty).filter(|ty| !matches!(btf.resolved(*ty), Type::Void)),
            false,
        ),
        Type::Func { name, proto, .. } => (name, Some(proto), true),
        _ => return None,
    };
    Some(Extern {
        name: name.to_owned(),
        ty,
        function,
    })
}

/// The kernel takes no section of things that are elsewhere. What is there has the layout of a struct, and that is harmless.
fn as_struct(
    words: &mut Words<'_>,
    section: TypeId,
    members: impl ExactSizeIterator<Item = TypeId>,
    int: TypeId,
    typed_as_int: bool,
) {
    let count = members.len() as u32;
    for (index, member) in members.enumerate() {
        match words.btf.kind(member) {
            Some(BtfKind::Var) => {
                if typed_as_int {
                    words.set(member, 2, int.0);
                }
                words.set(member, 3, 1); // a global variable
            }
            Some(BtfKind::Func) => own_function(words, member),
            _ => {}
        }
        let entry = 3 + index * 3;
        words.set(section, entry, 0);
        words.set(section, entry + 1, int.0);
        words.set(section, entry + 2, index as u32 * 32);
    }
    let info = words.get(section, 1) & !KIND_BITS | (BtfKind::Struct as u32) << 24;
    words.set(section, 0, 0);
    words.set(section, 1, info);
    words.set(section, 2, count * 4);
}

/// A function that is elsewhere becomes a global one, whose parameters must have names.
fn own_function(words: &mut Words<'_>, function: TypeId) {
    let info = words.get(function, 1) & !0xffff | 1;
    words.set(function, 1, info);
    let prototype = TypeId(words.get(function, 2));
    let name = words.get(function, 0);
    let Type::FuncProto(proto) = words.btf.ty(prototype) else {
        return;
    };
    for index in 0..proto.parameters().len() {
        let entry = 3 + index * 2;
        if words.get(prototype, entry) == 0 && words.get(prototype, entry + 1) != 0 {
            words.set(prototype, entry, name);
        }
    }
}

/// Compilers leave the size of a section and the offsets of its variables out of BTF: the symbol table has them.
fn place_variables(words: &mut Words<'_>, elf: &Elf, id: TypeId, name: &str, size: u32) {
    let Type::Datasec { entries, .. } = words.btf.ty(id) else {
        return;
    };
    let Some((section, data)) = elf.section(name) else {
        return;
    };
    if size == 0 {
        words.set(id, 2, data.size.min(u64::from(u32::MAX)) as u32);
    }
    let symbols: std::collections::HashMap<&str, u64> = elf
        .symbols_in(section)
        .filter(|symbol| !symbol.name.is_empty())
        .map(|symbol| (symbol.name.as_str(), symbol.value))
        .collect();
    let place = |variable: &crate::btf::DatasecEntry| {
        symbols
            .get(words.btf.name(variable.ty))
            .copied()
            .map_or(variable.offset, |value| value.min(u64::from(u32::MAX)) as u32)
    };
    let mut placed: Vec<(u32, TypeId, u32)> =
        entries.variables().map(|v| (place(&v), v.ty, v.size)).collect();
    placed.sort_by_key(|(offset, ..)| *offset);
    for (index, (offset, ty, size)) in placed.into_iter().enumerate() {
        let entry = 3 + index * 3;
        words.set(id, entry, ty.0);
        words.set(id, entry + 1, offset);
        words.set(id, entry + 2, size);
    }
}

/// A global function that other objects cannot see is verified with its callers, as a static one is: so says libbpf's convention.
fn hidden_functions(words: &mut Words<'_>, elf: &Elf) {
    let hidden: std::collections::HashSet<&str> = elf
        .symbols
        .iter()
        .filter(|s| s.function && s.global && s.hidden)
        .map(|s| s.name.as_str())
        .collect();
    if hidden.is_empty() {
        return;
    }
    for id in words.btf.ids() {
        if words.btf.kind(id) == Some(BtfKind::Func) && hidden.contains(words.btf.name(id)) {
            let info = words.get(id, 1) & !0xffff;
            words.set(id, 1, info);
        }
    }
}
