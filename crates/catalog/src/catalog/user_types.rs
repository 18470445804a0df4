//! Parameters and return values of user functions as an event's fields, from debug information: where each parameter is at the entry, by the calling
//! convention (System V) or as the compiler says it.

use super::kind::DescribedField;
use crate::arch;
use crate::debuginfo::{Described, Parameter, ParameterPlace, Signature};
use kestrel_bpf::btf::{Btf, Type, TypeId};
use kestrel_compiler::context::{EventField, Source, ValueType};
use kestrel_trace::layout::Base;
use std::cell::Cell;
use std::collections::HashSet;

/// Bytes of a value that registers carry: two words.
const MAX_IN_REGISTERS: u64 = 16;
/// Types in types are looked at so deep.
const DEPTH: u32 = 16;
/// For the parameters of a function so many types are looked at.
const MAX_TYPES: u32 = 1 << 16;

/// Register class of a word of a value (System V).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// In a register of integers.
    Integer,
    /// In a register of floating-point numbers, which probes are not given.
    Vector,
}

/// Calling convention by which values are passed.
struct Convention<'d> {
    types: &'d Btf,
    by_address: &'d HashSet<TypeId>,
    /// Number of nested types that are still visited: those of foreign bytes may have no end.
    left: Cell<u32>,
}

/// Registers and words of the stack that parameters have taken.
#[derive(Default)]
struct Taken {
    registers: usize,
    vectors: usize,
    stack: u64,
}

/// Registers of floating-point numbers that carry parameters.
const VECTORS: usize = 8;

impl Convention<'_> {
    /// The classes of the words of a value; `None` where memory carries it.
    fn classes(&self, ty: TypeId) -> Option<Vec<Class>> {
        let size = self.types.size_of(ty)?;
        if size > MAX_IN_REGISTERS {
            return None;
        }
        let mut words = [None; 2];
        self.classify(ty, 0, &mut words, 0)?;
        let words = words.into_iter().take(size.div_ceil(8) as usize);
        Some(words.map(|class| class.unwrap_or(Class::Vector)).collect())
    }

    /// Adds what lies at an offset to the classes of its words; `None` where that sends the whole to memory.
    fn classify(&self, ty: TypeId, at: u64, words: &mut [Option<Class>; 2], depth: u32) -> Option<()> {
        if depth > DEPTH || self.left.get() == 0 {
            return None;
        }
        self.left.set(self.left.get() - 1);
        let size = self.types.size_of(ty)?;
        let mut mark = |class: Class| {
            // System V passes values with unaligned parts in memory.
            if size == 0 || at.checked_rem(size.min(16)) != Some(0) {
                return None;
            }
            for word in at / 8..(at + size).div_ceil(8) {
                let known = words.get_mut(usize::try_from(word).ok()?)?;
                // A word with an integer in it is one, whatever else shares it.
                if *known != Some(Class::Integer) {
                    *known = Some(class);
                }
            }
            Some(())
        };
        match self.types.resolved(ty) {
            Type::Int(_) | Type::Ptr(_) | Type::Enum(_) => mark(Class::Integer),
            Type::Float { .. } if size <= 8 => mark(Class::Vector),
            Type::Array { element, count, .. } => {
                let step = self.types.size_of(element)?;
                for place in 0..u64::from(count).min(MAX_IN_REGISTERS) {
                    self.classify(element, at + place * step, words, depth + 1)?;
                }
                Some(())
            }
            Type::Struct(composite) | Type::Union(composite) => {
                // Foreign bytes may list members without end.
                for member in composite.members().take(64) {
                    let bit = u64::from(member.bit_offset);
                    match member.bits {
                        Some(_) => {
                            let word = usize::try_from((at + bit / 8) / 8).ok()?;
                            *words.get_mut(word)? = Some(Class::Integer);
                        }
                        None => self.classify(member.ty, at + bit / 8, words, depth + 1)?,
                    }
                }
                Some(())
            }
            // `long double` is of a class that memory carries.
            _ => None,
        }
    }

    /// Whether a value is a struct, a union or an array.
    fn is_composite(&self, ty: TypeId) -> bool {
        matches!(self.types.resolved(ty), Type::Struct(_) | Type::Union(_))
    }

    fn is_integer(&self, ty: TypeId) -> bool {
        matches!(self.types.resolved(ty), Type::Int(_))
    }

    /// Whether what a function returns lies where its caller says by a parameter before all others.
    fn returns_in_memory(&self, ty: TypeId) -> bool {
        self.is_composite(ty) && (self.is_by_address(ty) || self.classes(ty).is_none())
    }

    fn is_by_address(&self, ty: TypeId) -> bool {
        self.by_address.contains(&self.types.resolve(ty))
    }

    /// Where the convention puts a parameter.
    fn place(&self, ty: TypeId, taken: &mut Taken) -> Source {
        let arch = arch::current();
        let (classes, size) = match self.is_by_address(ty) {
            true => (Some(vec![Class::Integer]), 8),
            false => (self.classes(ty), self.types.size_of(ty).unwrap_or(0)),
        };
        let count = |class: Class| {
            let classes = classes.iter().flatten();
            classes.filter(|one| **one == class).count()
        };
        let (integers, vectors) = (count(Class::Integer), count(Class::Vector));
        // Registers carry a value whole or not at all: one that no longer fits leaves them to later parameters.
        let fits = classes.is_some()
            && taken.registers + integers <= arch.arguments.len()
            && taken.vectors + vectors <= VECTORS;
        if fits {
            let offsets = arch.arguments.iter().skip(taken.registers).take(integers);
            let mut words: Vec<Source> = offsets.map(|&offset| Source::Register { offset }).collect();
            taken.registers += integers;
            taken.vectors += vectors;
            if vectors > 0 {
                return absent("a register of floating-point numbers has it, which probes are not given");
            }
            return match words.pop() {
                Some(word) if self.is_by_address(ty) => self.behind(&word, ty),
                Some(word) if words.is_empty() && !self.is_composite(ty) => word,
                // Of `__int128` the low word is read, which the first of its registers has.
                _ if self.is_integer(ty) && !words.is_empty() => words.swap_remove(0),
                last => {
                    words.extend(last);
                    Source::Words(words)
                }
            };
        }
        // On the stack, `__int128` and `long double` are aligned to 16 bytes.
        let wide = size > 8 && !self.is_composite(ty);
        if wide {
            taken.stack = taken.stack.next_multiple_of(16);
        }
        let behind = arch.return_slot + taken.stack;
        taken.stack += size.div_ceil(8) * 8;
        match self.is_composite(ty) {
            true => self.at(&format!("reg(\"sp\") + {behind}"), ty),
            false => Source::Expression(format!("*(uint64 *)(reg(\"sp\") + {behind})")),
        }
    }

    /// A struct at the address that a register holds.
    fn behind(&self, word: &Source, ty: TypeId) -> Source {
        let registers = arch::current().registers.iter();
        let named =
            registers.filter(|saved| matches!(word, Source::Register { offset } if *offset == saved.offset));
        match named.map(|saved| saved.name).next() {
            Some(name) => self.at(&format!("reg(\"{name}\")"), ty),
            None => absent("no register has its address"),
        }
    }

    /// A struct at an address.
    fn at(&self, address: &str, ty: TypeId) -> Source {
        let name = self.types.render(self.types.resolve(ty));
        let is_named = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ' ');
        match is_named && name.split(' ').nth(1).is_some_and(|name| !name.is_empty()) {
            true => Source::Expression(format!("*({name} *)({address})")),
            false => absent("memory has it, and its type has no name to read it by"),
        }
    }
}

fn absent(why: &str) -> Source {
    Source::Absent {
        why: why.to_owned(),
        instead: None,
    }
}

/// The parameters of a function as fields of the event of its entry; of a copy that the compiler made for other parameters only those whose place it says.
pub(super) fn fields(known: &Described, signature: &Signature, is_copy: bool) -> Vec<EventField> {
    let convention = Convention {
        types: &known.types,
        by_address: &known.by_address,
        left: Cell::new(MAX_TYPES),
    };
    let mut taken = Taken::default();
    // A hidden first argument says where such a value goes.
    if convention.returns_in_memory(signature.returns) {
        taken.registers = 1;
    }
    let field = |parameter: &Parameter| {
        // Asked for even where the compiler says the place: every parameter takes its registers from those after it.
        let by_convention = convention.place(parameter.ty, &mut taken);
        let source = match parameter.place {
            ParameterPlace::Constant(value) => Source::Expression(value.to_string()),
            ParameterPlace::Register(number) if !convention.is_composite(parameter.ty) => {
                register(number).unwrap_or(by_convention)
            }
            _ if is_copy => absent(
                "the compiler made a copy of this function for other parameters, and does not say where this one is",
            ),
            _ => by_convention,
        };
        let is_value = convention
            .types
            .size_of(parameter.ty)
            .is_some_and(|size| size <= 8 || (size == 16 && convention.is_integer(parameter.ty)))
            && !matches!(convention.types.resolved(parameter.ty), Type::Float { .. });
        let (ty, source) = match source {
            source @ Source::Absent { .. } => (word(), source),
            _ if !is_value && !convention.is_composite(parameter.ty) => {
                (word(), absent("numbers of more than 64 bits cannot be handled"))
            }
            source => (ValueType::Btf(parameter.ty), source),
        };
        EventField {
            name: parameter.name.clone(),
            recorded: !matches!(source, Source::Absent { .. }),
            ty,
            source,
        }
    };
    signature.parameters.iter().map(field).collect()
}

/// The type of what a function returns, where a register carries it.
pub(super) fn return_type(known: &Described, signature: &Signature) -> Option<ValueType> {
    let types = &known.types;
    let size = types.size_of(signature.returns)?;
    let carried = matches!(
        types.resolved(signature.returns),
        Type::Int(_) | Type::Ptr(_) | Type::Enum(_)
    );
    (carried && ((1..=8).contains(&size) || size == 16)).then_some(ValueType::Btf(signature.returns))
}

/// The parameters for people.
pub(super) fn described(signature: &Signature) -> Vec<DescribedField> {
    let field = |parameter: &Parameter| DescribedField {
        name: parameter.name.clone(),
        ty: parameter.text.clone(),
    };
    signature.parameters.iter().map(field).collect()
}

fn word() -> ValueType {
    ValueType::Integer {
        size: 8,
        signed: true,
        base: Base::Decimal,
    }
}

/// Where a register by its number of DWARF is kept.
fn register(number: u16) -> Option<Source> {
    let arch = arch::current();
    let name = arch.dwarf_registers.get(usize::from(number))?;
    let saved = arch.registers.iter().find(|saved| saved.name == *name)?;
    Some(Source::Register { offset: saved.offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_bpf::btf::write::Builder;

    fn sources(make: &dyn Fn(&mut Builder) -> (TypeId, Vec<TypeId>)) -> Vec<Source> {
        let mut builder = Builder::new();
        let (returns, parameters) = make(&mut builder);
        let types = Btf::parse(builder.finish()).unwrap();
        let parameter = |ty| Parameter {
            name: "p".to_owned(),
            ty,
            text: String::new(),
            place: ParameterPlace::Nothing,
        };
        let signature = Signature {
            parameters: parameters.into_iter().map(parameter).collect(),
            returns,
            returned: String::new(),
        };
        let known = Described {
            types: types.into(),
            functions: Default::default(),
            by_address: Default::default(),
        };
        let fields = fields(&known, &signature, false);
        fields.into_iter().map(|field| field.source).collect()
    }

    fn argument(place: usize) -> Source {
        Source::Register {
            offset: arch::current().arguments[place],
        }
    }

    #[test]
    fn floating_point_numbers_take_no_register_of_integers() {
        let found = sources(&|b| {
            let (int, double) = (b.int("int", 4), b.float("double", 8));
            (int, vec![int, double, int])
        });
        assert_eq!(found[0], argument(0));
        assert!(matches!(found[1], Source::Absent { .. }));
        assert_eq!(found[2], argument(1));
    }

    #[test]
    fn structs_travel_as_the_convention_has_it() {
        let found = sources(&|b| {
            let long = b.int("long", 8);
            let pair = b.structure("pair", &[("a", long), ("b", long)]);
            let large = b.structure("large", &[("a", long), ("b", long), ("c", long)]);
            // A value that is returned in memory takes the first register.
            (large, vec![pair, large, long, long, pair, long, long])
        });
        assert_eq!(found[0], Source::Words(vec![argument(1), argument(2)]));
        let on_stack = |ty: &str, at| Source::Expression(format!("*({ty} *)(reg(\"sp\") + {at})"));
        assert_eq!(found[1], on_stack("struct large", 8));
        assert_eq!(found[2], argument(3));
        assert_eq!(found[3], argument(4));
        // One register is left, which the next that fits takes.
        assert_eq!(found[4], on_stack("struct pair", 32));
        assert_eq!(found[5], argument(5));
        assert_eq!(found[6], on_stack("uint64", 48));
    }

    #[test]
    fn integers_of_128_bits_have_their_low_words_where_the_convention_puts_them() {
        let found = sources(&|b| {
            let (int, wide) = (b.int("int", 4), b.int("unsigned __int128", 16));
            (wide, vec![wide, int, wide, wide, int, int])
        });
        assert_eq!(found[0], argument(0));
        assert_eq!(found[1], argument(2));
        assert_eq!(found[2], argument(3));
        // One register is left, too few for another: the stack has it, and later parameters the register.
        assert_eq!(
            found[3],
            Source::Expression("*(uint64 *)(reg(\"sp\") + 8)".to_owned())
        );
        assert_eq!(found[4], argument(5));
        assert_eq!(
            found[5],
            Source::Expression("*(uint64 *)(reg(\"sp\") + 24)".to_owned())
        );
    }
}
