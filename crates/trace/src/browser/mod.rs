//! A recording as one page for browsers, without a network: [`PageBuilder`] takes records once, in order of time and in bounded memory, and makes of them a [`Document`].
//!
//! ```text
//!   record ──► events: a column per field ─────────┐
//!          ──► sched::Scheduler ──► states ────────┤ columns ──► deflate ──► base64 ──► one HTML file, whose own script
//!          ──► export::Calls ──► spans of calls ───┤                                    (page/*.js) inflates and draws it
//!          ──► stacks::Stacks ──► tree of frames ──┘
//! ```
//!
//! No text of a trace becomes markup: all of it is in the columns, and the script shows it as text.

mod builder;
mod columns;
mod document;
mod events;
mod longest;
mod shares;
mod spans;
mod states;
mod steps;
mod strings;
#[cfg(test)]
mod tests;
mod threads;

pub use builder::{About, Limits, PageBuilder};
pub use document::Document;
