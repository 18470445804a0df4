//! The maps of handlers, `@x[keys]`: what they hold, where it lies in keys and values, and how it is shown; not how a kernel is asked.
//!
//! Generated code writes what is described here, and [`read`] takes it apart again.
//!
//! ```text
//! key     generation u64 | each key at a multiple of 8: scalars as 8 bytes (extended), others as their type says, zero-padded
//! value   scalars extended to 8 bytes, others as their type says, zero-padded, one for all CPUs      aggregations: words of 8 bytes, per CPU
//! state   per map: generation u64, lost u64 … zeroes: what new values are made from
//! ```
//!
//! A map without keys has no generation either: it is an array of one element. `clear(@x)` is one addition to the map's generation: what
//! was kept under older ones is as good as gone, at once and for every CPU.

pub mod aggregation;
mod bars;
pub mod function;
mod histogram;
mod json;
mod kept;
mod map_type;
mod order;
pub mod read;
pub mod state;
mod text;

pub use aggregation::Aggregation;
pub use bars::{json as histogram_json, text as histogram_text};
pub use histogram::{Buckets, Label};
pub use json::{json, json_line};
pub use kept::KeptMaps;
pub use map_type::{ENTRIES, EVERY_KEY, MAX_KEY, MapType, ValueKind};
pub use text::{Entry, Show, entries, shown, text, written};
