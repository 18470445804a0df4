//! System calls that did happen: entries and returns put together by thread, as lines and as tables. What their arguments are is `syscall`'s matter.

mod buffer;
mod call;
mod descriptors;
mod json;
mod line;
mod memory;
mod moment;
mod pairing;
mod pieces;
mod pointer;
mod quoted;
mod signature;
mod summary;
mod table;

pub use call::{Argument, Call, End};
pub use descriptors::Descriptors;
pub use json::json;
pub use line::{Style, line};
pub use moment::{EXIT_TEXT, ID, MEMORY, Moment, RAW_ENTER, RAW_EXIT, Reader, TEXT};
pub use pairing::Pairing;
pub use pieces::Pieces;
pub use signature::{Parameter, Signature, Signatures};
pub use summary::{By, Group, Row, Summary};
pub use table::table;
