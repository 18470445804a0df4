//! Probes that must attach, as loading proves nothing (Debian's 6.1 loads `kprobe.multi` programs but cannot attach them).

use super::{Features, load};
use crate::bpf::{
    AttachType, KprobeMulti, KprobeTargets, Link, Program, ProgramKind, ProgramSpec, UprobeMulti,
};
use crate::error::{Errno, Error, Result};
use crate::perf::{PerfEvent, PerfTarget, ProbePlace, UprobePlace};
use crate::tracefs::{DynamicEvents, Tracefs};
use kestrel_bpf::btf::{BtfKind, TypeId};
use kestrel_bpf::helper;
use std::fs::OpenOptions;

/// A function that the kernel calls only when a BPF self-test asks it to.
const QUIET_FUNCTION: &str = "bpf_fentry_test1";

/// Tracepoints that hardly ever fire, the best first: group and name.
const QUIET_TRACEPOINTS: [(&str, &str); 3] = [
    ("bpf_test_run", "bpf_test_finish"),
    ("task", "task_rename"),
    ("sched", "sched_process_exec"),
];

fn program(kind: ProgramKind) -> Result<Program> {
    Program::load(&ProgramSpec::new("probe", kind, &load::assemble(|_| {})?, &[]))
}

/// A program that asks for its cookie if one is to be tried: 6.1 takes a cookie for a typed tracepoint and forgets it, but knows no helper there.
fn reader(kind: ProgramKind, cookie: u64) -> Result<Program> {
    let code = load::assemble(|asm| {
        if cookie != 0 {
            asm.call(helper::GET_ATTACH_COOKIE);
        }
    })?;
    Program::load(&ProgramSpec::new("probe", kind, &code, &[]))
}

/// The first of the quiet tracepoints for which `attempt` does not answer that it is unknown.
fn quiet(attempt: impl Fn(&str, &str) -> Result<()>) -> Result<()> {
    let mut answer = Ok(());
    for (group, name) in QUIET_TRACEPOINTS {
        answer = attempt(group, name);
        match &answer {
            Err(Error::Unavailable { .. }) => {}
            Err(error) if error.errno() == Some(Errno::ENOENT) => {}
            _ => break,
        }
    }
    answer
}

fn raw(cookie: u64) -> Result<()> {
    let program = reader(ProgramKind::RawTracepoint, cookie)?;
    quiet(|_, name| Link::raw_tracepoint(&program, name, cookie).map(drop))
}

pub(super) fn raw_tracepoint(_: &Features) -> Result<()> {
    raw(0)
}

pub(super) fn raw_tracepoint_cookie(_: &Features) -> Result<()> {
    raw(1)
}

fn typed(features: &Features, cookie: u64) -> Result<()> {
    quiet(|_, name| {
        let id = features.type_id(BtfKind::Typedef, &format!("btf_trace_{name}"))?;
        Link::tracing(
            &reader(ProgramKind::TypedTracepoint(id), cookie)?,
            AttachType::TRACE_RAW_TP,
            cookie,
        )
        .map(drop)
    })
}

pub(super) fn typed_tracepoint(features: &Features) -> Result<()> {
    typed(features, 0)
}

pub(super) fn typed_tracepoint_cookie(features: &Features) -> Result<()> {
    typed(features, 1)
}

/// Opens the first quiet tracepoint that there is and hands it over.
fn with_tracepoint(features: &Features, attach: impl Fn(PerfEvent) -> Result<()>) -> Result<()> {
    let tracefs = Tracefs::open(features.host())?;
    quiet(|group, name| {
        let id = tracefs.event_id(group, name)?;
        attach(PerfEvent::tracepoint(id, name, PerfTarget::All)?)
    })
}

pub(super) fn tracepoint(features: &Features) -> Result<()> {
    let program = program(ProgramKind::Tracepoint)?;
    with_tracepoint(features, |event| event.attach(&program, 0).map(drop))
}

pub(super) fn perf_link(features: &Features) -> Result<()> {
    let program = reader(ProgramKind::Tracepoint, 1)?;
    with_tracepoint(features, |event| Link::perf_event(&program, &event, 1).map(drop))
}

fn kprobe_at(features: &Features, at_return: bool) -> Result<()> {
    let place = ProbePlace::Symbol(QUIET_FUNCTION, 0);
    let event = PerfEvent::kprobe(features.host(), place, at_return, PerfTarget::All)?;
    event.attach(&program(ProgramKind::Kprobe)?, 0).map(drop)
}

pub(super) fn kprobe(features: &Features) -> Result<()> {
    kprobe_at(features, false)
}

pub(super) fn kretprobe(features: &Features) -> Result<()> {
    kprobe_at(features, true)
}

fn multi(kind: ProgramKind, session: bool) -> Result<()> {
    let targets = KprobeTargets::Symbols(&[QUIET_FUNCTION]);
    let multi = KprobeMulti {
        targets,
        cookies: &[],
        at_return: false,
        session,
    };
    Link::kprobe_multi(&program(kind)?, &multi).map(drop)
}

pub(super) fn kprobe_multi(_: &Features) -> Result<()> {
    multi(ProgramKind::KprobeMulti, false)
}

pub(super) fn kprobe_session(_: &Features) -> Result<()> {
    multi(ProgramKind::KprobeSession, true)
}

fn function(
    features: &Features,
    kind: fn(TypeId) -> ProgramKind,
    attach: AttachType,
    cookie: u64,
) -> Result<()> {
    let id = features.function(QUIET_FUNCTION)?;
    Link::tracing(&reader(kind(id), cookie)?, attach, cookie).map(drop)
}

pub(super) fn fentry(features: &Features) -> Result<()> {
    function(features, ProgramKind::FunctionEntry, AttachType::TRACE_FENTRY, 0)
}

pub(super) fn fentry_cookie(features: &Features) -> Result<()> {
    function(features, ProgramKind::FunctionEntry, AttachType::TRACE_FENTRY, 1)
}

pub(super) fn fexit(features: &Features) -> Result<()> {
    function(features, ProgramKind::FunctionExit, AttachType::TRACE_FEXIT, 0)
}

/// A directory is not a file with code: a kernel that has `uprobe.multi` answers `EBADF`, others `EINVAL`; nothing is attached.
pub(super) fn uprobe_multi(_: &Features) -> Result<()> {
    let program = program(ProgramKind::UprobeMulti)?;
    let multi = UprobeMulti {
        path: "/",
        places: &[UprobePlace {
            offset: 1,
            ..UprobePlace::default()
        }],
        at_return: false,
        session: false,
    };
    match Link::uprobe_multi(&program, &multi) {
        Err(error) if error.errno() == Some(Errno::EBADF) => Ok(()),
        other => other.map(drop),
    }
}

/// Opens the file for appending, and writes nothing.
pub(super) fn kprobe_events(features: &Features) -> Result<()> {
    let path = Tracefs::open(features.host())?.path(DynamicEvents::Kprobe.file());
    OpenOptions::new()
        .append(true)
        .open(&path)
        .map(drop)
        .map_err(|error| Error::system("append to", path.display().to_string(), error))
}
