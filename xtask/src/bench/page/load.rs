//! The load that is recorded: pairs of threads that pass a byte to and fro through pipes. Each round is system calls, wakeups and switches of all pairs.

use std::{
    io::{Read, Write, pipe},
    thread,
};

use anyhow::{Context, Result};

/// Pairs of threads.
const PAIRS: u64 = 8;

/// Events of a round, about: of each pair four calls, entries and returns, two wakeups and two switches.
pub(super) const EVENTS: u64 = PAIRS * 12;

/// Passes the bytes so many times.
pub(super) fn run(rounds: u64) -> Result<()> {
    let mut threads = Vec::new();
    for pair in 0..PAIRS {
        let (mut here_in, mut there_out) = pipe().context("make a pipe")?;
        let (mut there_in, mut here_out) = pipe().context("make a pipe")?;
        let named = |name: String| thread::Builder::new().name(name);
        threads.push(
            named(format!("ping-{pair}")).spawn(move || -> std::io::Result<()> {
                let mut byte = [0];
                for _ in 0..rounds {
                    here_out.write_all(&byte)?;
                    here_in.read_exact(&mut byte)?;
                }
                Ok(())
            })?,
        );
        threads.push(
            named(format!("pong-{pair}")).spawn(move || -> std::io::Result<()> {
                let mut byte = [0];
                for _ in 0..rounds {
                    there_in.read_exact(&mut byte)?;
                    there_out.write_all(&byte)?;
                }
                Ok(())
            })?,
        );
    }
    for thread in threads {
        let ended = thread.join().ok().context("wait for a thread")?;
        ended.context("pass a byte")?;
    }
    Ok(())
}
