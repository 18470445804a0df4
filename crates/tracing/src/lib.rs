//! `tracing` and tracepoints of a program's own, both ways.
//!
//! [`layer`] turns the spans and events of [`tracing`](https://docs.rs/tracing) into tracepoints, so that Kestrel, bpftrace and perf see them from outside of a running program, and callbacks inside:
//!
//! | tracepoint | when | fields |
//! |---|---|---|
//! | `tracing:span_begin` | a span is made | `id`, `parent`, `level`, `name`, `target`, `fields` |
//! | `tracing:span_enter`, `tracing:span_exit` | a thread enters it, and leaves it | `id`, `name` |
//! | `tracing:span_end` | it is closed | `id`, `name` |
//! | `tracing:event` | an event happens | `span`, `level`, `target`, `message`, `fields` |
//!
//! ```
//! use tracing_subscriber::prelude::*;
//!
//! kestrel_tracepoint::init()?;
//! tracing_subscriber::registry().with(kestrel_tracing::layer()).init();
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`forward`] makes events of `tracing` of those tracepoints that match a pattern, with their fields, for a subscriber that the program has anyway:
//!
//! ```
//! let _forwarded = kestrel_tracing::forward("server:*", tracing_core::Level::DEBUG)?;
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod events;
mod forward;
mod layer;
mod text;

pub use forward::forward;
pub use layer::{Layer, layer};
