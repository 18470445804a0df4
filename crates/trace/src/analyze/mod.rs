//! Questions about a trace, one per file: each takes records one by one and gives an answer as data; how it looks is `report`'s matter. Those that are answered by a table of
//! counts have a row in [`ANALYSES`].

mod analysis;
mod count;
mod cpus;
mod events;
mod processes;
mod tally;
mod threads;
mod timeline;
mod values;

pub use analysis::{Analysis, AnalysisKind};
pub use count::Count;
pub use timeline::{Histogram, Timeline};
pub use values::Values;

/// The analyses, in the order of a report.
pub static ANALYSES: &[AnalysisKind] = &[events::KIND, processes::KIND, threads::KIND, cpus::KIND];
