//! The built-in `strcontains`: whether a string contains another one.

use super::find::find;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{CompareOp, Type};
use crate::check::value::{comparison, constant};

pub(crate) static STRCONTAINS: Builtin = Builtin {
    name: "strcontains",
    numbered: false,
    usage: "strcontains(string, \"part\")",
    about: "whether a string has another one in it",
    kind: BuiltinKind::Value(|checker, usage| {
        let place = find(checker, usage)?;
        let zero = constant(0, Type::I64, usage.span);
        Ok(comparison(CompareOp::GreaterEqual, true, place, zero, usage.span))
    }),
};
