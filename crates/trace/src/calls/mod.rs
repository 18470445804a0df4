//! System calls of a trace: entries and returns are paired by thread, and shown as lines or tables. What arguments mean is in the module `syscall`.

mod buffer;
mod call;
mod descriptors;
mod json;
mod kept;
mod line;
mod memory;
mod moment;
mod pairing;
mod pieces;
mod pointer;
mod quoted;
mod renames;
mod signature;
mod summary;
mod table;
mod thread_event;

pub use call::{Argument, Call, End};
pub use descriptors::Descriptors;
pub use json::json;
pub use kept::Kept;
pub use line::{call_text, line};
pub use moment::{
    COMPAT_ID, EXIT, EXIT_CODE, EXIT_TEXT, FORK, ID, INFORMATION, INFORMATION_BYTES, MEMORY, Moment,
    RAW_ENTER, RAW_EXIT, REGISTER, Reader, SIGNAL, TEXT,
};
pub use pairing::Pairing;
pub use pieces::Pieces;
pub use renames::Renames;
pub use signature::{Abi, NO_NUMBER, Parameter, Signature, Signatures};
pub use summary::{By, Group, Row, Summary};
pub use table::table;
pub use thread_event::ThreadEvent;
