//! Functions of programs and libraries: one by a perf uprobe, many by one link where the kernel has such.

use super::request::{AttachRequest, Binding};
use kestrel_bpf::object::Hook;
use kestrel_catalog::Result;
use kestrel_catalog::attach::{Links, UserPlaces};
use kestrel_catalog::catalog::Glob;
use kestrel_catalog::executable::{self, Executable, Site};
use kestrel_kernel::bpf::{Program, ProgramKind};
use kestrel_kernel::feature::{Feature, Features};
use kestrel_kernel::perf::UprobePlace;
use std::sync::Arc;

/// `/bin/bash:readline`, `libc.so.6:malloc+0x10`, `/bin/true:0x1234` (an offset in the file, as libbpf has it), and for many: `/bin/bash:read*`.
fn places(request: &AttachRequest<'_>) -> Result<(Arc<Executable>, Vec<UprobePlace>)> {
    let target = request.target()?;
    let (path, what) = target.split_once(':').ok_or_else(|| {
        request.wrong(format!(
            "`{target}` does not name a function of a program: give it as {}=…, in the way of `{}` behind the slash",
            request.name, request.kind.shape
        ))
    })?;
    let file = request.kernel.known.executables().get(&executable::find(path)?)?;
    let offsets = match Site::read(what) {
        Site::Address(offset) => vec![offset],
        line @ Site::Line { .. } => line.offsets(&file)?,
        Site::Function { name, offset, .. } => {
            let glob = Glob::new(&*name);
            let right = |known: &str| glob.matches(known);
            let found = file.named(None, &right);
            let mut offsets: Vec<u64> = found
                .iter()
                .map(|(f, _)| f.offset.saturating_add(offset))
                .collect();
            offsets.sort_unstable();
            offsets.dedup();
            if offsets.is_empty() {
                return Err(file.no_function(&name, None));
            }
            offsets
        }
    };
    let places = offsets.into_iter().map(|offset| UprobePlace {
        offset,
        ..UprobePlace::default()
    });
    let places = places.collect();
    Ok((file, places))
}

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    places(request)?;
    let has_links = || Features::new(request.kernel.host().clone()).works(Feature::UprobeMulti);
    let kind = match request.kind.hook {
        Hook::UprobeSession => ProgramKind::UprobeSession,
        Hook::UprobeMulti | Hook::UretprobeMulti if has_links() => ProgramKind::UprobeMulti,
        _ => ProgramKind::Kprobe,
    };
    Ok(kind.into())
}

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    let (file, places) = places(request)?;
    let all = UserPlaces {
        path: &file.opened_path(),
        places: &places,
        at_return: request.at_return || matches!(request.kind.hook, Hook::Uretprobe | Hook::UretprobeMulti),
    };
    all.attach(kind, program, request.kernel.host())
}
