//! Events and filters as tracefs's files take them (`set_event`, `events/…/filter`), made into event specifications; nothing is written to tracefs.

mod apply;
mod event_list;
mod filter;
mod token;

pub use apply::filtered;
pub use event_list::{LARGEST_LIST, listed};
pub(crate) use filter::one_of_cpus;
