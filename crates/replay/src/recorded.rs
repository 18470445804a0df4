//! Recorded memory: what records hold of the memory of processes and of the kernel, by process and address; the newest contents count.
//!
//! ```text
//!   line   64 bytes from an address that is a multiple of 64, and which of them are known
//! ```
//!
//! A process's memory is that of one program: [`RecordedMemory::renew`] begins another at an exec, and where a process ends, whose number others get.
//!
//! There are [`MOST_LINES`] lines at most (8 MiB of contents): behind that, those make room that were neither written nor read for longest, roughly (second
//! chance).

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Bytes of a line.
const LINE: u64 = 64;
/// Lines that are kept.
pub(crate) const MAX_LINES: usize = 1 << 17;
/// Processes whose programs are counted: with more, lines of former programs are looked for and dropped. More than lines.
const MAX_PROGRAMS: usize = 2 * MAX_LINES;
/// The number of a line that makes room: no address has it.
const NO_LINE: u64 = u64::MAX;

/// Memory of processes and of the kernel.
#[derive(Debug, Default)]
pub(crate) struct RecordedMemory {
    /// By owner and address: the line's place.
    places: HashMap<(Owner, u64), u32, RandomState>,
    /// Number of programs that a process had before its own.
    programs: HashMap<u32, u32, RandomState>,
    lines: Vec<Line>,
    /// The line that is asked next whether it makes room.
    hand: usize,
}

#[derive(Debug)]
struct Line {
    owner: Owner,
    /// Number of the block: its address over 64.
    number: u64,
    /// A bit for each byte that is known.
    known: u64,
    /// Whether it was written again or read since it was last asked to make room.
    used: bool,
    bytes: [u8; LINE as usize],
}

/// The process that memory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owner {
    process: u32,
    /// Number of programs that the process had before this one.
    program: u32,
}

/// The kernel, whose addresses are the same in all processes.
const KERNEL: Owner = Owner {
    process: 0,
    program: 0,
};

/// Whether an address is the kernel's.
pub(crate) fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// The bits of `count` bytes from one within a line on.
fn bits(within: usize, count: usize) -> u64 {
    let all = if count >= LINE as usize {
        u64::MAX
    } else {
        (1 << count) - 1
    };
    all << within
}

/// The parts of `length` bytes at an address that lie in one line each: the line's number, where in it, where in the bytes, how many.
fn parts(address: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        // No memory goes on at 0.
        let at = address.checked_add(done as u64)?;
        let within = (at % LINE) as usize;
        let count = (length - done).min(LINE as usize - within);
        let part = (at / LINE, within, done, count);
        done += count;
        Some(part)
    })
}

impl RecordedMemory {
    fn owner(&self, process: u32, address: u64) -> Owner {
        if is_kernel(address) {
            return KERNEL;
        }
        Owner {
            process,
            program: self.programs.get(&process).copied().unwrap_or(0),
        }
    }

    /// Forgets all of a process's memory: what it has now is another program's.
    pub(crate) fn renew(&mut self, process: u32) {
        if self.programs.len() >= MAX_PROGRAMS && !self.programs.contains_key(&process) {
            self.drop_former();
        }
        let program = self.programs.entry(process).or_default();
        *program = program.wrapping_add(1);
    }

    /// Drops the lines of former programs, and the numbers of processes that have no line.
    fn drop_former(&mut self) {
        let mut kept = HashMap::default();
        for line in &mut self.lines {
            let program = self.programs.get(&line.owner.process).copied();
            if line.owner == KERNEL || line.number == NO_LINE {
                continue;
            }
            if line.owner.program == program.unwrap_or(0) {
                kept.extend(program.map(|program| (line.owner.process, program)));
            } else {
                self.places.remove(&(line.owner, line.number));
                line.number = NO_LINE;
                line.used = false;
            }
        }
        self.programs = kept;
    }

    /// Keeps bytes that lay at an address of a process.
    pub(crate) fn write(&mut self, process: u32, address: u64, bytes: &[u8]) {
        let owner = self.owner(process, address);
        for (number, within, from, count) in parts(address, bytes.len()) {
            let line = self.line(owner, number);
            line.known |= bits(within, count);
            if let (Some(to), Some(bytes)) = (
                line.bytes.get_mut(within..within + count),
                bytes.get(from..from + count),
            ) {
                to.copy_from_slice(bytes);
            }
        }
    }

    /// Forgets so many bytes from an address on: they could not be read, or are others now.
    pub(crate) fn forget(&mut self, process: u32, address: u64, length: usize) {
        let owner = self.owner(process, address);
        for (number, within, _, count) in parts(address, length) {
            let place = self.places.get(&(owner, number));
            if let Some(line) = place.and_then(|place| self.lines.get_mut(*place as usize)) {
                line.known &= !bits(within, count);
            }
        }
    }

    /// Reads what is known from an address on, up to the first byte that is not; gives how many bytes that are.
    pub(crate) fn read(&mut self, process: u32, address: u64, into: &mut [u8]) -> usize {
        let owner = self.owner(process, address);
        let mut done = 0;
        for (number, within, from, count) in parts(address, into.len()) {
            let known = self.known(owner, number, within);
            let taken = known.len().min(count);
            if let (Some(to), Some(bytes)) = (into.get_mut(from..from + taken), known.get(..taken)) {
                to.copy_from_slice(bytes);
            }
            done += taken;
            if taken < count {
                break;
            }
        }
        done
    }

    /// Bytes of a line from one on that are known.
    fn known(&mut self, owner: Owner, number: u64, within: usize) -> &[u8] {
        let place = self.places.get(&(owner, number)).copied();
        match place.and_then(|place| self.lines.get_mut(place as usize)) {
            Some(line) => {
                line.used = true;
                let count = (line.known >> within).trailing_ones() as usize;
                line.bytes.get(within..within + count).unwrap_or_default()
            }
            None => &[],
        }
    }

    /// The line of a number, with nothing known where it is new.
    fn line(&mut self, owner: Owner, number: u64) -> &mut Line {
        let place = match self.places.get(&(owner, number)) {
            Some(place) => {
                let place = *place as usize;
                self.lines[place].used = true;
                place
            }
            None => self.add(owner, number),
        };
        &mut self.lines[place]
    }

    fn add(&mut self, owner: Owner, number: u64) -> usize {
        let new = Line {
            owner,
            number,
            known: 0,
            used: false,
            bytes: [0; LINE as usize],
        };
        let place = if self.lines.len() < MAX_LINES {
            self.lines.push(new);
            self.lines.len() - 1
        } else {
            let place = self.unused();
            let old = std::mem::replace(&mut self.lines[place], new);
            self.places.remove(&(old.owner, old.number));
            place
        };
        self.places.insert((owner, number), place as u32);
        place
    }

    /// The place of a line that makes room.
    fn unused(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.lines.len();
            if !std::mem::take(&mut self.lines[place].used) {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(memory: &mut RecordedMemory, process: u32, address: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; count];
        let known = memory.read(process, address, &mut bytes);
        bytes.truncate(known);
        bytes
    }

    #[test]
    fn the_newest_contents_of_each_byte_count() {
        let mut memory = RecordedMemory::default();
        let long: Vec<u8> = (0..200).collect();
        memory.write(7, 0x1030, &long);
        memory.write(7, 0x1040, b"new");
        assert_eq!(
            read(&mut memory, 7, 0x103e, 8),
            [14, 15, b'n', b'e', b'w', 19, 20, 21]
        );
        assert_eq!(read(&mut memory, 7, 0x1030 + 190, 64), long[190..]);
        // Before it, and of another process, nothing is known.
        assert_eq!(read(&mut memory, 7, 0x102f, 4), [0; 0]);
        assert_eq!(read(&mut memory, 8, 0x1030, 4), [0; 0]);
        memory.forget(7, 0x1040, 1);
        assert_eq!(read(&mut memory, 7, 0x103e, 8), [14, 15]);
        // The kernel's memory is that of all processes.
        memory.write(7, u64::MAX - 3, b"abcd");
        assert_eq!(read(&mut memory, 8, u64::MAX - 3, 9), b"abcd");
    }

    #[test]
    fn forgotten_memory_may_span_several_lines() {
        let mut memory = RecordedMemory::default();
        memory.write(7, 0x1000, &[1; 300]);
        memory.forget(7, 0x103e, 140);
        assert_eq!(read(&mut memory, 7, 0x1000, 300).len(), 0x3e);
        assert_eq!(read(&mut memory, 7, 0x103e + 139, 4), [0; 0]);
        assert_eq!(read(&mut memory, 7, 0x103e + 140, 300).len(), 300 - 0x3e - 140);
        // Unknown memory is forgotten, too.
        memory.forget(8, u64::MAX - 3, 100);
    }

    #[test]
    fn memory_is_that_of_one_program() {
        let mut memory = RecordedMemory::default();
        memory.write(7, 0x1000, b"old");
        memory.write(8, 0x1000, b"other");
        memory.write(7, 1 << 63, b"kernel");
        memory.renew(7);
        assert_eq!(read(&mut memory, 7, 0x1000, 3), [0; 0]);
        memory.write(7, 0x1000, b"new");
        // Numbers of so many processes are not kept, and nothing of the former program comes back.
        for process in 10..10 + 2 * MAX_PROGRAMS as u32 {
            memory.renew(process);
        }
        assert!(memory.programs.len() <= MAX_PROGRAMS);
        assert_eq!(read(&mut memory, 7, 0x1000, 4), b"new");
        assert_eq!(read(&mut memory, 8, 0x1000, 5), b"other");
        assert_eq!(read(&mut memory, 9, 1 << 63, 6), b"kernel");
        assert_eq!(memory.places.len(), 3);
    }

    #[test]
    fn there_are_no_more_lines_than_are_kept() {
        let mut memory = RecordedMemory::default();
        let kept = 0x7000_0000_0000;
        memory.write(1, kept, b"kept");
        for number in 0..3 * MAX_LINES as u64 {
            memory.write(1, number * LINE, b"x");
            if number % 1000 == 0 {
                assert_eq!(read(&mut memory, 1, kept, 4), b"kept", "{number}");
            }
        }
        assert_eq!((memory.lines.len(), memory.places.len()), (MAX_LINES, MAX_LINES));
        assert_eq!(read(&mut memory, 1, 0, 1), [0; 0]);
        assert_eq!(read(&mut memory, 1, (3 * MAX_LINES as u64 - 1) * LINE, 1), b"x");
    }
}
