//! Answers of helpers where there is a recording in the place of a kernel.

use super::{Machine, Registers};
use crate::decode::Decoded;
use crate::error::Error;
use crate::memory::Outside;
use crate::refusal::KEPT;
use crate::remembering::Found;
use crate::subject::Subject;
use crate::table;
use kestrel_bpf::helper::{self, Helper};
use kestrel_compiler::lang::library::thread_named_at;
use kestrel_trace::layout::Space;

const EFAULT: i64 = -14;

/// Frames that a stack has at most, as in the kernel.
const MAX_FRAMES: usize = 127;
/// Times that a loop is repeated: the kernel ends one that goes on (`BPF_MAX_LOOPS`), and here it is given up.
const MAX_TIMES: u64 = (1 << 23) - 1;

/// Why a helper did not answer.
pub(crate) enum Stopped {
    Outside(Outside),
    /// A map that is none, or a helper that is none.
    Malformed,
    /// In what it called back.
    Inside(Error),
}

impl From<Outside> for Stopped {
    fn from(outside: Outside) -> Self {
        Self::Outside(outside)
    }
}

impl Stopped {
    /// The error, where the call is known.
    pub(crate) fn at(self, at: usize) -> Error {
        match self {
            Self::Outside(Outside(address)) => Error::Outside { at, address },
            Self::Malformed => Error::Malformed { at },
            Self::Inside(error) => error,
        }
    }
}

type Answer = Result<u64, Stopped>;

/// Calls a helper with what the registers hold.
#[inline]
pub(crate) fn call(
    m: &mut Machine,
    helper: Helper,
    code: &Decoded,
    registers: &Registers,
    depth: usize,
    subject: &Subject<'_>,
) -> Answer {
    let [_, r1, r2, r3, r4, ..] = *registers;
    match helper {
        helper::MAP_LOOKUP_ELEM => lookup(m, r1, r2),
        helper::MAP_UPDATE_ELEM => {
            let table = m.tables.get_mut(number(r1)?).ok_or(Stopped::Malformed)?;
            Ok(table.update(&mut m.memory, r2, r3, r4)?.cast_unsigned())
        }
        helper::MAP_DELETE_ELEM => {
            let table = m.tables.get_mut(number(r1)?).ok_or(Stopped::Malformed)?;
            Ok(table.delete(&m.memory, r2)?.cast_unsigned())
        }
        // One processor runs all programs: it has everything.
        helper::MAP_LOOKUP_PERCPU_ELEM if r3 as u32 == 0 => lookup(m, r1, r2),
        helper::MAP_LOOKUP_PERCPU_ELEM => Ok(0),
        helper::KTIME_GET_NS => Ok(subject.time_ns),
        helper::GET_SMP_PROCESSOR_ID => Ok(subject.cpu().into()),
        helper::GET_CURRENT_PID_TGID => Ok(subject.pid_tgid()),
        helper::GET_PRANDOM_U32 => Ok(random(m)),
        helper::GET_CURRENT_COMM => comm(m, r1, r2, subject),
        helper::PROBE_READ | helper::PROBE_READ_KERNEL | helper::PROBE_READ_USER => {
            read(m, helper, (r1, r2, r3), subject)
        }
        helper::PROBE_READ_STR | helper::PROBE_READ_KERNEL_STR | helper::PROBE_READ_USER_STR => {
            read_text(m, helper, (r1, r2, r3), subject)
        }
        helper::GET_STACK => stack(m, r2, r3, r4, subject),
        helper::GET_STACKID => stack_number(m, r2, r3, subject),
        helper::FOR_EACH_MAP_ELEM => for_each(m, (r1, r2, r3), code, depth, subject),
        helper::LOOP => repeat(m, (r1, r2, r3), code, depth, subject),
        helper::GET_CURRENT_UID_GID => {
            let half = |name| u64::from(subject.field(name) as u32);
            Ok(half("gid") << 32 | half("uid"))
        }
        kept => match KEPT.iter().find(|(helper, _)| *helper == kept) {
            Some((_, name)) => Ok(subject.field(name)),
            None => Err(Stopped::Malformed),
        },
    }
}

fn number(handle: u64) -> Result<usize, Stopped> {
    table::number(handle).ok_or(Stopped::Malformed)
}

#[inline]
fn lookup(m: &Machine, map: u64, key: u64) -> Answer {
    let table = m.tables.get(number(map)?).ok_or(Stopped::Malformed)?;
    Ok(table.find(&m.memory, key)?.unwrap_or(0))
}

/// The next pseudo-random number (xorshift).
fn random(m: &mut Machine) -> u64 {
    let mut x = m.random | 1 << 63;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    m.random = x;
    u64::from((x >> 16) as u32)
}

fn comm(m: &mut Machine, to: u64, size: u64, subject: &Subject<'_>) -> Answer {
    let size = (size as usize).min(16);
    let mut comm = subject.comm();
    if let Some(last) = comm.get_mut(size.saturating_sub(1)) {
        *last = 0;
    }
    let place = m.memory.bytes_mut(to, size)?;
    for (to, byte) in place.iter_mut().zip(comm) {
        *to = byte;
    }
    Ok(0)
}

/// Reads the program's own memory, or what was recorded: of that, where it is not all that is asked for, gives how many bytes there are
/// ([`kestrel_compiler::context::Features::counted_reads`]).
fn read(m: &mut Machine, helper: Helper, (to, size, from): (u64, u64, u64), subject: &Subject<'_>) -> Answer {
    let size = size as u32 as usize;
    let is_own = m.memory.is_own(from);
    if is_own && m.memory.bytes(from, size).is_ok() {
        m.memory.copy(from, to, size)?;
        return Ok(0);
    }
    let place = m.memory.bytes_mut(to, size)?;
    let found = match &mut m.remembering {
        // Behind the end of its own memory nothing was ever recorded.
        Some(known) if !is_own => known.read(helper, subject.pid(), from, place),
        _ => Found::Nothing,
    };
    let (there, answer) = match found {
        Found::Whole => (size, 0),
        Found::Part(there) => (there, there as u64),
        Found::Nothing => (0, EFAULT.cast_unsigned()),
    };
    place.iter_mut().skip(there).for_each(|byte| *byte = 0);
    Ok(answer)
}

fn read_text(
    m: &mut Machine,
    helper: Helper,
    (to, size, from): (u64, u64, u64),
    subject: &Subject<'_>,
) -> Answer {
    let size = size as u32 as usize;
    let there = m.memory.from(from);
    if size == 0 {
        return Ok(0);
    }
    if let Some(thread) = thread_named_at(from) {
        return name_of_thread(m, thread, (to, size), subject);
    }
    if there.is_empty() && m.memory.is_own(from) {
        m.memory.bytes_mut(to, size)?.fill(0);
        return Ok(EFAULT.cast_unsigned());
    }
    if there.is_empty() {
        return recorded_text(m, helper, (to, size, from), subject);
    }
    let end = there.iter().take(size - 1).position(|byte| *byte == 0);
    let length = end.unwrap_or((size - 1).min(there.len()));
    m.memory.copy(from, to, length)?;
    m.memory.store(to + length as u64, [0])?;
    Ok(length as u64 + 1)
}

/// The name that the recording knows for a thread: empty where it knows none.
fn name_of_thread(m: &mut Machine, thread: u32, (to, size): (u64, usize), subject: &Subject<'_>) -> Answer {
    let place = m.memory.bytes_mut(to, size)?;
    place.fill(0);
    let name = subject.name_of(thread).unwrap_or_default();
    let length = name.len().min(size - 1);
    for (to, byte) in place.iter_mut().zip(name.iter().take(length)) {
        *to = *byte;
    }
    Ok(length as u64 + 1)
}

/// Reads a text that was recorded.
fn recorded_text(
    m: &mut Machine,
    helper: Helper,
    (to, size, from): (u64, usize, u64),
    subject: &Subject<'_>,
) -> Answer {
    let place = m.memory.bytes_mut(to, size)?;
    let found = match (&mut m.remembering, place.split_last_mut()) {
        (Some(known), Some((_, text))) => known.text(helper, subject.pid(), from, text),
        _ => Found::Nothing,
    };
    let length = match found {
        Found::Whole => size - 1,
        Found::Part(length) => length,
        Found::Nothing => {
            place.fill(0);
            return Ok(EFAULT.cast_unsigned());
        }
    };
    place.iter_mut().skip(length).for_each(|byte| *byte = 0);
    Ok(length as u64 + 1)
}

/// The frames that flags ask for: those of a process where bit 8 is set, without as many of the first as the low byte says.
fn frames(flags: u64, most: usize, subject: &Subject<'_>) -> Option<Vec<u8>> {
    const USER: u64 = 1 << 8;
    let space = match flags & USER {
        0 => Space::Kernel,
        _ => Space::User,
    };
    let frames = subject.frames(space)?.skip((flags & 0xff) as usize).take(most);
    Some(frames.flat_map(u64::to_le_bytes).collect())
}

fn stack(m: &mut Machine, to: u64, size: u64, flags: u64, subject: &Subject<'_>) -> Answer {
    let found = frames(flags, size as usize / 8, subject);
    let place = m.memory.bytes_mut(to, size as usize)?;
    place.fill(0);
    let Some(found) = found else {
        return Ok(EFAULT.cast_unsigned());
    };
    for (to, byte) in place.iter_mut().zip(&found) {
        *to = *byte;
    }
    Ok(found.len() as u64)
}

fn stack_number(m: &mut Machine, map: u64, flags: u64, subject: &Subject<'_>) -> Answer {
    let table = m.tables.get_mut(number(map)?).ok_or(Stopped::Malformed)?;
    let Some(mut found) = frames(flags, (table.key_size / 8).min(MAX_FRAMES), subject) else {
        return Ok(EFAULT.cast_unsigned());
    };
    found.resize(table.key_size, 0);
    let number = table.intern(&mut m.memory, &found);
    Ok(number.map_or(table::EEXIST.cast_unsigned(), u64::from))
}

fn for_each(
    m: &mut Machine,
    (map, function, context): (u64, u64, u64),
    code: &Decoded,
    depth: usize,
    subject: &Subject<'_>,
) -> Answer {
    let number = number(map)?;
    let places = m.tables.get(number).ok_or(Stopped::Malformed)?.places();
    let mut done = 0;
    for place in 0..places {
        let Some((key, value)) = m.tables.get(number).and_then(|table| table.element(place)) else {
            continue;
        };
        let mut registers = [0; 16];
        (registers[1], registers[2], registers[3], registers[4]) = (map, key, value, context);
        done += 1;
        let answer = m.frame(code, function as usize, registers, depth + 1, subject);
        if answer.map_err(Stopped::Inside)? != 0 {
            break;
        }
    }
    Ok(done)
}

fn repeat(
    m: &mut Machine,
    (count, function, context): (u64, u64, u64),
    code: &Decoded,
    depth: usize,
    subject: &Subject<'_>,
) -> Answer {
    let mut done = 0;
    while done < count as u32 as u64 {
        let mut registers = [0; 16];
        (registers[1], registers[2]) = (done, context);
        if done >= MAX_TIMES {
            return Err(Stopped::Inside(Error::Endless(done)));
        }
        done += 1;
        let answer = m.frame(code, function as usize, registers, depth + 1, subject);
        if answer.map_err(Stopped::Inside)? != 0 {
            break;
        }
    }
    Ok(done)
}
