//! Types as scripts write them: `u32`, `struct task_struct *`, `string[64]`, `int32[4]`.

use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Pointee, Pointer, Type};
use crate::lang::ast::{Span, TypeName, TypeSuffix, TypeTag};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_trace::layout::{Named, Space};

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

impl<'a> Checker<'a> {
    /// A type as written.
    pub(crate) fn written_type(&mut self, name: &TypeName) -> Checked<Type> {
        let stars = name
            .suffixes
            .iter()
            .take_while(|suffix| **suffix == TypeSuffix::Pointer);
        let (levels, arrays) = name.suffixes.split_at(stars.count());
        let (base, mut suffixes) = match &name.of {
            Some(of) => {
                let ty = match self.stored_in(of) {
                    Some(stored) => stored,
                    None => {
                        let value = self.expression(of)?;
                        self.holding(&value, false)?
                    }
                };
                (ty, arrays)
            }
            // The length of a text or a buffer is part of its name.
            None if name.tag.is_none()
                && name.name == "buffer"
                && levels.is_empty()
                && !arrays.is_empty() =>
            {
                let (length, rest) = arrays.split_at(1);
                let max = self.written_length(&length[0], name.span)?;
                (Type::Buffer { max }, rest)
            }
            None if name.tag.is_none() && name.name == "string" && levels.is_empty() => {
                match arrays.split_first() {
                    None => (Type::CharArray { size: 0 }, arrays),
                    Some((length, rest)) => {
                        let size = self.written_length(length, name.span)?;
                        (Type::CharArray { size }, rest)
                    }
                }
            }
            None if levels.is_empty() => (self.written_base(name)?, arrays),
            None => {
                let to = self.named(name)?;
                (
                    Type::Pointer(plain_pointer(to, !self.globals.infers_types)),
                    arrays,
                )
            }
        };
        // The first `*` behind a name is part of what was found for it.
        let more = levels.len() - usize::from(name.of.is_none() && !levels.is_empty());
        let mut ty = (0..more).try_fold(base, |ty, _| self.pointer_onto(ty, name.span))?;
        // Further suffixes are read from left to right: `int32[4]*` is the address of an array.
        while let Some((suffix, behind)) = suffixes.split_first() {
            if *suffix == TypeSuffix::Pointer {
                ty = self.pointer_onto(ty, name.span)?;
                suffixes = behind;
                continue;
            }
            let arrays = suffixes
                .iter()
                .take_while(|suffix| **suffix != TypeSuffix::Pointer);
            let (mut lengths, behind) = suffixes.split_at(arrays.count());
            // As in bpftrace: `int8[4][2]` is two times four, where C's declarations are read the other way round.
            while let Some((length, behind)) = lengths.split_first() {
                let count = self.written_length(length, name.span)?;
                let char = name.name == "char" && ty == Type::integer(1, true);
                ty = match char {
                    true => Type::CharArray { size: count },
                    false => Type::Array {
                        element: Box::new(ty),
                        count,
                    },
                };
                lengths = behind;
            }
            suffixes = behind;
        }
        Ok(ty)
    }

    /// Base type of a name, without stars and lengths.
    fn written_base(&mut self, name: &TypeName) -> Checked<Type> {
        if let Some(ty) = basic(&name.name).filter(|_| name.tag.is_none()) {
            return Ok(ty);
        }
        if name.tag.is_none() && name.name == "inet" {
            return Ok(Type::Named(Named::Inet));
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
            Some(TypeTag::Struct) => btf.find(BtfKind::Struct, &name.name),
            Some(TypeTag::Union) => btf.find(BtfKind::Union, &name.name),
            Some(TypeTag::Enum) => btf.find(BtfKind::Enum, &name.name),
            None => btf
                .find_c(&name.name)
                .or_else(|| btf.find(BtfKind::Struct, &name.name))
                .or_else(|| btf.find(BtfKind::Union, &name.name)),
        };
        found.map(|id| Pointee::Btf(btf.resolve(id))).ok_or_else(|| {
            let candidates = similar_types(btf, &name.name);
            let hint = did_you_mean(&name.name, candidates.iter().copied());
            let otherwise = || match name.tag {
                Some(_) => format!("define it before the probes: {written} {{ … }};, or #include what does"),
                None => "integers are int8 to int64 and uint8 to uint64; a struct is written struct NAME"
                    .to_owned(),
            };
            let hint = hint.unwrap_or_else(otherwise);
            let message = match name.tag {
                Some(TypeTag::Enum) => format!("Unknown enum: {}", name.name),
                _ => format!("Cannot resolve unknown type \"{written}\""),
            };
            self.report(Diagnostic::error(name.span, message).hint(hint))
        })
    }

    /// The address of something of a type.
    fn pointer_onto(&mut self, ty: Type, span: Span) -> Checked<Type> {
        let to = match ty {
            Type::CharArray { size: 1.. } | Type::Tuple(_) | Type::Bool if self.globals.infers_types => {
                self.globals.shapes.pointee_of(&ty)
            }
            Type::Pointer(pointer) => {
                return Ok(Type::Pointer(Pointer {
                    levels: pointer.levels.saturating_add(1),
                    trusted: false,
                    symbolic: false,
                    ..pointer
                }));
            }
            Type::Integer { size, signed, .. } => Pointee::Integer { size, signed },
            Type::Struct(id, _) => Pointee::Btf(id),
            Type::Array { ref element, .. }
                if self.globals.infers_types && !matches!(**element, Type::Integer { .. }) =>
            {
                self.globals.shapes.pointee_of(&ty)
            }
            Type::Array { element, count } => match *element {
                Type::Integer { size, signed, .. } => Pointee::Integers { size, signed, count },
                // The type behind it is not followed; as an address it is like any other.
                _ => Pointee::Unknown,
            },
            Type::CharArray { .. } => Pointee::Unknown,
            other => {
                let message = format!("there is no address of {} in the language", self.describe(&other));
                return Err(self.error(span, message));
            }
        };
        Ok(Type::Pointer(plain_pointer(to, !self.globals.infers_types)))
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
}

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

/// Pointer into the kernel, to the type of a name; `named` where functions among such addresses are shown by their names.
fn plain_pointer(to: Pointee, named: bool) -> Pointer {
    Pointer {
        to,
        levels: 0,
        space: Space::Kernel,
        trusted: false,
        symbolic: named && to == Pointee::Unknown,
    }
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
                Some(BtfKind::Struct | BtfKind::Union | BtfKind::Enum | BtfKind::Enum64 | BtfKind::Typedef)
            )
        })
        .map(|id| btf.name(id))
        .filter(|n| n.chars().next() == first && n.len().abs_diff(name.len()) <= 3)
        .collect()
}
