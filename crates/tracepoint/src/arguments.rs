//! The values of an event as the arguments of its probe.

use crate::usdt::CARRIED;
use crate::value::Value;

/// Bytes of all strings of a probe together, each with its NUL.
const STRINGS: usize = 1024;

/// Reads the first and the last byte of what a tracer takes: it reads no page that is not in memory, as that of a constant may not be before it is first used.
fn touch(bytes: &[u8]) {
    let taken = bytes.get(..4096).unwrap_or(bytes);
    core::hint::black_box((taken.first().copied(), taken.last().copied()));
}

/// Calls `hit` with the arguments: numbers as they are, floats as their bits, strings and arrays by address, bytes by address and number. A string ends in a NUL; what does not
/// fit in [`STRINGS`] is cut.
pub(crate) fn with(values: &[Value<'_>], hit: impl FnOnce(*const u64)) {
    let (mut words, mut strings) = ([0_u64; CARRIED], [0_u8; STRINGS]);
    let mut left = strings.as_mut_slice();
    let mut next = words.iter_mut();
    for value in values {
        let Some(word) = next.next() else { break };
        match *value {
            Value::Unsigned(value) => *word = value,
            Value::Signed(value) => *word = value as u64,
            Value::Float(value) => *word = value.to_bits(),
            Value::Bool(value) => *word = u64::from(value),
            Value::Text(text) => {
                let most = text.len().min(left.len().saturating_sub(1));
                if left.is_empty() {
                    continue;
                }
                let (own, rest) = core::mem::take(&mut left).split_at_mut(most + 1);
                own[..most].copy_from_slice(&text.as_bytes()[..most]);
                *word = own.as_ptr() as u64;
                left = rest;
            }
            Value::Elements(bytes) => *word = bytes.as_ptr() as u64,
            Value::Bytes(bytes) => {
                touch(bytes);
                *word = bytes.as_ptr() as u64;
                if let Some(length) = next.next() {
                    *length = bytes.len() as u64;
                }
            }
        }
    }
    hit(words.as_ptr());
}
