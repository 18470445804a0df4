//! Programs that are loaded and attached to nothing: others run them, or only program arrays and tests do.

use super::{Binding, Request, Tie};
use crate::error::Result;
use kestrel_kernel::bpf::{Program, ProgramKind};

pub(super) fn bind(_: &Request<'_>) -> Result<Binding> {
    Ok(Binding::default())
}

pub(super) fn attach(_: &Request<'_>, _: &Program, _: ProgramKind) -> Result<Vec<Tie>> {
    Ok(Vec::new())
}
