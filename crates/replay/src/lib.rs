//! Programs over recordings: the code that the compiler makes for kernels, run over records in the place of events.
//!
//! ```text
//!   event class ──event──► Context ──► compiler::check, refusal (what was not recorded) ──► compiler::compile for `output` ──► decode
//!   record ──event::Unpacking, call──► memory ──► machine ──► maps (table), records of output
//!      └────memory_fields──► recorded ──────────────┘
//! ```
//!
//! A handler is the same program that a kernel would run, instruction by instruction: maps, numbers and strings come out the same. What differs is in two
//! places: where fields lie (`event`) and what helpers answer (`machine::answers`).
#![forbid(unsafe_code)]

mod by_event;
pub mod call;
mod decode;
pub mod error;
pub mod event;
mod machine;
mod memory;
mod memory_fields;
mod needed;
mod output;
pub mod reads;
mod recorded;
pub mod refusal;
mod remembering;
mod replay;
mod subject;
mod table;

pub use by_event::HandlerId;
pub use error::{Error, Result};
pub use memory_fields::unaddressed;
pub use needed::{KeptRead, kept_reads, needed, with_arguments};
pub use remembering::{Held, Missing};
pub use replay::{Replay, RunOutput};
pub use subject::Subject;
