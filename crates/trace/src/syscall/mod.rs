//! System calls as their headers describe them: names of flags and numbers, what each argument is, errors, classes. Facts, in tables; what did
//! happen is in `calls`.

mod argument;
mod class;
mod errno;
mod family;
mod meaning;
mod written;

pub use argument::{ARGUMENTS, Kind, kind, meaning};
pub use class::{CLASSES, Class, Set, usual_name};
pub use errno::Errno;
pub use family::{Family, Row, Unnamed, family};
pub use meaning::{MEANINGS, Meaning};
