//! Control words of a ring's pages: what the one thread that writes a ring and those that read it tell each other.
//!
//! Pages are counted from the ring's beginning. `opened` of them have been begun, `sealed` are whole, `consumed` have been read. In a stream the writer opens no page before the one
//! that lies in its place has been read. An overwriting writer says first that it opens a page, and then touches it, so that a reader that finds a page's
//! successor unopened behind its copy knows that the copy is of that page alone.

use crate::sync::{AtomicU64, Ordering, fence};

/// The counts of one ring.
#[derive(Debug)]
pub(crate) struct Control {
    opened: AtomicU64,
    sealed: AtomicU64,
    consumed: AtomicU64,
}

impl Control {
    /// No page yet.
    pub(crate) fn new() -> Self {
        Self {
            opened: AtomicU64::new(0),
            sealed: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
        }
    }

    /// Whether a stream of so many pages has one that the writer may open.
    pub(crate) fn has_room(&self, pages: u64) -> bool {
        // A reader's work on the page is done when its count is seen.
        self.opened.load(Ordering::Relaxed) - self.consumed.load(Ordering::Acquire) < pages
    }

    /// The writer begins a page; gives its number. It touches the page's memory after this alone.
    pub(crate) fn open(&self) -> u64 {
        let page = self.opened.load(Ordering::Relaxed);
        self.opened.store(page + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        page
    }

    /// The writer has left the newest page.
    pub(crate) fn seal(&self) {
        self.sealed
            .store(self.opened.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Pages begun.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Acquire)
    }

    /// Pages that are whole.
    pub(crate) fn sealed(&self) -> u64 {
        self.sealed.load(Ordering::Acquire)
    }

    /// Pages that have been read.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Acquire)
    }

    /// Frees all pages before this one, which have been read; the writer may use their places.
    pub(crate) fn consume(&self, before: u64) {
        self.consumed.fetch_max(before, Ordering::AcqRel);
    }

    /// Whether what was copied of a page just now is that page's: of so many, its place has not been taken by a later one.
    pub(crate) fn is_still(&self, page: u64, pages: u64) -> bool {
        fence(Ordering::Acquire);
        self.opened.load(Ordering::Relaxed) <= page + pages
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Control;
    use crate::sync::{Arc, AtomicU64, Ordering};
    use loom::thread;

    const PAGES: u64 = 2;

    /// Pages of two words, which hold the page's number.
    struct Ring {
        control: Control,
        words: [[AtomicU64; 2]; PAGES as usize],
    }

    impl Ring {
        fn new() -> Arc<Self> {
            let page = || [AtomicU64::new(99), AtomicU64::new(99)];
            Arc::new(Self {
                control: Control::new(),
                words: [page(), page()],
            })
        }

        fn write(&self) {
            let page = self.control.open();
            for word in &self.words[(page % PAGES) as usize] {
                word.store(page, Ordering::Relaxed);
            }
            self.control.seal();
        }

        fn read(&self, page: u64) -> [u64; 2] {
            let words = &self.words[(page % PAGES) as usize];
            [0, 1].map(|at: usize| words[at].load(Ordering::Relaxed))
        }
    }

    /// A reader takes each page of a stream once, whole and in order, while the writer goes round.
    #[test]
    fn a_stream_is_read_page_by_page() {
        loom::model(|| {
            let ring = Ring::new();
            let writer = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    let mut written = 0;
                    for _ in 0..3 {
                        if ring.control.has_room(PAGES) {
                            ring.write();
                            written += 1;
                        }
                    }
                    written
                })
            };
            let mut next = 0;
            let mut drain = || {
                while next < ring.control.sealed() {
                    assert_eq!(ring.read(next), [next; 2]);
                    next += 1;
                    ring.control.consume(next);
                }
                next
            };
            drain();
            drain();
            let written = writer.join().unwrap();
            assert_eq!(drain(), written);
        });
    }

    /// A copy of an overwriting ring's page that is said to be of that page holds nothing of another, however far the writer came.
    #[test]
    fn a_copy_is_of_one_page() {
        loom::model(|| {
            let ring = Ring::new();
            ring.write();
            let writer = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    ring.write();
                    ring.write();
                })
            };
            let sealed = ring.control.sealed();
            for page in sealed.saturating_sub(PAGES)..sealed {
                let copy = ring.read(page);
                if ring.control.is_still(page, PAGES) {
                    assert_eq!(copy, [page; 2]);
                }
            }
            writer.join().unwrap();
            assert_eq!(ring.control.opened(), 3);
        });
    }
}
