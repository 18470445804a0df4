//! A miniature kernel: types, one tracepoint, one function and two tasks, as files of a tree and bytes of memory.

use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel_bpf::btf::write::{Builder, Placed};
use kestrel_bpf::interp::{Machine, Space};
use std::path::Path;

pub const PREV: u64 = 0xffff_8880_0001_0000;
pub const NEXT: u64 = 0xffff_8880_0002_0000;
pub const USER: u64 = 0x7f00_0000_1000;

/// The format of Linux 6.18, shortened behind what is read.
const SCHED_SWITCH: &str = "name: sched_switch
ID: 372
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;

print fmt: \"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d\", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", { 0x00000001, \"S\" }, { 0x00000002, \"D\" }) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio
";

/// Byte offsets in the miniature `task_struct`.
mod task {
    pub const STATE: usize = 24;
    pub const PRIO: usize = 108;
    pub const PID: usize = 1200;
    pub const EXIT_STATE: usize = 1208;
    pub const COMM: usize = 1800;
    pub const SIZE: usize = 2048;
}

fn types() -> Vec<u8> {
    let mut b = Builder::new();
    let int = b.int("int", 4);
    let unsigned = b.unsigned("unsigned int", 4);
    let long = b.int("long", 8);
    let size = b.unsigned("unsigned long", 8);
    let boolean = b.boolean();
    let character = b.character();
    let comm = b.array(character, 16);
    let place = |name, ty, offset: usize| Placed {
        name,
        ty,
        bit_offset: offset as u32 * 8,
        bits: None,
    };
    let members = [
        place("__state", unsigned, task::STATE),
        place("prio", int, task::PRIO),
        place("pid", int, task::PID),
        place("exit_state", int, task::EXIT_STATE),
        place("comm", comm, task::COMM),
    ];
    let task = b.struct_at_offsets("task_struct", task::SIZE as u32, &members);
    let task = b.pointer(task);
    let void = b.pointer(kestrel_bpf::btf::TypeId::VOID);
    let parameters = [
        ("__data", void),
        ("preempt", boolean),
        ("prev", task),
        ("next", task),
        ("prev_state", unsigned),
    ];
    b.function("__traceiter_sched_switch", int, &parameters);
    let unnamed = parameters.map(|(_, ty)| ("", ty));
    let proto = b.func_proto(kestrel_bpf::btf::TypeId::VOID, &unnamed);
    let pointer = b.pointer(proto);
    b.typedef("btf_trace_sched_switch", pointer);
    let super_block = b.structure("super_block", &[("s_dev", unsigned)]);
    let super_block = b.pointer(super_block);
    let inode = b.structure("inode", &[("i_ino", size), ("i_sb", super_block)]);
    let inode = b.pointer(inode);
    let file = b.structure("file", &[("f_inode", inode), ("f_flags", unsigned)]);
    let file = b.pointer(file);
    let position = b.pointer(long);
    let text = b.pointer(character);
    b.function(
        "write_null",
        long,
        &[("file", file), ("buf", text), ("count", size), ("ppos", position)],
    );
    b.enumeration(
        "iter_type",
        4,
        &[("ITER_UBUF", 0), ("ITER_IOVEC", 1), ("ITER_BVEC", 2)],
    );
    let part = b.structure("iovec", &[("iov_base", void), ("iov_len", size)]);
    let part = b.pointer(part);
    let either = b.union("", &[("__iov", part), ("ubuf", void)]);
    let vector = [
        ("iter_type", size),
        ("", either),
        ("count", size),
        ("nr_segs", size),
    ];
    let vector = b.structure("iov_iter", &vector);
    let vector = b.pointer(vector);
    let request = b.structure("kiocb", &[("ki_filp", file), ("ki_pos", long)]);
    let request = b.pointer(request);
    b.function("write_iter_null", long, &[("iocb", request), ("from", vector)]);
    let buffer = b.pointer(character);
    b.function(
        "vfs_read",
        long,
        &[("file", file), ("buf", buffer), ("count", size)],
    );
    b.finish()
}

/// Lays out the tree.
pub fn build(root: &Path) -> Catalog {
    let put = |path: &str, bytes: &[u8]| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let tracing = "sys/kernel/tracing";
    put(
        &format!("{tracing}/events/sched/sched_switch/format"),
        SCHED_SWITCH.as_bytes(),
    );
    put(&format!("{tracing}/events/sched/sched_switch/id"), b"372\n");
    put(&format!("{tracing}/available_events"), b"sched:sched_switch\n");
    put(
        &format!("{tracing}/available_filter_functions"),
        b"vfs_read\nwrite_null\nwrite_iter_null\n",
    );
    put("sys/bus/event_source/devices/kprobe/type", b"8\n");
    put("sys/kernel/btf/vmlinux", &types());
    Catalog::new(Host::new(root))
}

fn put_task(machine: &mut Machine, at: u64, pid: u32, prio: u32, comm: &str) {
    let mut bytes = vec![0; task::SIZE];
    for (offset, value) in [(task::STATE, 1), (task::PRIO, prio), (task::PID, pid)] {
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
    bytes[task::COMM..task::COMM + comm.len()].copy_from_slice(comm.as_bytes());
    machine.add_memory(Space::Kernel, at, &bytes);
}

/// Fills memory with the two tasks and something in the process's memory.
pub fn fill(machine: &mut Machine) {
    put_task(machine, PREV, 42, 120, "prev task");
    put_task(machine, NEXT, 77, 98, "next/0");
    machine.add_memory(Space::User, USER, b"hello, user\0garbage");
}

/// A context of `u64` words: a raw tracepoint's arguments, or `struct pt_regs`.
pub fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The formatted entry of a switch.
pub fn switch_entry(prev: (&str, i32, i32), state: i64, next: (&str, i32, i32)) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &372u16.to_le_bytes());
    put(8, prev.0.as_bytes());
    put(24, &prev.1.to_le_bytes());
    put(28, &prev.2.to_le_bytes());
    put(32, &state.to_le_bytes());
    put(40, next.0.as_bytes());
    put(56, &next.1.to_le_bytes());
    put(60, &next.2.to_le_bytes());
    bytes
}
