//! A list that is read by events and changed by registrations: readers see the list of before or of after, and a change returns what they may still see.

use crate::sync::{AtomicPtr, Ordering};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// An element of the list and its place: higher priorities first, in one priority the earlier.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) priority: i32,
    pub(crate) id: u64,
    pub(crate) what: T,
}

impl<T: Clone> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            what: self.what.clone(),
            ..*self
        }
    }
}

/// A snapshot that is no more in the list, and may still be read.
pub(crate) struct Old<T>(*mut Vec<Entry<T>>);

/// Permission to change lists, for one thread at a time.
#[derive(Debug)]
pub(crate) struct Changes(());

impl Changes {
    /// A free lock.
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

/// A list that is read without locks while entries are added and removed.
#[derive(Debug)]
pub(crate) struct List<T> {
    /// A snapshot from `Box::into_raw`, or null: nothing in it.
    now: AtomicPtr<Vec<Entry<T>>>,
}

impl<T: Clone> List<T> {
    /// Makes an empty list.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self {
            now: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Makes an empty list.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            now: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Current elements. The caller is inside of a grace period's domain ([`crate::grace::Domain::enter`]) for as long as it uses this.
    #[inline]
    #[allow(unsafe_code, reason = "a pointer that others exchange")]
    pub(crate) fn read<'i>(&self, _inside: &'i crate::grace::Inside<'_>) -> &'i [Entry<T>] {
        let now = self.now.load(Ordering::Acquire);
        if now.is_null() {
            return &[];
        }
        // SAFETY: the pointer is from `Box::into_raw`, its vector is never changed, and whoever takes it out of the list frees it after a grace period, which does
        // not end while the caller is inside.
        unsafe { &*now }
    }

    /// Puts an element in its place. `first` is called when the list was empty; where it fails the element is taken out again, and given back with the error.
    pub(crate) fn insert<E>(
        &self,
        _alone: &mut Changes,
        entry: Entry<T>,
        first: impl FnOnce() -> Result<(), E>,
    ) -> Result<Old<T>, (E, Old<T>)> {
        let mut next = self.copy();
        let is_first = next.is_empty();
        let at = next.partition_point(|other| other.priority >= entry.priority);
        next.insert(at, entry);
        let old = self.put(next);
        // The places that emit are turned last: their first event finds the list as it is now.
        match is_first.then(first) {
            Some(Err(error)) => Err((error, self.put(Vec::new()))),
            _ => Ok(old),
        }
    }

    /// Takes an element out; `last` is called when none is left.
    pub(crate) fn remove(&self, _alone: &mut Changes, id: u64, last: impl FnOnce()) -> Old<T> {
        let mut next = self.copy();
        let before = next.len();
        next.retain(|entry| entry.id != id);
        if next.is_empty() && before > 0 {
            last();
        }
        self.put(next)
    }

    #[allow(unsafe_code, reason = "a pointer that others exchange")]
    fn copy(&self) -> Vec<Entry<T>> {
        let now = self.now.load(Ordering::Acquire);
        if now.is_null() {
            return Vec::new();
        }
        // SAFETY: as in `read`; whoever changes the list is alone in it, so that the pointer stays in it meanwhile.
        unsafe { &*now }.clone()
    }

    fn put(&self, next: Vec<Entry<T>>) -> Old<T> {
        let next = match next.is_empty() {
            true => core::ptr::null_mut(),
            false => Box::into_raw(Box::new(next)),
        };
        Old(self.now.swap(next, Ordering::SeqCst))
    }
}

impl<T> Old<T> {
    /// Whether there is nothing that anybody could read.
    #[cfg_attr(loom, allow(dead_code, reason = "models wait always"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Frees it. Only after a grace period.
    #[allow(unsafe_code, reason = "a pointer that is in no list any more")]
    pub(crate) fn free(self) {
        if !self.0.is_null() {
            // SAFETY: it is from `Box::into_raw`, the exchange that took it out of the list gave it to one caller, and readers have left it.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}

#[allow(unsafe_code, reason = "a vector behind a pointer")]
// SAFETY: it owns what it points to, as a box does.
unsafe impl<T: Send> Send for Old<T> {}

#[allow(unsafe_code, reason = "a vector behind a pointer")]
// SAFETY: the list hands out references to its elements and removes them while no other thread changes it, as a `Mutex<Vec<T>>` with shared readers would.
unsafe impl<T: Send + Sync> Sync for List<T> {}
#[allow(unsafe_code, reason = "a vector behind a pointer")]
// SAFETY: as for `Sync`.
unsafe impl<T: Send + Sync> Send for List<T> {}

#[cfg(all(test, loom))]
mod model {
    use super::{Changes, Entry, List};
    use crate::grace::Domain;
    use crate::sync::{Arc, Mutex, lock};
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// A word that a callback owns: readers look at it, and the one that has taken it out of the list writes to it.
    struct Owned(UnsafeCell<u32>);

    #[allow(unsafe_code, reason = "loom checks what it guards")]
    // SAFETY: loom finds any access to the cell that is not ordered.
    unsafe impl Sync for Owned {}
    #[allow(unsafe_code, reason = "loom checks what it guards")]
    // SAFETY: as above.
    unsafe impl Send for Owned {}

    /// A reader runs beside a registration that ends: after it no thread uses the values that the callback owns.
    #[test]
    fn removed_elements_have_no_readers() {
        loom::model(|| {
            let domain = Arc::new(Domain::new(false));
            let list = Arc::new(List::new());
            let owned = Arc::new(Owned(UnsafeCell::new(1)));
            let entry = Entry {
                priority: 0,
                id: 1,
                what: Arc::clone(&owned),
            };
            let mut changes = Changes::new();
            assert!(list.insert(&mut changes, entry, || Ok::<(), ()>(())).is_ok());
            let reader = {
                let (domain, list) = (Arc::clone(&domain), Arc::clone(&list));
                let own = domain.join();
                thread::spawn(move || {
                    for _ in 0..2 {
                        let inside = domain.enter(&own);
                        for entry in list.read(&inside) {
                            // SAFETY: loom fails where this is not ordered with the write below.
                            #[allow(unsafe_code, reason = "loom checks what it guards")]
                            entry.what.0.with(|value| unsafe { assert_eq!(*value, 1) });
                        }
                    }
                })
            };
            let old = list.remove(&mut changes, 1, || ());
            domain.synchronize(None);
            // SAFETY: loom fails where a reader may still be there.
            #[allow(unsafe_code, reason = "loom checks what it guards")]
            owned.0.with_mut(|value| unsafe { *value = 2 });
            old.free();
            reader.join().unwrap();
        });
    }

    /// Two change the list at once beside a reader: both changes are in it, and each old snapshot is freed once.
    #[test]
    fn changes_at_once_are_both_there() {
        loom::model(|| {
            let domain = Arc::new(Domain::new(false));
            let list = Arc::new(List::<u32>::new());
            let changes = Arc::new(Mutex::new(Changes::new()));
            let add = |id: u64| {
                let (domain, list, changes) = (Arc::clone(&domain), Arc::clone(&list), Arc::clone(&changes));
                move || {
                    let entry = Entry {
                        priority: id as i32,
                        id,
                        what: id as u32,
                    };
                    let old = list.insert(&mut lock(&changes), entry, || Ok::<(), ()>(()));
                    if let Ok(old) = old {
                        domain.synchronize(None);
                        old.free();
                    }
                }
            };
            let other = thread::spawn(add(1));
            add(2)();
            other.join().unwrap();
            let own = domain.join();
            let inside = domain.enter(&own);
            let ids: Vec<u64> = list.read(&inside).iter().map(|entry| entry.id).collect();
            assert_eq!(ids, [2, 1]);
            drop(inside);
            list.remove(&mut lock(&changes), 1, || ()).free();
            list.remove(&mut lock(&changes), 2, || ()).free();
        });
    }
}
