//! Programs that are loaded and attached to nothing: others run them, or only program arrays and tests do.

use super::request::{AttachRequest, Binding};
use kestrel_bpf::object::Hook;
use kestrel_catalog::Result;
use kestrel_catalog::attach::Links;
use kestrel_kernel::bpf::{Program, ProgramKind};

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    if request.kind.hook == Hook::Left {
        return Err(request.wrong(format!(
            "sections like `{}` are other loaders' business: they are no events",
            request.kind.shape
        )));
    }
    Ok(Binding::default())
}

pub(super) fn attach(_: &AttachRequest<'_>, _: &Program, _: ProgramKind) -> Result<Links> {
    Ok(Links::default())
}
