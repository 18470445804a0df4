//! Types of variables and maps, inferred over all their uses: each use widens it, and sources are checked again until nothing grows any more.

use super::tree::{Pointee, PointeeId, Pointer, Show, TupleMember, TupleType, Type};
use kestrel_trace::aggregate::Aggregation;
use kestrel_trace::layout::{Base, EventName, FieldType, Frames, HeldStack, Named, Space, StackMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most rounds over one probe: another round follows where a type has grown.
pub(super) const ROUNDS: usize = 12;
/// Most rounds of checking all probes of a program.
pub const PROGRAM_ROUNDS: usize = 100;

/// Types of a text's variables and maps, as inferred from the uses seen so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shapes {
    /// Variables by the text they stand in, their names, and where they are first set.
    pub(super) variables: BTreeMap<(String, u32), Type>,
    /// Maps by their names.
    pub(super) maps: BTreeMap<String, MapShape>,
    /// Symbols of the kernel whose addresses are wanted.
    pub symbols: BTreeSet<String>,
    /// Symbols of programs whose places are wanted, each with the event at which.
    pub user_symbols: BTreeSet<(String, String)>,
    /// Paths of control groups whose numbers are wanted.
    pub control_groups: BTreeSet<String>,
    /// How the names of events are kept.
    event_names: EventNames,
    /// Types of values that addresses lead to, by their numbers.
    pub(super) pointees: Vec<Type>,
    /// Maps that are read and whose types are not known yet.
    pub(super) open: OpenMaps,
}

/// How handlers keep the names of events: as numbers, which take less and are named by readers, unless handlers read them themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EventNames {
    /// Whether a handler reads one, or keeps it beside a string.
    read: bool,
    /// Whether a handler of several events keeps the name of one, of which it has the number only.
    numbered: bool,
    /// Whether they are kept as strings.
    strings: bool,
}

/// Maps that are read before it is known what they hold: what reads one has no type until a later round knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OpenMaps {
    /// Whether there are later rounds; without them, such a map holds numbers.
    waits: bool,
    /// Names of those that were met.
    met: BTreeSet<String>,
    /// Names of maps that something is stored in, whether or not it is known what.
    stored: BTreeSet<String>,
    /// Maps of which all rounds have found nothing: they hold numbers, until something else is stored in them.
    numbers: BTreeSet<String>,
}

impl Shapes {
    /// The state before the first of the rounds over all probes of a program.
    pub fn of_program() -> Self {
        let mut shapes = Self::default();
        shapes.open.waits = true;
        shapes
    }

    /// The state that the next round over a program begins with, as this one, which began with `self`, ended with `grown`; `None` where all is known.
    ///
    /// Maps of which nothing is found hold numbers: first those that nothing is stored in, as what depends on them may say more of the others.
    #[must_use]
    pub fn next(&self, mut grown: Self) -> Option<Self> {
        let EventNames {
            read,
            numbered,
            strings,
        } = grown.event_names;
        if strings != (read && !numbered) {
            grown.event_names.strings = !strings;
            grown.maps.clear();
            grown.variables.clear();
        }
        if grown != *self {
            return Some(grown);
        }
        let unknown = grown.open.met.iter().filter(|name| self.waits_for(name));
        let (stored, never): (BTreeSet<_>, BTreeSet<_>) = unknown
            .cloned()
            .partition(|name| grown.open.stored.contains(name));
        let found = if never.is_empty() { stored } else { never };
        if found.is_empty() {
            return None;
        }
        grown.open.numbers.extend(found);
        Some(grown)
    }

    /// Whether the names of events are kept as strings.
    pub(super) fn event_strings(&self) -> bool {
        self.event_names.strings
    }

    /// Notes that the name of an event is known as its number only.
    pub(super) fn notes_event_number(&mut self) {
        self.event_names.numbered = true;
    }

    /// Notes that handlers read a value, or keep it beside others: the name of an event must be a string there.
    pub(super) fn notes_read(&mut self, ty: &Type) {
        if is_event_name(ty) {
            self.event_names.read = true;
        }
    }

    /// The type of the value at the address of a value of a type.
    pub(super) fn pointee_of(&mut self, ty: &Type) -> Pointee {
        if let Type::CharArray { size } = ty {
            return Pointee::String { size: *size };
        }
        let known = self.pointees.iter().position(|known| known == ty);
        let place = known.unwrap_or_else(|| {
            self.pointees.push(ty.clone());
            self.pointees.len() - 1
        });
        Pointee::Value(PointeeId(u32::try_from(place).unwrap_or(u32::MAX)))
    }

    /// The type of a value that addresses lead to.
    pub(super) fn pointee_type(&self, of: PointeeId) -> Option<&Type> {
        self.pointees.get(of.0 as usize)
    }

    /// Whether a later round may know what a map holds.
    pub(super) fn waits_for(&self, map: &str) -> bool {
        let known = self.maps.get(map).is_some_and(|shape| shape.value.is_some());
        self.open.waits && !known && !self.open.numbers.contains(map)
    }

    /// Notes that a map is read of which a later round may know more.
    pub(super) fn notes_open(&mut self, map: &str) {
        self.open.met.insert(map.to_owned());
    }

    /// Notes that something is stored in a map, before it is known what.
    pub(super) fn notes_store(&mut self, map: &str) {
        if self.open.waits && !self.open.stored.contains(map) {
            self.open.stored.insert(map.to_owned());
        }
    }

    /// The type of all values that are stored in a map, as narrow as they are, if it is one of values.
    pub(super) fn stored_type(&self, map: &str) -> Option<&Type> {
        self.maps.get(map)?.narrow_value.as_ref()
    }

    /// Notes what a handler does to a map as a whole.
    pub(super) fn notes_clearing(&mut self, map: &str, clearing: Clearing) {
        let shape = self.maps.entry(map.to_owned()).or_default();
        shape.clearing.insert(clearing);
    }

    /// Whether a map is cleared while something may still write or read it.
    pub(super) fn is_cleared(&self, map: &str) -> bool {
        let Some(shape) = self.maps.get(map) else {
            return false;
        };
        let has = |clearing| shape.clearing.contains(&clearing);
        has(Clearing::Cleared) || has(Clearing::ClearedAtEnd) && has(Clearing::UsedAtEnd)
    }

    /// Notes the type of a value that is stored in a map; gives the type of all values stored there so far.
    pub(super) fn notes_stored(&mut self, map: &str, ty: Type) -> Type {
        let shape = self.maps.entry(map.to_owned()).or_default();
        let joined = match &shape.narrow_value {
            Some(known) => join(known, &ty).unwrap_or_else(|| known.clone()),
            None => ty,
        };
        shape.narrow_value = Some(joined.clone());
        joined
    }
}

/// Inferred shape of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MapShape {
    /// The keys; none while no use has said.
    pub(super) keys: Option<Vec<Type>>,
    /// The types of its keys as narrow as they were written, for messages.
    pub(super) narrow: Option<Vec<Type>>,
    /// The type of stored values.
    pub(super) value: Option<Stored>,
    /// The type of what is stored as narrow as that is: what `sizeof` says.
    pub(super) narrow_value: Option<Type>,
    /// Operations of handlers on the map as a whole.
    pub(super) clearing: BTreeSet<Clearing>,
}

/// Something that handlers do to a map, of interest to how its keys are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Clearing {
    /// The map is emptied while events are handled.
    Cleared,
    /// The map is emptied in `end`.
    ClearedAtEnd,
    /// Keys or values are asked for or stored in `end`.
    UsedAtEnd,
}

/// Content type of a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stored {
    Value(Type),
    Aggregation(Aggregation),
}

/// The type that holds values of both; `None` where there is none.
pub(super) fn join(a: &Type, b: &Type) -> Option<Type> {
    if a == b {
        return Some(a.clone());
    }
    Some(match (a, b) {
        (Type::Integer { .. }, Type::Integer { .. }) => join_integers(a, b),
        (Type::CharArray { size: a }, Type::CharArray { size: b }) => Type::CharArray { size: *a.max(b) },
        (Type::Pointer(a), Type::Pointer(b)) => {
            let same = (a.to, a.levels, a.space) == (b.to, b.levels, b.space);
            let plain = |p: &Pointer| p.to == Pointee::Unknown && p.levels == 0;
            Type::Pointer(match same {
                true => Pointer {
                    trusted: false,
                    symbolic: a.symbolic && b.symbolic,
                    ..*a
                },
                false if plain(a) && a.space == b.space => Pointer { trusted: false, ..*b },
                false if plain(b) && a.space == b.space => Pointer { trusted: false, ..*a },
                // As in bpftrace the address of one integer is that of another, and the first use says of which.
                false if a.leads_to_integers_as(b) && a.space == b.space => Pointer { trusted: false, ..*a },
                false if (a.levels, a.space) == (b.levels, b.space) => {
                    let to = match (a.to, b.to) {
                        (Pointee::String { size }, Pointee::String { size: other }) => Pointee::String {
                            size: size.max(other),
                        },
                        // The type found later is larger; whether a value fits it is checked at the store.
                        (Pointee::Value(one), Pointee::Value(other)) => Pointee::Value(one.max(other)),
                        _ => return None,
                    };
                    Pointer {
                        to,
                        trusted: false,
                        ..*a
                    }
                }
                false => return None,
            })
        }
        (Type::Tuple(a), Type::Tuple(b)) if a.members.len() == b.members.len() => {
            let members = a.members.iter().enumerate().map(|(place, a)| {
                let b = match a.name.is_empty() {
                    true => b.members.get(place).filter(|b| b.name.is_empty())?,
                    false => b.members.iter().find(|b| b.name == a.name)?,
                };
                Some((a.name.clone(), join(&a.ty, &b.ty)?, 0))
            });
            let members = members.collect::<Option<Vec<_>>>()?;
            if members.iter().any(|(_, ty, _)| own_size(ty).is_none()) {
                return Some(Type::Tuple(a.clone())).filter(|_| a == b);
            }
            Type::Tuple(Arc::new(TupleType::new(members.into_iter().map(
                |(name, ty, _)| {
                    let size = own_size(&ty).unwrap_or_default();
                    let align = alignment(&ty, size);
                    (name, ty, size, align)
                },
            ))))
        }
        (Type::Buffer { max: a }, Type::Buffer { max: b }) => Type::Buffer { max: *a.max(b) },
        (Type::HeldStack(a), Type::HeldStack(b)) if (a.space, a.mode) == (b.space, b.mode) => {
            Type::HeldStack(HeldStack {
                max: a.max.max(b.max),
                ..*a
            })
        }
        (
            Type::Stack { space, max, mode },
            Type::Stack {
                space: other_space,
                max: other,
                mode: other_mode,
            },
        ) if (space, mode) == (other_space, other_mode) => Type::Stack {
            space: *space,
            max: *max.max(other),
            mode: *mode,
        },
        (held @ Type::HeldStack(_), Type::Stack { space, max, mode })
        | (Type::Stack { space, max, mode }, held @ Type::HeldStack(_)) => {
            return join(held, &held_stack(*space, *max, *mode));
        }
        // Names of numbers are strings where other strings are kept with them.
        (name, Type::CharArray { size }) | (Type::CharArray { size }, name) if is_named_number(name) => {
            Type::CharArray {
                size: (*size).max(NAME),
            }
        }
        // The traced function: its address in some handlers, in others only the number of their event.
        (number, Type::Pointer(address)) | (Type::Pointer(address), number)
            if address.symbolic && is_function_number(number) =>
        {
            number.clone()
        }
        (held @ Type::Buffer { .. }, Type::Memory { max })
        | (Type::Memory { max }, held @ Type::Buffer { .. }) => {
            return join(held, &Type::Buffer { max: *max });
        }
        _ => return None,
    })
}

/// Whether it is the number of an event that is shown by its function.
pub(super) fn is_function_number(ty: &Type) -> bool {
    let Type::Integer {
        show: Show::Names(names),
        ..
    } = ty
    else {
        return false;
    };
    *names == EventName::Function.unnamed()
}

/// Whether it is the number of an event that is shown by its name, or has one as a part.
fn is_event_name(ty: &Type) -> bool {
    match ty {
        Type::Integer {
            show: Show::Names(names),
            ..
        } => *names == EventName::Event.unnamed(),
        Type::Tuple(tuple) => tuple.members.iter().any(|member| is_event_name(&member.ty)),
        _ => false,
    }
}

/// Bytes of the name of an error, a signal or a system call as a string, as in bpftrace: the longest has 49.
pub(super) const NAME: u32 = 64;

/// Whether values of a type are numbers of errors, signals or system calls, which readers name.
pub(super) fn is_named_number(ty: &Type) -> bool {
    matches!(ty, Type::Named(Named::Error | Named::Signal | Named::SystemCall))
}

/// The type that keeps a stack outside of a map's keys.
pub(super) fn held_stack(space: Space, max: u32, mode: StackMode) -> Type {
    Type::HeldStack(HeldStack {
        space,
        max,
        mode,
        frames: Frames::Inline,
    })
}

/// The type that holds both of two integers, or of an integer and a bool.
pub(super) fn join_integers(a: &Type, b: &Type) -> Type {
    let shape = |ty: &Type| match ty {
        Type::Integer { size, signed, show } => (*size, *signed, show.clone()),
        _ => (1, false, Show::Number(Base::Decimal)),
    };
    let ((a_size, a_signed, a_show), (b_size, b_signed, b_show)) = (shape(a), shape(b));
    match (&a_show, &b_show) {
        (Show::Natural, Show::Natural) => {}
        (Show::Natural, _) if !b_signed => return join_natural(a_size, b_size, b_show),
        (_, Show::Natural) if !a_signed => return join_natural(b_size, a_size, a_show),
        _ => {}
    }
    let signed = a_signed || b_signed;
    // An unsigned number needs a larger signed one to fit.
    let own = |size: u8, own: bool| match signed && !own {
        true => (size * 2).min(8),
        false => size,
    };
    Type::Integer {
        size: own(a_size, a_signed).max(own(b_size, b_signed)),
        signed,
        show: match a_show == b_show {
            true => a_show,
            false => Show::Number(Base::Decimal),
        },
    }
}

/// Type for an unsigned value and a number that is not negative.
fn join_natural(natural: u8, unsigned: u8, show: Show) -> Type {
    Type::Integer {
        size: natural.max(unsigned),
        signed: false,
        show: Show::Number(show.base()),
    }
}

/// The size of a type that says it itself.
fn own_size(ty: &Type) -> Option<u32> {
    Some(match ty {
        Type::Integer { size, .. } => u32::from(*size),
        Type::Bool => 1,
        Type::Pointer(_) => 8,
        Type::CharArray { size } => *size,
        Type::Tuple(tuple) => tuple.size,
        Type::Named(named) => named.shape().0,
        Type::Buffer { max } => FieldType::Buffer { max: *max }.fixed_size(),
        Type::HeldStack(stack) => stack.size(),
        Type::Array { element, count } => own_size(element)?.checked_mul(*count)?,
        // Their room is chosen where they are kept, or lies elsewhere.
        Type::String { .. }
        | Type::Memory { .. }
        | Type::Struct(..)
        | Type::Stack { .. }
        | Type::StackCopy { .. } => return None,
    })
}

/// Alignment of a value's offset.
pub(super) fn alignment(ty: &Type, size: u32) -> u32 {
    match ty {
        Type::CharArray { .. } => 1,
        Type::Buffer { .. } => 4,
        Type::Tuple(tuple) => tuple.align,
        Type::Named(named) => named.shape().1,
        Type::Array { element, .. } => alignment(element, own_size(element).unwrap_or(8)),
        _ if size.is_power_of_two() => size.min(8),
        _ => 8,
    }
}

impl TupleType {
    /// Members with their sizes and alignments, one behind the other, as C places them.
    pub(crate) fn new(members: impl IntoIterator<Item = (String, Type, u32, u32)>) -> Self {
        let (mut end, mut align) = (0_u32, 1);
        let members = members.into_iter().map(|(name, ty, size, own)| {
            let offset = end.next_multiple_of(own);
            (end, align) = (offset + size, align.max(own));
            TupleMember {
                name,
                ty,
                offset,
                size,
            }
        });
        let members = members.collect();
        Self {
            members,
            size: end.next_multiple_of(align),
            align,
        }
    }
}
