//! System calls as their headers describe them: names of flags and numbers, what each argument is, errors, classes. Facts, in tables; what did
//! happen is in `calls`.

mod argument;
mod class;
pub mod compat;
mod control;
mod errno;
mod family;
mod meaning;
mod name;
mod pointed;
pub mod shape;
mod signal;
mod written;

pub use argument::{ARGUMENTS, ArgumentKind, kind, meaning};
pub use class::{CLASSES, Class, Set, usual_name};
pub use control::{
    CommandArgument, device_control, file_control, file_control_32, futex_arguments,
    process_control_arguments,
};
pub use errno::{Errno, error_number, error_numbers, error_text};
pub use family::{Family, Row, Unnamed, family, number as named_number};
pub use meaning::{MEANINGS, Meaning};
pub use name::system_call;
pub use pointed::{ElementCount, Length, POINTED, Pointed, Reading, When, protocol};
pub use signal::{SignalSet, signal_text};
