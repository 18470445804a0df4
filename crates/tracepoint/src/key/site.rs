//! The patchable instruction at each place that emits an event.

use super::patch;
use super::table::sites;
use crate::event::{Event, Tracepoint};
use std::io;

/// First byte of `test eax, imm32`, which does nothing: the event is off.
const OFF: u8 = 0xa9;
/// First byte of `jmp rel32`, which jumps to the code that emits the event: the event is on.
const ON: u8 = 0xe9;

/// Whether anybody listens to `T`: one instruction that reads no memory.
#[inline(always)]
#[allow(unsafe_code, reason = "an instruction that another thread exchanges")]
pub(crate) fn is_on<T: Tracepoint>() -> bool {
    // SAFETY: the instruction reads a register and changes flags, which asm may do. Its immediate is the distance to the label, so that as a jump it goes there.
    // Two words about the place go into the section.
    unsafe {
        core::arch::asm!(
            "2:",
            ".byte 0xa9",
            ".long {on} - 2b - 5",
            super::table::entry!(),
            event = sym T::event,
            on = label { return true },
            options(nomem, nostack),
        );
    }
    false
}

/// Turns every place of the event on or off. One thread at a time calls it.
///
/// # Errors
/// When the code cannot be changed; it is as before then.
pub(crate) fn turn(event: &'static Event, on: bool) -> io::Result<()> {
    let (before, after) = if on { (OFF, ON) } else { (ON, OFF) };
    let mut done = Vec::new();
    for site in sites() {
        if !core::ptr::eq(site.event(), event) {
            continue;
        }
        if let Err(error) = patch::write(site.code(), after) {
            for code in done {
                // The earlier byte was written successfully a moment ago.
                let _ = patch::write(code, before);
            }
            return Err(error);
        }
        done.push(site.code());
    }
    patch::sync_cores();
    Ok(())
}
