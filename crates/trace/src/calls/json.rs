//! A call as one JSON object.

use super::call::{Argument, Call, End};
use super::descriptors::Descriptors;
use super::line::text;
use crate::layout::FieldType;
use crate::syscall::usual_name;
use serde_json::{Value, json};

/// `{"time":…,"pid":…,"tid":…,"comm":…,"call":"openat","args":[{"name":"dfd","value":-100,"text":"AT_FDCWD"},…],"ret":-2,"error":"ENOENT","duration_ns":…}`.
///
/// Each argument has its number, in its type, and the text that a line shows. `ret` is what the kernel returned, null where the call did not return.
pub fn json(call: &Call, comm: Option<&str>, files: &Descriptors) -> Value {
    let arguments: Vec<Value> = call.arguments().map(|it| argument(call, it, files)).collect();
    let ended = match call.end {
        End::Returned(_) => "returned",
        End::Never => "never returns",
        End::Unfinished => "unfinished",
        End::Unseen => "return not recorded",
    };
    let ret = match call.end {
        End::Returned(value) => Value::from(value),
        _ => Value::Null,
    };
    json!({
        "time": call.time_ns(),
        "pid": call.pid,
        "tid": call.tid,
        "comm": comm,
        "call": usual_name(&call.signature.call),
        "args": arguments,
        "end": ended,
        "ret": ret,
        "error": call.error().and_then(|error| error.name),
        "duration_ns": call.duration(),
    })
}

fn argument(call: &Call, argument: Argument<'_>, files: &Descriptors) -> Value {
    let value = match argument.parameter.ty {
        FieldType::Integer { signed: true, .. } => Value::from(argument.value),
        _ if argument.value < 0 && is_signed(argument) => Value::from(argument.value),
        _ => Value::from(argument.value.cast_unsigned()),
    };
    json!({"name": argument.parameter.name, "value": value, "text": text(call, argument, files)})
}

/// Descriptors are, whatever their C type.
fn is_signed(argument: Argument<'_>) -> bool {
    use crate::syscall::{Kind, Meaning};
    matches!(
        argument.parameter.kind,
        Some(Kind::Descriptor | Kind::Named(Meaning::Directory))
    )
}
