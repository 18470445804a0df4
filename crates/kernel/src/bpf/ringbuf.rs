//! Reading a BPF ring buffer (`BPF_MAP_TYPE_RINGBUF`): records as programs submitted them, in order; layout of `kernel/bpf/ringbuf.c`.

use super::Map;
use super::sys::MapKind;
use crate::error::{Error, Result};
use crate::mmap::{Access, Mapping};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// The pages of the two positions.
const PAGE: usize = 4096;
/// Length, with two marks in its top bits, and the page's number.
const HEADER: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// The reader's side of a ring buffer. There can be only one reader: two would steal records from each other.
#[derive(Debug)]
pub struct RingBuffer {
    /// The reader's position, which only user space writes.
    consumer: Mapping,
    /// The writer's position, then the records, mapped twice so that none is cut at the end.
    producer: Mapping,
    size: usize,
}

impl RingBuffer {
    /// Maps a ring buffer.
    ///
    /// # Errors
    /// [`Error::Argument`] for a map of another kind, [`Error::System`].
    pub fn open(map: &Map) -> Result<Self> {
        let info = map.info();
        if info.kind != MapKind::RINGBUF {
            return Err(Error::Argument {
                subject: format!("map {}", info.name),
                why: format!("it is of the kind {}, not a ring buffer", info.kind),
            });
        }
        let size = info.entries as usize;
        Ok(Self {
            consumer: Mapping::new(map.as_fd(), 0, PAGE, Access::ReadWrite)?,
            producer: Mapping::new(map.as_fd(), PAGE as u64, PAGE + 2 * size, Access::ReadOnly)?,
            size,
        })
    }

    /// Hands over all records that are there, oldest first, and makes room for others. What a program has reserved and not yet submitted
    /// ends the reading.
    ///
    /// # Errors
    /// [`Error::Format`] if the positions make no sense.
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let strange = |why: &str| Error::Format {
            subject: "a ring buffer".to_owned(),
            why: why.to_owned(),
        };
        let position = self
            .consumer
            .atomic_u64(0)
            .ok_or_else(|| strange("its position cannot be mapped"))?;
        let mut at = position.load(Ordering::Acquire);
        let mut count = 0;
        let mut record = Vec::new();
        loop {
            let end = self.producer.load_u64(0).unwrap_or(at);
            if at >= end {
                return Ok(count);
            }
            let place = PAGE + (at as usize & (self.size - 1));
            let header = self
                .producer
                .load_u32(place)
                .ok_or_else(|| strange("a record is not aligned"))?;
            if header & BUSY != 0 {
                return Ok(count);
            }
            let length = (header & !(BUSY | DISCARDED)) as usize;
            if length > self.size {
                return Err(strange("a record is longer than the buffer"));
            }
            if header & DISCARDED == 0 {
                record.resize(length, 0);
                self.producer.copy_out(place + HEADER, &mut record)?;
                each(&record);
                count += 1;
            }
            at += (length + HEADER).next_multiple_of(8) as u64;
            position.store(at, Ordering::Release);
        }
    }
}
