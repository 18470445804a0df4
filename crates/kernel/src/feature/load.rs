//! Probes that need no attaching: loading a tiny program or making a map proves the feature.

use super::Features;
use crate::bpf::{self, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec, sys};
use crate::error::{Errno, Error, Interface, Result};
use crate::mmap::{Access, Mapping};
use kestrel_bpf::asm::Assembler;
use kestrel_bpf::btf::BtfKind;
use kestrel_bpf::code::Code;
use kestrel_bpf::helper::Helper;
use kestrel_bpf::isa::{Atomic, Reg, Size};
use std::os::fd::AsFd;

/// Assembles what `write` writes, with `r0 = 0; exit` behind it.
pub(super) fn assemble(write: impl FnOnce(&mut Assembler)) -> Result<Code> {
    let mut assembler = Assembler::new();
    write(&mut assembler);
    assembler.mov(Reg::R0, 0).exit();
    assembler.finish().map_err(|error| Error::Argument {
        subject: "a feature probe".to_owned(),
        why: error.to_string(),
    })
}

fn load(code: &Code, kind: ProgramKind) -> Result<()> {
    Program::load(&ProgramSpec::new("probe", kind, code, &[])).map(drop)
}

pub(super) fn program(_: &Features) -> Result<()> {
    load(&assemble(|_| {})?, ProgramKind::RawTracepoint)
}

pub(super) fn types(features: &Features) -> Result<()> {
    features.type_id(BtfKind::Struct, "task_struct").map(drop)
}

pub(super) fn atomics(_: &Features) -> Result<()> {
    let code = assemble(|asm| {
        asm.store(Size::DW, Reg::R10, -8, 0)
            .mov(Reg::R0, 0)
            .mov(Reg::R1, 1)
            .atomic(Atomic::Cmpxchg, Size::DW, Reg::R10, -8, Reg::R1);
    })?;
    load(&code, ProgramKind::RawTracepoint)
}

pub(super) fn mmap_array(_: &Features) -> Result<()> {
    let spec = MapSpec::new(MapKind::ARRAY, "probe", 4, 4096, 1).with_flags(sys::MAP_MMAPABLE);
    Mapping::new(Map::create(&spec)?.as_fd(), 0, 4096, Access::ReadWrite).map(drop)
}

pub(super) fn ringbuf(_: &Features) -> Result<()> {
    // A ring is a multiple of the page, whatever its size here.
    Map::create(&MapSpec::new(MapKind::RINGBUF, "probe", 0, 0, 1 << 16)).map(drop)
}

pub(super) fn preempt_disable(features: &Features) -> Result<()> {
    let code = assemble(|asm| {
        asm.kfunc("bpf_preempt_disable").kfunc("bpf_preempt_enable");
    })?;
    let btf = features.btf()?;
    let find = |name: &str| btf.find(BtfKind::Func, name);
    Program::load(&ProgramSpec::new("probe", ProgramKind::RawTracepoint, &code, &[]).with_kfunc(&find))
        .map(drop)
}

pub(super) fn run_stats(_: &Features) -> Result<()> {
    bpf::enable_stats().map(drop)
}

/// A program that calls the helper with nothing in the argument registers: the verifier refuses it either way, but for a helper that
/// it does not know (or not for this kind) it says so.
pub(super) fn helper(helper: Helper, kind: ProgramKind) -> Result<()> {
    let code = assemble(|asm| {
        asm.call(helper);
    })?;
    let Err(error) = load(&code, kind) else {
        return Ok(());
    };
    let Some(log) = error.verifier_log() else {
        return Err(error);
    };
    let unknown = [
        "unknown func",
        "invalid func",
        "program of this type cannot use helper",
        "cannot call",
    ];
    if unknown.iter().any(|words| log.contains(words)) {
        return Err(Error::System {
            action: "call the helper",
            subject: helper
                .name()
                .map_or_else(|| helper.0.to_string(), |name| format!("bpf_{name}")),
            errno: error.errno().unwrap_or(Errno::EINVAL),
            interface: Interface::Other,
        });
    }
    Ok(())
}
