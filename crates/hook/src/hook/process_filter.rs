//! Process filter of a session: all processes, some with their threads, single threads, or a command with its children. BPF programs keep the set of threads
//! up to date.
//!
//! The set is a map of bits, one for every number that a thread can have: a test costs a load, where a hash map costs a call and collisions, and what one CPU
//! adds every other sees at its next event. It has threads, not processes, because fields of events (`next_pid`, the `pid` of a wakeup) have numbers of
//! threads: so one map serves for the thread that runs and for the thread that an event is about.
//!
//! A program on `sched_process_exec` adds a command itself, so that tracing begins with its exec. One on `task_newtask` adds the threads and children of
//! threads in the set, or the new threads of processes that run already (`sched_process_fork` would miss the threads that the kernel makes for a process, as
//! for io_uring). One on `sched_process_free` removes a thread when it will never run again; `sched_process_exit` would be too early, because a process
//! gives back its memory and files after it (kernel/exit.c; from 6.16 on all of its memory). A thread that execs takes the number of its process's first
//! thread, and that one is freed under the other's number (`exchange_tids`, kernel/pid.c).

use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_bpf::helper;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::codegen::{self, Generated};
use kestrel_compiler::ir::{AluOp, AtomicOp, Bits, BlockId, Builder, Condition, Operand, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_kernel::{Host, procfs};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Name by which programs refer to the map of followed threads.
pub const MAP: &str = "targets";
/// Upper bound of the numbers of processes and threads, whatever `kernel.pid_max` is (include/linux/threads.h, `PID_MAX_LIMIT`).
pub(crate) const NUMBERS: u32 = 1 << 22;
/// Bytes of one set: a bit for every number.
const SIZE: u32 = NUMBERS / 8;
/// Offset of the set of threads that are followed now.
const NOW: u32 = 0;
/// Offset of the set of all threads that have ever been followed, which a reader of the recording needs.
const EVER: u32 = SIZE;
/// Bytes of the map's value: both sets.
const BYTES: u32 = 2 * SIZE;

/// The processes or threads whose events are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProcessFilter {
    /// All, and events of no process as well.
    #[default]
    All,
    /// Some processes with all their threads.
    Processes(Vec<u32>),
    /// Some threads.
    Threads(Vec<u32>),
    /// A process that waits to exec, from its exec on, and its children.
    Command(u32),
}

impl ProcessFilter {
    /// Whether the set changes while it is traced: threads of its processes come and go.
    pub fn has_threads(&self) -> bool {
        matches!(self, Self::Processes(_) | Self::Command(_))
    }
}

/// Creates the map, with no thread in it.
pub fn create_map() -> Result<Map> {
    let spec = MapSpec::new(MapKind::ARRAY, "kestrel_targets", 4, BYTES, 1).with_flags(sys::MAP_MMAPABLE);
    Ok(Map::create(&spec)?)
}

/// Contents of the map with one process of one thread in it: for a command before it runs, when no program writes to the map yet.
pub fn single_process(pid: u32) -> Vec<u8> {
    let mut bytes = vec![0; BYTES as usize];
    for half in [NOW, EVER] {
        if let Some(byte) = bytes.get_mut((half + pid / 8) as usize) {
            *byte = 1 << (pid % 8);
        }
    }
    bytes
}

/// Adds the threads that processes have now. The trackers must be attached already: they add threads that begin after this and remove those that end meanwhile.
pub fn enter_threads(map: &Map, processes: &[u32], host: &Host) -> Result<()> {
    let bits = Mapping::new(map.as_fd(), 0, BYTES as usize, Access::ReadWrite)?;
    for &process in processes {
        // A process that has ended has no threads.
        for thread in procfs::threads(host, process).unwrap_or_default() {
            let word = |half| bits.atomic_u64((half + thread / 64 * 8) as usize);
            let bit = 1 << (thread % 64);
            let (Some(now), Some(ever)) = (word(NOW), word(EVER)) else {
                continue;
            };
            now.fetch_or(bit, Ordering::SeqCst);
            ever.fetch_or(bit, Ordering::SeqCst);
            if !host.path(format!("/proc/{process}/task/{thread}")).exists() {
                // The thread may have been freed before its bit was set, and no tracker would clear that.
                now.fetch_and(!bit, Ordering::SeqCst);
            }
        }
    }
    Ok(())
}

/// Numbers of all threads that have ever been followed, ascending.
pub fn ever_followed(map: &Map) -> Result<Vec<u32>> {
    let bits = Mapping::new(map.as_fd(), 0, BYTES as usize, Access::ReadOnly)?;
    let mut threads = Vec::new();
    for place in 0..SIZE / 8 {
        let word = bits.load_u64((EVER + place * 8) as usize).unwrap_or(0);
        threads.extend(
            (0..64)
                .filter(|bit| (word >> bit) & 1 == 1)
                .map(|bit| place * 64 + bit),
        );
    }
    Ok(threads)
}

/// Emits the number of the process that runs.
pub(crate) fn tgid(b: &mut Builder) -> Vreg {
    let id = b.helper(helper::GET_CURRENT_PID_TGID, &[]);
    b.shift_right(id, 32)
}

/// Emits the number of the thread that runs.
fn tid(b: &mut Builder) -> Vreg {
    let id = b.helper(helper::GET_CURRENT_PID_TGID, &[]);
    b.and(id, i64::from(u32::MAX))
}

/// Emits a 4-byte key on the stack; gives its address.
pub(crate) fn key(b: &mut Builder, value: impl Into<Operand>) -> Vreg {
    let slot = b.slot(4, 4);
    let key = b.slot_address(slot, 0);
    b.store(Width::B4, key, 0, value);
    key
}

/// Emits the address of the word with a thread's bit, in the set at offset `half`.
fn word(b: &mut Builder, thread: Vreg, half: u32) -> Vreg {
    let word = b.shift_right(thread, 6);
    let at = b.shift_left(word, 3);
    let at = b.and(at, i64::from(SIZE - 8));
    let map = b.external(MAP);
    let words = b.map_value(map, half);
    b.add(words, at)
}

/// Emits 1 where the thread is followed, else 0.
pub(crate) fn emit_is_followed(b: &mut Builder, thread: Vreg) -> Vreg {
    let word = word(b, thread, NOW);
    let word = b.load(Width::B8, word, 0);
    let bit = b.and(thread, 63);
    let word = b.shift_right(word, bit);
    b.and(word, 1)
}

/// Emits a jump to `skip` unless the current thread is followed.
pub(crate) fn emit_admit(b: &mut Builder, skip: BlockId) {
    let current = tid(b);
    let followed = emit_is_followed(b, current);
    b.branch_if(Condition::Equal, followed, 0, skip);
}

/// Emits the bit of a thread in its word.
fn bit(b: &mut Builder, thread: Vreg) -> Vreg {
    let place = b.and(thread, 63);
    let one = b.constant(1);
    b.shift_left(one, place)
}

/// Emits the setting of a thread's bits in both sets.
fn enter(b: &mut Builder, thread: Vreg) {
    for half in [NOW, EVER] {
        let word = word(b, thread, half);
        let bit = bit(b, thread);
        b.fetch(AtomicOp::Or, Width::B8, word, 0, bit);
    }
}

/// Emits the clearing of a thread's bit in the set of threads followed now.
fn leave(b: &mut Builder, thread: Vreg) {
    let word = word(b, thread, NOW);
    let bit = bit(b, thread);
    let others = b.alu(AluOp::Xor, Bits::B64, bit, -1);
    b.fetch(AtomicOp::And, Width::B8, word, 0, others);
}

/// A program that keeps the set of followed threads up to date, on a raw tracepoint.
pub struct Tracker {
    /// Name of the tracepoint that it is on.
    pub tracepoint: &'static str,
    /// The code that runs there.
    pub code: Generated,
}

/// The program that adds a command, whose process is `pid`, at its exec.
pub fn admission(pid: u32) -> Result<Tracker> {
    make("sched_process_exec", on_exec(pid))
}

/// The two programs that add threads as they begin (children and threads of a command, threads of processes) and remove those that end.
pub fn trackers(target: &ProcessFilter, types: &Btf) -> Result<Vec<Tracker>> {
    let enters = match target {
        ProcessFilter::Command(_) => on_new_child(types)?,
        ProcessFilter::Processes(processes) => on_new_thread(processes, types)?,
        ProcessFilter::All | ProcessFilter::Threads(_) => return Ok(Vec::new()),
    };
    Ok(vec![
        make("task_newtask", enters)?,
        make("sched_process_free", on_free(types)?)?,
    ])
}

/// Generates a tracker's code.
pub(crate) fn make(tracepoint: &'static str, b: Builder) -> Result<Tracker> {
    let failed = |e: kestrel_compiler::Error| Error::Compile {
        event: format!("rawtracepoint:{tracepoint} (following processes)"),
        why: e.to_string(),
    };
    let code = codegen::generate(&b.finish()).map_err(failed)?;
    Ok(Tracker { tracepoint, code })
}

/// On `sched_process_exec`: adds the command's thread.
fn on_exec(pid: u32) -> Builder {
    let mut b = Builder::new();
    let out = b.block();
    let current = tgid(&mut b);
    b.branch_if(Condition::NotEqual, current, pid, out);
    // Whichever thread execs has the number of the process from now on.
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
    let mut ty = types.find(BtfKind::Struct, structure).ok_or_else(missing)?;
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

/// Emits the tracepoint's first argument, a task.
fn task(b: &mut Builder) -> Vreg {
    let context = b.context();
    b.load(Width::B8, context, 0)
}

/// On `task_newtask`: adds the new task if the thread that made it is followed.
fn on_new_child(types: &Btf) -> Result<Builder> {
    let at = member(types, "task_struct", &["pid"])?;
    let mut b = Builder::new();
    let out = b.block();
    emit_admit(&mut b, out);
    let child = task(&mut b);
    let child = read(&mut b, Width::B4, child, at);
    enter(&mut b, child);
    b.jump(out);
    b.switch_to(out);
    b.exit(0);
    Ok(b)
}

/// On `task_newtask`: adds the new task if it is a thread of one of the processes.
fn on_new_thread(processes: &[u32], types: &Btf) -> Result<Builder> {
    let pid = member(types, "task_struct", &["pid"])?;
    let tgid = member(types, "task_struct", &["tgid"])?;
    let mut b = Builder::new();
    let (wanted, out) = (b.block(), b.block());
    let task = task(&mut b);
    let process = read(&mut b, Width::B4, task, tgid);
    for known in processes {
        b.branch_if(Condition::Equal, process, i64::from(*known), wanted);
    }
    b.jump(out);
    b.switch_to(wanted);
    let thread = read(&mut b, Width::B4, task, pid);
    enter(&mut b, thread);
    b.jump(out);
    b.switch_to(out);
    b.exit(0);
    Ok(b)
}

/// On `sched_process_free`: removes the task.
fn on_free(types: &Btf) -> Result<Builder> {
    let pid = member(types, "task_struct", &["pid"])?;
    let mut b = Builder::new();
    let task = task(&mut b);
    let thread = read(&mut b, Width::B4, task, pid);
    leave(&mut b, thread);
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
        let skip = b.block();
        emit_admit(&mut b, skip);
        b.exit(1);
        b.switch_to(skip);
        b.exit(0);
        generate(b)
    }

    #[test]
    fn exactly_those_that_entered_and_did_not_leave() {
        let mut machine = Machine::new();
        let map = machine.add_map(interp::MapKind::Array { entries: 1 }, 4, BYTES);
        assert_eq!(map, MapRef(0));
        let (enter, leave, admitted) = (change(enter), change(leave), admitted());
        machine.set_value(map, &[0; 4], 0, &single_process(4711));
        (machine.environment.pid, machine.environment.tid) = (4711, 4711);
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
                    // The process's number must not matter.
                    machine.environment.pid = other ^ 1;
                    machine.environment.tid = other;
                    let is = machine.run(&admitted, &[0; 8]).unwrap() == 1;
                    assert_eq!(is, traced.contains(&other), "{other} after {one}");
                }
            }
        }
    }
}
