//! Signatures of system calls: the names, types and meanings of their arguments.

use crate::event::EventClass;
use crate::layout::{Base, Field, FieldType};
use crate::syscall::shape::Shape;
use crate::syscall::{ArgumentKind, Set, compat, kind, usual_name};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// ABI by which a call was made: it decides numbers and registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Abi {
    /// The kernel's own.
    #[default]
    Native,
    /// The interface of 32-bit programs on a 64-bit kernel.
    Compat,
}

/// Suffix of the names of calls of 32-bit programs, as in strace's sets.
const COMPAT_MARK: &str = "@32";

/// The type of an argument of which only the register is known.
const WORD: FieldType = FieldType::Integer {
    size: 8,
    signed: false,
    base: Base::Hexadecimal,
};

/// The number that the kernel has at the return of a call that goes on behind a handler of signals: the registers are those from before the signal then.
pub const NO_NUMBER: u64 = u64::MAX;

/// Calls that put a thread back to where a signal came.
const RESUMES: &[&str] = &["rt_sigreturn", "sigreturn"];

/// A parameter of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The kernel's name: `dfd`.
    pub name: String,
    /// The type; a type shorter than the register is in its low bytes.
    pub ty: FieldType,
    /// Meaning of the argument, where it is known.
    pub kind: Option<ArgumentKind>,
    /// Of an address, how C declares it, where that is known: `struct sockaddr *`.
    pub declared: Option<String>,
}

/// A call and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The name that the kernel's tracepoints have for it: `newfstat`.
    pub call: String,
    /// Which of the kernel's interfaces it belongs to.
    pub abi: Abi,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// Whether nothing but the name is known: the call may have parameters.
    pub is_name_only: bool,
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

    /// A call of which only the name is known.
    pub fn name_only(call: &str) -> Self {
        Self {
            is_name_only: true,
            ..Self::new(call, [])
        }
    }

    /// The signature of a call of one of the kernel's interfaces.
    pub(crate) fn of_abi(
        abi: Abi,
        call: &str,
        arguments: impl IntoIterator<Item = (String, FieldType)>,
    ) -> Self {
        let kind_of = |argument: &str| match abi {
            Abi::Native => kind(call, argument),
            Abi::Compat => compat::kind(call, argument),
        };
        let parameters = arguments.into_iter().map(|(name, ty)| Parameter {
            kind: kind_of(&name),
            name,
            ty,
            declared: None,
        });
        Self {
            call: call.to_owned(),
            abi,
            parameters: parameters.collect(),
            is_name_only: false,
        }
    }

    /// The signature with what C declares an argument to be.
    #[must_use]
    pub fn declaring(mut self, name: &str, declared: &str) -> Self {
        let mut parameters = self.parameters.iter_mut();
        if let Some(parameter) = parameters.find(|it| it.name == name) {
            parameter.declared = Some(declared.to_owned());
        }
        self
    }

    /// For calls that execute a program relative to a directory (execveat): how many arguments are before the program's path. Handlers record the memory of
    /// their arguments at the places that it has in the call without a directory (execve).
    pub fn before_program(&self) -> usize {
        let is_strings = |it: &Parameter| matches!(it.kind, Some(ArgumentKind::Pointed(what)) if matches!(what.shape, Shape::Strings(_)));
        let place = self.parameters.iter().position(is_strings);
        place.map_or(0, |place| place.saturating_sub(1))
    }

    /// The signature of a call of which only the number is known: its arguments are shown as registers.
    fn unknown(abi: Abi, number: u64) -> Self {
        let registers = (0..6).map(|at| (format!("arg{at}"), WORD));
        Self::of_abi(abi, &format!("syscall_{number}"), registers)
    }

    /// The signature of a call of 32-bit programs, taken from the kernel's own call that is like it, if there is one.
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
    pub fn of_event(call: &str, event: &EventClass) -> Self {
        let fields = event.layout.shown().filter(|field| is_argument(field));
        Self::new(call, fields.map(|field| (field.name.clone(), field.ty.clone())))
    }

    /// Whether it is the same call.
    pub fn is(&self, other: &Self) -> bool {
        self.call == other.call && self.abi == other.abi
    }

    /// The name that people know, with the suffix of its interface: `fstat`, `openat@32`.
    pub fn shown(&self) -> String {
        match self.abi {
            Abi::Native => usual_name(&self.call).to_owned(),
            Abi::Compat => format!("{}{COMPAT_MARK}", self.call),
        }
    }

    /// The name of the call in the kernel's own interface that is the same, or like it.
    pub fn own_name(&self) -> &str {
        match self.abi {
            Abi::Native => &self.call,
            Abi::Compat => compat::like(&self.call).0,
        }
    }

    /// Whether the call puts its thread back to where a signal came: the number of its return is [`NO_NUMBER`].
    pub fn goes_on_elsewhere(&self) -> bool {
        RESUMES.contains(&self.own_name())
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
pub(super) fn is_argument(field: &Field) -> bool {
    let name = field.name.as_str();
    name != "__syscall_nr" && !(name.starts_with("__") && name.ends_with("_val")) && !field.ty.is_stack()
}

impl Signatures {
    /// The number and the signature of the kernel's own call of a name.
    pub fn named(&self, call: &str) -> Option<(u64, &Signature)> {
        self.of(Abi::Native).find(|(_, signature)| signature.call == call)
    }

    /// Adds a call.
    pub fn insert(&mut self, number: u64, signature: Signature) {
        self.by_number
            .insert((signature.abi, number), Arc::new(signature));
    }

    /// The signature of the call with a number, where it is known.
    pub fn known(&self, abi: Abi, number: u64) -> Option<&Signature> {
        self.by_number.get(&(abi, number)).map(AsRef::as_ref)
    }

    /// The signature of the call with a number; an unknown call is named by its number.
    pub fn get(&mut self, abi: Abi, number: u64) -> Arc<Signature> {
        let made = || {
            Arc::new(match number {
                NO_NUMBER => Signature::of_abi(abi, "rt_sigreturn", []),
                _ => Signature::unknown(abi, number),
            })
        };
        self.by_number.entry((abi, number)).or_insert_with(made).clone()
    }

    /// All calls with their numbers, those of the kernel's own interface first, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Signature)> {
        let mut all: Vec<_> = self
            .by_number
            .iter()
            .map(|(key, it)| (*key, it.as_ref()))
            .collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all.into_iter()
            .map(|((_, number), signature)| (number, signature))
    }

    /// The calls of one interface with their numbers, by number.
    pub fn of(&self, abi: Abi) -> impl Iterator<Item = (u64, &Signature)> {
        self.iter().filter(move |(_, signature)| signature.abi == abi)
    }
}
