//! The arguments that a system call takes: names, types, and what each is.

use crate::event::EventClass;
use crate::layout::{Base, FieldType};
use crate::syscall::{Kind, kind};
use std::collections::HashMap;
use std::sync::Arc;

/// One argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The kernel's name: `dfd`.
    pub name: String,
    /// Its type; of shorter ones the low bytes of the register count.
    pub ty: FieldType,
    /// What it is.
    pub kind: Option<Kind>,
}

/// A call and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The name that the kernel's tracepoints have for it: `newfstat`.
    pub call: String,
    /// In order.
    pub parameters: Vec<Parameter>,
}

/// The calls of a kernel by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Signatures {
    by_number: HashMap<u64, Arc<Signature>>,
}

impl Signature {
    /// A call with arguments of these names and types.
    pub fn new(call: &str, arguments: impl IntoIterator<Item = (String, FieldType)>) -> Self {
        let parameters = arguments.into_iter().map(|(name, ty)| Parameter {
            kind: kind(call, &name),
            name,
            ty,
        });
        Self {
            call: call.to_owned(),
            parameters: parameters.collect(),
        }
    }

    /// A call of which only the number is known: its registers are shown.
    fn unknown(number: u64) -> Self {
        let word = FieldType::Integer {
            size: 8,
            signed: false,
            base: Base::Hexadecimal,
        };
        Self::new(
            &format!("syscall_{number}"),
            (0..6).map(|at| (format!("arg{at}"), word.clone())),
        )
    }

    /// What the fields of a call's own tracepoint say.
    pub(super) fn of_event(call: &str, event: &EventClass) -> Self {
        let fields = event.layout.shown().filter(|field| is_argument(&field.name));
        Self::new(call, fields.map(|field| (field.name.clone(), field.ty.clone())))
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
        self.by_number.insert(number, Arc::new(signature));
    }

    /// The call of a number; one that is not known is named by it.
    pub fn get(&mut self, number: u64) -> Arc<Signature> {
        let made = || Arc::new(Signature::unknown(number));
        self.by_number.entry(number).or_insert_with(made).clone()
    }

    /// All calls with their numbers, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Signature)> {
        let mut all: Vec<_> = self.by_number.iter().map(|(n, it)| (*n, it.as_ref())).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter()
    }
}
