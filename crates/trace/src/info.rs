//! Description of a trace in itself: identity, clock, origin, buffers, events; all of it survives a round trip through CTF metadata.

use crate::event::EventClass;
use crate::packet::OF_THREADS;

/// A trace's identity: 16 bytes, the same in its metadata and in each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// `CLOCK_REALTIME` at the moment when `CLOCK_MONOTONIC` was 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// Whole seconds since 1970.
    pub seconds: u64,
    /// Nanoseconds of the offset, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// ns of a year: a clock that begins in 1970 knows no date.
const YEAR: u64 = 365 * 24 * 3600 * 1_000_000_000;

impl ClockOffset {
    /// The offset in ns.
    pub fn ns(self) -> u64 {
        let seconds = self.seconds.saturating_mul(1_000_000_000);
        seconds.saturating_add(self.nanoseconds.into())
    }

    /// ns since 1970 at a time of its clock; none where the recording, as that of another tool may, does not say the time of day.
    pub fn date_ns(self, time_ns: u64) -> Option<u64> {
        Some(self.ns().saturating_add(time_ns)).filter(|date| *date > YEAR)
    }
}

/// Behaviour of a full buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferMode {
    /// The oldest packet is overwritten (flight recorder).
    Overwrite,
    /// The newest event is lost and counted.
    Discard,
}

/// A set of per-CPU rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferInfo {
    /// The number in packets: [`BufferInfo::numbered`].
    pub number: u32,
    /// The name, and that of its streams: letters, digits, `-` and `_`.
    pub name: String,
    /// Mode of the buffer when it is full.
    pub mode: BufferMode,
    /// Bytes of each ring.
    pub bytes_per_cpu: u64,
}

/// Contents of a trace's metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceInfo {
    /// The trace's UUID, which its packets have, too.
    pub uuid: Uuid,
    /// From its clock to wall-clock time.
    pub clock: ClockOffset,
    /// The traced machine's name.
    pub hostname: String,
    /// The traced machine's boot, as `/proc/sys/kernel/random/boot_id` names it; empty where that is not known. Clocks of one boot are one.
    pub boot: String,
    /// `uname -r`.
    pub kernel_release: String,
    /// `uname -m`.
    pub machine: String,
    /// Kestrel's version.
    pub tracer_version: String,
    /// The command that recorded it, as typed.
    pub command: String,
    /// The name of the persistent session; empty for a recording in the foreground.
    pub session: String,
    /// The buffers that records come from.
    pub buffers: Vec<BufferInfo>,
    /// The event classes of the records.
    pub events: Vec<EventClass>,
}

impl BufferInfo {
    /// The number that packets of a buffer bear: in the low half its place in the session, in the high half how often it had been resized. Its
    /// packets from before and after are those of two rings, each with sequence numbers of its own.
    pub fn numbered(place: u32, resized: u32) -> u32 {
        place & 0xffff | resized << 16
    }

    /// The place and how often it had been resized, of such a number.
    pub fn split(number: u32) -> (u32, u32) {
        (number & 0xffff, number >> 16)
    }

    /// The place in the session.
    pub fn place(&self) -> u32 {
        Self::split(self.number).0
    }

    /// Number of the buffer's resizes.
    pub fn resized(&self) -> u32 {
        Self::split(self.number).1
    }

    /// Name of a CPU's stream: `main_0`; after a resize `main+1_0`.
    pub fn stream(&self, cpu: u32) -> String {
        match self.resized() {
            0 => format!("{}_{cpu}", self.name),
            resized => format!("{}+{resized}_{cpu}", self.name),
        }
    }

    /// The name of the buffer that a stream is of.
    pub(crate) fn of_stream(stream: &str) -> Option<&str> {
        let (buffer, _) = stream.rsplit_once('_')?;
        Some(buffer.split_once('+').map_or(buffer, |(name, _)| name))
    }
}

impl TraceInfo {
    /// Names of the buffers, each once.
    pub fn buffer_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for buffer in &self.buffers {
            if !names.contains(&buffer.name.as_str()) {
                names.push(&buffer.name);
            }
        }
        names
    }

    /// The buffer of that number.
    pub fn buffer(&self, number: u32) -> Option<&BufferInfo> {
        self.buffers.iter().find(|buffer| buffer.number == number)
    }

    /// The buffer of the ring that has that number, as it is called there. Threads of a process have rings of one buffer, which alone is described: each ring has
    /// its own number in the high half.
    pub fn ring(&self, number: u32) -> Option<BufferInfo> {
        let of_thread = || {
            let place = BufferInfo::split(number).0;
            let buffer = self.buffer(place).filter(|_| place & OF_THREADS != 0)?;
            Some(BufferInfo {
                number,
                ..buffer.clone()
            })
        };
        self.buffer(number).cloned().or_else(of_thread)
    }
}

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl Uuid {
    /// Reads what `Display` writes; dashes may be left out.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        let mut bytes = [0; 16];
        if digits.len() != 32 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            *byte = (high * 16 + low) as u8;
        }
        Some(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_begins_in_1970_says_no_date() {
        let unknown = ClockOffset::default();
        assert_eq!(unknown.date_ns(78_141_000_000_000), None);
        // A clock that counts since 1970 itself.
        assert_eq!(
            unknown.date_ns(1_790_000_000_000_000_000),
            Some(1_790_000_000_000_000_000)
        );
        let known = ClockOffset {
            seconds: 1_790_000_000,
            nanoseconds: 7,
        };
        assert_eq!(known.date_ns(1), Some(1_790_000_000_000_000_008));
    }
}
