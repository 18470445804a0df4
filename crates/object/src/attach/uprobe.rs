//! Functions of programs and libraries: one by a perf uprobe, many by one link where the kernel has such.

use super::request::{Binding, Request};
use crate::executable;
use kestrel_bpf::object::Hook;
use kestrel_catalog::attach::Links;
use kestrel_catalog::catalog::Glob;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Link, Program, ProgramKind, UprobeMulti};
use kestrel_kernel::feature::{Feature, Features};
use kestrel_kernel::perf::{PerfEvent, Target};

/// Where: the file, and offsets in it.
struct Places {
    path: String,
    offsets: Vec<u64>,
}

/// `/bin/bash:readline`, `libc.so.6:malloc+0x10`, `/bin/true:0x1234`, and for many: `/bin/bash:read*`.
fn places(request: &Request<'_>) -> Result<Places> {
    let target = request.target()?;
    let (file, what) = target.split_once(':').ok_or_else(|| {
        request.wrong(format!(
            "`{target}` does not name a function of a program: give it as {}=…, in the way of `{}` behind the slash",
            request.name, request.kind.shape
        ))
    })?;
    let path = executable::find(file)?;
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse::<u64>().ok(),
    };
    if let Some(offset) = number(what) {
        return Ok(Places {
            path,
            offsets: vec![offset],
        });
    }
    let (name, offset) = match what.split_once('+') {
        Some((name, offset)) => (
            name,
            number(offset).ok_or_else(|| request.wrong(format!("`{offset}` is not an offset")))?,
        ),
        None => (what, 0),
    };
    let executable = request.kernel.executables.get(&path)?;
    let glob = Glob::new(name);
    let mut offsets: Vec<u64> = executable
        .functions
        .iter()
        .filter(|(function, _)| glob.matches(function))
        .map(|(_, at)| at + offset)
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    if offsets.is_empty() {
        let near = kestrel_compiler::lang::diag::nearest(
            name,
            executable.functions.iter().map(|(name, _)| name.as_str()),
        );
        return Err(Error::NoSuchEvent {
            what: format!("function in {path}"),
            wanted: name.to_owned(),
            near: near.into_iter().map(Into::into).collect(),
        });
    }
    Ok(Places { path, offsets })
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
    let Places { path, offsets } = places(request)?;
    let at_return = request.at_return || matches!(request.kind.hook, Hook::Uretprobe | Hook::UretprobeMulti);
    if is_multi(request) && kind != ProgramKind::Kprobe {
        let multi = UprobeMulti {
            path: &path,
            offsets: &offsets,
            cookies: &[],
            pid: 0,
            at_return,
            session: request.kind.hook == Hook::UprobeSession,
        };
        return Ok(Link::uprobe_multi(program, &multi)?.into());
    }
    let mut links = Links::default();
    for offset in offsets {
        let event = PerfEvent::uprobe(request.kernel.host(), &path, offset, at_return, Target::All)?;
        links.perf_event(program, event, 0)?;
    }
    Ok(links)
}
