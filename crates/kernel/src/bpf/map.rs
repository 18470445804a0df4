//! BPF maps: creating, reading and writing elements, freezing; memory-mapping is [`crate::mmap`]'s.

use super::memlock;
use super::sys::{self, Command, MapKind};
use crate::error::{Errno, Error, Result};
use crate::procfs;
use bytemuck::Zeroable;
use kestrel_bpf::btf::TypeId;
use kestrel_bpf::helper;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Parameters of a new map.
#[derive(Clone, Copy, Debug)]
pub struct MapSpec<'a> {
    /// The kind of map.
    pub kind: MapKind,
    /// Bytes of a key; 4 for arrays, 0 for queues and rings.
    pub key_size: u32,
    /// Bytes of a value (on each CPU, for per-CPU kinds).
    pub value_size: u32,
    /// The most elements it can hold; bytes for a ring.
    pub entries: u32,
    /// `BPF_F_*`, such as [`sys::MAP_MMAPABLE`].
    pub flags: u32,
    /// For people; the kernel keeps 15 bytes, and other characters than letters, digits and `.` become `_`.
    pub name: &'a str,
    /// `map_extra`: hash functions of a bloom filter, address of an arena.
    pub extra: u64,
    /// The template of the inner maps, for maps of maps.
    pub inner: Option<BorrowedFd<'a>>,
    /// The types of key and value; some kinds (task storage) insist on them.
    pub btf: Option<MapBtf<'a>>,
}

impl<'a> MapSpec<'a> {
    /// A map of `kind` with nothing special about it.
    pub fn new(kind: MapKind, name: &'a str, key_size: u32, value_size: u32, entries: u32) -> Self {
        Self {
            kind,
            key_size,
            value_size,
            entries,
            flags: 0,
            name,
            extra: 0,
            inner: None,
            btf: None,
        }
    }

    /// The specification with `flags` added.
    pub fn with_flags(mut self, flags: u32) -> Self {
        self.flags |= flags;
        self
    }
}

/// Types of a map's key and value in a BTF that the kernel has (see [`super::load_btf`]).
#[derive(Clone, Copy, Debug)]
pub struct MapBtf<'a> {
    /// The loaded BTF.
    pub btf: BorrowedFd<'a>,
    /// The key's type in it, or 0.
    pub key: u32,
    /// The value's type in it, or 0.
    pub value: u32,
}

/// Description of a map by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapInfo {
    /// The kernel's number for it while it lives.
    pub id: u32,
    /// The kind of map.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value (on each CPU, for per-CPU kinds).
    pub value_size: u32,
    /// The most elements it can hold.
    pub entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
    /// The name, at most 15 bytes.
    pub name: String,
    /// `map_extra`.
    pub extra: u64,
    /// The types (BTF) that it was made with, if any: their number, and the types of key and value in them.
    pub types: Option<(u32, TypeId, TypeId)>,
}

impl MapInfo {
    pub(super) fn of(fd: BorrowedFd<'_>, subject: &str) -> Result<Self> {
        let info: sys::MapInfo =
            super::id::info(fd).map_err(|errno| Error::system("ask about the map", subject, errno))?;
        Ok(Self {
            id: info.id,
            kind: MapKind(info.kind),
            key_size: info.key_size,
            value_size: info.value_size,
            entries: info.max_entries,
            flags: info.map_flags,
            name: sys::text(&info.name),
            extra: info.map_extra,
            types: (info.btf_id != 0).then_some((
                info.btf_id,
                TypeId(info.btf_key_type_id),
                TypeId(info.btf_value_type_id),
            )),
        })
    }

    /// Whether each CPU has its own value under a key.
    pub fn is_per_cpu(&self) -> bool {
        [
            MapKind::PERCPU_ARRAY,
            MapKind::PERCPU_HASH,
            MapKind::LRU_PERCPU_HASH,
            MapKind::PERCPU_CGROUP_STORAGE,
        ]
        .contains(&self.kind)
    }

    /// Bytes from one CPU's value to the next in a per-CPU element: the value's size rounded up to 8.
    pub fn cpu_stride(&self) -> usize {
        (self.value_size as usize).next_multiple_of(8)
    }

    /// Whether system calls see 4-byte descriptors or ids as values, whatever the kernel stores.
    fn holds_objects(&self) -> bool {
        [
            MapKind::PROG_ARRAY,
            MapKind::PERF_EVENT_ARRAY,
            MapKind::CGROUP_ARRAY,
            MapKind::ARRAY_OF_MAPS,
            MapKind::HASH_OF_MAPS,
        ]
        .contains(&self.kind)
    }
}

/// Condition of a map update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueCheck {
    /// Make it or replace it.
    #[default]
    Any,
    /// The key must be new (else `EEXIST`).
    New,
    /// The key must be there (else `ENOENT`).
    Existing,
}

/// A map; closing it leaves the map alive if a program, a pin or another process still uses it.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    info: MapInfo,
    /// Bytes that the kernel reads or writes for one element.
    element: usize,
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Map {
    /// Makes a map (`BPF_MAP_CREATE`). Its content is all zeroes, or empty.
    ///
    /// # Errors
    /// [`Error::System`]: `EPERM` without privilege, `EINVAL` for a specification this kernel does not know, `E2BIG`, `ENOMEM`.
    pub fn create(spec: &MapSpec<'_>) -> Result<Self> {
        let descriptor = |fd: Option<BorrowedFd<'_>>| fd.map_or(0, |fd| fd.as_raw_fd() as u32);
        let mut argument = sys::MapCreate {
            map_type: spec.kind.0,
            key_size: spec.key_size,
            value_size: spec.value_size,
            max_entries: spec.entries,
            map_flags: spec.flags,
            inner_map_fd: descriptor(spec.inner),
            map_name: sys::object_name(spec.name),
            btf_fd: descriptor(spec.btf.map(|btf| btf.btf)),
            btf_key_type_id: spec.btf.map_or(0, |btf| btf.key),
            btf_value_type_id: spec.btf.map_or(0, |btf| btf.value),
            map_extra: spec.extra,
            ..Zeroable::zeroed()
        };
        // SAFETY: the command reads no addresses, and answers with a new descriptor.
        let create = || unsafe { sys::call_for_fd(Command::MapCreate, &mut argument) };
        let fd = memlock::attempt(create).map_err(|errno| {
            let subject = format!(
                "{} ({}, {} × {} bytes)",
                spec.name, spec.kind, spec.entries, spec.value_size
            );
            Error::system("create the map", subject, errno)
        })?;
        Self::from_fd(fd)
    }

    /// Takes over a descriptor of a map.
    ///
    /// # Errors
    /// [`Error::System`] if it is not one.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        super::descriptor::expect(fd.as_fd(), super::descriptor::DescriptorKind::Map)?;
        let info = MapInfo::of(fd.as_fd(), "behind a descriptor")?;
        let element = if info.is_per_cpu() {
            info.cpu_stride() * procfs::possible_cpus()?.len()
        } else if info.holds_objects() {
            4
        } else {
            info.value_size as usize
        };
        Ok(Self { fd, info, element })
    }

    /// Opens the map with this number (`BPF_MAP_GET_FD_BY_ID`).
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` if there is none.
    pub fn from_id(id: u32) -> Result<Self> {
        Self::from_fd(super::id::open(Command::MapFdById, id, "open the map with id")?)
    }

    /// Kernel information about the map when it was opened.
    pub fn info(&self) -> &MapInfo {
        &self.info
    }

    /// Bytes of what [`Map::lookup`] answers: the value, or for per-CPU kinds one value per possible CPU, each at a multiple of
    /// [`MapInfo::cpu_stride`].
    pub fn element_size(&self) -> usize {
        self.element
    }

    fn error(&self, action: &'static str, errno: Errno) -> Error {
        Error::system(action, format!("{} ({})", self.info.name, self.info.kind), errno)
    }

    fn check(&self, what: &str, expected: usize, given: usize) -> Result<()> {
        if expected == given {
            return Ok(());
        }
        Err(Error::Argument {
            subject: format!("map {}", self.info.name),
            why: format!("its {what} has {expected} bytes, not {given}"),
        })
    }

    fn request(&self, key: &[u8], value: u64, flags: u64) -> Result<sys::MapElement> {
        self.check("key", self.info.key_size as usize, key.len())?;
        let key = if key.is_empty() { 0 } else { key.as_ptr() as u64 };
        Ok(sys::MapElement {
            map_fd: self.fd.as_raw_fd() as u32,
            pad: 0,
            key,
            value,
            flags,
        })
    }

    fn read_element(
        &self,
        command: Command,
        action: &'static str,
        key: &[u8],
        value: &mut [u8],
    ) -> Result<bool> {
        self.check("element", self.element, value.len())?;
        let mut argument = self.request(key, value.as_mut_ptr() as u64, 0)?;
        // SAFETY: key and value have the sizes that the kernel reads and writes: checked just above.
        match unsafe { sys::call(command, &mut argument) } {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(self.error(action, errno)),
        }
    }

    /// Copies the element under `key` into `value` ([`Map::element_size`] bytes); false if there is none.
    fn lookup_into(&self, key: &[u8], value: &mut [u8]) -> Result<bool> {
        self.read_element(Command::MapLookup, "look up in the map", key, value)
    }

    /// The element under `key`, if there is one: [`Map::element_size`] bytes.
    ///
    /// # Errors
    /// [`Error::Argument`] for wrong sizes, [`Error::System`] otherwise.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.element];
        Ok(self.lookup_into(key, &mut value)?.then_some(value))
    }

    /// The element under `key`, removing it in the same step (hashes from Linux 5.14 on; queues and stacks, with an empty key).
    ///
    /// # Errors
    /// As [`Map::lookup`].
    pub fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; self.element];
        let found = self.read_element(Command::MapLookupAndDelete, "take from the map", key, &mut value)?;
        Ok(found.then_some(value))
    }

    /// One value per possible CPU, in CPU order, from a per-CPU element; the whole element from any other.
    pub fn cpu_values<'v>(&self, element: &'v [u8]) -> impl Iterator<Item = &'v [u8]> {
        let per_cpu = self.info.is_per_cpu();
        let stride = if per_cpu {
            self.info.cpu_stride()
        } else {
            self.element
        };
        let size = if per_cpu {
            self.info.value_size as usize
        } else {
            self.element
        };
        element
            .chunks_exact(stride.max(1))
            .map(move |value| &value[..size])
    }

    /// Writes the element under `key` ([`Map::element_size`] bytes).
    ///
    /// # Errors
    /// [`Error::Argument`] for wrong sizes; [`Error::System`]: `E2BIG` if the map is full, `EPERM` if it is frozen, or as `check` says.
    pub fn update(&self, key: &[u8], value: &[u8], check: ValueCheck) -> Result<()> {
        self.check("element", self.element, value.len())?;
        let flags = match check {
            ValueCheck::Any => sys::UPDATE_ANY,
            ValueCheck::New => helper::NOEXIST,
            ValueCheck::Existing => helper::EXIST,
        };
        let mut argument = self.request(key, value.as_ptr() as u64, flags)?;
        // SAFETY: key and value have the sizes that the kernel reads: checked just above.
        unsafe { sys::call(Command::MapUpdate, &mut argument) }
            .map(drop)
            .map_err(|errno| self.error("update the map", errno))
    }

    /// Puts a program, map or perf event into slot `index` of a map that holds such.
    ///
    /// Replacing program by program is seen at once and takes some 40 µs; emptying a slot ([`Map::delete`]) waits for RCU, some 8 ms.
    ///
    /// # Errors
    /// [`Error::System`]: `EINVAL` if the program does not fit with those that are there.
    pub fn set_slot(&self, index: u32, object: BorrowedFd<'_>) -> Result<()> {
        self.update(
            &index.to_ne_bytes(),
            &object.as_raw_fd().to_ne_bytes(),
            ValueCheck::Any,
        )
    }

    /// Removes the element under `key`; false if there was none.
    ///
    /// # Errors
    /// [`Error::System`]: `EINVAL` for arrays, whose elements always exist.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        let mut argument = self.request(key, 0, 0)?;
        // SAFETY: the key has the size that the kernel reads: checked by `request`.
        match unsafe { sys::call(Command::MapDelete, &mut argument) } {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(self.error("delete from the map", errno)),
        }
    }

    /// The key after `key` (or the first), in the kernel's order. After a key that has vanished meanwhile a hash starts again.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn next_key(&self, key: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut next = vec![0; self.info.key_size as usize];
        let mut argument = match key {
            Some(key) => self.request(key, next.as_mut_ptr() as u64, 0)?,
            None => sys::MapElement {
                map_fd: self.fd.as_raw_fd() as u32,
                value: next.as_mut_ptr() as u64,
                ..Zeroable::zeroed()
            },
        };
        // SAFETY: `next` has the size of a key, and so has `key`, checked by `request`.
        match unsafe { sys::call(Command::MapNextKey, &mut argument) } {
            Ok(_) => Ok(Some(next)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.error("walk the map", errno)),
        }
    }

    /// All keys with their elements, as they were at some time during the call (programs may write meanwhile). Uses batches where
    /// the kernel has them for this kind; where it has none, a key may come twice, as a walk begins anew where its place was deleted.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn entries(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut entries = Vec::new();
        match self.batch(Command::MapLookupBatch, &mut entries) {
            Err(error) if entries.is_empty() && error.errno().is_some_and(lacks_batches) => self.walk(),
            other => other.map(|()| entries),
        }
    }

    /// Like [`Map::entries`], removing what it puts behind the elements of `taken`: bucket by bucket, so that no update is lost or seen twice.
    /// Hashes only.
    ///
    /// # Errors
    /// [`Error::System`]; `taken` then has the elements that were removed before.
    pub fn drain(&self, taken: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        let before = taken.len();
        match self.batch(Command::MapLookupAndDeleteBatch, taken) {
            Err(error) if taken.len() == before && error.errno().is_some_and(lacks_batches) => {
                for (key, _) in self.walk()? {
                    if let Some(value) = self.take(&key)? {
                        taken.push((key, value));
                    }
                }
                Ok(())
            }
            other => other,
        }
    }

    /// Key by key. Bounded, as a hash restarts after a key deleted meanwhile: one that was read before may come again then.
    fn walk(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut entries = Vec::new();
        let mut key = self.next_key(None)?;
        for _ in 0..=self.info.entries {
            let Some(current) = key else { break };
            let value = self.lookup(&current)?;
            key = self.next_key(Some(&current))?;
            if let Some(value) = value {
                entries.push((current, value));
            }
        }
        Ok(entries)
    }

    /// Batch by batch; where a later one fails, what the earlier ones gave stands in `entries`.
    fn batch(&self, command: Command, entries: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<()> {
        let key_size = self.info.key_size as usize;
        if key_size == 0 || self.element == 0 {
            return Err(self.error("read in batches from the map", Errno::EINVAL));
        }
        let mut room = (self.info.entries as usize).min(BATCH);
        // The kernel's place marker: 4 bytes or a key, whichever the kind uses.
        let (mut here, mut next) = (vec![0u8; key_size.max(8)], vec![0u8; key_size.max(8)]);
        let mut first = true;
        loop {
            let (mut keys, mut values) = (vec![0u8; key_size * room], vec![0u8; self.element * room]);
            let mut argument = sys::MapBatch {
                in_batch: if first { 0 } else { here.as_mut_ptr() as u64 },
                out_batch: next.as_mut_ptr() as u64,
                keys: keys.as_mut_ptr() as u64,
                values: values.as_mut_ptr() as u64,
                count: room as u32,
                map_fd: self.fd.as_raw_fd() as u32,
                elem_flags: 0,
                flags: 0,
            };
            // SAFETY: keys and values have room for `count` elements of this map, the markers for a key and at least 8 bytes.
            let answer = unsafe { sys::call(command, &mut argument) };
            let full = answer == Err(Errno::ENOSPC) && room < (self.info.entries as usize).max(BATCH) * 2;
            if full {
                room *= 2; // a bucket longer than the room; nothing was moved
                continue;
            }
            let ended = answer == Err(Errno::ENOENT);
            if !ended {
                answer.map_err(|errno| self.error("read in batches from the map", errno))?;
            }
            let found = (argument.count as usize).min(room);
            let pairs = keys
                .chunks_exact(key_size)
                .zip(values.chunks_exact(self.element))
                .take(found);
            entries.extend(pairs.map(|(key, value)| (key.to_vec(), value.to_vec())));
            if ended {
                return Ok(());
            }
            std::mem::swap(&mut here, &mut next);
            first = false;
        }
    }

    /// Bars system calls from writing it, for good; programs still can (`BPF_MAP_FREEZE`).
    ///
    /// # Errors
    /// [`Error::System`]: `EBUSY` while it is mapped writable.
    pub fn freeze(&self) -> Result<()> {
        let mut argument = sys::MapElement {
            map_fd: self.fd.as_raw_fd() as u32,
            ..Zeroable::zeroed()
        };
        // SAFETY: the command reads no addresses.
        unsafe { sys::call(Command::MapFreeze, &mut argument) }
            .map(drop)
            .map_err(|errno| self.error("freeze the map", errno))
    }
}

/// Elements asked for at once.
const BATCH: usize = 4096;

/// The answers of kernels without batches for a kind: `EINVAL` (unknown command), `ENOTSUPP` (not for this kind).
fn lacks_batches(errno: Errno) -> bool {
    matches!(errno, Errno::EINVAL | Errno::ENOTSUPP | Errno::EOPNOTSUPP)
}
