//! Which processes a session is about: all, one, or a command with its children, followed by three programs of our own.
//!
//! A command's processes stand in a map of bits, one for every number that a process can have: asking costs a load, where a hash costs a call
//! and its collisions, and what one CPU enters every other sees at its next event. `sched_process_exec` enters the command itself (so tracing begins with its exec),
//! `sched_process_fork` enters the children of those that are in it, `sched_process_free` takes a process out
//! when its first thread, which is reaped last, will never run again. `sched_process_exit` would be too early: a process gives back its memory
//! and files behind it (kernel/exit.c; from 6.16 on all of its memory).

use kestrel_bpf::btf::{Btf, Kind};
use kestrel_bpf::helper;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::codegen::{self, Generated};
use kestrel_compiler::ir::{AluOp, AtomicOp, Bits, BlockId, Builder, Condition, Operand, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec};

/// Name by which programs refer to the bits of traced processes.
pub const MAP: &str = "targets";
/// Process numbers are below this, whatever `kernel.pid_max` says (include/linux/threads.h, `PID_MAX_LIMIT`).
pub(crate) const NUMBERS: u32 = 1 << 22;
/// Bytes of the map.
pub const SIZE: u32 = NUMBERS / 8;

/// The processes whose events are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessFilter {
    /// Every process's, and those of no process.
    #[default]
    All,
    /// One process's, all its threads.
    Process(u32),
    /// A process that waits to exec, from its exec on, and its children.
    Command(u32),
}

/// Makes the map, with no process traced.
pub fn create_map() -> Result<Map> {
    let spec = MapSpec::new(MapKind::ARRAY, "kestrel_targets", 4, SIZE, 1);
    Ok(Map::create(&spec)?)
}

/// What the map holds where one process is traced, and no other: for a command before it runs, when no program writes there yet.
pub fn only(pid: u32) -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    if let Some(byte) = bytes.get_mut(pid as usize / 8) {
        *byte = 1 << (pid % 8);
    }
    bytes
}

/// The process that runs.
pub(crate) fn tgid(b: &mut Builder) -> Vreg {
    let id = b.helper(helper::GET_CURRENT_PID_TGID, &[]);
    b.shift_right(id, 32)
}

pub(crate) fn key(b: &mut Builder, value: impl Into<Operand>) -> Vreg {
    let slot = b.slot(4, 4);
    let key = b.slot_address(slot, 0);
    b.store(Width::B4, key, 0, value);
    key
}

/// Address of the word with a process's bit.
fn word(b: &mut Builder, tgid: Vreg) -> Vreg {
    let word = b.shift_right(tgid, 6);
    let at = b.shift_left(word, 3);
    let at = b.and(at, i64::from(SIZE - 8));
    let map = b.external(MAP);
    let words = b.map_value(map, 0);
    b.add(words, at)
}

/// Leaves unless the current process is among the traced ones.
pub fn emit_admit(b: &mut Builder, refused: BlockId) {
    let tgid = tgid(b);
    let word = word(b, tgid);
    let word = b.load(Width::B8, word, 0);
    let bit = b.and(tgid, 63);
    let word = b.shift_right(word, bit);
    let traced = b.and(word, 1);
    b.branch_if(Condition::Equal, traced, 0, refused);
}

/// A process's bit in its word.
fn bit(b: &mut Builder, tgid: Vreg) -> Vreg {
    let place = b.and(tgid, 63);
    let one = b.constant(1);
    b.shift_left(one, place)
}

fn enter(b: &mut Builder, tgid: Vreg) {
    let word = word(b, tgid);
    let bit = bit(b, tgid);
    b.fetch(AtomicOp::Or, Width::B8, word, 0, bit);
}

fn leave(b: &mut Builder, tgid: Vreg) {
    let word = word(b, tgid);
    let bit = bit(b, tgid);
    let others = b.alu(AluOp::Xor, Bits::B64, bit, -1);
    b.fetch(AtomicOp::And, Width::B8, word, 0, others);
}

/// A follower: the raw tracepoint it is on, and its code.
pub struct Follower {
    /// The tracepoint.
    pub tracepoint: &'static str,
    /// What runs there.
    pub code: Generated,
}

/// The program that lets a command in, whose process is `pid`, at its exec.
pub fn admission(pid: u32) -> Result<Follower> {
    make("sched_process_exec", on_exec(pid))
}

/// The two programs that follow its children.
pub fn followers(types: &Btf) -> Result<Vec<Follower>> {
    Ok(vec![
        make("sched_process_fork", on_fork(types)?)?,
        make("sched_process_free", on_free(types)?)?,
    ])
}

/// Generates a follower's code.
pub(crate) fn make(tracepoint: &'static str, b: Builder) -> Result<Follower> {
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
    enter(&mut b, current);
    b.jump(out);
    b.switch_to(out);
    b.exit(0);
    b
}

/// Byte offset of a member of `task_struct` or the like.
pub(crate) fn member(types: &Btf, structure: &str, path: &[&str]) -> Result<i64> {
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
pub(crate) fn read(b: &mut Builder, width: Width, base: Vreg, offset: i64) -> Vreg {
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
    enter(&mut b, child);
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
    leave(&mut b, tgid);
    b.jump(out);
    b.switch_to(out);
    b.exit(0);
    Ok(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_bpf::code::{Code, MapRef};
    use kestrel_bpf::interp::{self, Machine};

    /// A program over the one map of a machine.
    fn generate(b: Builder) -> Code {
        codegen::generate(&b.finish()).unwrap().code
    }

    /// Does `what` to the process that the context's only word names.
    fn change(what: fn(&mut Builder, Vreg)) -> Code {
        let mut b = Builder::new();
        let context = b.context();
        let tgid = b.load(Width::B8, context, 0);
        what(&mut b, tgid);
        b.exit(0);
        generate(b)
    }

    fn admitted() -> Code {
        let mut b = Builder::new();
        let refused = b.block();
        emit_admit(&mut b, refused);
        b.exit(1);
        b.switch_to(refused);
        b.exit(0);
        generate(b)
    }

    #[test]
    fn exactly_those_that_entered_and_did_not_leave() {
        let mut machine = Machine::new();
        let map = machine.add_map(interp::MapKind::Array { entries: 1 }, 4, SIZE);
        assert_eq!(map, MapRef(0));
        let (enter, leave, admitted) = (change(enter), change(leave), admitted());
        machine.set_value(map, &[0; 4], 0, &only(4711));
        machine.environment.pid = 4711;
        assert_eq!(machine.run(&admitted, &[0; 8]), Ok(1));
        machine.set_value(map, &[0; 4], 0, &[0; SIZE as usize]);
        let neighbours = [1u32, 2, 63, 64, 65, 127, 128, 4_194_239, 4_194_240, NUMBERS - 1];
        let mut traced = std::collections::BTreeSet::new();
        // Twice each: entering and leaving say what is true from then on, however often they say it.
        for (program, entering) in [(&enter, true), (&enter, true), (&leave, false), (&leave, false)] {
            for one in neighbours {
                machine.run(program, &u64::from(one).to_le_bytes()).unwrap();
                if entering {
                    traced.insert(one);
                } else {
                    traced.remove(&one);
                }
                for other in neighbours.into_iter().chain([0, 3, 62, 66, 32768]) {
                    machine.environment.pid = other;
                    let is = machine.run(&admitted, &[0; 8]).unwrap() == 1;
                    assert_eq!(is, traced.contains(&other), "{other} after {one}");
                }
            }
        }
    }
}
