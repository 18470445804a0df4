//! Maps: their keys and values, and that every use of one agrees with its first.
//!
//! | room | what it checks |
//! |---|---|
//! | `place` | `@x[keys]` as a place: the map that is meant, made at its first use |
//! | `key` | keys: their types, and that every use has the same |
//! | `content` | what a map holds, and that every use agrees about it |
//! | `read` | a map in an expression |
//! | `change` | statements that change a map: assignments, aggregations, `delete`, `clear` |

mod change;
mod content;
mod key;
mod place;
mod read;

pub(super) use place::Usage;
pub(super) use read::read_type;
