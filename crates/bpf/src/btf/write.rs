//! Making BTF: miniature kernels for tests, and the types of a program's own maps; the mirror of reading.

use super::Btf;
use super::raw::{MAGIC, TypeId};
use super::types::{BtfKind, Type};
use std::collections::HashMap;

/// Farthest bit at which a member can lie in a struct with bit fields: the width takes the upper 8 of its 32 bits.
pub const MAX_OFFSET_OF_BITS: u32 = (1 << 24) - 1;

/// A member placed by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// The name; empty for an anonymous struct or union.
    pub name: &'a str,
    /// The member's type.
    pub ty: TypeId,
    /// Bits from the start.
    pub bit_offset: u32,
    /// Width where it is a bit field.
    pub bits: Option<u8>,
}

/// Collects types; numbers are given in the order of the calls.
///
/// ```
/// use kestrel_bpf::btf::{Btf, write::Builder};
/// let mut b = Builder::new();
/// let int = b.int("int", 4);
/// let task = b.declare("task_struct");
/// let task_pointer = b.pointer(task);
/// b.define(task, &[("pid", int), ("parent", task_pointer)]);
/// b.function("wake_up_process", int, &[("p", task_pointer)]);
/// let btf = Btf::parse(b.finish())?;
/// let wake = btf.function("wake_up_process").ok_or("no function")?;
/// assert_eq!(btf.prototype(&wake), "int wake_up_process(struct task_struct * p)");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    types: Vec<Entry>,
    first_id: u32,
    strings: Vec<u8>,
    known: HashMap<String, u32>,
    first_string: u32,
    /// Size and alignment of each type of the base.
    base: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Entry {
    name: u32,
    kind: BtfKind,
    count: usize,
    flag: bool,
    third: u32,
    tail: Vec<u32>,
    size: u64,
    align: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A builder of a blob of its own.
    pub fn new() -> Self {
        Self {
            types: Vec::new(),
            first_id: 1,
            strings: vec![0],
            known: HashMap::new(),
            first_string: 0,
            base: Vec::new(),
        }
    }

    /// A builder of a split blob over `base`: a module's types.
    pub fn split(base: &Btf) -> Self {
        let measure = |id| {
            (
                base.size_of(TypeId(id)).unwrap_or(0),
                align_of(base, TypeId(id), 0),
            )
        };
        Self {
            types: Vec::new(),
            first_id: base.end_id(),
            strings: Vec::new(),
            known: HashMap::new(),
            first_string: base.end_string(),
            base: (0..base.end_id()).map(measure).collect(),
        }
    }

    /// A builder over `base` without the sizes of its types, which take a while for a kernel: structs are filled by hand
    /// ([`Builder::fill`]), since the C layout of a struct with members of the base's types is not known.
    pub fn split_without_sizes(base: &Btf) -> Self {
        Self {
            first_id: base.end_id(),
            first_string: base.end_string(),
            strings: Vec::new(),
            ..Self::new()
        }
    }

    /// A signed integer of `size` bytes.
    pub fn int(&mut self, name: &str, size: u32) -> TypeId {
        self.integer(name, size, 1)
    }

    /// An unsigned integer of `size` bytes.
    pub fn unsigned(&mut self, name: &str, size: u32) -> TypeId {
        self.integer(name, size, 0)
    }

    /// `_Bool`.
    pub fn boolean(&mut self) -> TypeId {
        self.integer("_Bool", 1, 4)
    }

    /// `char`, signed as on x86.
    pub fn character(&mut self) -> TypeId {
        self.integer("char", 1, 1)
    }

    fn integer(&mut self, name: &str, size: u32, encoding: u32) -> TypeId {
        let name = self.string(name);
        let tail = vec![(encoding << 24) | (size * 8)];
        self.push(Entry::sized(BtfKind::Int, name, size, tail))
    }

    /// A floating-point number.
    pub fn float(&mut self, name: &str, size: u32) -> TypeId {
        let name = self.string(name);
        self.push(Entry::sized(BtfKind::Float, name, size, vec![]))
    }

    /// `to *`.
    pub fn pointer(&mut self, to: TypeId) -> TypeId {
        let entry = Entry::referring(BtfKind::Ptr, 0, to);
        self.push(Entry {
            size: 8,
            align: 8,
            ..entry
        })
    }

    /// `element[count]`. The index type is the element's: readers ignore it.
    pub fn array(&mut self, element: TypeId, count: u32) -> TypeId {
        let (size, align) = self.measure(element);
        let entry = Entry::referring(BtfKind::Array, 0, TypeId::VOID);
        let size = size.saturating_mul(count.into());
        self.push(Entry {
            tail: vec![element.0, element.0, count],
            size,
            align,
            ..entry
        })
    }

    /// `typedef ty name`.
    pub fn typedef(&mut self, name: &str, ty: TypeId) -> TypeId {
        self.modifier(BtfKind::Typedef, name, ty)
    }

    /// `const ty`.
    pub fn constant(&mut self, ty: TypeId) -> TypeId {
        self.modifier(BtfKind::Const, "", ty)
    }

    /// `volatile ty`.
    pub fn volatile(&mut self, ty: TypeId) -> TypeId {
        self.modifier(BtfKind::Volatile, "", ty)
    }

    /// `restrict ty`.
    pub fn restrict(&mut self, ty: TypeId) -> TypeId {
        self.modifier(BtfKind::Restrict, "", ty)
    }

    /// `ty` tagged, like `__user` (`user`) or `__rcu` (`rcu`).
    pub fn type_tag(&mut self, name: &str, ty: TypeId) -> TypeId {
        self.modifier(BtfKind::TypeTag, name, ty)
    }

    fn modifier(&mut self, kind: BtfKind, name: &str, ty: TypeId) -> TypeId {
        let (size, align) = self.measure(ty);
        let name = self.string(name);
        self.push(Entry {
            size,
            align,
            ..Entry::referring(kind, name, ty)
        })
    }

    /// `struct name;`: a struct known elsewhere.
    pub fn forward(&mut self, name: &str, union: bool) -> TypeId {
        let name = self.string(name);
        self.push(Entry {
            flag: union,
            ..Entry::referring(BtfKind::Fwd, name, TypeId::VOID)
        })
    }

    /// A struct whose members are laid out as C does.
    pub fn structure(&mut self, name: &str, members: &[(&str, TypeId)]) -> TypeId {
        let id = self.declare(name);
        self.define(id, members);
        id
    }

    /// A struct without members yet; [`Builder::define`] gives them, so that it can point to itself.
    pub fn declare(&mut self, name: &str) -> TypeId {
        let name = self.string(name);
        self.push(Entry::sized(BtfKind::Struct, name, 0, vec![]))
    }

    /// A union without members yet; [`Builder::fill`] gives them.
    pub fn declare_union(&mut self, name: &str) -> TypeId {
        let name = self.string(name);
        self.push(Entry::sized(BtfKind::Union, name, 0, vec![]))
    }

    /// Gives a declared struct or union its size and its members, placed by hand. Does nothing to any other type.
    pub fn fill(&mut self, id: TypeId, size: u32, align: u32, members: &[Placed<'_>]) {
        self.place(id, size, align.into(), members);
    }

    /// Gives a declared struct its members, laid out as C does. Does nothing to any other type.
    pub fn define(&mut self, id: TypeId, members: &[(&str, TypeId)]) {
        let (mut at, mut most) = (0_u64, 1_u64);
        let mut placed = Vec::with_capacity(members.len());
        for &(name, ty) in members {
            let (size, align) = self.measure(ty);
            let align = align.max(1);
            at = at.next_multiple_of(align);
            placed.push(Placed {
                name,
                ty,
                bit_offset: (at * 8) as u32,
                bits: None,
            });
            at += size;
            most = most.max(align);
        }
        self.place(id, at.next_multiple_of(most) as u32, most, &placed);
    }

    /// Adds a union.
    pub fn union(&mut self, name: &str, members: &[(&str, TypeId)]) -> TypeId {
        let measured: Vec<_> = members.iter().map(|m| self.measure(m.1)).collect();
        let align = measured.iter().map(|m| m.1).max().unwrap_or(1).max(1);
        let size = measured
            .iter()
            .map(|m| m.0)
            .max()
            .unwrap_or(0)
            .next_multiple_of(align);
        let place = |&(name, ty)| Placed {
            name,
            ty,
            bit_offset: 0,
            bits: None,
        };
        let placed: Vec<_> = members.iter().map(place).collect();
        let name = self.string(name);
        let id = self.push(Entry::sized(BtfKind::Union, name, 0, vec![]));
        self.place(id, size as u32, align, &placed);
        id
    }

    /// A struct laid out by hand, bit fields possible.
    pub fn struct_at_offsets(&mut self, name: &str, size: u32, members: &[Placed<'_>]) -> TypeId {
        let id = self.declare(name);
        self.place(id, size, 8, members);
        id
    }

    fn place(&mut self, id: TypeId, size: u32, align: u64, members: &[Placed<'_>]) {
        let flag = members.iter().any(|m| m.bits.is_some());
        // Offsets beside bit fields have 24 bits, and members are counted in 16: what is beyond has no place in BTF, and is left out rather than put elsewhere.
        let most = if flag { MAX_OFFSET_OF_BITS } else { u32::MAX };
        let members: Vec<_> = (members.iter())
            .filter(|m| m.bit_offset <= most)
            .take(usize::from(u16::MAX))
            .collect();
        let mut tail = Vec::with_capacity(members.len() * 3);
        for m in &members {
            let width = if flag {
                u32::from(m.bits.unwrap_or(0)) << 24
            } else {
                0
            };
            tail.extend([self.string(m.name), m.ty.0, width | m.bit_offset]);
        }
        let own =
            id.0.checked_sub(self.first_id)
                .and_then(|own| self.types.get_mut(own as usize));
        if let Some(entry) = own
            && matches!(entry.kind, BtfKind::Struct | BtfKind::Union)
        {
            (entry.count, entry.flag, entry.third) = (members.len(), flag, size);
            (entry.tail, entry.size, entry.align) = (tail, size.into(), align);
        }
    }

    /// An enumeration of `size` bytes (8 makes a `BTF_KIND_ENUM64`), signed if a value is negative.
    pub fn enumeration(&mut self, name: &str, size: u32, values: &[(&str, i64)]) -> TypeId {
        let mut tail = Vec::new();
        for &(name, value) in values {
            tail.extend([self.string(name), value as u32]);
            if size == 8 {
                tail.push((value >> 32) as u32);
            }
        }
        let kind = if size == 8 { BtfKind::Enum64 } else { BtfKind::Enum };
        let flag = values.iter().any(|v| v.1 < 0);
        let name = self.string(name);
        self.push(Entry {
            count: values.len(),
            flag,
            ..Entry::sized(kind, name, size, tail)
        })
    }

    /// The type of a function: `ret (parameters)`; a last parameter `("", TypeId::VOID)` is `...`.
    pub fn func_proto(&mut self, ret: TypeId, parameters: &[(&str, TypeId)]) -> TypeId {
        let tail = parameters
            .iter()
            .flat_map(|(name, ty)| [self.string(name), ty.0])
            .collect();
        let entry = Entry::referring(BtfKind::FuncProto, 0, ret);
        self.push(Entry {
            count: parameters.len(),
            tail,
            ..entry
        })
    }

    /// A function with its prototype; the number is the function's.
    pub fn function(&mut self, name: &str, ret: TypeId, parameters: &[(&str, TypeId)]) -> TypeId {
        let proto = self.func_proto(ret, parameters);
        let name = self.string(name);
        self.push(Entry::referring(BtfKind::Func, name, proto))
    }

    /// A function that is visible beyond its file, which for the kernel means: its callers are to be verified apart from it.
    pub fn global_function(&mut self, name: &str, ret: TypeId, parameters: &[(&str, TypeId)]) -> TypeId {
        let proto = self.func_proto(ret, parameters);
        let name = self.string(name);
        self.push(Entry {
            // `BTF_FUNC_GLOBAL`, in the place of a count.
            count: 1,
            ..Entry::referring(BtfKind::Func, name, proto)
        })
    }

    /// Adds a global variable.
    pub fn variable(&mut self, name: &str, ty: TypeId) -> TypeId {
        let name = self.string(name);
        self.push(Entry {
            tail: vec![1],
            ..Entry::referring(BtfKind::Var, name, ty)
        })
    }

    /// A section of variables: (variable, offset, size).
    pub fn datasec(&mut self, name: &str, size: u32, variables: &[(TypeId, u32, u32)]) -> TypeId {
        let name = self.string(name);
        let tail = variables
            .iter()
            .flat_map(|(ty, offset, size)| [ty.0, *offset, *size])
            .collect();
        self.push(Entry {
            count: variables.len(),
            ..Entry::sized(BtfKind::Datasec, name, size, tail)
        })
    }

    /// Gives the finished blob.
    pub fn finish(self) -> Vec<u8> {
        let mut types = Vec::new();
        for entry in &self.types {
            let info = u32::from(entry.flag) << 31 | (entry.kind as u32) << 24 | entry.count as u32 & 0xffff;
            let words = [entry.name, info, entry.third]
                .into_iter()
                .chain(entry.tail.iter().copied());
            types.extend(words.flat_map(u32::to_le_bytes));
        }
        let mut blob = Vec::new();
        blob.extend(MAGIC.to_le_bytes());
        blob.extend([1, 0]);
        let length = types.len() as u32;
        let header = [super::HEADER as u32, 0, length, length, self.strings.len() as u32];
        blob.extend(header.into_iter().flat_map(u32::to_le_bytes));
        blob.extend(types);
        blob.extend(self.strings);
        blob
    }

    fn push(&mut self, entry: Entry) -> TypeId {
        self.types.push(entry);
        TypeId(self.first_id + self.types.len() as u32 - 1)
    }

    fn measure(&self, id: TypeId) -> (u64, u64) {
        match id.0.checked_sub(self.first_id) {
            Some(own) => self.types.get(own as usize).map_or((0, 1), |e| (e.size, e.align)),
            None => self.base.get(id.0 as usize).copied().unwrap_or((0, 1)),
        }
    }

    fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(&at) = self.known.get(text) {
            return at;
        }
        let at = self.first_string + self.strings.len() as u32;
        self.strings.extend(text.bytes());
        self.strings.push(0);
        self.known.insert(text.to_owned(), at);
        at
    }
}

impl Entry {
    fn sized(kind: BtfKind, name: u32, size: u32, tail: Vec<u32>) -> Self {
        let align = u64::from(size).clamp(1, 8);
        Self {
            name,
            kind,
            count: 0,
            flag: false,
            third: size,
            tail,
            size: size.into(),
            align,
        }
    }

    fn referring(kind: BtfKind, name: u32, ty: TypeId) -> Self {
        Self {
            name,
            kind,
            count: 0,
            flag: false,
            third: ty.0,
            tail: vec![],
            size: 0,
            align: 1,
        }
    }
}

impl Btf {
    /// C's alignment of a type, as far as its members tell.
    pub fn align_of(&self, id: TypeId) -> u64 {
        align_of(self, id, 0)
    }
}

/// C's alignment of a type of the base.
fn align_of(btf: &Btf, id: TypeId, depth: u32) -> u64 {
    match btf.resolved(id) {
        _ if depth > 8 => 1,
        Type::Array { element, .. } => align_of(btf, element, depth + 1),
        Type::Struct(c) | Type::Union(c) => c
            .members()
            .take(4096)
            .map(|m| align_of(btf, m.ty, depth + 1))
            .max()
            .unwrap_or(1),
        _ => btf.size_of(id).unwrap_or(1).clamp(1, 8),
    }
}
