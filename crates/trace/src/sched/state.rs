//! The state in which a task leaves a CPU, as `prev_state` of `sched_switch` reports it.

/// The bits of `prev_state`: none for a task that could run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskState(pub u64);

/// The letters of `ps` for the bits, the lowest first.
const LETTERS: &[u8] = b"SDTtXZPI";
/// The lowest bits of states that end a task: dead, zombie.
const DEAD: u64 = 0x30;
/// State that the kernel reports of a task that was preempted, above all others (`TASK_REPORT_MAX`).
const PREEMPTED: u64 = 0x100;
const UNINTERRUPTIBLE: u64 = 0x2;

impl TaskState {
    /// Whether the task waits for a CPU from the moment when it leaves this one: it yielded or was preempted.
    pub(crate) fn is_runnable(self) -> bool {
        self.letter() == 'R'
    }

    /// Whether the task was preempted.
    pub fn is_preempted(self) -> bool {
        self.0 & PREEMPTED != 0
    }

    /// Whether it waits without being interruptible: for a disk, most often.
    pub(crate) fn is_uninterruptible(self) -> bool {
        self.letter_bits() == UNINTERRUPTIBLE
    }

    /// Whether the task is dead and does not come back.
    pub(crate) fn is_dead(self) -> bool {
        self.letter_bits() & DEAD != 0
    }

    /// The letter of the state's lowest bit; `R` where there is none.
    pub fn letter(self) -> char {
        let bit = self.0.trailing_zeros() as usize;
        LETTERS.get(bit).map_or('R', |letter| char::from(*letter))
    }

    /// The lowest bit.
    fn letter_bits(self) -> u64 {
        self.0 & self.0.wrapping_neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_ps() {
        for (bits, letter) in [
            (0, 'R'),
            (0x100, 'R'),
            (1, 'S'),
            (2, 'D'),
            (0x10, 'X'),
            (0x20, 'Z'),
            (0x80, 'I'),
            (0x1000, 'R'),
        ] {
            assert_eq!(TaskState(bits).letter(), letter, "{bits:#x}");
        }
        assert!(TaskState(0x100).is_runnable() && TaskState(0x100).is_preempted());
        assert!(TaskState(0x20).is_dead() && !TaskState(2).is_dead());
        assert!(TaskState(2).is_uninterruptible());
    }
}
