//! The places that emit events, as the linker collects them, and the instruction at each.

use super::patch;
use crate::event::{Event, Tracepoint};
use std::io;
use std::sync::{Mutex, PoisonError};

/// One place. Both are distances from the word itself, so that no loader has to relocate them.
#[repr(C)]
struct Site {
    code: i64,
    event: i64,
}

/// First byte of `test eax, imm32`: nobody listens.
const OFF: u8 = 0xa9;
/// First byte of `jmp rel32`.
const ON: u8 = 0xe9;

/// Whether anybody listens to `T`: one instruction that reads no memory.
#[inline(always)]
#[allow(unsafe_code, reason = "an instruction that another thread exchanges")]
pub(crate) fn is_on<T: Tracepoint>() -> bool {
    // SAFETY: the instruction reads a register and changes flags, which asm may. The distance is that to the label, so that as a jump it goes there.
    // The section gets two words about it.
    unsafe {
        core::arch::asm!(
            "2:",
            ".byte 0xa9",
            ".long {on} - 2b - 5",
            ".pushsection kestrel_tracepoint_sites,\"aR\",@progbits",
            ".balign 8",
            "3:",
            ".quad 2b - 3b",
            ".quad {event} - (3b + 8)",
            ".popsection",
            event = sym T::event,
            on = label { return true },
            options(nomem, nostack),
        );
    }
    false
}

#[allow(unsafe_code, reason = "symbols of the linker")]
unsafe extern "C" {
    #[link_name = "__start_kestrel_tracepoint_sites"]
    static BEGIN: Site;
    #[link_name = "__stop_kestrel_tracepoint_sites"]
    static END: Site;
}

#[allow(unsafe_code, reason = "a table that the linker made")]
fn sites() -> &'static [Site] {
    // SAFETY: the section is there even in a program that emits nothing, for the linker to name its ends.
    unsafe {
        core::arch::asm!(
            ".pushsection kestrel_tracepoint_sites,\"aR\",@progbits",
            ".popsection",
            options(nomem, nostack, preserves_flags),
        );
    }
    let (begin, end) = (&raw const BEGIN, &raw const END);
    let count = (end.addr() - begin.addr()) / size_of::<Site>();
    // SAFETY: the section holds such words and nothing else, and is never written.
    unsafe { std::slice::from_raw_parts(begin, count) }
}

impl Site {
    fn code(&self) -> usize {
        (&raw const self.code).addr().wrapping_add_signed(self.code as isize)
    }

    #[allow(unsafe_code, reason = "an address as a function")]
    fn event(&self) -> &'static Event {
        let address = (&raw const self.event)
            .addr()
            .wrapping_add_signed(self.event as isize);
        // SAFETY: the word leads to `T::event` of some `T`, whose type this is.
        let event: fn() -> &'static Event = unsafe { std::mem::transmute(address) };
        event()
    }
}

/// The events that this program's code emits, one for each place.
pub(crate) fn emitters() -> Vec<&'static Event> {
    sites().iter().map(Site::event).collect()
}

/// Has every place of the event deliver it, or pass by.
///
/// # Errors
/// When the code cannot be changed; it is as before then.
pub(crate) fn turn(event: &'static Event, on: bool) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (before, after) = if on { (OFF, ON) } else { (ON, OFF) };
    let mut done = Vec::new();
    for site in sites() {
        if !std::ptr::eq(site.event(), event) {
            continue;
        }
        if let Err(error) = patch::write(site.code(), after) {
            for code in done {
                // It was written a moment ago.
                let _ = patch::write(code, before);
            }
            return Err(error);
        }
        done.push(site.code());
    }
    patch::settle();
    Ok(())
}
