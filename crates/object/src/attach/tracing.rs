//! Programs that are bound to something of the kernel's types when they are loaded: typed tracepoints, functions, iterators, LSM hooks.

use super::raw_tracepoint;
use super::request::{AttachRequest, Binding};
use kestrel_bpf::btf::BtfKind;
use kestrel_bpf::object::Hook;
use kestrel_catalog::attach::{Links, bound};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::nearest;
use kestrel_kernel::Errno;
use kestrel_kernel::bpf::{Program, ProgramKind};

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    let target = request.target()?;
    let prefix = request.kind.prefix.unwrap_or("");
    let kind = if request.kind.hook == Hook::TypedTracepoint {
        BtfKind::Typedef
    } else {
        BtfKind::Func
    };
    let name = match target.split_once(':') {
        Some((module, name)) => format!("{module}:{prefix}{name}"),
        None => format!("{prefix}{target}"),
    };
    match request.kernel.find(kind, &name)? {
        Some(found) => Ok(Binding {
            id: Some(found.id),
            module: found.module,
            kind: None,
        }),
        None => Err(unknown(request, prefix)),
    }
}

fn unknown(request: &AttachRequest<'_>, prefix: &str) -> Error {
    let what = match request.kind.hook {
        Hook::TypedTracepoint => return raw_tracepoint::unknown(request),
        Hook::Iter => "iterator",
        Hook::Lsm => "LSM hook",
        _ => "function with known types",
    };
    let mut near = Vec::new();
    if let Ok(types) = request.kernel.known.types() {
        let names = types
            .functions()
            .filter_map(|function| function.name.strip_prefix(prefix));
        near = nearest(request.target, names)
            .into_iter()
            .map(str::to_owned)
            .collect();
    }
    Error::NoSuchEvent {
        what: what.to_owned(),
        wanted: request.target.to_owned(),
        near,
    }
}

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    match bound(program, kind) {
        Ok(link) => Ok(link.into()),
        Err(error) => Err(no_place(request, &error).unwrap_or(error)),
    }
}

/// A function that has types, and no place where its calls could be seen, is refused as busy: the kernel finds other instructions than it wants to
/// patch there (`bpf_arch_text_poke`).
fn no_place(request: &AttachRequest<'_>, error: &Error) -> Option<Error> {
    let busy = error.errno() == Some(Errno::EBUSY);
    let name = request
        .target
        .split_once(':')
        .map_or(request.target, |(_, name)| name);
    let is_function = matches!(request.kind.hook, Hook::Fentry | Hook::Fexit | Hook::FmodRet);
    let listed = || request.kernel.known.is_listed(name);
    (busy && is_function && matches!(listed(), Ok(false))).then(|| Error::Unsupported {
        what: format!("the program {} on the function {name}", request.name),
        why: "ftrace cannot hook this function on this kernel, and neither can fentry or fexit".to_owned(),
    })
}
