//! The arguments that a system call takes: names, types, and what each is.

use crate::event::EventClass;
use crate::layout::{Base, FieldType};
use crate::syscall::shape::Shape;
use crate::syscall::{Kind, Set, compat, kind, usual_name};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// ABI of a call: numbers and registers with which it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Abi {
    /// The kernel's own.
    #[default]
    Native,
    /// The interface of 32-bit programs on a 64-bit kernel.
    Compat,
}

/// What stands behind the names of calls of 32-bit programs, as in strace's sets.
const COMPAT_MARK: &str = "@32";

/// A register.
const WORD: FieldType = FieldType::Integer {
    size: 8,
    signed: false,
    base: Base::Hexadecimal,
};

/// A parameter of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The kernel's name: `dfd`.
    pub name: String,
    /// The type; of shorter ones the low bytes of the register count.
    pub ty: FieldType,
    /// The kind.
    pub kind: Option<Kind>,
}

/// A call and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The name that the kernel's tracepoints have for it: `newfstat`.
    pub call: String,
    /// Which of the kernel's interfaces it belongs to.
    pub abi: Abi,
    /// In order.
    pub parameters: Vec<Parameter>,
}

/// The calls of a kernel by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    by_number: HashMap<(Abi, u64), Arc<Signature>>,
}

impl Signature {
    /// A call with arguments of these names and types.
    pub fn new(call: &str, arguments: impl IntoIterator<Item = (String, FieldType)>) -> Self {
        Self::of_abi(Abi::Native, call, arguments)
    }

    /// The signature of a call of one of the kernel's interfaces.
    pub fn of_abi(abi: Abi, call: &str, arguments: impl IntoIterator<Item = (String, FieldType)>) -> Self {
        let kind_of = |argument: &str| match abi {
            Abi::Native => kind(call, argument),
            Abi::Compat => compat::kind(call, argument),
        };
        let parameters = arguments.into_iter().map(|(name, ty)| Parameter {
            kind: kind_of(&name),
            name,
            ty,
        });
        Self {
            call: call.to_owned(),
            abi,
            parameters: parameters.collect(),
        }
    }

    /// How many arguments stand before the program, of calls that execute one and have a directory before it: handlers record what their arguments point
    /// to at the places that it has in the call that has none.
    pub fn before_program(&self) -> usize {
        let is_texts =
            |it: &Parameter| matches!(it.kind, Some(Kind::Pointed(what)) if what.shape == Shape::Texts);
        let place = self.parameters.iter().position(is_texts);
        place.map_or(0, |place| place.saturating_sub(1))
    }

    /// A call of which only the number is known: its registers are shown.
    fn unknown(abi: Abi, number: u64) -> Self {
        let registers = (0..6).map(|at| (format!("arg{at}"), WORD));
        Self::of_abi(abi, &format!("syscall_{number}"), registers)
    }

    /// A call of 32-bit programs, by the kernel's own calls, some of which it is like.
    pub fn compat<'s>(call: &str, own: impl IntoIterator<Item = &'s Self>) -> Self {
        let (like, same, all) = compat::like(call);
        let like = own.into_iter().find(|it| it.call == like);
        let known = like.map_or(&[][..], |it| &it.parameters);
        let all = if like.is_some() && same == all {
            known.len().min(all)
        } else {
            all
        };
        let arguments = (0..all).map(|at| match known.get(at).filter(|_| at < same) {
            Some(parameter) => (parameter.name.clone(), parameter.ty.clone()),
            None => (format!("arg{at}"), WORD),
        });
        Self::of_abi(Abi::Compat, call, arguments)
    }

    /// Signature from the fields of a call's own tracepoint.
    pub(super) fn of_event(call: &str, event: &EventClass) -> Self {
        let fields = event.layout.shown().filter(|field| is_argument(&field.name));
        Self::new(call, fields.map(|field| (field.name.clone(), field.ty.clone())))
    }

    /// Whether it is the same call.
    pub fn is(&self, other: &Self) -> bool {
        self.call == other.call && self.abi == other.abi
    }

    /// The name that people know, with what its interface adds to it: `fstat`, `openat@32`.
    pub fn shown(&self) -> String {
        match self.abi {
            Abi::Native => usual_name(&self.call).to_owned(),
            Abi::Compat => format!("{}{COMPAT_MARK}", self.call),
        }
    }

    /// The call of the kernel's own interface that it is, or is like.
    pub fn own_name(&self) -> &str {
        match self.abi {
            Abi::Native => &self.call,
            Abi::Compat => compat::like(&self.call).0,
        }
    }

    /// Whether a set of calls has it.
    pub fn is_in(&self, set: &Set) -> bool {
        match self.abi {
            Abi::Native => set.has(&self.call, &self.names()),
            Abi::Compat => set.has(&self.shown(), &self.names()),
        }
    }

    /// Names of the arguments.
    pub fn names(&self) -> Vec<&str> {
        let names = self.parameters.iter().map(|it| it.name.as_str());
        names.collect()
    }
}

/// Whether a field of a call's tracepoint is one of its arguments.
pub(super) fn is_argument(field: &str) -> bool {
    field != "__syscall_nr" && !(field.starts_with("__") && field.ends_with("_val"))
}

impl Signatures {
    /// Adds a call.
    pub fn insert(&mut self, number: u64, signature: Signature) {
        self.by_number
            .insert((signature.abi, number), Arc::new(signature));
    }

    /// The call of a number; one that is not known is named by it.
    pub fn get(&mut self, abi: Abi, number: u64) -> Arc<Signature> {
        let made = || Arc::new(Signature::unknown(abi, number));
        self.by_number.entry((abi, number)).or_insert_with(made).clone()
    }

    /// All calls with their numbers, those of the kernel's own interface first, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Signature)> {
        let mut all: Vec<_> = self
            .by_number
            .iter()
            .map(|(key, it)| (*key, it.as_ref()))
            .collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter()
            .map(|((_, number), signature)| (number, signature))
    }

    /// The calls of one interface with their numbers, by number.
    pub fn of(&self, abi: Abi) -> impl Iterator<Item = (u64, &Signature)> {
        self.iter().filter(move |(_, signature)| signature.abi == abi)
    }
}
