//! System calls as their headers describe them: names of flags and numbers, what each argument is, errors, classes. Facts, in tables; what did
//! happen is in `calls`.

mod argument;
mod class;
pub mod compat;
mod control;
mod errno;
mod family;
mod meaning;
mod pointed;
pub mod shape;
mod written;

pub use argument::{ARGUMENTS, Kind, kind, meaning};
pub use class::{CLASSES, Class, Set, usual_name};
pub use control::{Taken, device_control, file_control, process_control_arguments};
pub use errno::Errno;
pub use family::{Family, Row, Unnamed, family};
pub use meaning::{MEANINGS, Meaning};
pub use pointed::{Length, Many, POINTED, Pointed, Reading, When, protocol};
