//! The process of `-p`.

use super::options::Options;
use crate::exit::{Exit, Failure};
use crate::targets::check_process;
use kestrel::kernel::Host;
use kestrel::session::process_filter::ProcessFilter;

/// Most numbers of processes that Linux gives out.
const MAX_PROCESSES: u64 = 1 << 22;

/// The process that is probed.
pub(super) fn target(options: &Options, host: &Host) -> Result<ProcessFilter, Failure> {
    let Some(word) = &options.pid else {
        return Ok(ProcessFilter::All);
    };
    let wrong = |message: String| Err(Failure::new(Exit::Usage, message));
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    match word.parse::<u64>() {
        Ok(pid @ 1..=MAX_PROCESSES) => {
            check_process(pid as u32, host)?;
            Ok(ProcessFilter::Processes(vec![pid as u32]))
        }
        Ok(_) => wrong(format!("Pid out of range: {word}")),
        Err(_) if word.parse::<i64>().is_ok() || digits == word.len() && digits > 0 => {
            wrong(format!("Pid out of range: {word}"))
        }
        Err(_) if digits > 0 => wrong(format!("Failed to parse pid: invalid trailing bytes: {word}")),
        Err(_) => wrong(format!("Failed to parse pid: invalid integer: {word}")),
    }
}
