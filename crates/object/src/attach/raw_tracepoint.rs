//! Tracepoints by their raw arguments.

use super::request::{AttachRequest, Binding};
use kestrel_bpf::btf::BtfKind;
use kestrel_catalog::attach::{Links, RawTracepoint};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::nearest;
use kestrel_kernel::Errno;
use kestrel_kernel::bpf::{Program, ProgramKind};

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    request.target().map(|_| Binding::default())
}

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    let tracepoint = RawTracepoint {
        name: request.target.to_owned(),
    };
    match request.attach((program, kind), &tracepoint, &[]) {
        Err(error) if error.errno() == Some(Errno::ENOENT) => Err(unknown(request)),
        // The kernel's `__bpf_probe_register` compares what the program reads with what there is.
        Err(error) if error.errno() == Some(Errno::EINVAL) => Err(Error::Unsupported {
            what: format!("cannot attach to the raw tracepoint {}", request.target),
            why: "the program reads more arguments than this tracepoint has (each is 8 bytes of its context), or writes more than may be written"
                .to_owned(),
        }),
        attached => attached,
    }
}

/// The error for a tracepoint that is not there, with names that come close.
pub(super) fn unknown(request: &AttachRequest<'_>) -> Error {
    let mut near = Vec::new();
    if let Ok(types) = request.kernel.known.types() {
        let names = types
            .ids()
            .filter(|id| types.kind(*id) == Some(BtfKind::Typedef))
            .filter_map(|id| types.name(id).strip_prefix("btf_trace_"));
        near = nearest(request.target, names)
            .into_iter()
            .map(str::to_owned)
            .collect();
    }
    Error::NoSuchEvent {
        what: "raw tracepoint".to_owned(),
        wanted: request.target.to_owned(),
        near,
    }
}
