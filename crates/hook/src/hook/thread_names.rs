//! Names of threads that may have ended before their records are read: three programs keep the newest name of each thread.
//!
//! `sched_process_exec` enters the name a process takes with its program, `sched_process_fork` gives a child its parent's,
//! `task_rename` the one a thread gives itself. Threads that were there before are found in /proc.

use super::process_filter::{Tracker, key, make, member, read};
use kestrel_bpf::btf::Btf;
use kestrel_bpf::helper;
use kestrel_catalog::Result;
use kestrel_compiler::ir::{Builder, Operand, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec};
use kestrel_trace::process::Processes;

/// Name by which programs refer to the hash of names: thread number to 16 bytes.
pub const MAP: &str = "names";
/// Threads remembered; the least recently used go first.
const MAX_THREADS: u32 = 8192;
/// `TASK_COMM_LEN`.
const NAME: u32 = 16;

/// Makes the hash.
pub fn create_map() -> Result<Map> {
    Ok(Map::create(&MapSpec::new(
        MapKind::LRU_HASH,
        "kestrel_names",
        4,
        NAME,
        MAX_THREADS,
    ))?)
}

/// The three programs.
pub fn trackers(types: &Btf) -> Result<Vec<Tracker>> {
    Ok(vec![
        make("sched_process_exec", on_exec())?,
        make("sched_process_fork", on_fork(types)?)?,
        make("task_rename", on_rename(types)?)?,
    ])
}

/// Adds what the programs have kept.
pub fn collect(map: &Map, names: &mut Processes) -> Result<()> {
    for (key, value) in map.entries()? {
        let Some(tid) = key.first_chunk().map(|k| u32::from_ne_bytes(*k)) else {
            continue;
        };
        let text = value.split(|b| *b == 0).next().unwrap_or_default();
        names.insert(tid, text);
    }
    Ok(())
}

/// The newest name that the programs have kept of a thread.
pub fn newest_name(map: &Map, tid: u32) -> Option<Vec<u8>> {
    let value = map.lookup(&tid.to_ne_bytes()).ok()??;
    let text = value.split(|b| *b == 0).next().unwrap_or_default();
    (!text.is_empty()).then(|| text.to_vec())
}

/// The address of a zeroed name on the stack.
fn zeroed_name(b: &mut Builder) -> Vreg {
    let slot = b.slot(NAME, 8);
    let zeroed_name = b.slot_address(slot, 0);
    b.store(Width::B8, zeroed_name, 0, 0);
    b.store(Width::B8, zeroed_name, 8, 0);
    zeroed_name
}

fn store_name(b: &mut Builder, thread: Vreg, name: Vreg) {
    let key = key(b, thread);
    let map = b.external(MAP);
    let map = b.map_pointer(map);
    b.helper(
        helper::MAP_UPDATE_ELEM,
        &[map.into(), key.into(), name.into(), Operand::Imm(0)],
    );
    b.exit(0);
}

fn current_name(b: &mut Builder) -> Vreg {
    let name = zeroed_name(b);
    b.helper(helper::GET_CURRENT_COMM, &[name.into(), NAME.into()]);
    name
}

fn on_exec() -> Builder {
    let mut b = Builder::new();
    let name = current_name(&mut b);
    let thread = b.helper(helper::GET_CURRENT_PID_TGID, &[]);
    store_name(&mut b, thread, name);
    b
}

/// The child's name is the parent's, which is the current task.
fn on_fork(types: &Btf) -> Result<Builder> {
    let pid = member(types, "task_struct", &["pid"])?;
    let mut b = Builder::new();
    let context = b.context();
    let child = b.load(Width::B8, context, 8);
    let name = current_name(&mut b);
    let thread = read(&mut b, Width::B4, child, pid);
    store_name(&mut b, thread, name);
    Ok(b)
}

fn on_rename(types: &Btf) -> Result<Builder> {
    let pid = member(types, "task_struct", &["pid"])?;
    let mut b = Builder::new();
    let context = b.context();
    let task = b.load(Width::B8, context, 0);
    let text = b.load(Width::B8, context, 8);
    let name = zeroed_name(&mut b);
    b.helper(
        helper::PROBE_READ_KERNEL_STR,
        &[name.into(), NAME.into(), text.into()],
    );
    let thread = read(&mut b, Width::B4, task, pid);
    store_name(&mut b, thread, name);
    Ok(b)
}
