//! Tracepoints by their formatted entries.

use super::request::{AttachRequest, Binding};
use kestrel_catalog::attach::{Links, Tracepoint};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::nearest;
use kestrel_kernel::Errno;
use kestrel_kernel::bpf::{Program, ProgramKind};

/// Group and name of the target: `sched/sched_switch`, or `sched:sched_switch`.
fn split<'r>(request: &'r AttachRequest<'_>) -> Result<(&'r str, &'r str)> {
    let target = request.target()?;
    target
        .split_once(['/', ':'])
        .ok_or_else(|| request.wrong(format!("`{target}` does not name a tracepoint: GROUP/NAME")))
}

fn id(request: &AttachRequest<'_>) -> Result<u64> {
    let (group, name) = split(request)?;
    let tracefs = request.kernel.known.tracefs()?;
    tracefs.event_id(group, name).map_err(|error| {
        let all: Vec<String> = tracefs
            .events()
            .unwrap_or_default()
            .into_iter()
            .map(|e| format!("{}:{}", e.group, e.name))
            .collect();
        let wanted = format!("{group}:{name}");
        if all.contains(&wanted) || all.is_empty() {
            return error.into();
        }
        let near = nearest(&wanted, all.iter().map(String::as_str))
            .into_iter()
            .map(Into::into)
            .collect();
        Error::NoSuchEvent {
            what: "tracepoint".to_owned(),
            wanted,
            near,
        }
    })
}

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    id(request).map(|_| Binding::default())
}

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    id(request)?;
    let (group, name) = split(request)?;
    let tracepoint = Tracepoint {
        group: group.to_owned(),
        name: name.to_owned(),
    };
    let attached = request.attach((program, kind), &tracepoint, &[]);
    attached.map_err(|error| explain(request, error))
}

/// The event is open; to a program that fits it the kernel says EACCES where that reads beyond the record (`trace_event_get_offsets`,
/// kernel/trace/trace_events.c).
fn explain(request: &AttachRequest<'_>, error: Error) -> Error {
    let denied = error.errno() == Some(Errno::EACCES);
    match end_of_record(request).filter(|_| denied) {
        Some(end) => request.wrong(format!(
            "the kernel does not let it hang on {} (EACCES), as it does where a program reads its context beyond the event's last field, \
             which ends at byte {end}: compare the struct of its parameter with `kestrel list -v {}`",
            request.target,
            request.target.replace('/', ":")
        )),
        None => error,
    }
}

fn end_of_record(request: &AttachRequest<'_>) -> Option<u32> {
    let (group, name) = split(request).ok()?;
    let tracefs = request.kernel.known.tracefs().ok()?;
    tracefs.format(group, name).ok().map(|format| format.size())
}
