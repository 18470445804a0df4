//! The verifier's refusals as data: of a program compiled from the event language, and of an object's program; filled in where programs are loaded.

mod refusal;
mod rejection;

pub use refusal::Refusal;
pub use rejection::Rejection;
