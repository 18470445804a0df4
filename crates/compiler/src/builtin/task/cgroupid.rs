//! The built-in `cgroupid`: the number of the control group at a path.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{ExprKind, Type};
use crate::check::value::constant;

pub(crate) static CGROUPID: Builtin = Builtin {
    name: "cgroupid",
    numbered: false,
    usage: "cgroupid(\"path\")",
    about: "the number of the control group (v2) at a path, found before the program runs",
    kind: BuiltinKind::Value(|checker, usage| {
        let args = usage.positional(checker, 1, 1)?;
        let Some(path) = args.first() else {
            return Err(checker.error(usage.span, "the path of a control group is missing"));
        };
        let value = checker.expression(path)?;
        let ExprKind::ConstantBytes(text) = &value.kind else {
            return Err(usage.wants_literal(checker, path));
        };
        let text = String::from_utf8_lossy(text).into_owned();
        match checker.globals.control_groups.get(&text) {
            Some(number) => Ok(constant(*number, Type::U64, usage.span)),
            None => {
                let message = format!("there is no control group at {text}");
                checker.globals.shapes.control_groups.insert(text);
                Err(checker.error(path.span, message))
            }
        }
    }),
};
