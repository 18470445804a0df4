//! `profile`: a clock that ticks on every CPU, for seeing what runs there.

use super::clock::Clock;
use kestrel_trace::event_kind;

/// The kind of events made by a clock on every CPU.
pub(in crate::catalog) const PROFILE: Clock = Clock::new(event_kind::PROFILE, true);
