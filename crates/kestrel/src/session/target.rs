//! Which processes a session is about: all, one, or a command with its children, followed by three programs of our own.
//!
//! A command's processes stand in a small hash. `sched_process_exec` enters the command itself (so tracing begins with its exec),
//! `sched_process_fork` enters the children of those that are in it, `sched_process_free` takes a process out
//! when its first thread, which is reaped last, will never run again. `sched_process_exit` would be too early: a process gives back its memory
//! and files behind it (kernel/exit.c; from 6.16 on all of its memory).

use crate::error::{Error, Result};
use kestrel_bpf::btf::{Btf, Kind};
use kestrel_bpf::helper;
use kestrel_compiler::codegen::{self, Generated};
use kestrel_compiler::ir::{BlockId, Builder, Condition, Operand, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, sys};

/// Name by which programs refer to the hash of traced processes.
pub const MAP: &str = "targets";
const MOST: u32 = 65536;

/// Whose events are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Every process's, and those of no process.
    #[default]
    All,
    /// One process's, all its threads.
    Process(u32),
    /// Those of a process that waits to exec, from its exec on, and of its children.
    Command(u32),
}

/// Makes the hash.
pub(super) fn create_map() -> Result<Map> {
    // Allocated as needed: making room for all beforehand takes milliseconds.
    let spec = MapSpec::new(MapKind::HASH, "kestrel_targets", 4, 4, MOST).with_flags(sys::MAP_NO_PREALLOC);
    Ok(Map::create(&spec)?)
}

fn tgid(b: &mut Builder) -> Vreg {
    let id = b.helper(helper::GET_CURRENT_PID_TGID, &[]);
    b.shift_right(id, 32)
}

pub(super) fn key(b: &mut Builder, value: impl Into<Operand>) -> Vreg {
    let slot = b.slot(4, 4);
    let key = b.slot_address(slot, 0);
    b.store(Width::B4, key, 0, value);
    key
}

/// Leaves unless the current process is among the traced ones.
pub fn emit_admit(b: &mut Builder, refused: BlockId) {
    let tgid = tgid(b);
    let key = key(b, tgid);
    let map = b.external(MAP);
    let map = b.map_pointer(map);
    let found = b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
    b.branch_if(Condition::Equal, found, 0, refused);
}

fn enter(b: &mut Builder, key: Vreg) {
    let value = b.slot(4, 4);
    let value = b.slot_address(value, 0);
    b.store(Width::B4, value, 0, 1);
    let map = b.external(MAP);
    let map = b.map_pointer(map);
    b.helper(
        helper::MAP_UPDATE_ELEM,
        &[map.into(), key.into(), value.into(), Operand::Imm(0)],
    );
}

/// A follower: the raw tracepoint it is on, and its code.
pub(super) struct Follower {
    pub(super) tracepoint: &'static str,
    pub(super) code: Generated,
}

/// The three programs that follow a command whose process is `pid`.
pub(super) fn followers(types: &Btf, pid: u32) -> Result<Vec<Follower>> {
    Ok(vec![
        make("sched_process_exec", on_exec(pid))?,
        make("sched_process_fork", on_fork(types)?)?,
        make("sched_process_free", on_free(types)?)?,
    ])
}

/// Generates a follower's code.
pub(super) fn make(tracepoint: &'static str, b: Builder) -> Result<Follower> {
    let failed = |e: kestrel_compiler::Error| Error::Compile {
        event: format!("rawtracepoint:{tracepoint} (following processes)"),
        why: e.to_string(),
    };
    let code = codegen::generate(&b.finish()).map_err(failed)?;
    Ok(Follower { tracepoint, code })
}

fn on_exec(pid: u32) -> Builder {
    let mut b = Builder::new();
    let out = b.block();
    let current = tgid(&mut b);
    b.branch_if(Condition::NotEqual, current, pid, out);
    let key = key(&mut b, current);
    enter(&mut b, key);
    b.jump(out);
    b.switch_to(out);
    b.exit(0);
    b
}

/// Byte offset of a member of `task_struct` or the like.
pub(super) fn member(types: &Btf, structure: &str, path: &[&str]) -> Result<i64> {
    let missing = || Error::Unsupported {
        what: "following processes".to_owned(),
        why: format!("the kernel's types have no {structure}.{}", path.join(".")),
    };
    let mut ty = types.find(Kind::Struct, structure).ok_or_else(missing)?;
    let mut offset = 0;
    for name in path {
        let place = types.find_member(ty, name).ok_or_else(missing)?;
        offset += place.bit_offset / 8;
        ty = types.resolve(place.ty);
    }
    Ok(i64::from(offset))
}

/// Reads `width` bytes of kernel memory at `base + offset`; 0 where it cannot.
pub(super) fn read(b: &mut Builder, width: Width, base: Vreg, offset: i64) -> Vreg {
    let slot = b.slot(8, 8);
    let to = b.slot_address(slot, 0);
    b.store(Width::B8, to, 0, 0);
    let from = b.add(base, offset);
    b.helper(
        helper::PROBE_READ_KERNEL,
        &[to.into(), width.bytes().into(), from.into()],
    );
    b.load(width, to, 0)
}

fn on_fork(types: &Btf) -> Result<Builder> {
    let at = member(types, "task_struct", &["tgid"])?;
    let mut b = Builder::new();
    let out = b.block();
    emit_admit(&mut b, out);
    let context = b.context();
    let child = b.load(Width::B8, context, 8);
    let child = read(&mut b, Width::B4, child, at);
    let key = key(&mut b, child);
    enter(&mut b, key);
    b.jump(out);
    b.switch_to(out);
    b.exit(0);
    Ok(b)
}

fn on_free(types: &Btf) -> Result<Builder> {
    let pid = member(types, "task_struct", &["pid"])?;
    let tgid = member(types, "task_struct", &["tgid"])?;
    let mut b = Builder::new();
    let out = b.block();
    let context = b.context();
    let task = b.load(Width::B8, context, 0);
    let pid = read(&mut b, Width::B4, task, pid);
    let tgid = read(&mut b, Width::B4, task, tgid);
    b.branch_if(Condition::NotEqual, pid, tgid, out);
    let key = key(&mut b, tgid);
    let map = b.external(MAP);
    let map = b.map_pointer(map);
    b.helper(helper::MAP_DELETE_ELEM, &[map.into(), key.into()]);
    b.jump(out);
    b.switch_to(out);
    b.exit(0);
    Ok(b)
}
