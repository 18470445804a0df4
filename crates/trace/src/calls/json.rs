//! A call as one JSON object.

use super::call::{Argument, Call, End};
use super::descriptors::Descriptors;
use super::line::text;
use super::signature::Abi;
use crate::layout::FieldType;
use crate::syscall::{ArgumentKind, Meaning, usual_name};
use serde::Serialize;

/// `{"time":…,"pid":…,"tid":…,"comm":…,"call":"openat","args":[{"name":"dfd","value":-100,"text":"AT_FDCWD"},…],"end":"returned","ret":-2,…}`.
///
/// A call of a 32-bit program has `"abi":"i386"`, too. Each argument has its number, in its type, and the text that a line shows. `ret` is what the kernel returned, null where the call did not return.
#[derive(Debug, Serialize)]
struct Object<'c> {
    time: u64,
    pid: u32,
    tid: u32,
    comm: Option<&'c str>,
    call: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    abi: Option<&'static str>,
    args: Vec<Named<'c>>,
    end: &'static str,
    ret: Option<i64>,
    error: Option<&'static str>,
    duration_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Named<'c> {
    name: &'c str,
    value: serde_json::Value,
    text: String,
}

/// A call as one line of JSON, with its time as it is to be shown.
pub fn json(call: &Call, time: u64, comm: Option<&str>, files: &Descriptors) -> String {
    let named = |it: Argument<'_>| -> Named<'_> {
        // The parameter lives as long as the call.
        let parameter = &call.signature.parameters[it.place];
        Named {
            name: &parameter.name,
            value: number(it),
            text: text(call, it, files),
        }
    };
    let object = Object {
        time,
        pid: call.pid,
        tid: call.tid,
        comm,
        call: match call.signature.abi {
            Abi::Native => usual_name(&call.signature.call),
            Abi::Compat => &call.signature.call,
        },
        abi: match call.signature.abi {
            Abi::Native => None,
            Abi::Compat => Some("i386"),
        },
        args: call.arguments().map(named).collect(),
        end: match call.end {
            End::Returned(_) => "returned",
            End::Never => "never returns",
            End::Unfinished => "unfinished",
            End::InProgress => "in progress",
            End::Unseen => "return not recorded",
        },
        ret: match call.end {
            End::Returned(value) => Some(value),
            _ => None,
        },
        error: call.error().and_then(|error| error.name),
        duration_ns: call.duration(),
    };
    serde_json::to_string(&object).unwrap_or_default()
}

/// Descriptors are signed, whatever their C type.
fn number(argument: Argument<'_>) -> serde_json::Value {
    let signed = match argument.parameter.kind {
        Some(ArgumentKind::Descriptor | ArgumentKind::Named(Meaning::Directory)) => true,
        _ => matches!(argument.parameter.ty, FieldType::Integer { signed: true, .. }),
    };
    match signed {
        true => argument.value.into(),
        false => argument.value.cast_unsigned().into(),
    }
}
