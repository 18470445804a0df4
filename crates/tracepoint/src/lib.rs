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
//!
//! Without the feature `std` it is a `no_std` crate that needs `alloc`: events, classes, callbacks, formats, keys as flags. There are no recordings, USDT probes, sinks and
//! variables of the environment then; dropping a [`Registration`] does not wait for callbacks that still run, and what its callback owns is freed with a later change; a callback
//! must not emit its own event.

#![cfg_attr(not(feature = "std"), no_std)]
#![cfg_attr(
    not(feature = "std"),
    allow(dead_code, reason = "what recordings and USDT probes need")
)]
#![cfg_attr(loom, allow(dead_code, reason = "only models are built"))]

extern crate alloc;

#[cfg(not(feature = "std"))]
mod bare;
#[cfg(feature = "std")]
mod control;
#[cfg(feature = "std")]
mod grace;
#[cfg(not(loom))]
mod io;
mod list;
mod sync;

#[cfg(not(feature = "std"))]
use bare as grace;
#[cfg(not(feature = "std"))]
use bare as thread;

#[cfg(not(loom))]
mod arguments;
#[cfg(not(loom))]
mod callbacks;
#[cfg(patched_keys)]
mod describe;
#[cfg(all(not(loom), feature = "std"))]
mod enable;
#[cfg(not(loom))]
mod event;
#[cfg(not(loom))]
mod events;
#[cfg(all(target_os = "linux", not(any(loom, miri)), feature = "std"))]
mod fork;
#[cfg(not(loom))]
mod format;
#[cfg(not(loom))]
mod key;
#[cfg(all(not(loom), feature = "std"))]
mod place;
#[cfg(not(loom))]
mod print;
#[cfg(not(loom))]
mod record;
#[cfg(all(not(loom), feature = "std"))]
mod recorder;
#[cfg(all(not(loom), feature = "std"))]
mod thread;
#[cfg(not(loom))]
mod usdt;
#[cfg(all(listed_events, feature = "std"))]
mod user_events;
#[cfg(not(loom))]
mod value;
#[cfg(all(not(loom), feature = "std"))]
mod watch;

#[cfg(not(loom))]
pub use self::api::*;

#[cfg(not(loom))]
mod api {
    pub use crate::callbacks::{Callbacks, Registration};
    #[cfg(feature = "std")]
    pub use crate::enable::{VARIABLE, disable, enable, init, is_enabled, set_sink};
    pub use crate::event::{Event, Tracepoint};
    pub use crate::events::events;
    #[cfg(feature = "std")]
    pub use crate::events::matching;
    #[cfg(not(feature = "std"))]
    pub use crate::io::Error;
    pub use crate::io::Result;
    #[cfg(feature = "std")]
    pub use crate::place::{Places, Slot};
    pub use crate::record::Record;
    #[cfg(feature = "std")]
    pub use crate::recorder::{Mode, Options, RECORD, Recorded, Recorder, keep};
    pub use crate::usdt::hit;
    pub use crate::value::{
        Argument, AsField, Definition, Field, FieldKind, FieldType, Value, cut, is_argument,
    };
    #[cfg(feature = "std")]
    pub use crate::watch::{look, watch};
    /// For [`events!`].
    #[doc(hidden)]
    pub use alloc::sync::Arc;
    pub use kestrel_tracepoint_macros::events;

    /// Whether anybody listens to an event: one instruction where it stands.
    #[inline(always)]
    pub fn is_on<T: Tracepoint>() -> bool {
        crate::key::is_on::<T>()
    }
}

/// For [`events!`]: what writes a record, where there are recordings.
#[cfg(all(not(loom), feature = "std"))]
#[doc(hidden)]
#[macro_export]
macro_rules! recorded {
    ($($code:tt)*) => { $($code)* };
}

/// For [`events!`]: there are no recordings without the standard library.
#[cfg(all(not(loom), not(feature = "std")))]
#[doc(hidden)]
#[macro_export]
macro_rules! recorded {
    ($($code:tt)*) => {
        ()
    };
}
