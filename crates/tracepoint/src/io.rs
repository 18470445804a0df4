//! Errors of the crate: the standard library's, or one that says as much where there is none.

#[cfg(feature = "std")]
pub use std::io::Result;

/// Why a registration did not come about.
#[cfg(not(feature = "std"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error;

#[cfg(not(feature = "std"))]
impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the places that emit the event cannot be changed")
    }
}

#[cfg(not(feature = "std"))]
impl core::error::Error for Error {}

/// Result of a registration.
#[cfg(not(feature = "std"))]
pub type Result<T> = core::result::Result<T, Error>;
