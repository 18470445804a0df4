//! Types of DWARF as BTF over the kernel's: what asks by name finds the program's first. All pointers lead into the program's memory, and are tagged so.

use super::unit::{Die, Entry, constant, flag, number};
use gimli::{AttributeValue, DwTag, Operation, constants as dw};
use kestrel_bpf::btf::write::{Builder, Placed};
use kestrel_bpf::btf::{Btf, TypeId};
use std::collections::{HashMap, HashSet};

/// Types in types are at most so deep.
const DEPTH: u32 = 64;
/// A program's types are at most so many: more have no members.
const MAX_TYPES: usize = 1 << 17;
/// Members of a struct, which BTF counts in 16 bits.
const MAX_MEMBERS: usize = u16::MAX as usize;

/// Makes BTF of entries, each once.
pub(super) struct Types<'d> {
    builder: Builder,
    known: HashMap<(usize, usize, usize), TypeId>,
    /// Structs that have a number but no members yet.
    open: Vec<(TypeId, Die<'d>)>,
    /// Structs of C++ that are passed by their address.
    by_address: HashSet<TypeId>,
    /// Which structs lie in which.
    holds: HashMap<TypeId, Vec<TypeId>>,
    declared: HashMap<(bool, String), TypeId>,
    scalars: HashMap<String, TypeId>,
}

impl<'d> Types<'d> {
    /// Types over those of the base.
    pub(super) fn over(base: Option<&Btf>) -> Self {
        Self {
            builder: base.map_or_else(Builder::new, Builder::split_without_sizes),
            known: HashMap::new(),
            open: Vec::new(),
            by_address: HashSet::new(),
            holds: HashMap::new(),
            declared: HashMap::new(),
            scalars: HashMap::new(),
        }
    }

    /// The type of an entry's type; `void` where it has none.
    pub(super) fn of(&mut self, die: &Die<'d>) -> TypeId {
        die.ty().map_or(TypeId::VOID, |ty| self.at(&ty, 0))
    }

    /// The number of the type at an entry; its members may come later.
    pub(super) fn add(&mut self, die: &Die<'d>) -> TypeId {
        self.at(die, 0)
    }

    /// Gives all structs their members.
    pub(super) fn finish(mut self) -> (Vec<u8>, HashSet<TypeId>) {
        while let Some((id, die)) = self.open.pop() {
            self.fill(id, &die);
        }
        (self.builder.finish(), self.by_address)
    }

    fn at(&mut self, die: &Die<'d>, depth: u32) -> TypeId {
        let key = die.key();
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if depth > DEPTH || self.known.len() > MAX_TYPES {
            return TypeId::VOID;
        }
        // A circle of foreign bytes ends here.
        self.known.insert(key, TypeId::VOID);
        let id = die
            .entry()
            .map_or(TypeId::VOID, |entry| self.make(die, &entry, depth));
        self.known.insert(key, id);
        id
    }

    fn target(&mut self, die: &Die<'d>, depth: u32) -> TypeId {
        die.ty().map_or(TypeId::VOID, |ty| self.at(&ty, depth + 1))
    }

    fn make(&mut self, die: &Die<'d>, entry: &Entry<'d>, depth: u32) -> TypeId {
        let name = || die.name().unwrap_or_default();
        if let Some(whole) = die.follow(entry, dw::DW_AT_signature) {
            return self.at(&whole, depth + 1);
        }
        match entry.tag() {
            dw::DW_TAG_base_type => self.base(die, entry),
            dw::DW_TAG_pointer_type | dw::DW_TAG_reference_type | dw::DW_TAG_rvalue_reference_type => {
                let to = self.target(die, depth);
                let to = self.builder.type_tag("user", to);
                self.builder.pointer(to)
            }
            dw::DW_TAG_ptr_to_member_type => self.builder.unsigned("unsigned long", 8),
            dw::DW_TAG_const_type => {
                let to = self.target(die, depth);
                self.builder.constant(to)
            }
            dw::DW_TAG_volatile_type => {
                let to = self.target(die, depth);
                self.builder.volatile(to)
            }
            dw::DW_TAG_restrict_type => {
                let to = self.target(die, depth);
                self.builder.restrict(to)
            }
            dw::DW_TAG_atomic_type | dw::DW_TAG_immutable_type => self.target(die, depth),
            dw::DW_TAG_typedef => {
                let to = self.target(die, depth);
                self.builder.typedef(&name(), to)
            }
            dw::DW_TAG_array_type => self.array(die, depth),
            dw::DW_TAG_subroutine_type => self.builder.func_proto(TypeId::VOID, &[]),
            dw::DW_TAG_enumeration_type => self.enumeration(die, entry),
            tag if is_composite(tag) => self.composite(die, entry),
            _ => TypeId::VOID,
        }
    }

    fn base(&mut self, die: &Die<'d>, entry: &Entry<'d>) -> TypeId {
        let name = die.name().unwrap_or_default();
        let size = number(entry, dw::DW_AT_byte_size).and_then(|size| u32::try_from(size).ok());
        let Some(size) = size.filter(|size| (1..=32).contains(size)) else {
            return TypeId::VOID;
        };
        let Some(AttributeValue::Encoding(encoding)) = entry.attr_value(dw::DW_AT_encoding) else {
            return TypeId::VOID;
        };
        match encoding {
            dw::DW_ATE_boolean => match size {
                1 => self.builder.boolean(),
                size => self.builder.unsigned(&name, size),
            },
            dw::DW_ATE_float | dw::DW_ATE_complex_float | dw::DW_ATE_imaginary_float => {
                self.builder.float(&name, size)
            }
            dw::DW_ATE_signed | dw::DW_ATE_signed_char | dw::DW_ATE_signed_fixed => {
                self.scalar(&name, size, true)
            }
            _ => self.scalar(&name, size, false),
        }
    }

    /// An integer; each unit has its own entry for the same one.
    fn scalar(&mut self, name: &str, size: u32, signed: bool) -> TypeId {
        if let Some(known) = self.scalars.get(name) {
            return *known;
        }
        let id = match signed {
            true => self.builder.int(name, size),
            false => self.builder.unsigned(name, size),
        };
        self.scalars.insert(name.to_owned(), id);
        id
    }

    fn array(&mut self, die: &Die<'d>, depth: u32) -> TypeId {
        let mut id = self.target(die, depth);
        let counts = counts(die);
        for count in counts.into_iter().rev() {
            id = self.builder.array(id, count);
        }
        id
    }

    fn enumeration(&mut self, die: &Die<'d>, entry: &Entry<'d>) -> TypeId {
        let size = number(entry, dw::DW_AT_byte_size).unwrap_or(4);
        let size = match size {
            1 | 2 | 4 | 8 => size as u32,
            _ => 4,
        };
        let mut named = Vec::new();
        for child in die.children() {
            if child.tag() != dw::DW_TAG_enumerator || named.len() >= MAX_MEMBERS {
                continue;
            }
            let value = constant(&child, dw::DW_AT_const_value);
            let here = die.beside(child.offset());
            if let (Some(value), Some(name)) = (value, here.text(&child, dw::DW_AT_name)) {
                named.push((name, value));
            }
        }
        let values: Vec<(&str, i64)> = named
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        self.builder
            .enumeration(&die.name().unwrap_or_default(), size, &values)
    }

    fn composite(&mut self, die: &Die<'d>, entry: &Entry<'d>) -> TypeId {
        let union = entry.tag() == dw::DW_TAG_union_type;
        let name = die.name().unwrap_or_default();
        if flag(entry, dw::DW_AT_declaration) {
            return match self.declared.get(&(union, name.clone())) {
                Some(known) => *known,
                None => self.builder.forward(&name, union),
            };
        }
        let id = match union {
            true => self.builder.declare_union(&name),
            false => self.builder.declare(&name),
        };
        if !name.is_empty() {
            self.declared.entry((union, name)).or_insert(id);
        }
        if matches!(
            entry.attr_value(dw::DW_AT_calling_convention),
            Some(AttributeValue::CallingConvention(dw::DW_CC_pass_by_reference))
        ) {
            self.by_address.insert(id);
        }
        self.open.push((id, die.clone()));
        id
    }

    /// Whether a struct is another one, or holds it: no sound one holds itself.
    fn reaches(&self, from: TypeId, to: TypeId) -> bool {
        let (mut open, mut seen) = (vec![from], HashSet::new());
        while let Some(here) = open.pop() {
            if here == to {
                return true;
            }
            if seen.insert(here) {
                open.extend(self.holds.get(&here).into_iter().flatten());
            }
        }
        false
    }

    fn fill(&mut self, id: TypeId, die: &Die<'d>) {
        let Some(entry) = die.entry() else {
            return;
        };
        let size = number(&entry, dw::DW_AT_byte_size).unwrap_or(0);
        let Ok(size) = u32::try_from(size) else {
            return;
        };
        let mut members: Vec<(String, TypeId, u32, Option<u8>)> = Vec::new();
        for child in die.children() {
            let here = die.beside(child.offset());
            let name = match child.tag() {
                // A variable of the class is no member of its values.
                dw::DW_TAG_member if !flag(&child, dw::DW_AT_external) => {
                    here.text(&child, dw::DW_AT_name).unwrap_or_default()
                }
                // Members of a base are found as those of a struct without a name.
                dw::DW_TAG_inheritance if !child.has_attr(dw::DW_AT_virtuality) => String::new(),
                _ => continue,
            };
            let Some((bit_offset, bits)) = place(&here, &child) else {
                continue;
            };
            let ty = here.ty().map_or(TypeId::VOID, |ty| self.at(&ty, 1));
            if let Some(inner) = here.ty().and_then(|ty| held(&ty)) {
                let inner = self.at(&inner, 1);
                if self.reaches(inner, id) {
                    continue;
                }
                self.holds.entry(id).or_default().push(inner);
            }
            // A member that begins outside of its struct is damaged.
            if ty != TypeId::VOID
                && u64::from(bit_offset) <= u64::from(size) * 8
                && members.len() < MAX_MEMBERS
            {
                members.push((name, ty, bit_offset, bits));
            }
        }
        let placed: Vec<Placed<'_>> = members
            .iter()
            .map(|(name, ty, bit_offset, bits)| Placed {
                name,
                ty: *ty,
                bit_offset: *bit_offset,
                bits: *bits,
            })
            .collect();
        let align = number(&entry, dw::DW_AT_alignment).and_then(|align| u32::try_from(align).ok());
        self.builder.fill(id, size, align.unwrap_or(8), &placed);
    }
}

/// The struct that lies in a value of a type, if one does.
fn held<'d>(die: &Die<'d>) -> Option<Die<'d>> {
    let mut here = die.clone();
    for _ in 0..DEPTH {
        let entry = here.entry()?;
        match entry.tag() {
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_atomic_type
            | dw::DW_TAG_array_type => here = here.ty()?,
            tag if is_composite(tag) => return Some(here),
            _ => return None,
        }
    }
    None
}

/// Whether an entry is a struct, a union or a class.
pub(super) fn is_composite(tag: DwTag) -> bool {
    matches!(
        tag,
        dw::DW_TAG_structure_type | dw::DW_TAG_union_type | dw::DW_TAG_class_type
    )
}

/// The lengths of an array, outermost first.
pub(super) fn counts(die: &Die<'_>) -> Vec<u32> {
    let mut counts = Vec::new();
    for child in die.children() {
        if child.tag() != dw::DW_TAG_subrange_type || counts.len() >= 8 {
            continue;
        }
        let count = number(&child, dw::DW_AT_count);
        let last = || number(&child, dw::DW_AT_upper_bound)?.checked_add(1);
        let count = count.or_else(last).and_then(|count| u32::try_from(count).ok());
        counts.push(count.unwrap_or(0));
    }
    if counts.is_empty() {
        counts.push(0);
    }
    counts
}

/// Where in its struct a member lies, in bits, and how many it has where it is a bit field.
fn place(die: &Die<'_>, entry: &Entry<'_>) -> Option<(u32, Option<u8>)> {
    let bytes = match entry.attr(dw::DW_AT_data_member_location) {
        Some(location) => match location.udata_value() {
            Some(bytes) => bytes,
            // DWARF 2 computes it.
            None => match location.exprloc_value()?.operations(die.unit.encoding()).next() {
                Ok(Some(Operation::PlusConstant { value })) => value,
                _ => return None,
            },
        },
        None => 0,
    };
    let bits = number(entry, dw::DW_AT_bit_size);
    let Some(width) = bits else {
        return Some((u32::try_from(bytes.checked_mul(8)?).ok()?, None));
    };
    let start = match number(entry, dw::DW_AT_data_bit_offset) {
        Some(offset) => bytes.checked_mul(8)?.checked_add(offset)?,
        None => {
            // Before DWARF 4: bits between the unit's most significant one and the field's.
            let unit = number(entry, dw::DW_AT_byte_size).or_else(|| {
                let ty = die.ty()?;
                number(&ty.entry()?, dw::DW_AT_byte_size)
            })?;
            let above = number(entry, dw::DW_AT_bit_offset).unwrap_or(0);
            let inside = unit.checked_mul(8)?.checked_sub(above)?.checked_sub(width)?;
            bytes.checked_mul(8)?.checked_add(inside)?
        }
    };
    Some((u32::try_from(start).ok()?, Some(u8::try_from(width).ok()?)))
}
