//! The bell of a session: how a writer of its rings wakes a reader that sleeps.
//!
//! A reader that goes to sleep says in the control page of each ring what shall wake it (`layout::offset::BELL`): a position, or any record. The writer
//! that comes to it takes the word back and puts eight bytes into a small BPF ring buffer, whose descriptor the reader sleeps on: the kernel wakes it from
//! an interrupt of its own (kernel/bpf/ringbuf.c, `bpf_ringbuf_commit`), so this may be done in any context, NMIs included. One word wakes once: a reader
//! that is slow is not called again, and an event costs nothing more but where a writer leaves a page.
//!
//! There are two bells, because a persistent session has two readers that sleep apart: the agent that acts on messages, and the one that keeps logs. Rings without a reader while they are filled have none.

use super::layout::offset;
use super::memory::Memory;
use super::reader::{PAGE64, Ring};
use kestrel_bpf::helper;
use kestrel_catalog::Result;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, RingBuffer};
use kestrel_trace::packet::PAGE;
use std::os::fd::{AsFd, BorrowedFd};

/// Name by which programs refer to the bell of rings that fill.
pub const FILLED: &str = "bell_filled";
/// Name by which programs refer to the bell of rings whose every record is awaited.
pub const RECORDS: &str = "bell_records";

/// `BPF_RB_FORCE_WAKEUP` of include/uapi/linux/bpf.h.
const FORCE_WAKEUP: i64 = 1 << 1;

/// The share of a ring whose fill wakes its reader.
const FULL_ENOUGH: u64 = 4;

/// The bell that wakes the reader of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bell {
    /// Never rings: the reader looks by itself.
    #[default]
    Silent,
    /// Rings when the ring is a quarter full.
    QuarterFull,
    /// Rings for each record.
    Records,
}

/// The small ring buffer that programs write to, and its reader's side.
#[derive(Debug)]
pub struct Doorbell {
    map: Map,
    ring: RingBuffer,
}

impl Doorbell {
    /// Makes one.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn create() -> Result<Self> {
        Self::open(Map::create(&MapSpec::new(
            MapKind::RINGBUF,
            "kestrel_bell",
            0,
            0,
            PAGE,
        ))?)
    }

    /// Opens one that is there already.
    ///
    /// # Errors
    /// The kernel's, or when the map is of another kind.
    pub fn open(map: Map) -> Result<Self> {
        let ring = RingBuffer::open(&map)?;
        Ok(Self { map, ring })
    }

    /// The map, which is readable when a writer has rung.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The descriptor to sleep on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Takes note of every ring so far, so that the next sleep ends with the next one; whether there was any.
    ///
    /// # Errors
    /// When the ring buffer is damaged.
    pub fn drain(&mut self) -> Result<bool> {
        Ok(self.ring.read(|_| ())? > 0)
    }
}

impl<M: Memory> Ring<M> {
    /// Asks the writers to wake the reader from now on. Records from before do not wake it: look at the ring afterwards.
    pub fn listen(&self, bell: Bell) {
        for cpu in self.cpus() {
            let at = match bell {
                Bell::Silent => return,
                Bell::Records => 1,
                Bell::QuarterFull => {
                    let quarter = u64::from(self.geometry().data()) / FULL_ENOUGH;
                    self.freed(cpu) + quarter.max(PAGE64)
                }
            };
            self.memory.store(self.base(cpu) + offset::BELL as usize, at);
        }
    }
}

/// Wakes a reader that waits for any record of the ring whose control page is at `region`.
pub(super) fn emit_for_record(b: &mut Builder, region: Vreg) {
    let (ring, done) = (b.cold_block(), b.block());
    let waits = b.load(Width::B8, region, offset::BELL as i16);
    b.branch(Condition::NotEqual, waits, 0, ring, done);
    b.switch_to(ring);
    emit(b, region, RECORDS);
    b.jump(done);
    b.switch_to(done);
}

/// Wakes a reader that waits for the page at this position to be opened, before it is, and goes to `again`: what the writer has read so far need not be
/// kept over the call, which would cost every record registers.
pub(super) fn emit_for_page(b: &mut Builder, region: Vreg, page: Vreg, again: BlockId) {
    let (ring, done) = (b.cold_block(), b.block());
    let at = b.load(Width::B8, region, offset::BELL as i16);
    // Where no reader sleeps the word is 0, and this the largest number.
    let before = b.sub(at, 1);
    b.branch(Condition::Less, before, page, ring, done);
    b.switch_to(ring);
    emit(b, region, FILLED);
    b.jump(again);
    b.switch_to(done);
}

fn emit(b: &mut Builder, region: Vreg, map: &str) {
    b.store(Width::B8, region, offset::BELL as i16, 0);
    let slot = b.slot(8, 8);
    let data = b.slot_address(slot, 0);
    b.store(Width::B8, data, 0, 0);
    let map = b.external(map);
    let map = b.map_pointer(map);
    b.helper(
        helper::RINGBUF_OUTPUT,
        &[map.into(), data.into(), 8.into(), FORCE_WAKEUP.into()],
    );
}
