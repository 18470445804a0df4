//! Types of BTF, and of the values that the catalog describes, as [`Type`].

use crate::check::checker::Checker;
use crate::check::tree::{Pointee, Pointer, Show, Type};
use crate::context::ValueType;
use kestrel_bpf::btf::{self, Btf, BtfKind, TypeId};
use kestrel_trace::layout::{Base, Names, Space};

/// Links of modifiers, typedefs and pointers that are followed.
const CHAIN: usize = 64;

impl<'a> Checker<'a> {
    /// A type of the kernel; `None` for what has no values here (`void`, functions, floating point, arrays of 128-bit integers).
    ///
    /// A 128-bit integer is read as a cast to 64 bits would have it: its low word, which little-endian memory has first.
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
                    .filter(|s| matches!(s, 1 | 2 | 4 | 8 | 16))?;
                Some(Type::integer(size.min(8), int.signed))
            }
            btf::Type::Ptr(to) => {
                let mut pointer = pointer_to(btf, to);
                pointer.symbolic &= !self.globals.infers_types;
                Some(Type::Pointer(pointer))
            }
            btf::Type::Array { element, count, .. } => {
                if is_char(btf, element) {
                    return Some(Type::CharArray { size: count });
                }
                // Its elements would be looked for in steps of their low words.
                if is_wide(btf, element) {
                    return None;
                }
                let element = (depth < 8).then(|| self.btf_type_at(element, depth + 1))??;
                Some(Type::Array {
                    element: Box::new(element),
                    count,
                })
            }
            btf::Type::Struct(_) | btf::Type::Union(_) => Some(Type::composite(btf.resolve(id))),
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

    /// Type of what lies at an address; `None` where that is not known.
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
            Pointee::Integers { size, signed, count } => Some(Type::Array {
                element: Box::new(Type::integer(size, signed)),
                count,
            }),
            Pointee::Btf(id) => self.btf_type(id),
            Pointee::String { size } => Some(Type::CharArray { size }),
            Pointee::Value(value) => self.globals.shapes.pointee_type(value).cloned(),
        }
    }

    /// The type of a value that the catalog describes.
    pub(crate) fn value_type(&mut self, ty: &ValueType) -> Option<Type> {
        // Scripts show addresses as numbers, and by name where `ksym()` asks for it.
        let named = !self.globals.infers_types;
        let pointer = |to, user| {
            Type::Pointer(Pointer {
                to,
                levels: 0,
                space: if user { Space::User } else { Space::Kernel },
                trusted: false,
                symbolic: named && to == Pointee::Unknown && !user,
            })
        };
        Some(match ty {
            ValueType::Btf(id) => self.btf_type(*id)?,
            // Programs calculate with numbers and print them as such, whatever they are called elsewhere.
            ValueType::Integer { size, signed, base }
                if self.globals.infers_types && *base != Base::Float =>
            {
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
                    symbolic: named && !user,
                })
            }
            ValueType::CString { user } => pointer(Pointee::Char, *user),
            ValueType::CharArray { size } => Type::CharArray { size: *size },
            ValueType::Array { element, count } => Type::Array {
                element: Box::new(self.value_type(element)?),
                count: *count,
            },
            ValueType::String => Type::String { max: self.longest() },
            ValueType::Shorter { max } => Type::String {
                max: (*max).min(self.longest()),
            },
            ValueType::Memory { max } => Type::Memory { max: *max },
            ValueType::Enumeration { size, signed, .. } if self.globals.infers_types => {
                Type::integer(*size, *signed)
            }
            ValueType::Flags { size, .. } if self.globals.infers_types => Type::integer(*size, false),
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
            let kind = if union { BtfKind::Union } else { BtfKind::Struct };
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

/// Whether a type is an integer of 128 bits.
pub(super) fn is_wide(btf: &Btf, id: TypeId) -> bool {
    matches!(btf.resolved(id), btf::Type::Int(int) if int.size == 16)
}
