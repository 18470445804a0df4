//! A ring of one thread: pages that are packets, written by the thread alone with plain stores, and read by others meanwhile.
//!
//! An event that a signal handler emits while its thread is in the middle of a record is lost, and counted: a record is begun and finished, nothing comes between.
//!
//! Each page's header says what was lost up to it. While a stream is full, the number in the page that was left last goes up, so that an image of memory has it, too.

use super::session::Session;
use super::{clock, cpu};
use crate::control::Control;
use crate::place::Slot;
use kestrel_layout::packet::{CAPACITY, HEADER, MAGIC, OF_THREADS, PAGE, SEALED, offset, whole};
use kestrel_layout::record::{PAYLOAD, header};
use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};

/// Bytes of a page.
pub(crate) type Page = [u8; PAGE as usize];

/// A thread's ring.
pub(crate) struct Ring {
    /// The session that the ring belongs to.
    pub(crate) session: &'static Session,
    pub(crate) control: Control,
    /// The number: 1 for the first.
    number: u32,
    pages: u64,
    base: *mut u8,
    lost: AtomicU64,
    /// Records in pages that were left.
    recorded: AtomicU64,
    /// Time of the newest record.
    newest_ns: AtomicU64,
    /// Time of the last record that was lost: packets that report it end no earlier.
    lost_ns: AtomicU64,
    taken: AtomicBool,
    writer: UnsafeCell<Writer>,
}

/// State of the thread that writes.
struct Writer {
    page: *mut u8,
    /// The next byte of the page to be written.
    at: u32,
    /// Whether there is a page that was not left.
    is_open: bool,
    cpu: u32,
    is_busy: bool,
    is_closed: bool,
    /// The page's committed word.
    committed: u64,
    last_ns: u64,
    /// pid and tid as a record has them.
    thread: u64,
}

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The record is counted as lost.
    Lost,
    /// The ring takes no records any more.
    Closed,
}

#[allow(unsafe_code, reason = "memory that threads share")]
// SAFETY: the writer's part is touched by the thread alone that took the ring, or by the one that closes it when no thread writes; the rest is atomic, and pages are
// read as `Control` allows.
unsafe impl Sync for Ring {}
#[allow(unsafe_code, reason = "memory that threads share")]
// SAFETY: as above.
unsafe impl Send for Ring {}

/// A word of a page.
///
/// # Safety
/// `page` is a page of a ring, `at` a multiple of 8 below its size.
#[allow(unsafe_code, reason = "memory that threads share")]
#[inline(always)]
unsafe fn long<'a>(page: *mut u8, at: u32) -> &'a AtomicU64 {
    // SAFETY: pages are aligned, and are never given back while anybody may look.
    unsafe { AtomicU64::from_ptr(page.add(at as usize).cast()) }
}

impl Ring {
    /// A ring in `pages` pages at `base`, which are its own.
    pub(crate) fn new(session: &'static Session, number: u32, base: *mut u8, pages: u64) -> Self {
        Self {
            session,
            control: Control::new(),
            number,
            pages,
            base,
            lost: AtomicU64::new(0),
            recorded: AtomicU64::new(0),
            newest_ns: AtomicU64::new(0),
            lost_ns: AtomicU64::new(0),
            taken: AtomicBool::new(false),
            writer: UnsafeCell::new(Writer {
                page: base,
                at: PAGE,
                is_open: false,
                cpu: 0,
                is_busy: false,
                is_closed: false,
                committed: whole(0),
                last_ns: 0,
                thread: 0,
            }),
        }
    }

    /// Takes it for the thread that calls, if no other has it.
    #[allow(unsafe_code, reason = "the writer's part")]
    pub(crate) fn take(&self, pid: u32, tid: u32) -> bool {
        let free = self
            .taken
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        if free.is_ok() {
            // SAFETY: the ring is this thread's from now on, and what the one before it did is seen.
            unsafe { (*self.writer.get()).thread = u64::from(pid) | u64::from(tid) << 32 };
        }
        free.is_ok()
    }

    /// Gives it back, for another thread to go on with.
    pub(crate) fn leave(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// The ring's number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The number as packets have it.
    fn packet_number(&self) -> u32 {
        OF_THREADS | self.number << 16
    }

    /// Number of the ring's pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Address of a page.
    #[allow(unsafe_code, reason = "an address within the ring")]
    pub(crate) fn page(&self, page: u64) -> *mut u8 {
        // SAFETY: the offset is within the ring's memory.
        unsafe { self.base.add((page & (self.pages - 1)) as usize * PAGE as usize) }
    }

    /// Records lost because the ring was full.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records in pages that were left.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Writes a record of `size` bytes, a multiple of 8, whose fixed part ends at `end`.
    ///
    /// # Safety
    /// The thread that calls has taken the ring.
    #[allow(unsafe_code, reason = "the writer's part, and memory that readers share")]
    #[inline(always)]
    pub(crate) unsafe fn write(
        &self,
        event: u16,
        (size, end): (u32, u32),
        fill: impl FnOnce(&mut Slot<'_>),
    ) -> Result<(), Refused> {
        let writer = self.writer.get();
        // SAFETY: the ring is this thread's; a signal handler of it that comes later than the next line sees that it is busy and touches nothing.
        let writer = unsafe {
            if (*writer).is_busy {
                return Err(self.lose(clock::now()));
            }
            (*writer).is_busy = true;
            compiler_fence(Ordering::SeqCst);
            &mut *writer
        };
        let now = clock::now();
        if (writer.at + size > PAGE || cpu::current_or(writer.cpu) != writer.cpu)
            && let Err(refused) = self.turn(writer, size, now)
        {
            compiler_fence(Ordering::SeqCst);
            writer.is_busy = false;
            return Err(refused);
        }
        // Times of a ring never run backwards.
        let now = now.max(writer.last_ns);
        writer.last_ns = now;
        // SAFETY: `size` bytes from `at` on are the page's, and are the writer's alone until they are committed.
        unsafe {
            let record = writer.page.add(writer.at as usize);
            long(record, 0).store(header(event, now), Ordering::Relaxed);
            long(record, 8).store(writer.thread, Ordering::Relaxed);
            fill(&mut Slot::new(record, size, end));
            self.newest_ns.store(now, Ordering::Relaxed);
            writer.committed += u64::from(size) | 1 << 32;
            long(writer.page, offset::COMMITTED).store(writer.committed, Ordering::Release);
        }
        writer.at += size;
        compiler_fence(Ordering::SeqCst);
        writer.is_busy = false;
        Ok(())
    }

    /// Time of the last record, also where that was lost.
    fn newest_ns(&self) -> u64 {
        let lost_ns = self.lost_ns.load(Ordering::Relaxed);
        self.newest_ns.load(Ordering::Relaxed).max(lost_ns)
    }

    #[cold]
    fn lose(&self, now: u64) -> Refused {
        self.lost_ns.fetch_max(now, Ordering::Relaxed);
        self.lost.fetch_add(1, Ordering::Relaxed);
        Refused::Lost
    }

    /// Goes to the next page: the record has no room in this one, or the thread runs on another CPU.
    #[cold]
    #[inline(never)]
    fn turn(&self, writer: &mut Writer, size: u32, now: u64) -> Result<(), Refused> {
        if writer.is_closed {
            return Err(Refused::Closed);
        }
        if size > CAPACITY {
            return Err(self.lose(now));
        }
        if writer.is_open {
            self.seal(writer);
        }
        if !self.session.is_overwriting() && !self.control.has_room(self.pages) {
            self.lose(now);
            let last = self.page(self.control.opened() - 1);
            self.put(last, offset::TIMESTAMP_END, now.max(writer.last_ns));
            self.put(last, offset::DISCARDED, self.lost());
            return Err(Refused::Lost);
        }
        self.open(writer, now);
        Ok(())
    }

    #[allow(unsafe_code, reason = "memory that threads share")]
    fn put(&self, page: *mut u8, at: u32, value: u64) {
        // SAFETY: a page of the ring, an offset of its header.
        unsafe { long(page, at) }.store(value, Ordering::Relaxed);
    }

    /// Leaves the page.
    #[allow(unsafe_code, reason = "memory that threads share")]
    fn seal(&self, writer: &mut Writer) {
        let page = writer.page;
        let lost_ns = self.lost_ns.load(Ordering::Relaxed);
        self.put(page, offset::TIMESTAMP_END, writer.last_ns.max(lost_ns));
        self.put(page, offset::CONTENT_SIZE, u64::from(writer.at) * 8);
        self.put(page, offset::DISCARDED, self.lost());
        writer.committed += u64::from(PAGE - writer.at + SEALED);
        // SAFETY: the page's committed word.
        unsafe { long(page, offset::COMMITTED) }.store(writer.committed, Ordering::Release);
        writer.at = PAGE;
        writer.is_open = false;
        let events = writer.committed >> 32;
        let recorded = self.recorded.load(Ordering::Relaxed);
        self.recorded.store(recorded + events, Ordering::Relaxed);
        self.control.seal();
        if self.control.sealed() - self.control.consumed() >= self.pages / 2 {
            self.session.ring_bell();
        }
    }

    /// Begins a page. In an image of memory it is an empty one until it has its first record.
    #[allow(unsafe_code, reason = "memory that threads share")]
    fn open(&self, writer: &mut Writer, now: u64) {
        let number = self.control.open();
        let page = self.page(number);
        writer.page = page;
        writer.cpu = cpu::current();
        writer.committed = 0;
        writer.at = HEADER;
        writer.is_open = true;
        self.put(page, offset::COMMITTED, 0);
        compiler_fence(Ordering::SeqCst);
        let now = now.max(writer.last_ns);
        for (at, value) in [
            (offset::TIMESTAMP_BEGIN, now),
            (offset::TIMESTAMP_END, now),
            (offset::CONTENT_SIZE, u64::from(HEADER) * 8),
            (offset::PACKET_SIZE, u64::from(PAGE) * 8),
            (offset::DISCARDED, self.lost()),
            (
                offset::CPU,
                u64::from(writer.cpu) | u64::from(self.packet_number()) << 32,
            ),
        ] {
            self.put(page, at, value);
        }
        for (at, word) in self.session.head().iter().enumerate() {
            self.put(page, at as u32 * 8, *word);
        }
        // SAFETY: a word of the page's header.
        unsafe { long(page, offset::SEQUENCE) }.store(number, Ordering::Release);
    }

    /// Leaves the last page and takes no records any more.
    ///
    /// # Safety
    /// No thread writes, and none will but by finding the ring closed.
    #[allow(unsafe_code, reason = "the writer's part")]
    pub(crate) unsafe fn close(&self) {
        // SAFETY: as the caller says.
        let writer = unsafe { &mut *self.writer.get() };
        if writer.is_open {
            self.seal(writer);
        }
        writer.is_closed = true;
    }

    /// Copies a page as it is now, closed behind what was committed, for a file; false where there is nothing in it, or its place has been taken meanwhile.
    #[allow(unsafe_code, reason = "memory that threads share")]
    pub(crate) fn copy(&self, number: u64, to: &mut Page) -> bool {
        let page = self.page(number);
        // SAFETY: words of a page of the ring.
        let word = |at| unsafe { long(page, at) };
        // The page's number is written when the word says already that it is empty.
        if word(offset::SEQUENCE).load(Ordering::Acquire) != number {
            return false;
        }
        let committed = word(offset::COMMITTED).load(Ordering::Acquire);
        let newest_ns = self.newest_ns();
        for (at, bytes) in to.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *bytes = word(at as u32 * 8).load(Ordering::Relaxed).to_ne_bytes();
        }
        if !self.control.is_still(number, self.pages) || committed == 0 {
            return false;
        }
        let mut put = |at: u32, value: u64| {
            to[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        };
        let bytes = committed as u32;
        if bytes != CAPACITY + SEALED {
            put(offset::CONTENT_SIZE, u64::from(HEADER + bytes) * 8);
            // Not before its last record.
            put(offset::TIMESTAMP_END, newest_ns);
            put(offset::DISCARDED, self.lost());
            put(offset::COMMITTED, whole((committed >> 32) as u32));
            to[(HEADER + bytes) as usize..].fill(0);
        } else {
            put(offset::COMMITTED, committed);
        }
        true
    }

    /// A packet without records behind the last one: what was lost after it.
    pub(crate) fn empty_packet(&self, to: &mut Page) {
        to.fill(0);
        let mut put = |at: u32, value: u64| {
            to[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
        };
        for (at, word) in self.session.head().iter().enumerate() {
            put(at as u32 * 8, *word);
        }
        let newest_ns = self.newest_ns();
        for (at, value) in [
            (offset::TIMESTAMP_BEGIN, newest_ns),
            (offset::TIMESTAMP_END, newest_ns),
            (offset::CONTENT_SIZE, u64::from(HEADER) * 8),
            (offset::PACKET_SIZE, u64::from(PAGE) * 8),
            (offset::SEQUENCE, self.control.opened()),
            (offset::DISCARDED, self.lost()),
            (offset::CPU, u64::from(self.packet_number()) << 32),
            (offset::COMMITTED, whole(0)),
        ] {
            put(at, value);
        }
    }

    /// Counts a record as lost that no ring had a place for: this one holds the count alone, in a page that any reader takes for a packet.
    #[allow(unsafe_code, reason = "memory that threads share")]
    pub(crate) fn lose_beside(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        // SAFETY: words of the ring's one page.
        unsafe {
            long(self.base, offset::TIMESTAMP_END).fetch_max(clock::now(), Ordering::Relaxed);
            long(self.base, offset::DISCARDED).fetch_add(1, Ordering::Relaxed);
            long(self.base, offset::COMMITTED).store(whole(0), Ordering::Release);
        }
    }

    /// Makes the one page of a ring without records a packet, which it is from the first that is lost on.
    pub(crate) fn as_counter(&self) {
        let mut page: Page = [0; PAGE as usize];
        self.empty_packet(&mut page);
        page[offset::COMMITTED as usize..HEADER as usize].fill(0);
        for (at, bytes) in page.as_chunks::<8>().0.iter().enumerate() {
            self.put(self.base, at as u32 * 8, u64::from_le_bytes(*bytes));
        }
        self.control.open();
        self.control.seal();
    }
}

/// The first words of each page's header: magic number, identity, stream class 0.
pub(crate) fn head(uuid: &[u8; 16]) -> [u64; 3] {
    let mut bytes = [0; 24];
    bytes[offset::MAGIC as usize..][..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[offset::UUID as usize..][..16].copy_from_slice(uuid);
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("number", &self.number)
            .field("pages", &self.pages)
            .field("control", &self.control)
            .finish_non_exhaustive()
    }
}

/// Bytes of a record's header, which are written before its fields.
const _: () = assert!(PAYLOAD == 16 && offset::STREAM == 20);
