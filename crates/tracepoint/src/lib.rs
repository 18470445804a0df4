//! Tracepoints of a program's own.
//!
//! An event is defined as the kernel's `TRACE_EVENT` defines one: group and name, prototype, fields with what they are assigned from, print format. Where the
//! program emits it, it costs one instruction that reads no memory, until somebody listens: a callback of the program itself, or a sink that was enabled by
//! name. Then the place is patched to go to the code that delivers the event.
//!
//! ```
//! kestrel_tracepoint::events! {
//!     group server;
//!
//!     /// A request was answered.
//!     pub event answered(path: &str, status: u16, took: std::time::Duration) {
//!         path: str = path,
//!         status: u16 = status,
//!         took_us: u64 = took.as_micros() as u64,
//!     } print "{path} {status} in {took_us} us";
//! }
//!
//! use std::time::Duration;
//!
//! let slow = answered::register(
//!     |path: &str, _, took: Duration| {
//!         if took > Duration::from_millis(100) {
//!             println!("{path} was slow");
//!         }
//!     },
//!     0,
//! );
//! trace_answered("/index", 200, Duration::from_millis(300));
//! drop(slow);
//! assert!(!answered::enabled());
//! ```

#![cfg_attr(loom, allow(dead_code, reason = "only models are built"))]

mod grace;
mod list;
mod sync;

#[cfg(not(loom))]
mod arguments;
#[cfg(not(loom))]
mod callbacks;
#[cfg(patched_keys)]
mod describe;
#[cfg(not(loom))]
mod enable;
#[cfg(not(loom))]
mod event;
#[cfg(not(loom))]
mod events;
#[cfg(not(loom))]
mod format;
#[cfg(not(loom))]
mod key;
#[cfg(not(loom))]
mod mark;
#[cfg(not(loom))]
mod print;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod thread;
#[cfg(listed_events)]
mod user_events;
#[cfg(not(loom))]
mod value;
#[cfg(not(loom))]
mod watch;

#[cfg(not(loom))]
pub use self::api::*;

#[cfg(not(loom))]
mod api {
    pub use crate::callbacks::{Callbacks, Registration};
    pub use crate::enable::{VARIABLE, disable, enable, init, is_enabled, set_sink};
    pub use crate::event::{Event, Tracepoint};
    pub use crate::events::{events, matching};
    pub use crate::mark::hit;
    pub use crate::record::Record;
    pub use crate::value::{AsField, Field, FieldType, Kind, Marked, Value, cut};
    pub use crate::watch::{look, watch};
    pub use kestrel_tracepoint_macros::events;

    /// Whether anybody listens to an event: one instruction where it stands.
    #[inline(always)]
    pub fn is_on<T: Tracepoint>() -> bool {
        crate::key::is_on::<T>()
    }
}
