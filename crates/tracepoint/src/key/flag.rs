//! Keys as flags in memory.

use crate::event::{Event, Tracepoint};
use crate::io;
use core::sync::atomic::Ordering;

/// Whether anybody listens to `T`.
#[inline(always)]
pub(crate) fn is_on<T: Tracepoint>() -> bool {
    #[cfg(listed_events)]
    enter_in_table::<T>();
    T::event().flag().load(Ordering::Relaxed)
}

/// Makes this place an emitter of `T` for the linker.
#[cfg(listed_events)]
#[inline(always)]
#[allow(unsafe_code, reason = "a table that the linker makes")]
fn enter_in_table<T: Tracepoint>() {
    // SAFETY: no instruction; the section gets two words about the place.
    unsafe {
        core::arch::asm!(
            "2:",
            super::table::entry!(),
            event = sym T::event,
            options(nomem, nostack, preserves_flags),
        );
    }
}

/// Turns every place of the event on or off.
///
/// # Errors
/// None: memory can be written.
pub(crate) fn turn(event: &'static Event, on: bool) -> io::Result<()> {
    event.flag().store(on, Ordering::SeqCst);
    Ok(())
}

/// The events that this program's code emits: none are known without a table.
#[cfg(not(listed_events))]
pub(crate) fn emitters() -> alloc::vec::Vec<&'static Event> {
    alloc::vec::Vec::new()
}
