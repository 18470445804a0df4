//! The interpreter's own implementations of BPF helpers and kernel functions, each a small function in one table.

use super::Machine;
use super::fault::Reason;
use super::map::MapKind;
use super::memory::{Access, Space};
use crate::helper::{self, Helper};
use std::collections::HashMap;
use std::rc::Rc;

/// r1 to r5 as a helper finds them; those it does not take may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments(pub [u64; 5]);

pub(super) type HelperFn = Rc<dyn Fn(&mut Machine, Arguments) -> Result<u64, Reason>>;
pub(super) type KfuncFn = HelperFn;
type Body = fn(&mut Machine, Arguments) -> Result<u64, Reason>;

const EFAULT: i64 = -14;
const EEXIST: i64 = -17;
const EINVAL: i64 = -22;

/// The helpers that a machine has from the start.
const HELPERS: &[(Helper, Body)] = &[
    (helper::MAP_LOOKUP_ELEM, map_lookup),
    (helper::MAP_UPDATE_ELEM, map_update),
    (helper::MAP_DELETE_ELEM, map_delete),
    (helper::MAP_LOOKUP_PERCPU_ELEM, map_lookup_percpu),
    (helper::KTIME_GET_NS, |m, _| Ok(m.environment.tick())),
    (helper::JIFFIES64, |m, _| Ok(m.environment.tick())),
    (helper::KTIME_GET_BOOT_NS, |m, _| Ok(m.environment.tick())),
    (helper::KTIME_GET_TAI_NS, |m, _| Ok(m.environment.tick())),
    (helper::KTIME_GET_COARSE_NS, |m, _| Ok(m.environment.clock)),
    (helper::GET_PRANDOM_U32, |m, _| {
        Ok(m.environment.next_random().into())
    }),
    (helper::GET_SMP_PROCESSOR_ID, |m, _| Ok(m.environment.cpu.into())),
    (helper::GET_NUMA_NODE_ID, |_, _| Ok(0)),
    (helper::GET_CURRENT_PID_TGID, |m, _| {
        Ok(pair(m.environment.pid, m.environment.tid))
    }),
    (helper::GET_CURRENT_UID_GID, |m, _| {
        Ok(pair(m.environment.gid, m.environment.uid))
    }),
    (helper::GET_CURRENT_COMM, current_comm),
    (helper::GET_CURRENT_TASK, |m, _| Ok(m.environment.task)),
    (helper::GET_CURRENT_TASK_BTF, |m, _| Ok(m.environment.task)),
    (helper::TASK_PT_REGS, |m, _| Ok(m.environment.pt_regs)),
    (helper::GET_CURRENT_CGROUP_ID, |m, _| Ok(m.environment.cgroup)),
    (helper::GET_ATTACH_COOKIE, |m, _| Ok(m.environment.cookie)),
    (helper::GET_FUNC_IP, |m, _| Ok(m.environment.function)),
    (helper::PROBE_READ, |m, a| {
        probe_read(m, a, &[Space::Kernel, Space::User])
    }),
    (helper::PROBE_READ_KERNEL, |m, a| {
        probe_read(m, a, &[Space::Kernel])
    }),
    (helper::PROBE_READ_USER, |m, a| probe_read(m, a, &[Space::User])),
    (helper::COPY_FROM_USER, |m, a| probe_read(m, a, &[Space::User])),
    (helper::PROBE_READ_STR, |m, a| {
        probe_read_str(m, a, &[Space::Kernel, Space::User])
    }),
    (helper::PROBE_READ_KERNEL_STR, |m, a| {
        probe_read_str(m, a, &[Space::Kernel])
    }),
    (helper::PROBE_READ_USER_STR, |m, a| {
        probe_read_str(m, a, &[Space::User])
    }),
    (helper::GET_STACK, get_stack),
    (helper::GET_STACKID, get_stackid),
    (
        helper::PERF_EVENT_OUTPUT,
        |m, Arguments([_, map, _, data, size])| output(m, map, data, size),
    ),
    (helper::RINGBUF_OUTPUT, |m, Arguments([map, data, size, ..])| {
        output(m, map, data, size)
    }),
    (helper::TRACE_PRINTK, trace_printk),
    (helper::SEND_SIGNAL, |m, Arguments([signal, ..])| {
        m.environment.signals.push(signal as u32);
        Ok(0)
    }),
    (helper::STRNCMP, strncmp),
];

pub(super) fn default_helpers() -> HashMap<Helper, HelperFn> {
    HELPERS
        .iter()
        .map(|(helper, body)| (*helper, Rc::new(*body) as HelperFn))
        .collect()
}

/// The kernel functions that a machine has from the start, by name.
pub(super) fn default_kfuncs() -> HashMap<String, KfuncFn> {
    let off: Body = |m, _| {
        m.preempt_depth += 1;
        m.preempt_pairs += 1;
        Ok(0)
    };
    let on: Body = |m, _| {
        m.preempt_depth = m.preempt_depth.checked_sub(1).ok_or(Reason::PreemptionOn)?;
        Ok(0)
    };
    let save: Body = |m, Arguments([flags, ..])| {
        m.write_program_memory(flags, &m.interrupts_off.to_ne_bytes())?;
        m.interrupts_off += 1;
        Ok(0)
    };
    let restore: Body = |m, Arguments([flags, ..])| {
        let saved = m.read_program_memory(flags, 8)?;
        m.interrupts_off = m.interrupts_off.wrapping_sub(1);
        match saved == m.interrupts_off.to_ne_bytes() {
            true => Ok(0),
            false => Err(Reason::InterruptsOn),
        }
    };
    let table: [(&str, Body); 4] = [
        ("bpf_preempt_disable", off),
        ("bpf_preempt_enable", on),
        ("bpf_local_irq_save", save),
        ("bpf_local_irq_restore", restore),
    ];
    table
        .into_iter()
        .map(|(name, body)| (name.to_owned(), Rc::new(body) as KfuncFn))
        .collect()
}

impl Machine {
    /// Bytes that a program hands to a helper: it must be able to read them itself.
    pub fn read_program_memory(&self, address: u64, size: u64) -> Result<Vec<u8>, Reason> {
        self.memory.check(address, size, Access::Read, false)?;
        Ok(self.memory.slice(address, size)?.to_vec())
    }

    /// Bytes that a helper gives a program, into memory that the program may write.
    pub(crate) fn write_program_memory(&mut self, address: u64, bytes: &[u8]) -> Result<(), Reason> {
        self.memory
            .check(address, bytes.len() as u64, Access::Write, false)?;
        self.memory.fill(address, bytes)
    }
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn map_lookup(m: &mut Machine, Arguments([map, key, ..]): Arguments) -> Result<u64, Reason> {
    lookup(m, map, key, m.environment.cpu)
}

fn map_lookup_percpu(m: &mut Machine, Arguments([map, key, cpu, ..]): Arguments) -> Result<u64, Reason> {
    lookup(m, map, key, cpu as u32)
}

fn lookup(m: &mut Machine, map: u64, key: u64, cpu: u32) -> Result<u64, Reason> {
    let key_size = m.map_of(map)?.0.key_size;
    let key = m.read_program_memory(key, key_size.into())?;
    let (map, memory) = m.map_of(map)?;
    Ok(map.find(memory, &key, cpu).unwrap_or(0))
}

fn map_update(m: &mut Machine, Arguments([map, key, value, flags, _]): Arguments) -> Result<u64, Reason> {
    let sizes = m.map_of(map).map(|(map, _)| (map.key_size, map.value_size))?;
    let (key, value) = (
        m.read_program_memory(key, sizes.0.into())?,
        m.read_program_memory(value, sizes.1.into())?,
    );
    let cpu = m.environment.cpu;
    let (map, memory) = m.map_of(map)?;
    Ok(map.update(memory, &key, &value, flags, cpu) as u64)
}

fn map_delete(m: &mut Machine, Arguments([map, key, ..]): Arguments) -> Result<u64, Reason> {
    let key_size = m.map_of(map)?.0.key_size;
    let key = m.read_program_memory(key, key_size.into())?;
    Ok(m.map_of(map)?.0.delete(&key) as u64)
}

fn current_comm(m: &mut Machine, Arguments([to, size, ..]): Arguments) -> Result<u64, Reason> {
    let mut bytes = m.environment.comm.clone().into_bytes();
    bytes.truncate((size as usize).saturating_sub(1));
    // Kernels whose helper uses strscpy() without padding (from 2022 until the fix of April 2023) copy words up to the one with the NUL and leave the rest of
    // the buffer as it was: 0xaa stands for what may be there.
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(8).min(size as usize), 0);
    bytes.resize(size as usize, 0xaa);
    m.write_program_memory(to, &bytes).map(|()| 0)
}

/// Bytes that a probe read finds at `address` if it may read these kinds of memory. The program's own memory counts as kernel memory.
fn probe(m: &Machine, address: u64, size: u64, spaces: &[Space]) -> Option<Vec<u8>> {
    let own = |space| spaces.contains(&Space::Kernel) && space != Space::User;
    let readable = m
        .memory
        .space(address)
        .is_some_and(|space| spaces.contains(&space) || own(space));
    let bytes = m.memory.slice(address, size).ok().filter(|_| readable)?;
    Some(bytes.to_vec())
}

fn probe_read(
    m: &mut Machine,
    Arguments([to, size, from, ..]): Arguments,
    spaces: &[Space],
) -> Result<u64, Reason> {
    let size = size & 0xffff_ffff;
    m.memory.check(to, size, Access::Write, false)?;
    let found = probe(m, from, size, spaces);
    let failed = found.is_none() && size > 0;
    m.write_program_memory(to, &found.unwrap_or_else(|| vec![0; size as usize]))?;
    Ok(if failed { EFAULT as u64 } else { 0 })
}

fn probe_read_str(
    m: &mut Machine,
    Arguments([to, size, from, ..]): Arguments,
    spaces: &[Space],
) -> Result<u64, Reason> {
    let size = size & 0xffff_ffff;
    m.memory.check(to, size, Access::Write, false)?;
    let mut text = Vec::new();
    while (text.len() as u64) < size {
        match probe(m, from.wrapping_add(text.len() as u64), 1, spaces).and_then(|b| b.first().copied()) {
            None => {
                m.write_program_memory(to, &vec![0; size as usize])?;
                return Ok(EFAULT as u64);
            }
            Some(0) => break,
            Some(byte) => text.push(byte),
        }
    }
    text.truncate((size as usize).saturating_sub(1));
    if size > 0 {
        text.push(0);
    }
    m.write_program_memory(to, &text)?;
    Ok(text.len() as u64)
}

/// The stack frames that the flags of `bpf_get_stack` ask for, as bytes.
fn frames(m: &Machine, flags: u64) -> Vec<u8> {
    const USER: u64 = 1 << 8;
    let stack = if flags & USER != 0 {
        &m.environment.user_stack
    } else {
        &m.environment.kernel_stack
    };
    stack
        .iter()
        .skip((flags & 0xff) as usize)
        .flat_map(|ip| ip.to_le_bytes())
        .collect()
}

fn get_stack(m: &mut Machine, Arguments([_, to, size, flags, _]): Arguments) -> Result<u64, Reason> {
    m.memory.check(to, size, Access::Write, false)?;
    let mut bytes = frames(m, flags);
    if !size.is_multiple_of(8) {
        m.write_program_memory(to, &vec![0; size as usize])?;
        return Ok(EINVAL as u64);
    }
    bytes.truncate(size as usize);
    let length = bytes.len();
    // The kernel clears what it does not fill.
    bytes.resize(size as usize, 0);
    m.write_program_memory(to, &bytes)?;
    Ok(length as u64)
}

fn get_stackid(m: &mut Machine, Arguments([_, map, flags, ..]): Arguments) -> Result<u64, Reason> {
    const REUSE: u64 = 1 << 10;
    let bytes = frames(m, flags);
    let sum = bytes
        .chunks(8)
        .flatten()
        .fold(7_u32, |hash, b| hash.wrapping_mul(31).wrapping_add((*b).into()));
    let handle = map;
    let (map, memory) = m.map_of(handle)?;
    let MapKind::StackTrace { entries } = map.kind else {
        return Err(Reason::NotAMap { value: handle });
    };
    let id = sum % entries.max(1);
    let mut value = bytes;
    value.resize(map.value_size as usize, 0);
    let key = (id.to_le_bytes().to_vec(), 0);
    if let Some(address) = map.values.get(&key).copied() {
        let same = memory.slice(address, value.len() as u64)? == value;
        if !same && flags & REUSE == 0 {
            return Ok(EEXIST as u64);
        }
        memory.fill(address, &value)?;
    } else {
        let address = memory.allocate(Space::Value, value.len() as u64);
        memory.fill(address, &value)?;
        map.values.insert(key, address);
    }
    Ok(id.into())
}

fn output(m: &mut Machine, map: u64, data: u64, size: u64) -> Result<u64, Reason> {
    let bytes = m.read_program_memory(data, size)?;
    let (found, _) = m.map_of(map)?;
    if found.kind != MapKind::RingBuffer {
        return Err(Reason::NotAMap { value: map });
    }
    found.events.push(bytes);
    Ok(0)
}

fn trace_printk(m: &mut Machine, Arguments([format, size, ..]): Arguments) -> Result<u64, Reason> {
    let bytes = m.read_program_memory(format, size)?;
    let text: Vec<u8> = bytes.into_iter().take_while(|byte| *byte != 0).collect();
    m.environment
        .printed
        .push(String::from_utf8_lossy(&text).into_owned());
    Ok(text.len() as u64)
}

fn strncmp(m: &mut Machine, Arguments([a, size, b, ..]): Arguments) -> Result<u64, Reason> {
    let first = m.read_program_memory(a, size)?;
    for (at, x) in first.into_iter().enumerate() {
        let y = m
            .memory
            .slice(b.wrapping_add(at as u64), 1)?
            .first()
            .copied()
            .unwrap_or(0);
        match x.cmp(&y) {
            std::cmp::Ordering::Less => return Ok(-1_i64 as u64),
            std::cmp::Ordering::Greater => return Ok(1),
            std::cmp::Ordering::Equal if x == 0 => break,
            std::cmp::Ordering::Equal => {}
        }
    }
    Ok(0)
}
