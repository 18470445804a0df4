//! Queries that follow types: the type behind a typedef, sizes, members by name. Each is bounded, because a damaged blob may have types that contain themselves.

use super::Btf;
use super::raw::{TypeId, u32_at};
use super::types::{BtfKind, Composite, Type};

/// Most modifiers and typedefs followed one after another; the kernel's own limit is 32.
const CHAIN: usize = 64;
/// Most members looked at in one search; `struct task_struct` has some 300.
const SEARCH: u32 = 100_000;
/// Most anonymous structs and unions inside one another.
const DEPTH: u32 = 32;

/// Place of a member in a struct or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberPlace {
    /// Bits from the start of the struct.
    pub bit_offset: u32,
    /// Width in bits where it is a bit field.
    pub bits: Option<u32>,
    /// The member's type.
    pub ty: TypeId,
}

impl MemberPlace {
    /// Bytes from the start of the struct; of a bit field, of the byte it begins in.
    pub fn offset(&self) -> u32 {
        self.bit_offset / 8
    }
}

impl Btf {
    /// The type behind typedefs, `const`, `volatile`, `restrict` and tags. In a chain without end it is the type at which the walk gives up.
    pub fn resolve(&self, id: TypeId) -> TypeId {
        self.chase(id, true)
    }

    /// The type behind `const`, `volatile`, `restrict` and tags, typedefs kept.
    pub(crate) fn unqualified(&self, id: TypeId) -> TypeId {
        self.chase(id, false)
    }

    fn chase(&self, mut id: TypeId, typedefs: bool) -> TypeId {
        for _ in 0..CHAIN {
            let Some((_, record)) = self.record(id) else {
                return id;
            };
            match self.kind(id) {
                Some(BtfKind::Const | BtfKind::Volatile | BtfKind::Restrict | BtfKind::TypeTag) => {}
                Some(BtfKind::Typedef) if typedefs => {}
                _ => return id,
            }
            id = TypeId(u32_at(record, 8).unwrap_or(0));
        }
        id
    }

    /// The type behind typedefs and modifiers, decoded.
    pub fn resolved(&self, id: TypeId) -> Type<'_> {
        self.ty(self.resolve(id))
    }

    /// Bytes that a value of the type occupies (pointers: 8); `None` for `void`, functions and forward declarations.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        let mut id = id;
        let mut count = 1_u64;
        for _ in 0..CHAIN {
            let one = match self.resolved(id) {
                Type::Int(int) => int.size,
                Type::Ptr(_) => 8,
                Type::Struct(c) | Type::Union(c) => c.size,
                Type::Enum(e) => e.size,
                Type::Float { size, .. } | Type::Datasec { size, .. } => size,
                Type::Array {
                    element, count: n, ..
                } => {
                    count = count.checked_mul(u64::from(n))?;
                    id = element;
                    continue;
                }
                Type::Var { ty, .. } => {
                    id = ty;
                    continue;
                }
                _ => return None,
            };
            return count.checked_mul(u64::from(one));
        }
        None
    }

    /// The struct or union behind typedefs and modifiers.
    pub fn composite(&self, id: TypeId) -> Option<Composite<'_>> {
        match self.resolved(id) {
            Type::Struct(c) | Type::Union(c) => Some(c),
            _ => None,
        }
    }

    /// Where the member of that name lies in a struct or union (or a typedef of one), anonymous members searched too.
    pub fn find_member(&self, id: TypeId, name: &str) -> Option<MemberPlace> {
        let mut left = SEARCH;
        if name.is_empty() {
            return None;
        }
        self.search(id, name, 0, 0, &mut left)
    }

    fn search(&self, id: TypeId, name: &str, base: u32, depth: u32, left: &mut u32) -> Option<MemberPlace> {
        let composite = self.composite(id)?;
        for member in composite.members() {
            *left = left.checked_sub(1)?;
            let bit_offset = base.checked_add(member.bit_offset)?;
            if member.name == name {
                return Some(self.old_bitfield(MemberPlace {
                    bit_offset,
                    bits: member.bits,
                    ty: member.ty,
                }));
            }
            if member.name.is_empty() && depth < DEPTH {
                let inside = self.search(member.ty, name, bit_offset, depth + 1, left);
                if inside.is_some() {
                    return inside;
                }
            }
        }
        None
    }

    /// The names of a struct's members, those of anonymous members among them, in order: for "there is no such member".
    pub fn member_names(&self, id: TypeId) -> Vec<&str> {
        let mut names = Vec::new();
        let mut left = SEARCH;
        self.collect_names(id, 0, &mut left, &mut names);
        names
    }

    fn collect_names<'a>(&'a self, id: TypeId, depth: u32, left: &mut u32, names: &mut Vec<&'a str>) {
        for member in self.composite(id).iter().flat_map(Composite::members) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return;
            }
            match member.name {
                "" if depth < DEPTH => self.collect_names(member.ty, depth + 1, left, names),
                "" => {}
                name => names.push(name),
            }
        }
    }

    /// Recognises a bit field as compilers wrote it before BTF had `kind_flag`: a member whose integer type has fewer bits than its size.
    fn old_bitfield(&self, place: MemberPlace) -> MemberPlace {
        match self.resolved(place.ty) {
            Type::Int(int)
                if place.bits.is_none()
                    && (u32::from(int.bits) != int.size.saturating_mul(8) || int.bit_offset != 0) =>
            {
                let bit_offset = place.bit_offset.saturating_add(int.bit_offset.into());
                MemberPlace {
                    bit_offset,
                    bits: Some(int.bits.into()),
                    ..place
                }
            }
            _ => place,
        }
    }
}
