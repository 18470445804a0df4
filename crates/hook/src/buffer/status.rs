//! Status of a buffer at a glance, while its writers go on: read only, and cheap beside a copy.

use super::layout::{Geometry, Mode, offset};
use super::memory::Memory;
use super::reader::{PAGE64, Ring};
use kestrel_trace::packet::{self, HEADER};
use serde::{Serialize, Serializer};

/// Status of one CPU's ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RingStatus {
    /// The CPU.
    pub cpu: u32,
    /// Bytes held, in pages with records since the last reset; in a stream those not yet read.
    #[serde(rename = "held_bytes")]
    pub held: u64,
    /// Time of the oldest record held, ns of CLOCK_MONOTONIC; `None` if it holds none that counts.
    pub oldest: Option<u64>,
    /// Time of the newest one.
    pub newest: Option<u64>,
    /// Records written, all in all (counted in overwrite mode only).
    pub recorded: u64,
    /// Of these, overwritten by newer ones.
    pub overwritten: u64,
    /// Records lost: the ring was full, or frozen.
    pub lost: u64,
}

/// Status of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The buffer's name.
    pub name: String,
    /// The shape of the buffer's rings.
    pub geometry: Geometry,
    /// Whether it is frozen: its records are kept and new ones lost.
    pub frozen: bool,
    /// By CPU; counts are those from the beginning.
    pub rings: Vec<RingStatus>,
    /// The rings from before the last resize, while their records are still kept.
    pub before: Option<BeforeResize>,
}

/// Status of the rings from before a buffer's last resize.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BeforeResize {
    /// The shape of the rings before the resize.
    #[serde(rename = "bytes_per_cpu", serialize_with = "bytes_per_cpu")]
    pub geometry: Geometry,
    /// Bytes held in the fullest ring.
    #[serde(rename = "held_bytes")]
    pub held: u64,
    /// Time of the oldest record held, ns of CLOCK_MONOTONIC; `None` if it holds none that counts.
    pub oldest: Option<u64>,
    /// Time of the newest one.
    pub newest: Option<u64>,
}

/// A shape as the bytes of a CPU's ring.
fn bytes_per_cpu<S: Serializer>(geometry: &Geometry, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(geometry.data())
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        /// The status as it is serialized.
        #[derive(Serialize)]
        struct View<'a> {
            name: &'a str,
            mode: &'static str,
            bytes_per_cpu: u32,
            frozen: bool,
            fill: f64,
            oldest: Option<u64>,
            newest: Option<u64>,
            recorded: u64,
            overwritten: u64,
            lost: u64,
            before_resize: &'a Option<BeforeResize>,
            cpus: &'a [RingStatus],
        }
        let view = View {
            name: &self.name,
            mode: self.geometry.mode.name(),
            bytes_per_cpu: self.geometry.data(),
            frozen: self.frozen,
            fill: self.fill(),
            oldest: self.oldest(),
            newest: self.newest(),
            recorded: self.sum(|ring| ring.recorded),
            overwritten: self.sum(|ring| ring.overwritten),
            lost: self.sum(|ring| ring.lost),
            before_resize: &self.before,
            cpus: &self.rings,
        };
        view.serialize(to)
    }
}

impl Status {
    /// Fill of the fullest ring, 0 to 1.
    pub fn fill(&self) -> f64 {
        let most = self.rings.iter().map(|ring| ring.held).max().unwrap_or(0);
        most as f64 / f64::from(self.geometry.data())
    }

    /// Time of the oldest record in any ring, ns of CLOCK_MONOTONIC; rings from before the last resize are not counted.
    pub fn oldest(&self) -> Option<u64> {
        self.rings.iter().filter_map(|ring| ring.oldest).min()
    }

    /// Time of the newest record in any ring.
    pub fn newest(&self) -> Option<u64> {
        self.rings.iter().filter_map(|ring| ring.newest).max()
    }

    /// The sum of something over all rings.
    pub fn sum(&self, of: impl Fn(&RingStatus) -> u64) -> u64 {
        self.rings.iter().map(of).sum()
    }
}

impl<M: Memory> Ring<M> {
    /// Status of a CPU's ring from `since` (ns of CLOCK_MONOTONIC) on.
    pub fn status(&self, cpu: u32, since: u64) -> RingStatus {
        let current = self.in_use(cpu);
        let from = self.oldest_unfreed(cpu, current);
        let overwrites = self.geometry().mode == Mode::Overwrite;
        let numbers = 0..self.geometry().events.min(1 << 16);
        let recorded: u64 = match overwrites {
            true => numbers.map(|n| self.counts(cpu, n as u16).recorded).sum(),
            false => 0,
        };
        let newest = self.control(cpu, offset::RESERVED);
        let any = self.position(cpu) > from + u64::from(HEADER);
        let counts = any && newest >= since;
        // Pages whose last record is older than `since` hold nothing that counts.
        let mut first = from;
        while first < current && self.header(cpu, first + PAGE64, packet::offset::TIMESTAMP_BEGIN) <= since {
            first += PAGE64;
        }
        let held = self.position(cpu).saturating_sub(first + u64::from(HEADER));
        RingStatus {
            cpu,
            held: if counts { held } else { 0 },
            oldest: counts.then(|| self.first_time(cpu, from).max(since)),
            newest: counts.then_some(newest),
            recorded,
            overwritten: match overwrites {
                true => recorded.saturating_sub(self.events_held(cpu, from, current)),
                false => 0,
            },
            lost: self.lost(cpu),
        }
    }

    /// Records of a CPU that are in the ring and not freed, those of the page in use included.
    pub fn events_unfreed(&self, cpu: u32) -> u64 {
        let current = self.in_use(cpu);
        self.events_held(cpu, self.oldest_unfreed(cpu, current), current)
    }

    /// When the first record of a page happened.
    fn first_time(&self, cpu: u32, page: u64) -> u64 {
        let begin = self.header(cpu, page, packet::offset::TIMESTAMP_BEGIN);
        let low = self.header(cpu, page, HEADER) >> 16;
        let time = begin & !((1 << 48) - 1) | low;
        if time < begin { begin } else { time }
    }

    /// Records in a CPU's pages from `from` to `current`.
    pub(super) fn events_held(&self, cpu: u32, from: u64, current: u64) -> u64 {
        let pages = (from..=current).step_by(PAGE64 as usize);
        let events = pages.map(|page| self.header(cpu, page, packet::offset::COMMITTED) >> 32);
        events.sum()
    }
}

impl super::Buffer {
    /// Status of the buffer; `since` (ns of CLOCK_MONOTONIC) is its last reset, `frozen` whether it is.
    pub fn status(&self, since: u64, frozen: bool) -> Status {
        let rings = |buffer: &Self| -> Vec<RingStatus> {
            let ring = buffer.ring();
            ring.cpus().map(|cpu| ring.status(cpu, since)).collect()
        };
        let mut now = rings(self);
        let before = self.before().map(|before| {
            let earlier = rings(before);
            for (now, earlier) in now.iter_mut().zip(&earlier) {
                now.recorded += earlier.recorded;
                now.overwritten += earlier.overwritten;
                now.lost += earlier.lost;
            }
            BeforeResize {
                geometry: before.ring().geometry(),
                held: earlier.iter().map(|ring| ring.held).max().unwrap_or(0),
                oldest: earlier.iter().filter_map(|ring| ring.oldest).min(),
                newest: earlier.iter().filter_map(|ring| ring.newest).max(),
            }
        });
        Status {
            name: self.name().to_owned(),
            geometry: self.ring().geometry(),
            frozen,
            rings: now,
            before,
        }
    }
}
