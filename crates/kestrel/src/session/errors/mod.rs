//! Errors of the kernel and of its verifier, in the words of the user.

pub(crate) mod kernel_error;
pub mod verifier_error;
