//! Questions about a trace, one per file: each takes records one by one and gives an answer as data; how it looks is `report`'s matter.

mod count;
mod cpus;
mod events;
mod processes;
mod timeline;
mod values;

pub use count::Count;
pub use cpus::Cpus;
pub use events::Events;
pub use processes::ProcessCounts;
pub use timeline::{Histogram, Timeline};
pub use values::Values;
