//! Whether the kernel preempts threads inside BPF programs, found by looking at the preemption count in one; never by version.
//!
//! Linux 7 calls the programs of tracepoints with preemption on, older ones with preemption off. Where the kernel preempts nothing of its own
//! (`preempt=none`, `preempt=voluntary`) that does not matter.

use crate::bpf::{Link, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec};
use crate::error::{Error, Result};
use crate::host::Host;
use kestrel_bpf::asm::Assembler;
use kestrel_bpf::btf::{Btf, Kind};
use kestrel_bpf::code::MapRef;
use kestrel_bpf::helper;
use kestrel_bpf::insn::Insn;
use kestrel_bpf::isa::{Reg, Size};
use std::os::fd::AsFd;

/// Where threads are preempted inside programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preemption {
    /// In programs on raw and typed tracepoints.
    pub tracepoints: bool,
    /// In programs of trampolines (fentry): wherever the kernel preempts its own code.
    pub trampolines: bool,
}

/// A tracepoint that fires where a thread is made, outside of all locks (`copy_process` in kernel/fork.c).
const TRACEPOINT: &str = "task_newtask";
/// Where the kernel says which of its models of preemption is in force: all of them, that one in parentheses.
const MODEL: &str = "/sys/kernel/debug/sched/preempt";
/// `BPF_PSEUDO_BTF_ID`.
const PSEUDO_BTF_ID: u8 = 3;
/// The bits of the preemption count that count how often it was switched off (include/linux/preempt.h, `PREEMPT_MASK`).
const OFF: u32 = 0xff;

impl Preemption {
    /// Looks. Where the kernel hides its preemption count, its tracepoints are taken for preempted if it preempts at all: that costs a little and loses nothing.
    pub fn of(host: &Host, types: Option<&Btf>) -> Self {
        if !preempts(host) {
            return Self::default();
        }
        let count = types.and_then(count_in_program);
        Self {
            trampolines: true,
            tracepoints: count.is_none_or(|count| count & OFF == 0),
        }
    }
}

/// Whether the kernel preempts its own code.
fn preempts(host: &Host) -> bool {
    let read = |path: &str| std::fs::read_to_string(host.path(path)).unwrap_or_default();
    let model = read(MODEL);
    match model.split_once('(').and_then(|(_, rest)| rest.split_once(')')) {
        Some((model, _)) => !matches!(model, "none" | "voluntary"),
        // `#1 SMP PREEMPT_DYNAMIC …`
        None => read("/proc/sys/kernel/version").contains("PREEMPT"),
    }
}

/// The preemption count as a program on a tracepoint sees it; none where it cannot be seen.
fn count_in_program(types: &Btf) -> Option<u32> {
    let (variable, offset) = place_of_count(types)?;
    see(variable, offset).ok().flatten()
}

/// The BTF id of the per-CPU variable that has the count, and where in it: x86 had it in `pcpu_hot` from 6.2 to 6.14.
fn place_of_count(types: &Btf) -> Option<(u32, i32)> {
    if let Some(id) = types.find(Kind::Var, "__preempt_count") {
        return Some((id.0, 0));
    }
    let id = types.find(Kind::Var, "pcpu_hot")?;
    let hot = types.find(Kind::Struct, "pcpu_hot")?;
    let place = types.find_member(hot, "preempt_count")?;
    Some((id.0, (place.bit_offset / 8) as i32))
}

/// Has a program on [`TRACEPOINT`] run and gives the word that it saw; none where it did not run.
fn see(variable: u32, offset: i32) -> Result<Option<u32>> {
    const RAN: u64 = 1 << 32;
    let map = Map::create(&MapSpec::new(MapKind::ARRAY, "probe", 4, 8, 1))?;
    let mut asm = Assembler::new();
    asm.raw(Insn {
        code: 0x18,
        dst: 1,
        src: PSEUDO_BTF_ID,
        imm: variable.cast_signed(),
        ..Insn::default()
    })
    .raw(Insn::default())
    .call(helper::THIS_CPU_PTR)
    .load(Size::W, Reg::R6, Reg::R0, offset)
    .constant(Reg::R1, RAN)
    .or(Reg::R6, Reg::R1)
    .map_value(Reg::R1, MapRef(0), 0)
    .store(Size::DW, Reg::R1, 0, Reg::R6)
    .mov(Reg::R0, 0)
    .exit();
    let code = asm.finish().map_err(|error| Error::Argument {
        subject: "a program that reads the preemption count".to_owned(),
        why: error.to_string(),
    })?;
    let maps = [map.as_fd()];
    let spec = ProgramSpec::new("probe", ProgramKind::RawTracepoint, &code, &maps);
    let program = Program::load(&spec)?;
    let link = Link::raw_tracepoint(&program, TRACEPOINT, 0)?;
    let _made = std::thread::spawn(|| ()).join();
    drop(link);
    let value = map.lookup(&0_u32.to_ne_bytes())?.unwrap_or_default();
    let word = value.try_into().map_or(0, u64::from_ne_bytes);
    Ok((word & RAN != 0).then_some(word as u32))
}
