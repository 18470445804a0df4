//! Comparison of types of two BTF blobs by shape, as CO-RE's `bpf_core_type_matches` asks for it.
//!
//! The rules are those of the kernel's `__bpf_core_types_match` (tools/lib/bpf/relo_core.c). The kernel itself gives up (EINVAL) where
//! structs lie two deep in one another; this walk does not.

use super::Btf;
use super::raw::TypeId;
use super::types::{BtfKind, Composite, Enumeration, Integer, Type};
use std::collections::HashMap;

/// Types inside one another that are followed.
const DEPTH: u32 = 64;

/// A name without its flavour: `rw_semaphore___old` is an old `rw_semaphore`.
pub(super) fn essential_name(name: &str) -> &str {
    let plain = |at: usize| name.as_bytes().get(at).is_some_and(|byte| *byte != b'_');
    name.rmatch_indices("___")
        .map(|(at, _)| at)
        .find(|at| at.checked_sub(1).is_some_and(plain) && plain(at + 3))
        .and_then(|at| name.get(..at))
        .unwrap_or(name)
}

impl Btf {
    /// Whether a type of the same kind and name (but for the flavour) in `other` has all that this type has. `None`: none is of that name.
    pub fn matched_in(&self, id: TypeId, other: &Self) -> Option<bool> {
        let (kind, name) = (wide(self.kind(id)), essential_name(self.name(id)));
        let mut candidates = other
            .find_all(name)
            .filter(|candidate| wide(other.kind(*candidate)) == kind)
            .peekable();
        candidates.peek()?;
        Some(candidates.any(|candidate| {
            // Types assumed equal for one candidate do not count for the next.
            let mut walk = Walk {
                local: self,
                other,
                known: HashMap::new(),
            };
            walk.matches(id, candidate, false, DEPTH)
        }))
    }
}

/// Enumerations of both widths are one kind.
fn wide(kind: Option<BtfKind>) -> Option<BtfKind> {
    match kind {
        Some(BtfKind::Enum64) => Some(BtfKind::Enum),
        other => other,
    }
}

struct Walk<'a> {
    local: &'a Btf,
    other: &'a Btf,
    /// Pairs that were asked about, each once: the walk ends, and soon.
    known: HashMap<(TypeId, TypeId, bool), bool>,
}

impl Walk<'_> {
    fn matches(&mut self, local: TypeId, other: TypeId, behind_pointer: bool, depth: u32) -> bool {
        let (local, other) = (self.local.resolve(local), self.other.resolve(other));
        let pair = (local, other, behind_pointer);
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        // A pair that comes round to itself differs nowhere else.
        self.known.insert(pair, true);
        let same = depth > 0 && self.compare(local, other, behind_pointer, depth - 1);
        self.known.insert(pair, same);
        same
    }

    fn compare(&mut self, local: TypeId, other: TypeId, behind_pointer: bool, depth: u32) -> bool {
        let (ours, theirs) = (self.local.ty(local), self.other.ty(other));
        if essential_name(self.local.name(local)) != essential_name(self.other.name(other)) {
            return false;
        }
        match (ours, theirs) {
            (Type::Void, Type::Void) => true,
            (Type::Int(ours), Type::Int(theirs)) => {
                let shape = |int: &Integer<'_>| (int.size, int.signed, int.bit_offset);
                shape(&ours) == shape(&theirs)
            }
            (Type::Float { size: ours, .. }, Type::Float { size: theirs, .. }) => ours == theirs,
            (Type::Enum(ours), Type::Enum(theirs)) => enumerations(&ours, &theirs),
            (Type::Ptr(ours), Type::Ptr(theirs)) => self.matches(ours, theirs, true, depth),
            (
                Type::Array {
                    element: ours,
                    count: our_count,
                    ..
                },
                Type::Array {
                    element: theirs,
                    count,
                    ..
                },
            ) => our_count == count && self.matches(ours, theirs, false, depth),
            (Type::Fwd { union: ours, .. }, Type::Fwd { union: theirs, .. }) => ours == theirs,
            // Behind a pointer the kind and the name do, and a declaration stands for its definition.
            (Type::Fwd { union, .. }, Type::Struct(_)) | (Type::Struct(_), Type::Fwd { union, .. }) => {
                behind_pointer && !union
            }
            (Type::Fwd { union, .. }, Type::Union(_)) | (Type::Union(_), Type::Fwd { union, .. }) => {
                behind_pointer && union
            }
            (Type::Struct(ours), Type::Struct(theirs)) | (Type::Union(ours), Type::Union(theirs)) => {
                behind_pointer || self.members(&ours, &theirs, depth)
            }
            (Type::FuncProto(ours), Type::FuncProto(theirs)) => {
                let (our_ones, their_ones) = (ours.parameters(), theirs.parameters());
                our_ones.len() == their_ones.len()
                    && our_ones
                        .zip(their_ones)
                        .all(|(ours, theirs)| self.matches(ours.ty, theirs.ty, false, depth))
                    && self.matches(ours.ret, theirs.ret, false, depth)
            }
            _ => false,
        }
    }

    /// Whether all members of ours are members of theirs.
    fn members(&mut self, ours: &Composite<'_>, theirs: &Composite<'_>, depth: u32) -> bool {
        ours.members().len() <= theirs.members().len()
            && ours.members().all(|wanted| {
                theirs
                    .members()
                    .filter(|member| member.name == wanted.name)
                    .any(|member| self.matches(wanted.ty, member.ty, false, depth))
            })
    }
}

/// Whether all names of ours are names of theirs; the values do not matter.
fn enumerations(ours: &Enumeration<'_>, theirs: &Enumeration<'_>) -> bool {
    ours.size == theirs.size
        && ours.values().all(|wanted| {
            theirs
                .values()
                .any(|value| essential_name(value.name) == essential_name(wanted.name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::write::Builder;

    /// A kernel whose `outer` holds an `inner` that holds a `core`, and has a pointer to what is declared only.
    fn kernel() -> Btf {
        let mut b = Builder::new();
        let (int, long) = (b.int("int", 4), b.int("long", 8));
        let core = b.structure("core", &[("a", int), ("b", long)]);
        let inner = b.structure("inner", &[("core", core), ("n", int)]);
        let task = b.structure("task", &[("pid", int)]);
        let owner = b.pointer(task);
        b.structure("outer", &[("inner", inner), ("owner", owner), ("more", long)]);
        b.enumeration("state", 4, &[("ON", 0), ("OFF", 1)]);
        Btf::parse(b.finish()).unwrap()
    }

    /// Answer of the object's declaration to `outer`, with the type of `a` and of the owner.
    fn asked(a: &str, size: u32, owner: &str) -> Option<bool> {
        let mut b = Builder::new();
        let a = b.int(a, size);
        let core = b.structure("core", &[("a", a)]);
        let inner = b.structure("inner", &[("core", core)]);
        let task = b.forward(owner, false);
        let owner = b.pointer(task);
        let outer = b.structure("outer___seen", &[("owner", owner), ("inner", inner)]);
        Btf::parse(b.finish()).unwrap().matched_in(outer, &kernel())
    }

    #[test]
    fn structs_deep_in_one_another_are_compared() {
        assert_eq!(asked("int", 4, "task"), Some(true));
        assert_eq!(asked("int", 8, "task"), Some(false), "its size is another");
        assert_eq!(asked("long", 4, "task"), Some(false), "so is its name");
        assert_eq!(
            asked("int", 4, "file"),
            Some(false),
            "a pointer to something else"
        );
    }

    #[test]
    fn members_and_values_that_are_not_there_tell() {
        let one = |name: &str, member: &str| {
            let mut b = Builder::new();
            let int = b.int("int", 4);
            let ty = b.structure(name, &[(member, int)]);
            Btf::parse(b.finish()).unwrap().matched_in(ty, &kernel())
        };
        assert_eq!(one("task", "pid"), Some(true));
        assert_eq!(one("task", "tgid"), Some(false));
        assert_eq!(one("no_such", "pid"), None);
        let state = |value: &str| {
            let mut b = Builder::new();
            let ty = b.enumeration("state", 4, &[(value, 7)]);
            Btf::parse(b.finish()).unwrap().matched_in(ty, &kernel())
        };
        assert_eq!((state("OFF"), state("HALF")), (Some(true), Some(false)));
    }

    #[test]
    fn recursive_types_match_in_finite_time() {
        let mut b = Builder::new();
        let own = b.declare("own");
        let ring = b.array(own, 2);
        b.define(own, &[("ring", ring)]);
        let btf = Btf::parse(b.finish()).unwrap();
        assert_eq!(btf.matched_in(own, &btf), Some(true));
    }

    #[test]
    fn flavours_are_no_part_of_names() {
        for (name, essential) in [
            ("rw_semaphore___old", "rw_semaphore"),
            ("a___b___c", "a___b"),
            ("plain", "plain"),
            ("___odd", "___odd"),
            ("odd___", "odd___"),
            ("", ""),
        ] {
            assert_eq!(essential_name(name), essential);
        }
    }
}
