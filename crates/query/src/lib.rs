//! Questions about recorded events in the event language: which records are wanted, by which keys they are grouped, how long it took from one event to another.
//!
//! ```text
//!   text ──words──► syntax tree ──compiler::check──► checked tree ──bind──► code ──value──► of a record
//!          (what a bare word means                (with a context made        (fields resolved
//!           at this event)                         of the event's layout)      to places)
//! ```
//!
//! An expression is bound once for each event class of a trace, by the same checker that handlers of a running kernel go through: names, types, signs and comparisons of
//! texts are the language's own. Bare words may also name fields (`prev_pid` for `args.prev_pid`).
#![forbid(unsafe_code)]

mod background;
mod bind;
mod code;
mod context;
mod distribution;
mod error;
mod expression;
mod filter;
mod groups;
mod keys;
mod latency;
mod measure;
mod moment;
mod open;
mod pairs;
mod pattern;
mod recent;
mod sort;
mod words;

pub use background::Background;
pub use distribution::Distribution;
pub use error::{Error, Result};
pub use expression::{Predicate, listed_fields};
pub use filter::{Criteria, Filter};
pub use groups::{Group, Grouped, Groups};
pub use keys::Keys;
pub use latency::{Latencies, Latency, Unpaired};
pub use measure::Measure;
pub use moment::{Clocks, Moment};
pub use pairs::Pairs;
pub use sort::Sort;
