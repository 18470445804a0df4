//! Types of C that a script defines, as BTF laid over the kernel's: whatever asks the kernel's types finds the script's first.

mod constant;
mod layout;
mod measured;
mod scalar;

pub use constant::constant;

use crate::lang::ast::{
    CBody, CShape, CType, CTypeUse, Declarator, Definition, Expr, Span, Spanned, TypeTag,
};
use crate::lang::diag::{Diagnostic, did_you_mean};
use crate::lang::expand::number;
use kestrel_bpf::btf::write::{Builder, MAX_OFFSET_OF_BITS};
use kestrel_bpf::btf::{Btf, BtfKind, TypeId};
use layout::{Field, lay_out};
use std::collections::HashMap;
use std::sync::Arc;

/// Most bytes of a type.
const MAX_BYTES: u64 = 1 << 24;
/// Most levels of types in types.
const DEPTH: u32 = 64;

/// The types of `definitions` over those of `base`, or else alone; names in lengths and values are asked of `constant`, too.
/// Without definitions it is the base itself.
///
/// ```
/// use kestrel_bpf::btf::BtfKind;
/// use kestrel_compiler::definition::overlay;
/// use kestrel_compiler::lang::{ast::Item, parse_script};
/// let (script, _) = parse_script("enum { MOST = 3 }; struct point { char tag; int at[MOST]; }");
/// let definitions: Vec<_> = script.items.into_iter().filter_map(|item| match item {
///     Item::Definition(one) => Some(one),
///     _ => None,
/// }).collect();
/// let (types, found) = overlay(&definitions, None, &|_| None);
/// let types = types.ok_or("no types")?;
/// let point = types.find(BtfKind::Struct, "point").ok_or("no struct")?;
/// assert_eq!((found.len(), types.size_of(point)), (0, Some(16)));
/// # Ok::<(), &str>(())
/// ```
pub fn overlay(
    definitions: &[Definition],
    base: Option<&Arc<Btf>>,
    constant: &dyn Fn(&str) -> Option<i64>,
) -> (Option<Arc<Btf>>, Vec<Diagnostic>) {
    if definitions.is_empty() {
        return (base.cloned(), Vec::new());
    }
    let mut maker = Maker {
        base,
        constant,
        builder: base.map_or_else(Builder::new, |base| Builder::split_without_sizes(base)),
        composites: HashMap::new(),
        enumerations: HashMap::new(),
        names: HashMap::new(),
        aliases: HashMap::new(),
        values: HashMap::new(),
        scalars: HashMap::new(),
        measured: HashMap::new(),
        sizes: HashMap::new(),
        found: Vec::new(),
    };
    maker.declare(definitions);
    for definition in definitions {
        for name in &definition.names {
            maker.alias(name);
        }
        for ty in &definition.types {
            maker.fill(ty);
        }
    }
    let found = maker.found;
    let bytes = maker.builder.finish();
    let read = match base {
        Some(base) => Btf::parse_split(Arc::clone(base), bytes),
        None => Btf::parse(bytes),
    };
    (read.ok().map(Arc::new).or_else(|| base.cloned()), found)
}

/// A type's bytes and alignment.
type Measure = (u64, u64);

/// A `struct` or `union` of the script.
struct ScriptComposite<'d> {
    id: TypeId,
    ty: &'d CType,
}

struct Maker<'d> {
    base: Option<&'d Arc<Btf>>,
    constant: &'d dyn Fn(&str) -> Option<i64>,
    builder: Builder,
    composites: HashMap<(bool, &'d str), ScriptComposite<'d>>,
    enumerations: HashMap<&'d str, (TypeId, u64)>,
    /// Names by `typedef`: their types.
    names: HashMap<&'d str, (TypeId, &'d CTypeUse)>,
    /// The same before these have numbers: what is measured may come first.
    aliases: HashMap<&'d str, &'d CTypeUse>,
    /// Values of enumerations.
    values: HashMap<&'d str, i64>,
    scalars: HashMap<&'static str, TypeId>,
    /// `None` while a type is being measured.
    measured: HashMap<(bool, &'d str), Option<Measure>>,
    /// What `sizeof` is, by its place.
    sizes: HashMap<Span, u64>,
    found: Vec<Diagnostic>,
}

impl<'d> Maker<'d> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(span, message));
    }

    /// A type is read once where it is measured and once where it is written: what is wrong is said once.
    fn report(&mut self, diagnostic: Diagnostic) {
        if !self.found.contains(&diagnostic) {
            self.found.push(diagnostic);
        }
    }

    /// Gives all types their numbers, so that they can point to each other, and reads enumerations.
    fn declare(&mut self, definitions: &'d [Definition]) {
        for name in definitions.iter().flat_map(|definition| &definition.names) {
            self.aliases.entry(&name.name.node).or_insert(&name.ty);
        }
        for ty in definitions.iter().flat_map(|definition| &definition.types) {
            let key = ty.name.node.as_str();
            let union = ty.tag == TypeTag::Union;
            let first = match &ty.body {
                CBody::Values(_) => None,
                CBody::Members { .. } => self.composites.get(&(union, key)).map(|known| known.ty.name.span),
            };
            if let Some(first) = first {
                let message = format!("{} is defined twice", spelled(ty.tag, key));
                self.report(Diagnostic::error(ty.name.span, message).label(first, "here"));
                continue;
            }
            match &ty.body {
                CBody::Values(values) => self.enumeration(ty, values),
                CBody::Members { .. } => {
                    let id = match union {
                        true => self.builder.declare_union(shown(key)),
                        false => self.builder.declare(shown(key)),
                    };
                    self.composites.insert((union, key), ScriptComposite { id, ty });
                }
            }
        }
    }

    fn enumeration(&mut self, ty: &'d CType, values: &'d [(Spanned<String>, Option<Expr>)]) {
        let mut next = 0_i64;
        let mut all = Vec::new();
        for (name, value) in values {
            if let Some(value) = value {
                next = self.number(value).unwrap_or(next);
            }
            if self.values.insert(&name.node, next).is_some() {
                self.error(name.span, format!("\"{}\" is a value twice", name.node));
            }
            all.push((name.node.as_str(), next));
            next = next.wrapping_add(1);
        }
        let negative = all.iter().any(|(_, value)| *value < 0);
        let fits = |value: i64| match negative {
            true => i32::try_from(value).is_ok(),
            false => u32::try_from(value).is_ok(),
        };
        let size = if all.iter().all(|(_, value)| fits(*value)) {
            4
        } else {
            8
        };
        let key = ty.name.node.as_str();
        let id = self.builder.enumeration(shown(key), size, &all);
        if self.enumerations.insert(key, (id, u64::from(size))).is_some() {
            self.error(ty.name.span, format!("enum {key} is defined twice"));
        }
    }

    fn known(&self, expr: &Expr) -> Option<i64> {
        let named = |name: &str| {
            let own = self.values.get(name).copied();
            let kernel = || self.base?.enumerator(name).map(|found| found.value);
            own.or_else(kernel).or_else(|| (self.constant)(name))
        };
        number(&self.with_sizes(expr), &named)
    }

    /// A number that is written, of names, sizes and operators, too.
    fn number(&mut self, expr: &Expr) -> Option<i64> {
        self.measure_sizes(expr);
        let value = self.known(expr);
        // What is wrong with a type in it was reported there.
        let inside = |one: &Diagnostic| {
            expr.span.start <= one.span.start && one.span.end <= expr.span.end && one.span != expr.span
        };
        if value.is_none() && !self.found.iter().any(inside) {
            self.error(
                expr.span,
                "this is no number that is known before the script runs",
            );
        }
        value
    }

    fn alias(&mut self, name: &'d Declarator) {
        let id = self.type_of(&name.ty);
        let id = self.builder.typedef(&name.name.node, id);
        if self.names.insert(&name.name.node, (id, &name.ty)).is_some() {
            self.error(name.name.span, format!("\"{}\" is defined twice", name.name.node));
        }
    }

    /// Gives a struct or union its members; types that point at it had its number before.
    fn fill(&mut self, ty: &'d CType) {
        let key = (ty.tag == TypeTag::Union, ty.name.node.as_str());
        let CBody::Members { members, .. } = &ty.body else {
            return;
        };
        // Of several definitions of one name the first counts; the others were refused when names were collected.
        let Some(id) = self
            .composites
            .get(&key)
            .filter(|known| std::ptr::eq(known.ty, ty))
            .map(|k| k.id)
        else {
            return;
        };
        self.measure_own(key, ty, ty.span);
        let (fields, packed, min_align) = self.fields(ty);
        let (size, align, placed) = lay_out(&fields, key.0, packed, min_align);
        let mut ids = Vec::with_capacity(members.len());
        for member in members {
            ids.push(self.type_of(&member.ty));
        }
        // Where a struct has bit fields, BTF keeps the size of each in the upper byte of its offset, which leaves 24 bits.
        let far = |place: &layout::MemberPlace| place.bit_offset > MAX_OFFSET_OF_BITS;
        if members.iter().any(|member| member.bits.is_some())
            && let Some(at) = placed.iter().position(far)
        {
            let message = "a struct with bit fields has no member beyond 2 MiB";
            self.error(members[at].name.span, message);
        }
        let placed: Vec<_> = members
            .iter()
            .zip(placed)
            .zip(ids)
            .filter_map(|((member, place), ty)| {
                // An unnamed bit field only moves those behind it, and is none of BTF's members.
                let unnamed = member.name.node.is_empty() && member.bits.is_some();
                (!unnamed).then_some(kestrel_bpf::btf::write::Placed {
                    name: &member.name.node,
                    ty,
                    bit_offset: place.bit_offset,
                    bits: place.bits,
                })
            })
            .collect();
        let (size, align) = (u32::try_from(size), u32::try_from(align));
        self.builder
            .fill(id, size.unwrap_or(u32::MAX), align.unwrap_or(1), &placed);
    }

    /// Fields on which the layout of a struct or union depends.
    fn fields(&mut self, ty: &'d CType) -> (Vec<Field>, bool, u64) {
        let CBody::Members {
            members,
            packed,
            pack,
            align,
        } = &ty.body
        else {
            return (Vec::new(), false, 1);
        };
        let mut fields = Vec::with_capacity(members.len());
        for member in members {
            let (size, align) = self.measure(&member.ty, 0).unwrap_or((0, 1));
            let bits = member.bits.as_ref().map(|bits| self.width(bits, size));
            let min_align = member.align.as_ref().map_or(1, |align| self.alignment(align));
            let align = match (member.packed, *pack) {
                (true, _) => 1,
                (false, 0) => align,
                (false, most) => align.min(most),
            };
            fields.push(Field {
                size,
                align,
                min_align,
                bits,
                named: !member.name.node.is_empty(),
            });
        }
        let min_align = align.as_ref().map_or(1, |align| self.alignment(align));
        (fields, *packed, min_align)
    }

    fn width(&mut self, bits: &Expr, size: u64) -> u8 {
        let width = self.number(bits).and_then(|bits| u8::try_from(bits).ok());
        match width {
            Some(width) if u64::from(width) <= size * 8 => width,
            _ => {
                self.error(bits.span, "this bit field is wider than its type");
                1
            }
        }
    }

    fn alignment(&mut self, align: &Expr) -> u64 {
        let value = self.number(align).and_then(|align| u64::try_from(align).ok());
        match value {
            Some(value) if value.is_power_of_two() && value <= 4096 => value,
            _ => {
                self.error(align.span, "an alignment is a power of two up to 4096");
                1
            }
        }
    }

    /// Bytes and alignment of a type that something lies in; what has none is reported.
    fn measure(&mut self, ty: &CTypeUse, depth: u32) -> Option<Measure> {
        let mut count = 1_u64;
        let mut pointer = None;
        for shape in ty.shape.iter().rev() {
            match shape {
                CShape::Pointer => {
                    pointer = Some((8, 8));
                    break;
                }
                CShape::Array(None) => count = 0,
                // A product that does not fit into 64 bits is refused below, like all that are too large.
                CShape::Array(Some(length)) => count = count.saturating_mul(self.length(length)),
                CShape::Function => {
                    self.error(ty.span, "a function is no member; a pointer to one is");
                    return None;
                }
            }
        }
        let (size, align) = match pointer {
            Some(pointer) => pointer,
            None => self.measure_named(ty, depth)?,
        };
        match size.checked_mul(count).filter(|size| *size <= MAX_BYTES) {
            Some(size) => Some((size, align)),
            None => {
                self.error(ty.span, "this type is too large");
                None
            }
        }
    }

    fn length(&mut self, length: &Expr) -> u64 {
        match self.number(length).map(u64::try_from) {
            Some(Ok(length)) if length <= MAX_BYTES => length,
            Some(_) => {
                self.error(length.span, "this is no length of an array");
                0
            }
            None => 0,
        }
    }

    fn measure_named(&mut self, ty: &CTypeUse, depth: u32) -> Option<Measure> {
        let name = ty.name.as_str();
        if depth > DEPTH {
            self.error(ty.span, "types are nested too deeply");
            return None;
        }
        let union = ty.tag == Some(TypeTag::Union);
        if ty.tag.is_some_and(|tag| tag != TypeTag::Enum)
            && let Some(known) = self.composites.get(&(union, name)).map(|known| known.ty)
        {
            return self.measure_own((union, known.name.node.as_str()), known, ty.span);
        }
        if ty.tag == Some(TypeTag::Enum)
            && let Some((_, size)) = self.enumerations.get(name)
        {
            return Some((*size, *size));
        }
        if ty.tag.is_none() {
            if let Some(inner) = self.aliases.get(name).copied() {
                return self.measure(inner, depth + 1);
            }
            if let Some((_, size, _)) = scalar::find(name) {
                return Some((size.into(), size.into()));
            }
        }
        let base = self.base.and_then(|base| Some((base, find(base, ty)?)));
        match base.and_then(|(base, id)| Some((base.size_of(id)?, base.align_of(id)))) {
            Some(measure) => Some(measure),
            None => {
                self.unknown(ty);
                None
            }
        }
    }

    fn measure_own(&mut self, key: (bool, &'d str), ty: &'d CType, place: Span) -> Option<Measure> {
        match self.measured.get(&key) {
            Some(Some(measure)) => return Some(*measure),
            Some(None) => {
                let message = format!(
                    "{} contains itself; a pointer to it is possible",
                    spelled(ty.tag, key.1)
                );
                self.error(place, message);
                return None;
            }
            None => {}
        }
        self.measured.insert(key, None);
        let (fields, packed, min_align) = self.fields(ty);
        let (size, align, _) = lay_out(&fields, key.0, packed, min_align);
        self.measured.insert(key, Some((size, align)));
        Some((size, align))
    }

    fn unknown(&mut self, ty: &CTypeUse) {
        let name = ty.name.as_str();
        let message = format!("there is no type \"{}\"", written(ty));
        let mut known: Vec<&str> = scalar::names().collect();
        known.extend(self.composites.keys().map(|(_, name)| *name));
        known.extend(self.aliases.keys().copied());
        known.extend(self.enumerations.keys().copied());
        known.retain(|name| !name.starts_with('('));
        let hint = did_you_mean(name, known);
        self.report(Diagnostic::error(ty.span, message).maybe_hint(hint));
    }

    /// The number of a type; what is unknown is a type without members, which can be pointed to.
    fn type_of(&mut self, ty: &'d CTypeUse) -> TypeId {
        let mut id = self.named(ty);
        for shape in &ty.shape {
            id = match shape {
                CShape::Pointer => self.builder.pointer(id),
                CShape::Array(length) => {
                    let length = length.as_ref().map_or(0, |length| {
                        // Its error has been reported where it was measured.
                        self.known(length).unwrap_or(0)
                    });
                    self.builder.array(id, u32::try_from(length).unwrap_or(0))
                }
                CShape::Function => self.builder.func_proto(id, &[]),
            };
        }
        id
    }

    fn named(&mut self, ty: &'d CTypeUse) -> TypeId {
        // The script's own definitions come before the kernel's of the same name.
        let name = ty.name.as_str();
        match ty.tag {
            Some(tag @ (TypeTag::Struct | TypeTag::Union)) => {
                let union = tag == TypeTag::Union;
                if let Some(known) = self.composites.get(&(union, name)) {
                    return known.id;
                }
            }
            Some(TypeTag::Enum) => {
                if let Some((id, _)) = self.enumerations.get(name) {
                    return *id;
                }
            }
            None => {
                if name == "void" {
                    return TypeId::VOID;
                }
                if let Some((id, _)) = self.names.get(name) {
                    return *id;
                }
                if let Some((own, size, encoding)) = scalar::find(name) {
                    if let Some(id) = self.scalars.get(own) {
                        return *id;
                    }
                    let id = match encoding {
                        scalar::Encoding::Signed => self.builder.int(own, size),
                        scalar::Encoding::Unsigned => self.builder.unsigned(own, size),
                        scalar::Encoding::Bool => self.builder.boolean(),
                        scalar::Encoding::Float => self.builder.float(own, size),
                    };
                    self.scalars.insert(own, id);
                    return id;
                }
            }
        }
        if let Some(id) = self.base.and_then(|base| find(base, ty)) {
            return id;
        }
        // As in C, a struct that is defined nowhere can still be pointed to.
        match ty.tag {
            Some(TypeTag::Union) => self.builder.forward(name, true),
            Some(_) => self.builder.forward(name, false),
            None => {
                self.unknown(ty);
                TypeId::VOID
            }
        }
    }
}

fn find(base: &Btf, ty: &CTypeUse) -> Option<TypeId> {
    match ty.tag {
        Some(TypeTag::Struct) => base.find(BtfKind::Struct, &ty.name),
        Some(TypeTag::Union) => base.find(BtfKind::Union, &ty.name),
        Some(TypeTag::Enum) => base.find(BtfKind::Enum, &ty.name),
        None => base.find_c(&ty.name),
    }
}

/// The name that a type has for others: none for one that C cannot spell.
fn shown(name: &str) -> &str {
    if name.starts_with('(') { "" } else { name }
}

fn spelled(tag: TypeTag, name: &str) -> String {
    let tag = match tag {
        TypeTag::Struct => "struct",
        TypeTag::Union => "union",
        TypeTag::Enum => "enum",
    };
    format!("{tag} {}", shown(name)).trim_end().to_owned()
}

fn written(ty: &CTypeUse) -> String {
    ty.tag
        .map_or_else(|| ty.name.clone(), |tag| spelled(tag, &ty.name))
}
