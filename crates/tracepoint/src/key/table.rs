//! The table of places that emit events, which the linker collects.

use crate::event::Event;
use alloc::vec::Vec;

/// A place that emits an event. Both are distances from the word itself, so that no loader has to relocate them.
#[repr(C)]
pub(super) struct Site {
    code: i64,
    event: i64,
}

#[allow(unsafe_code, reason = "symbols of the linker")]
unsafe extern "C" {
    #[link_name = "__start_kestrel_tracepoint_sites"]
    static BEGIN: Site;
    #[link_name = "__stop_kestrel_tracepoint_sites"]
    static END: Site;
}

/// The entry of the place that begins at the label `2`, for the function `event`: lines of assembly.
macro_rules! entry {
    () => {
        ".pushsection kestrel_tracepoint_sites,\"aR\",@progbits
         .balign 8
         3:
         .quad 2b - 3b
         .quad {event} - (3b + 8)
         .popsection"
    };
}
pub(super) use entry;

/// All places of the program.
#[allow(unsafe_code, reason = "a table that the linker made")]
pub(super) fn sites() -> &'static [Site] {
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
    unsafe { core::slice::from_raw_parts(begin, count) }
}

impl Site {
    /// Address of its instruction.
    #[cfg_attr(not(patched_keys), allow(dead_code, reason = "keys are flags here"))]
    pub(super) fn code(&self) -> usize {
        (&raw const self.code)
            .addr()
            .wrapping_add_signed(self.code as isize)
    }

    /// The event that it emits.
    #[allow(unsafe_code, reason = "an address as a function")]
    pub(super) fn event(&self) -> &'static Event {
        let address = (&raw const self.event)
            .addr()
            .wrapping_add_signed(self.event as isize);
        // SAFETY: the word leads to `T::event` of some `T`, whose type this is.
        let event: fn() -> &'static Event = unsafe { core::mem::transmute(address) };
        event()
    }
}

/// The events that this program's code emits, one for each place.
pub(crate) fn emitters() -> Vec<&'static Event> {
    sites().iter().map(Site::event).collect()
}
