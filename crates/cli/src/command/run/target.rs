//! The process of `-p`.

use super::options::Options;
use crate::exit::{Exit, Failure};
use crate::targets::check_process;
use kestrel::kernel::Host;
use kestrel::language::number_of;
use kestrel::session::process_filter::ProcessFilter;

/// Most numbers of processes that Linux gives out.
const MAX_PROCESSES: i128 = 1 << 22;

/// The process that is probed.
pub(super) fn target(options: &Options, host: &Host) -> Result<ProcessFilter, Failure> {
    let Some(word) = &options.pid else {
        return Ok(ProcessFilter::All);
    };
    let wrong = |message: String| Err(Failure::new(Exit::Usage, message));
    match number(word) {
        Ok(pid @ 1..=MAX_PROCESSES) => {
            check_process(pid as u32, host)?;
            Ok(ProcessFilter::Processes(vec![pid as u32]))
        }
        Ok(pid) => wrong(format!("Pid out of range: {pid}")),
        Err(why) => wrong(format!("Failed to parse pid: {why}")),
    }
}

/// A whole number as bpftrace reads those of its command line: `12`, `0x1f`, `1_000`, `12u`, with a sign.
fn number(word: &str) -> Result<i128, String> {
    let (sign, unsigned) = match word.strip_prefix('-') {
        Some(unsigned) => (-1, unsigned),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let is_hex = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    let has_exponent = !is_hex && unsigned.contains(['e', 'E']);
    if !has_exponent && let Some(value) = number_of(unsigned) {
        return Ok(sign * i128::from(value));
    }
    let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    Err(match digits {
        // The words that scripts' tests know.
        _ if digits == unsigned.len() && digits > 19 => {
            format!("overflow error, maximum value is {}: {word}", u64::MAX)
        }
        _ if is_hex => format!("invalid integer: {}", &unsigned[2..]),
        0 => format!("invalid integer: {word}"),
        _ => format!("invalid trailing bytes: {word}"),
    })
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_of_the_command_line_are_read_as_bpftrace_reads_them() {
        for (word, value) in [
            ("12", 12),
            ("012", 10),
            ("0b11", 3),
            ("+12", 12),
            ("-12", -12),
            ("0x1f", 31),
            ("0X1f", 31),
            ("1_000", 1000),
            ("12u", 12),
        ] {
            assert_eq!(number(word), Ok(value), "{word}");
        }
        for (word, why) in [
            ("0xg", "invalid integer: g"),
            ("08", "invalid trailing bytes: 08"),
            (
                "99999999999999999999",
                "overflow error, maximum value is 18446744073709551615: 99999999999999999999",
            ),
            ("0x", "invalid integer: "),
            ("a", "invalid integer: a"),
            ("1a", "invalid trailing bytes: 1a"),
            ("1e0", "invalid trailing bytes: 1e0"),
            ("12ms", "invalid trailing bytes: 12ms"),
        ] {
            assert_eq!(number(word), Err(why.to_owned()), "{word}");
        }
    }
}
