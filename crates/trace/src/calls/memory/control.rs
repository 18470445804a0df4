//! Arguments of fcntl(2), ioctl(2) and prctl(2), by their commands.

use super::super::call::{Argument, Call};
use super::super::quoted::quoted;
use super::number::number;
use super::structure::{list, structure};
use crate::syscall::shape::{Shape, Show, Width};
use crate::syscall::{CommandArgument, Meaning, When, device_control, file_control, file_control_32};

/// `PR_SET_PDEATHSIG`.
const SET_PARENT_DEATH_SIGNAL: i64 = 1;
/// `PR_SET_NAME`.
const SET_NAME: i64 = 15;
/// `PR_GET_NAME`.
const GET_NAME: i64 = 16;

/// The argument behind a command.
pub(super) fn write(call: &Call, argument: Argument<'_>, shape: Shape, out: &mut String) -> Option<()> {
    let command = i64::from(call.argument(argument.place.checked_sub(1)?)? as u32);
    let taken = match shape {
        Shape::FileControl(Width::Narrow) => file_control_32(command),
        Shape::FileControl(Width::Wide) => file_control(command),
        _ => device_control(command),
    };
    match taken {
        CommandArgument::Nothing => out.push('0'),
        // Numbers are an `int` for the kernel.
        CommandArgument::Number(show @ (Show::Signed | Show::Named(_))) => {
            number(&(argument.value as u32).to_le_bytes(), show, out);
        }
        CommandArgument::Number(show) => number(&argument.value.to_le_bytes(), show, out),
        CommandArgument::Pointer(shape, when) => pointer(call, argument, (shape, when), out)?,
    }
    Some(())
}

fn pointer(
    call: &Call,
    argument: Argument<'_>,
    (shape, when): (Shape, When),
    out: &mut String,
) -> Option<()> {
    let bytes = call.memory((argument.place, 0), when)?;
    let bytes = bytes.get(..shape.size() as usize)?;
    match shape {
        Shape::Members(of) => structure(bytes, of, out),
        Shape::Number(_, show) => list((1, 1), out, |_, out| number(bytes, show, out)),
        _ => return None,
    }
    Some(())
}

/// The second argument of prctl(2): a name, or a number.
pub(in crate::calls) fn process_control(call: &Call, argument: Argument<'_>, out: &mut String) {
    /// Bytes of a thread's name.
    const NAME: usize = 16;
    let when = match call.argument(0) {
        Some(SET_NAME) => Some(When::Before),
        Some(GET_NAME) => Some(When::After),
        _ => None,
    };
    let name = when.and_then(|when| call.memory((argument.place, 0), when));
    let name = name.filter(|bytes| !bytes.is_empty());
    match name {
        Some(bytes) => {
            let end = bytes.iter().position(|byte| *byte == 0);
            let end = end.unwrap_or(bytes.len());
            quoted(&bytes[..end], end == NAME, out);
        }
        None if call.argument(0) == Some(SET_PARENT_DEATH_SIGNAL) => {
            number(&argument.value.to_le_bytes(), Show::Named(Meaning::Signal), out);
        }
        None => number(&argument.value.to_le_bytes(), Show::Bits, out),
    }
}
