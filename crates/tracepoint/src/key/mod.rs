//! Static keys: whether anybody listens to an event, kept in the code of each place that emits it.
//!
//! Such a place begins with an instruction of five bytes, `test eax, imm32`, whose operand is the distance to the code that delivers the event. It does nothing.
//! One bit more in its first byte makes it `jmp rel32` with the same operand: the place then goes to that code. So a key is turned by single bytes, and a
//! processor that comes by meanwhile sees the one instruction or the other, whole: no thread need be stopped, and none can see a part.
//!
//! On other processors, under Miri and with the feature `flag-keys` a key is a flag in memory.

#[cfg(patched_keys)]
mod patch;
#[cfg(patched_keys)]
mod site;
#[cfg(listed_events)]
mod table;

#[cfg(not(patched_keys))]
mod flag;

#[cfg(not(listed_events))]
pub(crate) use flag::emitters;
#[cfg(not(patched_keys))]
pub(crate) use flag::{is_on, turn};
#[cfg(patched_keys)]
pub(crate) use site::{is_on, turn};
#[cfg(listed_events)]
pub(crate) use table::emitters;
