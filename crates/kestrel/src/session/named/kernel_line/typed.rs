//! Typed arguments of a line, by the kernel's types (BTF): parameters and members by name, the return value, and how each is kept.

use super::argument::{Fetch, Store};
use super::fetch::{KnownType, Reader};
use super::word::{Parsed, Wrong};
use kestrel_bpf::btf::{Btf, Type, TypeId};
use std::sync::Arc;

impl Reader<'_> {
    /// A string of a typed value: text itself, or behind a pointer to it.
    pub(super) fn text_of_type(
        &mut self,
        known: KnownType,
        value: Fetch,
        user: bool,
        at: usize,
    ) -> Parsed<Fetch> {
        let Some((types, _)) = self.prototype().cloned() else {
            return Ok(value);
        };
        let is_text = |id: TypeId| match types.resolved(id) {
            Type::Int(int) => !int.signed && int.bits == 8,
            _ => false,
        };
        match types.resolved(known.ty) {
            Type::Array { element, .. } if is_text(element) => Ok(value),
            Type::Ptr(to) if is_text(to) => {
                self.step(at)?;
                Ok(Fetch::Memory {
                    base: Box::new(value),
                    offset: 0,
                    user,
                })
            }
            Type::Ptr(_) => Err(Wrong::at(at, "what it points to is no string")),
            // Of what is no pointer the kernel takes the size for the number of the type that it points to.
            other => {
                let size = match other {
                    Type::Array { .. } => None,
                    _ => types.size_of(known.ty),
                };
                if !size.is_some_and(|size| is_text(TypeId(size as u32))) {
                    let why = "what lies there is neither a string nor a pointer to one";
                    return Err(Wrong::at(at, why));
                }
                self.step(at)?;
                Ok(Fetch::Memory {
                    base: Box::new(value),
                    offset: 0,
                    user,
                })
            }
        }
    }

    /// How a value is kept whose type the kernel knows.
    pub(super) fn store_of_type(&self, known: KnownType, at: usize) -> Parsed<Store> {
        let plain = Store::Integer {
            bits: 64,
            signed: false,
        };
        let Some((types, _)) = self.prototype() else {
            return Ok(plain);
        };
        let (shift, width) = known.bits;
        let store = match types.resolved(known.ty) {
            Type::Enum(e) => Store::Integer {
                bits: if e.size == 8 { 64 } else { 32 },
                // The kernel prints enumerators as signed numbers.
                signed: true,
            },
            Type::Int(int) => match int.bits {
                bits @ (8 | 16 | 32 | 64) => Store::Integer {
                    bits: u32::from(bits),
                    signed: int.signed,
                },
                _ => plain,
            },
            _ => plain,
        };
        if width % 8 == 0 && shift == 0 {
            return Ok(store);
        }
        if width + shift > 64 {
            return Err(Wrong::at(at, "the bit field does not lie in 64 bits"));
        }
        let container = match store {
            Store::Integer { bits, .. } => bits,
            _ => 64,
        };
        Ok(Store::Bits {
            container,
            shift,
            width,
            zeros: 0,
        })
    }

    /// The function's types. Of a place with its module the kernel looks for a function whose name begins with that, and finds none.
    pub(super) fn prototype(&self) -> Option<&(Arc<Btf>, TypeId)> {
        let read = || match self.place.module {
            Some(_) => None,
            None => self.kernel.prototype(self.place.symbol),
        };
        self.prototype.get_or_init(read).as_ref()
    }

    /// Why nothing is known of a parameter.
    pub(super) fn no_type_of(&self, parameter: &str) -> String {
        let place = self.place.name();
        let why = format!("`{parameter}`: the kernel's types (BTF) tell no parameters of {place}");
        match self.place.module {
            Some(_) => format!("{why}: they do of {} alone", self.place.symbol),
            None => why,
        }
    }

    pub(super) fn return_value(&mut self, text: &str, at: usize) -> Parsed<Fetch> {
        let (name, fields) = first_field(text, at)?;
        if name != "$retval" {
            return Err(Wrong::at(at, format!("`{name}` is no variable: $retval is")));
        }
        let prototype = self.prototype().cloned();
        let ret = prototype.and_then(|(types, proto)| match types.ty(proto) {
            Type::FuncProto(proto) => Some((types.clone(), proto.ret)),
            _ => None,
        });
        match (ret, fields) {
            (Some((_, TypeId::VOID)), fields) if self.dialect.parameters || fields.is_some() => {
                let why = format!("{} returns nothing", self.place.name());
                Err(Wrong::at(at, why))
            }
            (Some((types, ret)), fields)
                if ret != TypeId::VOID && self.dialect.parameters || fields.is_some() =>
            {
                self.typed(&types, ret, Fetch::ReturnValue, fields, at)
            }
            (None, Some(_)) => Err(Wrong::at(
                at,
                "the kernel's types (BTF) do not tell what it returns",
            )),
            _ => Ok(Fetch::ReturnValue),
        }
    }

    /// A parameter by its name, or what it points to.
    pub(super) fn parameter(&mut self, text: &str, at: usize) -> Parsed<Fetch> {
        if !self.at_entry && !self.at_return {
            return Err(self.no_arguments(text, at));
        }
        let (name, fields) = first_field(text, at)?;
        let no_type_of = || Wrong::at(at, self.no_type_of(name));
        let (types, proto) = self.prototype().cloned().ok_or_else(no_type_of)?;
        let Type::FuncProto(proto) = types.ty(proto) else {
            return Err(no_type_of());
        };
        let Some((index, parameter)) = proto.parameters().enumerate().find(|(_, p)| p.name == name) else {
            let known: Vec<&str> = proto.parameters().map(|p| p.name).collect();
            let why = format!(
                "`{name}` is no parameter of {}, which has {}",
                self.place.name(),
                if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                }
            );
            return Err(Wrong::at(at, why));
        };
        let value = Fetch::Argument(index as u32);
        self.typed(&types, parameter.ty, value, fields, at)
    }

    /// A value of a type, or the member of what it points to.
    fn typed(
        &mut self,
        types: &Btf,
        ty: TypeId,
        value: Fetch,
        fields: Option<(&str, usize)>,
        _at: usize,
    ) -> Parsed<Fetch> {
        let mut ty = types.resolve(ty);
        self.known = Some(KnownType { ty, bits: (0, 0) });
        let mut value = value;
        let mut rest = fields;
        while let Some((first, first_at)) = rest {
            let Type::Ptr(to) = types.ty(ty) else {
                return Err(Wrong::at(first_at, "what stands before the `->` is no pointer"));
            };
            ty = types.resolve(to);
            let mut bits = (0, 0);
            let mut next = Some((first, first_at));
            rest = None;
            while let Some((text, text_at)) = next {
                let (name, more) = split_field(text, text_at)?;
                let Some(member) = types.find_member(ty, name) else {
                    let why = format!("`{name}` is no member of {}", types.render(ty));
                    return Err(Wrong::at(text_at, why));
                };
                // Members behind a `.` lie in the same object: their offsets add up to one fetch.
                bits = (bits.0 + member.bit_offset, member.bits.unwrap_or(0));
                ty = types.resolve(member.ty);
                next = None;
                match more {
                    Some((true, text, at)) => rest = Some((text, at)),
                    Some((false, text, at)) => next = Some((text, at)),
                    None => {}
                }
            }
            self.step(first_at)?;
            value = Fetch::Memory {
                base: Box::new(value),
                offset: i64::from(bits.0 / 8),
                user: false,
            };
            self.known = Some(KnownType {
                ty,
                bits: (bits.0 % 8, bits.1),
            });
        }
        Ok(value)
    }
}

/// A name and the members behind its `->`, with their place.
fn first_field(text: &str, at: usize) -> Parsed<(&str, Option<(&str, usize)>)> {
    match split_field(text, at)? {
        (name, None) => Ok((name, None)),
        (name, Some((true, rest, at))) => Ok((name, Some((rest, at)))),
        (name, Some((false, ..))) => {
            let why = format!("`{name}.`: a member of an argument is reached by `->`");
            Err(Wrong::at(at + name.len(), why))
        }
    }
}

/// A name; whether `->` or `.` follows it, and what then.
type Split<'t> = (&'t str, Option<(bool, &'t str, usize)>);

fn split_field(text: &str, at: usize) -> Parsed<Split<'_>> {
    let Some(end) = text.find(['.', '-']) else {
        return Ok((text, None));
    };
    let (name, rest) = text.split_at(end);
    match (rest.strip_prefix("->"), rest.strip_prefix('.')) {
        (Some(rest), _) => Ok((name, Some((true, rest, at + end + 2)))),
        (_, Some(rest)) => Ok((name, Some((false, rest, at + end + 1)))),
        _ => Err(Wrong::at(at + end, "a `>` is missing behind the `-`")),
    }
}
