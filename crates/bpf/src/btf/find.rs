//! Finding by name: types, functions, enumerators; a few names are searched for, and for more an index is made.

use super::Btf;
use super::names::{NameIndex, hash};
use super::raw::TypeId;
use super::types::{BtfKind, Prototype, Type};

/// A function of the kernel with its prototype.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// Number of the function (what `fentry` attaches to).
    pub id: TypeId,
    /// The function's name.
    pub name: &'a str,
    /// Number of its prototype.
    pub proto_id: TypeId,
    /// The parameters and result.
    pub proto: Prototype<'a>,
}

/// A named constant found by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enumerator {
    /// The enumeration it belongs to.
    pub enumeration: TypeId,
    /// The value; see [`super::EnumerationValue::value`].
    pub value: i64,
}

impl Btf {
    /// The first type of that kind and name, of this blob or else of its base. `Kind::Enum` finds both widths.
    pub fn find(&self, kind: BtfKind, name: &str) -> Option<TypeId> {
        self.find_all(name).find(|id| match self.kind(*id) {
            Some(BtfKind::Enum64) => kind == BtfKind::Enum || kind == BtfKind::Enum64,
            found => found == Some(kind),
        })
    }

    /// All types of that name, those of this blob first.
    pub fn find_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = TypeId> + 'a {
        let blobs = std::iter::successors(Some(self), |btf| btf.base.as_deref());
        let wanted = !name.is_empty();
        blobs.filter(move |_| wanted).flat_map(move |btf| {
            btf.candidates(name)
                .into_iter()
                .filter(move |id| btf.name(*id) == name)
        })
    }

    /// The types of this blob that may be of that name.
    fn candidates(&self, name: &str) -> Vec<TypeId> {
        if let Some(order) = &self.order {
            return self.listed(order, name);
        }
        let scan = || self.searches.find(name, || self.scan_types(name));
        let indexed = || {
            let found = self.names().candidates(hash(name.as_bytes()));
            found.map(TypeId).collect()
        };
        match self.names.get() {
            None => scan().unwrap_or_else(indexed),
            Some(_) => indexed(),
        }
    }

    /// A type as C names it: `struct task_struct`, `union x`, `enum pid_type`, or the bare name of a typedef or a
    /// basic type.
    pub fn find_c(&self, spelling: &str) -> Option<TypeId> {
        let mut words = spelling.split_whitespace();
        let (first, second) = (words.next()?, words.next());
        let tagged = |kind| {
            second
                .filter(|_| words.clone().next().is_none())
                .and_then(|name| self.find(kind, name))
        };
        match first {
            "struct" => tagged(BtfKind::Struct),
            "union" => tagged(BtfKind::Union),
            "enum" => tagged(BtfKind::Enum),
            _ => {
                let name = spelling.split_whitespace().collect::<Vec<_>>().join(" ");
                let of = |kind| self.find(kind, &name);
                of(BtfKind::Typedef)
                    .or_else(|| of(BtfKind::Int))
                    .or_else(|| of(BtfKind::Float))
            }
        }
    }

    /// The function of that name.
    pub fn function(&self, name: &str) -> Option<Function<'_>> {
        // The id alone is kept: the name's life must not bind the result's.
        let id = self.find(BtfKind::Func, name)?;
        self.function_at(id)
    }

    /// The functions of this blob (not of its base), in its order.
    pub fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        self.ids()
            .filter(|id| self.kind(*id) == Some(BtfKind::Func))
            .filter_map(|id| self.function_at(id))
    }

    fn function_at(&self, id: TypeId) -> Option<Function<'_>> {
        let Type::Func {
            name,
            proto: proto_id,
            ..
        } = self.ty(id)
        else {
            return None;
        };
        let Type::FuncProto(proto) = self.ty(proto_id) else {
            return None;
        };
        Some(Function {
            id,
            name,
            proto_id,
            proto,
        })
    }

    /// The enumerator of that name, of this blob or else of its base.
    pub fn enumerator(&self, name: &str) -> Option<Enumerator> {
        let scan = || {
            let searches = &self.enumerator_searches;
            searches.find(name, || self.scan_enumerations(name))
        };
        let indexed = || {
            let found = self.enumerators().candidates(hash(name.as_bytes()));
            found.map(TypeId).collect()
        };
        let candidates = match self.enumerators.get() {
            None => scan().unwrap_or_else(indexed),
            Some(_) => indexed(),
        };
        let own = candidates.into_iter().find_map(|enumeration| {
            let Type::Enum(values) = self.ty(enumeration) else {
                return None;
            };
            let value = values.values().find(|v| v.name == name)?.value;
            Some(Enumerator { enumeration, value })
        });
        own.or_else(|| self.base.as_ref()?.enumerator(name))
    }

    fn names(&self) -> &NameIndex {
        self.names.get_or_init(|| {
            let named = self.labels().iter().filter(|name| **name != 0).count();
            let mut index = NameIndex::with_room(named);
            for (id, &name) in self.ids().zip(self.labels()) {
                if name != 0 {
                    index.add(self.hash_of(name), id.0);
                }
            }
            index
        })
    }

    fn enumerators(&self) -> &NameIndex {
        self.enumerators.get_or_init(|| {
            let enums = self
                .ids()
                .filter(|id| matches!(self.kind(*id), Some(BtfKind::Enum | BtfKind::Enum64)));
            let values = |id| match self.ty(id) {
                Type::Enum(e) => Some(e.values()),
                _ => None,
            };
            let room = enums.clone().filter_map(values).map(|v| v.len()).sum();
            let mut index = NameIndex::with_room(room);
            for id in enums {
                for value in values(id).into_iter().flatten() {
                    index.add(hash(value.name.as_bytes()), id.0);
                }
            }
            index
        })
    }

    pub(super) fn hash_of(&self, name: u32) -> u32 {
        match name.checked_sub(self.first_string) {
            Some(own) => hash(self.own_strings().get(own as usize..).unwrap_or(&[])),
            None => hash(self.string_bytes(name)),
        }
    }
}
