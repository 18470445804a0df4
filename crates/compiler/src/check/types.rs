//! The kernel's types, the catalog's types and written types, all as [`Type`]; and types as words.

use super::checker::{Checked, Checker, Reported};
use super::shape::alignment;
use super::tree::{Pointee, Pointer, Show, TupleMember, Type};
use super::value::STRING;
use crate::context::ValueType;
use crate::lang::ast::{Span, TypeName, TypeSuffix, TypeTag};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_bpf::btf::{self, Btf, Kind, TypeId};
use kestrel_trace::layout::{
    Base, Bits, COPIED_WORDS, Composite, CompositeKind, FieldType, Member, Named, Names, Space,
};
use std::sync::Arc;

/// Links of modifiers, typedefs and pointers that are followed.
const CHAIN: usize = 64;

/// Integer types by their names in C, the kernel and bpftrace: name, bytes, signed.
const INTEGERS: &[(&str, u8, bool)] = &[
    ("char", 1, true),
    ("signed char", 1, true),
    ("unsigned char", 1, false),
    ("short", 2, true),
    ("short int", 2, true),
    ("unsigned short", 2, false),
    ("unsigned short int", 2, false),
    ("int", 4, true),
    ("signed", 4, true),
    ("signed int", 4, true),
    ("unsigned", 4, false),
    ("unsigned int", 4, false),
    ("long", 8, true),
    ("long int", 8, true),
    ("unsigned long", 8, false),
    ("unsigned long int", 8, false),
    ("long unsigned int", 8, false),
    ("long long", 8, true),
    ("long long int", 8, true),
    ("unsigned long long", 8, false),
    ("long long unsigned int", 8, false),
    ("int8", 1, true),
    ("int16", 2, true),
    ("int32", 4, true),
    ("int64", 8, true),
    ("uint8", 1, false),
    ("uint16", 2, false),
    ("uint32", 4, false),
    ("uint64", 8, false),
    ("size_t", 8, false),
    ("ssize_t", 8, true),
    ("pid_t", 4, true),
    ("uid_t", 4, false),
    ("gid_t", 4, false),
];

/// A basic type by its name: `int`, `u32`, `__s64`, `uint16_t`.
fn basic(name: &str) -> Option<Type> {
    if name == "bool" {
        return Some(Type::Bool);
    }
    let bare = name.strip_prefix("__").unwrap_or(name);
    let bare = match bare
        .strip_suffix("_t")
        .filter(|b| b.starts_with("int") || b.starts_with("uint"))
    {
        Some(bare) => bare.to_owned(),
        None => match (bare.strip_prefix('u'), bare.strip_prefix('s')) {
            (Some(bits @ ("8" | "16" | "32" | "64")), _) => format!("uint{bits}"),
            (_, Some(bits @ ("8" | "16" | "32" | "64"))) => format!("int{bits}"),
            _ => bare.to_owned(),
        },
    };
    let (_, size, signed) = INTEGERS.iter().find(|row| row.0 == bare)?;
    Some(Type::integer(*size, *signed))
}

impl<'a> Checker<'a> {
    pub(crate) fn btf(&self) -> Option<&'a Btf> {
        self.context.types.as_deref()
    }

    /// The kernel's types, or an error that `what` needs them.
    pub(crate) fn need_btf(&mut self, span: Span, what: &str) -> Checked<&'a Btf> {
        self.btf().ok_or_else(|| self.no_btf(span, what))
    }

    /// Says that something needs the kernel's types, which there are none of.
    pub(super) fn no_btf(&mut self, span: Span, what: &str) -> Reported {
        let message = format!("{what} needs the kernel's types, and this kernel publishes none");
        let hint = "the kernel must be built with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)";
        self.report(Diagnostic::error(span, message).hint(hint))
    }

    /// A type of the kernel; `None` for what has no values here (`void`, functions, floating point, 128-bit integers).
    ///
    /// Pointers come with `trusted` where a direct walk to them would make them so; a caller that has not walked clears it.
    pub(crate) fn btf_type(&mut self, id: TypeId) -> Option<Type> {
        self.btf_type_at(id, 0)
    }

    fn btf_type_at(&mut self, id: TypeId, depth: u8) -> Option<Type> {
        let btf = self.btf()?;
        match btf.resolved(id) {
            btf::Type::Int(int) if int.bool => Some(Type::Bool),
            btf::Type::Int(int) => {
                let size = u8::try_from(int.size)
                    .ok()
                    .filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
                Some(Type::integer(size, int.signed))
            }
            btf::Type::Ptr(to) => Some(Type::Pointer(pointer_to(btf, to))),
            btf::Type::Array { element, count, .. } => {
                if is_char(btf, element) {
                    return Some(Type::Text { size: count });
                }
                let element = (depth < 8).then(|| self.btf_type_at(element, depth + 1))??;
                Some(Type::Array {
                    element: Box::new(element),
                    count,
                })
            }
            btf::Type::Struct(_) | btf::Type::Union(_) => Some(Type::Struct(btf.resolve(id))),
            btf::Type::Enum(e) => {
                let size = u8::try_from(e.size).ok().filter(|s| matches!(s, 1 | 2 | 4 | 8))?;
                let signed = e.signed;
                let names = self.enumeration_names(btf, btf.resolve(id));
                let show = Show::Names(names);
                Some(Type::Integer { size, signed, show })
            }
            _ => None,
        }
    }

    fn enumeration_names(&mut self, btf: &Btf, id: TypeId) -> Names {
        let collect = || match btf.ty(id) {
            btf::Type::Enum(e) => e.values().map(|v| (v.value, v.name.to_owned())).collect(),
            _ => Names::from([]),
        };
        self.names.entry(id).or_insert_with(collect).clone()
    }

    /// What lies at an address; `None` where that is not known.
    pub(crate) fn pointee(&mut self, pointer: Pointer) -> Option<Type> {
        if let Some(levels) = pointer.levels.checked_sub(1) {
            let symbolic = levels == 0 && pointer.to == Pointee::Unknown;
            return Some(Type::Pointer(Pointer {
                levels,
                trusted: false,
                symbolic,
                ..pointer
            }));
        }
        match pointer.to {
            Pointee::Unknown => None,
            Pointee::Char => Some(Type::integer(1, true)),
            Pointee::Integer { size, signed } => Some(Type::integer(size, signed)),
            Pointee::Btf(id) => self.btf_type(id),
        }
    }

    /// The type of a value that the catalog describes.
    pub(crate) fn value_type(&mut self, ty: &ValueType) -> Option<Type> {
        let pointer = |to, user| {
            Type::Pointer(Pointer {
                to,
                levels: 0,
                space: if user { Space::User } else { Space::Kernel },
                trusted: false,
                symbolic: to == Pointee::Unknown && !user,
            })
        };
        Some(match ty {
            ValueType::Btf(id) => self.btf_type(*id)?,
            // Programs calculate with numbers and print them as such, whatever they are called elsewhere.
            ValueType::Integer { size, signed, base } if self.globals.rounds && *base != Base::Float => {
                Type::integer(*size, *signed)
            }
            ValueType::Integer { size, signed, base } => Type::Integer {
                size: *size,
                signed: *signed,
                show: Show::Number(*base),
            },
            ValueType::Bool => Type::Bool,
            ValueType::Pointer { user } => pointer(Pointee::Unknown, *user),
            ValueType::PointerTo {
                spelling,
                levels,
                user,
            } => {
                let known = |btf: &'a Btf| Some(pointer_to(btf, btf.find_c(spelling)?));
                let known = match spelling.as_str() {
                    "char" => None,
                    _ => self.btf().and_then(known),
                };
                let to = if spelling == "char" {
                    Pointee::Char
                } else {
                    Pointee::Unknown
                };
                Type::Pointer(Pointer {
                    to: known.map_or(to, |known| known.to),
                    levels: known.map_or(0, |known| known.levels) + levels,
                    space: if *user { Space::User } else { Space::Kernel },
                    trusted: false,
                    symbolic: !user,
                })
            }
            ValueType::CString { user } => pointer(Pointee::Char, *user),
            ValueType::Text { size } => Type::Text { size: *size },
            ValueType::Array { element, count } => Type::Array {
                element: Box::new(self.value_type(element)?),
                count: *count,
            },
            ValueType::String => Type::String { max: STRING },
            ValueType::Shorter { max } => Type::String {
                max: (*max).min(STRING),
            },
            ValueType::Memory { max } => Type::Memory { max: *max },
            ValueType::Enumeration { size, signed, .. } if self.globals.rounds => {
                Type::integer(*size, *signed)
            }
            ValueType::Flags { size, .. } if self.globals.rounds => Type::integer(*size, false),
            ValueType::Enumeration { size, signed, names } => Type::Integer {
                size: *size,
                signed: *signed,
                show: Show::Names(names.clone()),
            },
            ValueType::Flags { size, names } => Type::Integer {
                size: *size,
                signed: false,
                show: Show::Flags(names.clone()),
            },
        })
    }

    /// The type of a name as written in a cast, without its pointers and arrays.
    fn named(&mut self, name: &TypeName) -> Checked<Pointee> {
        if name.tag.is_none() {
            match name.name.as_str() {
                "void" => return Ok(Pointee::Unknown),
                "char" => return Ok(Pointee::Char),
                _ => {}
            }
            if let Some(Type::Integer { size, signed, .. }) = basic(&name.name) {
                return Ok(Pointee::Integer { size, signed });
            }
        }
        let written = spell(name);
        let btf = self.need_btf(name.span, &format!("\"{written}\""))?;
        let found = match name.tag {
            Some(TypeTag::Struct) => btf.find(Kind::Struct, &name.name),
            Some(TypeTag::Union) => btf.find(Kind::Union, &name.name),
            Some(TypeTag::Enum) => btf.find(Kind::Enum, &name.name),
            None => btf
                .find_c(&name.name)
                .or_else(|| btf.find(Kind::Struct, &name.name))
                .or_else(|| btf.find(Kind::Union, &name.name)),
        };
        found.map(|id| Pointee::Btf(btf.resolve(id))).ok_or_else(|| {
            let candidates = similar_types(btf, &name.name);
            let hint = did_you_mean(&name.name, candidates.iter().copied());
            let message = format!("this kernel has no type \"{written}\"");
            self.report(Diagnostic::error(name.span, message).maybe_hint(hint))
        })
    }

    /// A type as written.
    pub(crate) fn written_type(&mut self, name: &TypeName) -> Checked<Type> {
        let stars = name
            .suffixes
            .iter()
            .take_while(|suffix| **suffix == TypeSuffix::Pointer);
        let (levels, arrays) = name.suffixes.split_at(stars.count());
        let (base, mut lengths) = match &name.of {
            Some(of) => {
                let value = self.expression(of)?;
                (self.holding(&value, false)?, arrays)
            }
            // A text's length is part of its name.
            None if name.tag.is_none() && name.name == "string" && levels.is_empty() => {
                match arrays.split_first() {
                    None => (Type::Text { size: 0 }, arrays),
                    Some((length, rest)) => {
                        let size = self.written_length(length, name.span)?;
                        (Type::Text { size }, rest)
                    }
                }
            }
            None if levels.is_empty() => (self.written_base(name)?, arrays),
            None => {
                let to = self.named(name)?;
                (Type::Pointer(plain_pointer(to)), arrays)
            }
        };
        // The first `*` behind a name is part of what was found for it.
        let more = levels.len() - usize::from(name.of.is_none() && !levels.is_empty());
        let mut ty = (0..more).try_fold(base, |ty, _| self.pointer_onto(ty, name.span))?;
        if lengths.contains(&TypeSuffix::Pointer) {
            return Err(self.error(
                name.span,
                "the stars of a type stand before its lengths: int32 *[4]",
            ));
        }
        while let Some((length, before)) = lengths.split_last() {
            let count = self.written_length(length, name.span)?;
            let char = name.name == "char" && ty == Type::integer(1, true);
            ty = match char {
                true => Type::Text { size: count },
                false => Type::Array {
                    element: Box::new(ty),
                    count,
                },
            };
            lengths = before;
        }
        Ok(ty)
    }

    /// What a name by itself is, without stars and lengths.
    fn written_base(&mut self, name: &TypeName) -> Checked<Type> {
        if let Some(ty) = basic(&name.name).filter(|_| name.tag.is_none()) {
            return Ok(ty);
        }
        let known = match self.named(name)? {
            Pointee::Btf(id) => self.btf_type(id),
            _ => None,
        };
        known.ok_or_else(|| {
            let message = format!("values of type \"{}\" cannot be handled", spell(name));
            self.error(name.span, message)
        })
    }

    /// The address of something of a type.
    fn pointer_onto(&mut self, ty: Type, span: Span) -> Checked<Type> {
        let to = match ty {
            Type::Pointer(pointer) => {
                return Ok(Type::Pointer(Pointer {
                    levels: pointer.levels.saturating_add(1),
                    trusted: false,
                    symbolic: false,
                    ..pointer
                }));
            }
            Type::Integer { size, signed, .. } => Pointee::Integer { size, signed },
            Type::Struct(id) => Pointee::Btf(id),
            other => {
                let message = format!("there is no address of {} in the language", self.describe(&other));
                return Err(self.error(span, message));
            }
        };
        Ok(Type::Pointer(plain_pointer(to)))
    }

    /// The number in `[n]`.
    fn written_length(&mut self, suffix: &TypeSuffix, span: Span) -> Checked<u32> {
        let count = match suffix {
            TypeSuffix::Array(Some(count)) => self.scalar(count)?.constant(),
            _ => None,
        };
        count
            .and_then(|count| u32::try_from(count).ok())
            .ok_or_else(|| self.error(span, "the length of this array is missing or too large"))
    }

    /// Bytes that a value of the type takes in memory.
    pub(crate) fn size_of(&self, ty: &Type) -> Option<u32> {
        match ty {
            Type::Integer { size, .. } => Some(u32::from(*size)),
            Type::Bool => Some(1),
            Type::Pointer(_) => Some(8),
            Type::Text { size } => Some(*size),
            Type::String { max } | Type::Memory { max } => Some(*max),
            Type::Array { element, count } => self.size_of(element)?.checked_mul(*count),
            Type::Tuple(tuple) => Some(tuple.size),
            Type::Named(named) => Some(named.shape().0),
            Type::Buffer { max } => Some(FieldType::Buffer { max: *max }.fixed_size()),
            Type::HeldStack(stack) => Some(stack.size()),
            Type::Struct(id) => u32::try_from(self.btf()?.size_of(*id)?).ok(),
            Type::Stack { max, .. } => max.checked_mul(8),
            Type::StackCopy { max, .. } => max.unwrap_or_default().checked_add(COPIED_WORDS * 8),
        }
    }

    /// What the offset of a value of so many bytes is a multiple of in memory, as C places it.
    pub(crate) fn align_of(&mut self, ty: &Type, size: u32) -> u32 {
        self.align_at(ty, size, 0)
    }

    fn align_at(&mut self, ty: &Type, size: u32, depth: u8) -> u32 {
        match ty {
            Type::Struct(id) if depth < 8 => {
                let members: Vec<TypeId> = self
                    .btf()
                    .and_then(|btf| btf.composite(*id))
                    .map(|composite| composite.members().map(|member| member.ty).collect())
                    .unwrap_or_default();
                let mut align = 1;
                for member in members {
                    if let Some(ty) = self.btf_type(member) {
                        let size = self.size_of(&ty).unwrap_or(1);
                        align = align.max(self.align_at(&ty, size, depth + 1));
                    }
                }
                align
            }
            Type::Array { element, .. } if depth < 8 => {
                let size = self.size_of(element).unwrap_or(1);
                self.align_at(element, size, depth + 1)
            }
            ty => alignment(ty, size),
        }
    }

    /// What a type is, and all of it, in the language's own words: `int`, `uint64`.
    pub(crate) fn spelled_type(&self, ty: &Type) -> (&'static str, String) {
        let whole = |word: &'static str| (word, word.to_owned());
        match ty {
            Type::Integer { size, signed, .. } => {
                let sign = if *signed { "" } else { "u" };
                ("int", format!("{sign}int{}", u32::from(*size) * 8))
            }
            Type::Bool => whole("bool"),
            Type::Pointer(pointer) if pointer.symbolic => whole("ksym_t"),
            Type::Pointer(pointer) => ("pointer", self.describe_pointer(*pointer)),
            Type::Text { size } => ("string", format!("string[{size}]")),
            Type::String { max } => ("string", format!("string[{}]", max + 1)),
            Type::Memory { max } | Type::Buffer { max } => ("buffer", format!("buffer[{max}]")),
            Type::Array { element, count } => ("array", format!("{}[{count}]", self.spelled_type(element).1)),
            Type::Struct(_) => ("c_type", self.describe(ty)),
            Type::Tuple(tuple) if tuple.members.iter().any(|member| !member.name.is_empty()) => {
                let members = tuple.members.iter();
                let members =
                    members.map(|member| format!(".{} = {}", member.name, self.spelled_type(&member.ty).1));
                let members: Vec<String> = members.collect();
                ("record", format!("record {{ {} }}", members.join(", ")))
            }
            Type::Tuple(tuple) => {
                let members = tuple.members.iter().map(|member| self.spelled_type(&member.ty).1);
                let members: Vec<String> = members.collect();
                ("tuple", format!("({})", members.join(",")))
            }
            Type::Named(Named::KernelSymbol) => whole("ksym_t"),
            Type::Named(Named::UserSymbol) => whole("usym_t"),
            Type::Named(Named::Inet) => whole("inet"),
            Type::Named(Named::Mac) => whole("mac_address"),
            Type::Named(Named::Date { .. }) => whole("timestamp"),
            Type::Named(Named::Cgroup { .. }) => whole("cgroup_path_t"),
            Type::Named(Named::User) => whole("username"),
            Type::Named(Named::Error) => whole("strerror_t"),
            Type::Named(_) => whole("name"),
            Type::HeldStack(stack) => spelled_stack(stack.space, stack.max),
            Type::Stack { space, max, .. } => spelled_stack(*space, *max),
            Type::StackCopy { .. } => whole("stack"),
        }
    }

    /// A type in words, for messages: `an integer`, `struct file *`.
    pub(crate) fn describe(&self, ty: &Type) -> String {
        match ty {
            Type::Integer { .. } => "an integer".to_owned(),
            Type::Bool => "a truth value".to_owned(),
            Type::Pointer(pointer) => self.describe_pointer(*pointer),
            Type::Text { .. } | Type::String { .. } => "a text".to_owned(),
            Type::Array { element, count } => format!("an array of {count} × {}", self.describe(element)),
            Type::Struct(id) => self
                .btf()
                .map_or_else(|| "a struct".to_owned(), |btf| btf.render(*id)),
            Type::Tuple(tuple) => format!("a tuple of {}", tuple.members.len()),
            Type::Named(_) => "a value with a name".to_owned(),
            Type::Memory { .. } | Type::Buffer { .. } => "bytes of memory".to_owned(),
            Type::HeldStack(_) | Type::Stack { .. } | Type::StackCopy { .. } => "a stack".to_owned(),
        }
    }

    fn describe_pointer(&self, pointer: Pointer) -> String {
        let stars = "*".repeat(usize::from(pointer.levels) + 1);
        match (pointer.to, self.btf()) {
            (Pointee::Char, _) => format!("char {stars}"),
            (Pointee::Integer { size, signed }, _) => {
                format!(
                    "{}int{} {stars}",
                    if signed { "" } else { "u" },
                    u32::from(size) * 8
                )
            }
            (Pointee::Btf(id), Some(btf)) => format!("{} {stars}", btf.render(id)),
            _ => format!("void {stars}"),
        }
    }

    /// The type of a value that lies somewhere in a fixed number of bytes; `None` for what cannot be kept.
    pub(crate) fn kept_type(&mut self, ty: &Type) -> Option<FieldType> {
        self.kept_type_at(ty, 0)
    }

    fn kept_type_at(&mut self, ty: &Type, depth: u8) -> Option<FieldType> {
        if depth > 8 {
            return None;
        }
        Some(match ty {
            Type::Array { element, count } => FieldType::Array {
                element: Box::new(self.kept_type_at(element, depth + 1)?),
                count: *count,
            },
            Type::Tuple(tuple) => {
                let mut member = |member: &TupleMember| {
                    Some(Member {
                        name: member.name.clone(),
                        offset: member.offset,
                        bits: None,
                        ty: self.kept_type_at(&member.ty, depth + 1)?,
                    })
                };
                let named = tuple.members.iter().any(|member| !member.name.is_empty());
                FieldType::Composite(Arc::new(Composite {
                    kind: match named {
                        true => CompositeKind::Record,
                        false => CompositeKind::Tuple,
                    },
                    size: tuple.size,
                    align: tuple.align,
                    members: tuple.members.iter().map(&mut member).collect::<Option<_>>()?,
                }))
            }
            Type::Struct(id) => self.kept_struct(*id, depth)?,
            ty => Self::field_type(ty).filter(|ty| !ty.is_variable())?,
        })
    }

    /// A struct or union of BTF.
    fn kept_struct(&mut self, id: TypeId, depth: u8) -> Option<FieldType> {
        let btf = self.btf()?;
        let size = u32::try_from(btf.size_of(id)?).ok()?;
        let union = matches!(btf.resolved(id), btf::Type::Union(_));
        let mut members = Vec::new();
        for member in btf.composite(id)?.members() {
            // What has no values here is left out: its bytes are there all the same.
            let Some(ty) = self.btf_type(member.ty) else {
                continue;
            };
            let Some(ty) = self.kept_type_at(&ty, depth + 1) else {
                continue;
            };
            let bit_offset = member.bit_offset;
            let bits = member.bits;
            let (offset, bits) = match bits {
                None => (bit_offset / 8, None),
                Some(width) => {
                    let unit = u32::from(ty.integer_size()?) * 8;
                    let start = bit_offset / unit * unit;
                    let bits = Bits {
                        first: u8::try_from(bit_offset - start).ok()?,
                        width: u8::try_from(width).ok()?,
                    };
                    (start / 8, Some(bits))
                }
            };
            match &ty {
                // Members of a part without a name are the struct's own.
                FieldType::Composite(part) if member.name.is_empty() => {
                    members.extend(part.members.iter().map(|member| Member {
                        offset: offset + member.offset,
                        ..member.clone()
                    }));
                }
                _ => members.push(Member {
                    name: member.name.to_owned(),
                    offset,
                    bits,
                    ty,
                }),
            }
        }
        let align = [8, 4, 2, 1]
            .into_iter()
            .find(|align| size.is_multiple_of(*align))
            .unwrap_or(1);
        Some(FieldType::Composite(Arc::new(Composite {
            kind: match union {
                true => CompositeKind::Union,
                false => CompositeKind::Struct,
            },
            size,
            align,
            members,
        })))
    }

    /// The type of a record's field; `None` for what cannot be recorded.
    pub(crate) fn field_type(ty: &Type) -> Option<FieldType> {
        Some(match ty {
            Type::Integer { size, signed, show } => {
                let (size, signed) = (*size, *signed);
                match show {
                    Show::Number(_) | Show::Natural => FieldType::Integer {
                        size,
                        signed,
                        base: show.base(),
                    },
                    Show::Names(names) => FieldType::Enumeration {
                        size,
                        signed,
                        names: names.clone(),
                    },
                    Show::Flags(names) => FieldType::Flags {
                        size,
                        names: names.clone(),
                    },
                }
            }
            Type::Bool => FieldType::Bool,
            Type::Pointer(pointer) => FieldType::Pointer {
                symbolic: pointer.symbolic,
            },
            Type::Text { size } if *size > 0 => FieldType::Text { size: *size },
            Type::String { max } => FieldType::String { max: *max },
            Type::Memory { max } => FieldType::Bytes { max: *max },
            Type::Array { element, count } if *count > 0 => FieldType::Array {
                element: Box::new(Self::field_type(element)?),
                count: *count,
            },
            Type::Stack { space, max, .. } => FieldType::Stack {
                space: *space,
                max: *max,
            },
            // Where nothing is said about its size, that is known when all fields are.
            Type::StackCopy { max, shown } => FieldType::StackCopy {
                max: max.unwrap_or_default(),
                shown: *shown,
            },
            Type::Text { .. } | Type::Array { .. } | Type::Struct(_) | Type::Tuple(_) => return None,
            Type::Named(named) => FieldType::Named(named.clone()),
            Type::Buffer { max } => FieldType::Buffer { max: *max },
            Type::HeldStack(stack) => FieldType::HeldStack(*stack),
        })
    }
}

/// A stack of so many frames.
fn spelled_stack(space: Space, max: u32) -> (&'static str, String) {
    let word = match space {
        Space::Kernel => "kstack",
        Space::User => "ustack",
    };
    (word, format!("{word}_{max}"))
}

/// An address in the kernel of what a type's name says.
fn plain_pointer(to: Pointee) -> Pointer {
    Pointer {
        to,
        levels: 0,
        space: Space::Kernel,
        trusted: false,
        symbolic: to == Pointee::Unknown,
    }
}

/// The pointer whose target is `to`, as found in memory.
fn pointer_to(btf: &Btf, to: TypeId) -> Pointer {
    let (mut id, mut levels, mut space, mut walkable) = (to, 0, Space::Kernel, true);
    // Foreign BTF may hold a circle of typedefs.
    for _ in 0..CHAIN {
        match btf.ty(id) {
            btf::Type::TypeTag { name, ty } => {
                if name == "user" {
                    space = Space::User;
                }
                walkable &= name != "user" && name != "percpu";
                id = ty;
            }
            btf::Type::Typedef { ty, .. }
            | btf::Type::Const(ty)
            | btf::Type::Volatile(ty)
            | btf::Type::Restrict(ty) => id = ty,
            btf::Type::Ptr(ty) => {
                levels += 1;
                id = ty;
            }
            _ => break,
        }
    }
    let mut whole = false;
    let to = match btf.ty(id) {
        btf::Type::Int(_) if is_char(btf, id) => Pointee::Char,
        btf::Type::Int(int) => match u8::try_from(int.size) {
            Ok(size @ (1 | 2 | 4 | 8)) => Pointee::Integer {
                size,
                signed: int.signed,
            },
            _ => Pointee::Unknown,
        },
        btf::Type::Struct(_) | btf::Type::Union(_) => {
            whole = true;
            Pointee::Btf(id)
        }
        btf::Type::Fwd { name, union } => {
            let kind = if union { Kind::Union } else { Kind::Struct };
            Pointee::Btf(btf.find(kind, name).unwrap_or(id))
        }
        btf::Type::Enum(_) | btf::Type::Array { .. } => Pointee::Btf(id),
        _ => Pointee::Unknown,
    };
    Pointer {
        to,
        levels,
        space,
        // The verifier follows a pointer without a helper only where it knows the whole structure.
        trusted: whole && walkable && levels == 0,
        symbolic: to == Pointee::Unknown && levels == 0 && space == Space::Kernel,
    }
}

fn is_char(btf: &Btf, id: TypeId) -> bool {
    matches!(btf.resolved(id), btf::Type::Int(int) if int.size == 1 && (int.char || int.name == "char"))
}

/// A type's name as the user wrote it, without pointers.
fn spell(name: &TypeName) -> String {
    match name.tag {
        Some(TypeTag::Struct) => format!("struct {}", name.name),
        Some(TypeTag::Union) => format!("union {}", name.name),
        Some(TypeTag::Enum) => format!("enum {}", name.name),
        None => name.name.clone(),
    }
}

/// Names of structs, unions, enumerations and typedefs about as long as `name` that begin like it: few enough to be
/// compared with it one by one.
fn similar_types<'b>(btf: &'b Btf, name: &str) -> Vec<&'b str> {
    let first = name.chars().next();
    btf.ids()
        .filter(|id| {
            matches!(
                btf.kind(*id),
                Some(Kind::Struct | Kind::Union | Kind::Enum | Kind::Enum64 | Kind::Typedef)
            )
        })
        .map(|id| btf.name(id))
        .filter(|n| n.chars().next() == first && n.len().abs_diff(name.len()) <= 3)
        .collect()
}
