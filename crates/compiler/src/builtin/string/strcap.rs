//! The built-in `strcap`: the most bytes that a string can have.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{ExprKind, Type};
use crate::check::value::{constant, room};

pub(crate) static STRCAP: Builtin = Builtin {
    name: "strcap",
    numbered: false,
    usage: "strcap(string)",
    about: "most bytes that a string can have: those of its memory, or of the string itself where it is known",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(text) = args.first() else {
            return Err(checker.error(usage.span, "a string is missing"));
        };
        // A map has more room than the longest that is stored in it needs.
        let stored = checker.stored_in(text).filter(Type::is_string);
        let (text, span) = (checker.expression(text)?, text.span);
        if let Some(bytes) = bytes_of_array(&text.ty) {
            return Ok(constant(bytes.into(), Type::I64, usage.span));
        }
        let text = checker.as_string_argument(text, span)?;
        let most = match &text.kind {
            // A text in quotes is kept with its NUL.
            ExprKind::ConstantBytes(known) => known.len() as u64 + u64::from(checker.globals.infers_types),
            _ if checker.globals.infers_types => {
                let size = checker.size_by_name(stored.as_ref().unwrap_or(&text.ty));
                size.unwrap_or_default().into()
            }
            _ => room(&text).into(),
        };
        Ok(constant(most, Type::I64, usage.span))
    }),
};

/// The bytes of an array of them.
fn bytes_of_array(ty: &Type) -> Option<u32> {
    match ty {
        Type::Array { element, count } if matches!(**element, Type::Integer { size: 1, .. }) => Some(*count),
        _ => None,
    }
}
