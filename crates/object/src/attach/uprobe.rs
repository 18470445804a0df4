//! Functions of programs and libraries: one by a perf uprobe, many by one link where the kernel has such.

use super::request::{Binding, Request};
use kestrel_bpf::object::Hook;
use kestrel_catalog::Result;
use kestrel_catalog::attach::{Links, UserPlaces};
use kestrel_catalog::catalog::Glob;
use kestrel_catalog::executable::{self, Executable, Site};
use kestrel_kernel::bpf::{Program, ProgramKind};
use kestrel_kernel::feature::{Feature, Features};
use std::sync::Arc;

/// Where: the file, and offsets in it.
struct Places {
    file: Arc<Executable>,
    offsets: Vec<u64>,
}

/// `/bin/bash:readline`, `libc.so.6:malloc+0x10`, `/bin/true:0x1234` (an offset in the file, as libbpf has it), and for many: `/bin/bash:read*`.
fn places(request: &Request<'_>) -> Result<Places> {
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
    Ok(Places { file, offsets })
}

fn is_multi(request: &Request<'_>) -> bool {
    matches!(
        request.kind.hook,
        Hook::UprobeMulti | Hook::UretprobeMulti | Hook::UprobeSession
    )
}

pub(super) fn bind(request: &Request<'_>) -> Result<Binding> {
    places(request)?;
    let one_by_one = is_multi(request)
        && request.kind.hook != Hook::UprobeSession
        && !Features::new(request.kernel.host().clone()).works(Feature::UprobeMulti);
    Ok(Binding {
        kind: one_by_one.then_some(ProgramKind::Kprobe),
        ..Binding::default()
    })
}

pub(super) fn attach(request: &Request<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    let Places { file, offsets } = places(request)?;
    let places: Vec<(u64, u64)> = offsets.into_iter().map(|offset| (offset, 0)).collect();
    let all = UserPlaces {
        path: &file.opened_path(),
        places: &places,
        at_return: request.at_return || matches!(request.kind.hook, Hook::Uretprobe | Hook::UretprobeMulti),
        session: request.kind.hook == Hook::UprobeSession,
    };
    let kind = match is_multi(request) && kind != ProgramKind::Kprobe {
        true => ProgramKind::UprobeMulti,
        false => ProgramKind::Kprobe,
    };
    all.attach(kind, program, request.kernel.host())
}
