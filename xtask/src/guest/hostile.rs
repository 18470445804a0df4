//! A hostile host: an emulator that is stopped and let go on at random, as one is whose machine has other things to do. What runs in it is not asked.

use std::{
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use rustix::process::{Pid, Signal, kill_process};

/// Times that the emulator runs between two pauses, in milliseconds: from, to.
const RUNS: (u64, u64) = (5, 600);
/// Times that it is stopped: mostly short, now and then long.
const PAUSES: [(u64, u64); 4] = [(1, 30), (50, 150), (50, 300), (300, 800)];

/// Pauses of a process, until dropped; it runs then.
pub(crate) struct Pauses {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pauses {
    /// Begins to stop the process now and then.
    pub(crate) fn begin(process: Pid) -> Self {
        let (end, ended) = channel();
        let mut dice = Dice::new(process);
        let thread = thread::spawn(move || {
            let goes_on = |time: Duration| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            while goes_on(dice.between(RUNS)) {
                let pause = PAUSES[dice.below(PAUSES.len() as u64) as usize];
                // A process that has ended is no problem here.
                let _ = kill_process(process, Signal::STOP);
                let more = goes_on(dice.between(pause));
                let _ = kill_process(process, Signal::CONT);
                if !more {
                    break;
                }
            }
        });
        Self {
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn new(process: Pid) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self(
            now.map_or(0, |now| u64::from(now.subsec_nanos())) << 32
                ^ u64::from(process.as_raw_nonzero().get().unsigned_abs()),
        )
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }

    fn between(&mut self, (from, to): (u64, u64)) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_paused_process_stands_still_and_runs_again_at_the_end() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let state = || -> String {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1[..1].to_owned()
        };
        let pauses = Pauses::begin(pid);
        while state() != "T" {
            thread::yield_now();
        }
        drop(pauses);
        while state() == "T" {
            thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
