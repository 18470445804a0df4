//! The verifier's refusals as data: of a program that was made from a text, and of an object's program; who loads them fills these in.

mod refusal;
mod rejection;

pub use refusal::Refusal;
pub use rejection::Rejection;
