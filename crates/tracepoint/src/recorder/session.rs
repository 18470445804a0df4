//! One recording: its rings, and how they are written to files.
//!
//! In a stream a packet's place in its file follows from its number in its ring. So a page may be written twice, by another thread or a signal handler, and the
//! file is the same. The newest page is copied and closed as it is, and written again when it is full.

use super::files::{PAUSE, Path, TRIES, as_io};
use super::memory::Memory;
use super::names::Names;
use super::ring::{Page, Ring};
use kestrel_layout::packet::PAGE;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;

/// Most rings of a session, which is the number of threads that can record at once.
const MAX: usize = 16_384;

/// A recording. It is never freed, because running threads may still look at it.
#[derive(Debug)]
pub(crate) struct Session {
    is_overwriting: bool,
    /// Pages of each ring.
    pages: u64,
    head: [u64; 3],
    pid: u32,
    memory: Memory,
    rings: Box<[AtomicPtr<Ring>]>,
    count: AtomicUsize,
    making: Mutex<()>,
    names: Names,
    /// The ring with number 0, which counts lost records of threads without a ring.
    beside: OnceLock<Ring>,
    /// The absolute path of the trace's folder.
    folder: Vec<u8>,
    /// The trace's metadata.
    metadata: String,
    files: Files,
    bell: OnceLock<Thread>,
    /// The first error of writing, as the kernel's number.
    error: AtomicI32,
    written: AtomicU64,
}

/// Extent to which the rings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The pages that are full.
    Pages,
    /// Full pages, and the newest page of each ring as it is.
    All,
    /// Everything, with the mark that the recording has ended.
    End,
}

/// Contents of the file of counts that a trace of Kestrel has beside its packets. There are no counts of records here, because the packets have all of them.
const SUMMARY: &str = concat!(
    "{\"version\": \"",
    env!("CARGO_PKG_VERSION"),
    "\", \"frozen\": 0}\n"
);

/// State for writing files, used by one thread at a time.
#[derive(Debug)]
struct Files {
    /// The thread that uses it.
    owner: AtomicU32,
    room: UnsafeCell<Room>,
}

#[derive(Debug)]
struct Room {
    page: Page,
    path: Path,
}

#[allow(unsafe_code, reason = "room that one thread has at a time")]
// SAFETY: it is used by the owner alone.
unsafe impl Sync for Files {}

/// The recording in progress; null if there is none.
static NOW: AtomicPtr<Session> = AtomicPtr::new(std::ptr::null_mut());

/// Parts of a session.
pub(crate) struct SessionParts {
    pub(crate) is_overwriting: bool,
    pub(crate) pages: u64,
    pub(crate) head: [u64; 3],
    pub(crate) memory: Memory,
    pub(crate) folder: Vec<u8>,
    pub(crate) metadata: String,
}

impl Session {
    /// Makes a session, with the page that counts lost records of threads without a ring.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn new(made: SessionParts) -> io::Result<&'static Self> {
        let page = made.memory.pages(1)?;
        let none = || AtomicPtr::new(std::ptr::null_mut());
        let session: &'static Self = Box::leak(Box::new(Self {
            is_overwriting: made.is_overwriting,
            pages: made.pages,
            head: made.head,
            pid: std::process::id(),
            memory: made.memory,
            rings: (0..MAX).map(|_| none()).collect(),
            count: AtomicUsize::new(0),
            making: Mutex::new(()),
            names: Names::of_process(),
            beside: OnceLock::new(),
            folder: made.folder,
            metadata: made.metadata,
            files: Files {
                owner: AtomicU32::new(0),
                room: UnsafeCell::new(Room {
                    page: [0; PAGE as usize],
                    path: Path::new(),
                }),
            },
            bell: OnceLock::new(),
            error: AtomicI32::new(0),
            written: AtomicU64::new(0),
        }));
        let beside = session.beside.get_or_init(|| Ring::new(session, 0, page, 1));
        beside.as_counter();
        Ok(session)
    }

    /// The recording in progress in this process.
    #[allow(unsafe_code, reason = "a session by its address")]
    pub(crate) fn now() -> Option<&'static Self> {
        // SAFETY: the address is that of a session, which is never freed, or null.
        unsafe { NOW.load(Ordering::Acquire).as_ref() }
    }

    /// Makes this the recording in progress; false where there is another one.
    pub(crate) fn begin(&'static self) -> bool {
        let own = std::ptr::from_ref(self).cast_mut();
        let none = std::ptr::null_mut();
        NOW.compare_exchange(none, own, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends the recording in progress.
    pub(crate) fn end() {
        NOW.store(std::ptr::null_mut(), Ordering::Release);
    }

    /// The memory that its rings are in.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn is_overwriting(&self) -> bool {
        self.is_overwriting
    }

    /// The number of the process that it was started in.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The first words of each page.
    pub(crate) fn head(&self) -> &[u64; 3] {
        &self.head
    }

    /// Sets the thread that writes pages, which [`Self::ring_bell`] wakes.
    pub(crate) fn set_bell(&self, thread: Thread) {
        _ = self.bell.set(thread);
    }

    /// Wakes the thread that writes pages.
    pub(crate) fn ring_bell(&self) {
        if !self.is_overwriting
            && let Some(thread) = self.bell.get()
        {
            thread.unpark();
        }
    }

    /// Counts a lost record of a thread without a ring.
    pub(crate) fn lose(&self) {
        if let Some(beside) = self.beside.get() {
            beside.lose_beside();
        }
    }

    /// All rings, the one that only counts among them.
    #[allow(unsafe_code, reason = "rings by their addresses")]
    pub(crate) fn rings(&self) -> impl Iterator<Item = &'static Ring> {
        let count = self.count.load(Ordering::Acquire).min(MAX);
        // SAFETY: addresses of rings, which are never freed, or null.
        self.rings[..count]
            .iter()
            .filter_map(|ring| unsafe { ring.load(Ordering::Acquire).as_ref() })
    }

    /// Finds a ring for the calling thread: one that an ended thread gave back, or a new one.
    #[allow(unsafe_code, reason = "a system call")]
    pub(crate) fn take(&'static self) -> Option<&'static Ring> {
        // SAFETY: asks for a number.
        let tid = unsafe { libc::gettid() } as u32;
        let left = self.rings().find(|ring| ring.take(self.pid, tid));
        let ring = left.or_else(|| self.make(tid))?;
        // Where there is none the next event asks again.
        self.names.learn(tid);
        Some(ring)
    }

    /// A new ring, taken for the thread.
    fn make(&'static self, tid: u32) -> Option<&'static Ring> {
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.load(Ordering::Relaxed);
        let place = self.rings.get(count)?;
        let base = self.memory.pages(self.pages).ok()?;
        let ring = Box::new(Ring::new(self, count as u32 + 1, base, self.pages));
        ring.take(self.pid, tid);
        let ring: &'static Ring = Box::leak(ring);
        place.store(std::ptr::from_ref(ring).cast_mut(), Ordering::Release);
        self.count.store(count + 1, Ordering::Release);
        Some(ring)
    }

    /// Count of threads without a name of their own in the trace.
    pub(crate) fn unnamed(&self) -> u64 {
        self.names.dropped()
    }

    /// Records lost, records in completed pages, and bytes written to files.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let beside = self.beside.get().map_or(0, Ring::lost);
        let (mut lost, mut recorded) = (beside, 0);
        for ring in self.rings() {
            lost += ring.lost();
            recorded += ring.recorded();
        }
        (lost, recorded, self.written.load(Ordering::Relaxed))
    }

    /// Closes all rings, which then take no more records.
    ///
    /// # Safety
    /// No thread may be writing a record, or begin one without seeing that its ring is closed.
    #[allow(unsafe_code, reason = "the writers' part of rings")]
    pub(crate) unsafe fn close(&self) {
        for ring in self.rings() {
            // SAFETY: as the caller says.
            unsafe { ring.close() };
        }
    }

    /// Writes the contents of the rings: those of a stream to its files, those of an overwriting recording to the folder, which is created. A signal handler may
    /// call this; it does not wait for long then.
    ///
    /// # Errors
    /// The first error of writing that there has been.
    pub(crate) fn write(&self, extent: Extent) -> io::Result<()> {
        if self.pid != std::process::id() {
            return Ok(());
        }
        let folder = &self.folder;
        self.with_room(|room| match self.is_overwriting {
            true => self.dump(folder, room),
            false => self.drain(extent, room),
        })
    }

    /// Writes what the rings of an overwriting recording hold to another folder.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn dump_to(&self, folder: &[u8]) -> io::Result<()> {
        self.with_room(|room| self.dump(folder, room))
    }

    #[allow(unsafe_code, reason = "room that one thread has at a time")]
    fn with_room(&self, write: impl FnOnce(&mut Room) -> Result<(), c_int>) -> io::Result<()> {
        // SAFETY: asks for a number.
        let own = unsafe { libc::gettid() } as u32;
        let mut tries = 0;
        loop {
            let free = self
                .files
                .owner
                .compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed);
            match free {
                Ok(_) => break,
                // A signal came while this thread was writing, and its handler does not return there: the writing begins anew.
                Err(owner) if owner == own => break,
                // Another thread is writing and makes no progress. A signal handler may not wait for ever.
                Err(_) if tries > TRIES => return Err(io::ErrorKind::ResourceBusy.into()),
                Err(_) => {
                    tries += 1;
                    std::thread::sleep(PAUSE);
                }
            }
        }
        // SAFETY: this thread alone has it.
        let result = write(unsafe { &mut *self.files.room.get() });
        self.files.owner.store(0, Ordering::Release);
        if let Err(error) = result {
            let none = 0;
            _ = self
                .error
                .compare_exchange(none, error, Ordering::Relaxed, Ordering::Relaxed);
        }
        match self.error.load(Ordering::Relaxed) {
            0 => Ok(()),
            error => Err(as_io(error)),
        }
    }

    /// Makes the folder and writes its metadata.
    fn begin_folder(&self, folder: &[u8], path: &mut Path) -> Result<(), c_int> {
        path.set(folder).make_folder()?;
        path.push(b"/metadata")
            .write(self.metadata.as_ptr(), self.metadata.len(), 0)
    }

    /// Makes the folder of a stream.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn make_folder(&self) -> io::Result<()> {
        self.with_room(|room| self.begin_folder(&self.folder, &mut room.path))
    }

    fn stream<'p>(folder: &[u8], ring: &Ring, path: &'p mut Path) -> &'p Path {
        path.set(folder).push(b"/process");
        if ring.number() > 0 {
            path.push(b"+").number(ring.number());
        }
        path.push(b"_0")
    }

    /// Writes the names of threads to a file beside the packets, and at the end, even when that fails, the mark that the trace is complete.
    fn write_beside_packets(&self, folder: &[u8], room: &mut Room, extent: Extent) -> Result<(), c_int> {
        let path = &mut room.path;
        path.set(folder).push(b"/.kestrel").make_folder()?;
        let named = self.names.write(path.push(b"/processes"), &mut room.page);
        if extent != Extent::End {
            return named;
        }
        let path = path.set(folder).push(b"/.kestrel/summary.json");
        named.and(path.write(SUMMARY.as_ptr(), SUMMARY.len(), 0))
    }

    /// Writes the full pages of a stream that were not written yet; with a larger extent also the newest page, and the counts of lost records.
    fn drain(&self, extent: Extent, room: &mut Room) -> Result<(), c_int> {
        let page = u64::from(PAGE);
        for ring in self.rings() {
            let path = Self::stream(&self.folder, ring, &mut room.path);
            let control = &ring.control;
            let (mut next, sealed) = (control.consumed(), control.sealed());
            while next < sealed {
                // Up to where the ring's memory ends.
                let run = (sealed - next).min(ring.pages() - next % ring.pages());
                path.write(ring.page(next), (run * page) as usize, next * page)?;
                self.written.fetch_add(run * page, Ordering::Relaxed);
                next += run;
                control.consume(next);
            }
            if extent == Extent::Pages {
                continue;
            }
            if control.opened() > next && ring.copy(next, &mut room.page) {
                path.write(room.page.as_ptr(), PAGE as usize, next * page)?;
            } else if ring.lost() > 0 && control.opened() == next {
                // A next page, if one comes, is written over this one.
                ring.empty_packet(&mut room.page);
                path.write(room.page.as_ptr(), PAGE as usize, next * page)?;
            }
        }
        if extent == Extent::Pages {
            return Ok(());
        }
        self.write_beside(&self.folder, room)?;
        self.write_beside_packets(&self.folder, room, extent)
    }

    /// Writes the count of lost records of threads without a ring, if there are any.
    fn write_beside(&self, folder: &[u8], room: &mut Room) -> Result<(), c_int> {
        match self.beside.get() {
            Some(ring) if ring.lost() > 0 && ring.copy(0, &mut room.page) => {
                Self::stream(folder, ring, &mut room.path).write(room.page.as_ptr(), PAGE as usize, 0)
            }
            _ => Ok(()),
        }
    }

    /// Writes everything that overwriting rings hold.
    fn dump(&self, folder: &[u8], room: &mut Room) -> Result<(), c_int> {
        self.begin_folder(folder, &mut room.path)?;
        let page = u64::from(PAGE);
        for ring in self.rings() {
            let path = Self::stream(folder, ring, &mut room.path);
            path.cut(0)?;
            let opened = ring.control.opened();
            let mut at = 0;
            for number in opened.saturating_sub(ring.pages())..opened {
                // One that is taken meanwhile is older than all that comes.
                if ring.copy(number, &mut room.page) {
                    path.write(room.page.as_ptr(), PAGE as usize, at)?;
                    at += page;
                }
            }
            self.written.fetch_add(at, Ordering::Relaxed);
        }
        self.write_beside(folder, room)?;
        self.write_beside_packets(folder, room, Extent::End)
    }
}

#[allow(clippy::unwrap_used, reason = "tests")]
#[cfg(test)]
mod tests {
    use super::{Memory, PAGE, Path, Session, SessionParts};

    /// A thread that gets no ring asks for one with each event: it leaves nothing behind meanwhile.
    #[test]
    fn a_thread_without_a_ring_has_no_name() {
        let session = |pages| {
            Session::new(SessionParts {
                is_overwriting: true,
                pages,
                head: [0; 3],
                memory: Memory::new(None).unwrap(),
                folder: Vec::new(),
                metadata: String::new(),
            })
            .unwrap()
        };
        // No processor addresses so much.
        let without = session(1 << 50);
        let with = session(4);
        let test = std::thread::Builder::new().name("a thread of test".to_owned());
        let run = move || {
            assert!((0..3).all(|_| without.take().is_none()));
            assert!(with.take().is_some());
        };
        test.spawn(run).unwrap().join().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("processes");
        let named = |session: &Session| {
            let mut path = Path::new();
            path.set(std::os::unix::ffi::OsStrExt::as_bytes(file.as_os_str()));
            session.names.write(&path, &mut [0; PAGE as usize]).unwrap();
            std::fs::read_to_string(&file).unwrap().lines().count()
        };
        assert_eq!((named(without), named(with)), (1, 2));
    }
}
