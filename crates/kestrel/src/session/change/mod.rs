//! Changes of a persistent session: tables, buffers and named probes in and out, one at a time, each as a transaction.

pub mod buffers;
pub(crate) mod in_progress;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod record_ids;
pub mod resize;
pub(crate) mod transaction;
