//! The pins of a session: the name of each of its objects in its bpffs directory.
//!
//! ```text
//! /sys/fs/bpf/kestrel/            mode 0700
//!   SESSION/                      made under the name +new+SESSION, renamed when all is there
//!     control state meta names    maps
//!     meta_copy                   what is in meta, elsewhere in memory
//!     buffer_NAME map_NAME        maps; a buffer that was resized N times: buffer_NAME-N, and the one before
//!     maps                        the state of all map_NAME together
//!     bell message_bell           what writers ring to wake the readers of streams, and the agent
//!     hits                        how often named probes were hit
//!     hook0_link0 …               what is attached; a link keeps its program, a program its maps
//!     object0_MAP                 maps of the compiled objects that handlers are in
//!     hook0_seen hook0_slots1 …   where it is several programs: hits that were seen, and the slots of the others
//!     hook0_slots                 handlers that were loaded later, programs of objects (a program array is emptied when no pin or process holds it)
//!     follow0 …                   links of programs that keep the names of threads
//!     +NAME                       on its way to becoming NAME
//!   +gone+SESSION+N/              being removed
//! ```
//!
//! bpffs reserves names with dots (`bpf_lookup` in kernel/bpf/inode.c), so what is not there yet begins with `+`, which names of sessions cannot
//! contain.

use crate::session::state::{BufferState, HookState, ObjectState, State};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Map, Pinned, pin, pinned};
use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

pub(in crate::session) const CONTROL: &str = "control";
pub(in crate::session) const STATE: &str = "state";
pub(in crate::session) const META: &str = "meta";
/// A second copy of the metadata.
pub(in crate::session) const META_COPY: &str = "meta_copy";
pub(in crate::session) const NAMES: &str = "names";
pub(in crate::session) const TARGETS: &str = "targets";
/// The bell that writers of streams ring.
pub(in crate::session) const BELL: &str = "bell";
/// The bell that writers of messages ring.
pub(in crate::session) const MESSAGE_BELL: &str = "message_bell";
/// Hits of named probes.
pub(in crate::session) const HITS: &str = "hits";
/// Words that hooks pass on to others.
pub(in crate::session) const RELAY: &str = "relay";
/// The state map of the handlers' maps.
pub(in crate::session) const MAPS: &str = "maps";
/// Pin that exists while slots are filled.
pub(in crate::session) const FILLING: &str = "+filling";
/// Prefix of staged pins and directories: they do not belong to a session yet, or not any more.
pub(in crate::session) const STAGED: char = '+';

pub(in crate::session) fn buffer(buffer: &BufferState) -> String {
    match buffer.resized {
        0 => format!("buffer_{}", buffer.name),
        times => format!("buffer_{}-{times}", buffer.name),
    }
}

pub(in crate::session) fn map(name: &str) -> String {
    format!("map_{name}")
}

/// The stacks that are keys of a map.
pub(in crate::session) fn stacks(name: &str) -> String {
    format!("stacks_{name}")
}

pub(in crate::session) fn link(hook: u32, link: u32) -> String {
    format!("hook{hook}_link{link}")
}

/// The slots of one of a hook's programs.
pub(in crate::session) fn slots(hook: u32, program: u32) -> String {
    match program {
        0 => format!("hook{hook}_slots"),
        _ => format!("hook{hook}_slots{program}"),
    }
}

/// The hits that a hook's programs have seen.
pub(in crate::session) fn seen(hook: u32) -> String {
    format!("hook{hook}_seen")
}

/// All pins of a hook.
pub(in crate::session) fn of_hook(state: &HookState) -> Vec<String> {
    let mut names: Vec<String> = (0..state.links)
        .map(|number| link(state.number, number))
        .collect();
    if state.has_slots() {
        names.extend((0..state.copies.max(1)).map(|program| slots(state.number, program)));
    }
    if state.copies > 0 {
        names.push(seen(state.number));
    }
    names
}

/// A map of a compiled object.
pub(in crate::session) fn object(number: u32, map: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let map: String = map.trim_start_matches('.').chars().map(plain).collect();
    format!("object{number}_{map}")
}

/// All pins of an object.
pub(in crate::session) fn of_object(state: &ObjectState) -> impl Iterator<Item = String> {
    state.maps.iter().map(|map| object(state.number, &map.name))
}

pub(in crate::session) fn tracker(number: u32) -> String {
    format!("follow{number}")
}

/// All names that a state accounts for.
pub(in crate::session) fn of(state: &State) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = [
        CONTROL,
        STATE,
        META,
        META_COPY,
        NAMES,
        TARGETS,
        BELL,
        MESSAGE_BELL,
        HITS,
        RELAY,
    ]
    .map(str::to_owned)
    .into();
    names.extend(state.buffers.iter().map(buffer));
    names.extend(state.buffers.iter().filter_map(|b| Some(buffer(&b.earlier()?))));
    names.extend(state.maps.iter().map(|m| map(&m.name)));
    if !state.maps.is_empty() {
        names.insert(MAPS.to_owned());
    }
    names.extend(state.hooks.iter().flat_map(of_hook));
    names.extend(state.objects.iter().flat_map(of_object));
    names.extend((0..state.trackers).map(tracker));
    names
}

/// A directory of pins.
#[derive(Clone, Debug)]
pub(in crate::session) struct Directory(PathBuf);

impl Directory {
    pub(in crate::session) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Makes it, for its owner alone.
    pub(in crate::session) fn create(path: PathBuf) -> Result<Self> {
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(Error::io("create the directory", path.display()))?;
        Ok(Self(path))
    }

    pub(in crate::session) fn path(&self) -> &Path {
        &self.0
    }

    pub(in crate::session) fn pin(&self, object: BorrowedFd<'_>, name: &str) -> Result<()> {
        Ok(pin(object, &self.0.join(name))?)
    }

    /// Pins in the place of what bears the name now, if anything does: at no moment is there nothing.
    pub(in crate::session) fn replace(&self, object: BorrowedFd<'_>, name: &str) -> Result<()> {
        let passing = format!("{STAGED}{name}");
        self.remove(&passing)?;
        self.pin(object, &passing)?;
        let (from, to) = (self.0.join(&passing), self.0.join(name));
        std::fs::rename(&from, &to).map_err(Error::io("rename to", to.display()))
    }

    pub(in crate::session) fn open(&self, name: &str) -> Result<Pinned> {
        Ok(pinned(&self.0.join(name))?)
    }

    pub(in crate::session) fn map(&self, name: &str) -> Result<Map> {
        match self.open(name)? {
            Pinned::Map(map) => Ok(map),
            other => Err(Error::State {
                session: self.0.display().to_string(),
                why: format!("{name} is not a map: {other:?}"),
            }),
        }
    }

    pub(in crate::session) fn remove(&self, name: &str) -> Result<()> {
        kestrel_kernel::bpf::unpin(&self.0.join(name))?;
        Ok(())
    }

    /// Names of all that is in it; none if it is not there.
    pub(in crate::session) fn names(&self) -> Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("read the directory", self.0.display())(error)),
        };
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: std::io::Result<Vec<String>> = names.collect();
        names.map_err(Error::io("read the directory", self.0.display()))
    }

    /// Gives it another name.
    pub(in crate::session) fn rename(self, to: PathBuf) -> Result<Self> {
        std::fs::rename(&self.0, &to).map_err(Error::io("rename to", to.display()))?;
        Ok(Self(to))
    }

    /// Removes it with all that is in it.
    pub(in crate::session) fn destroy(self) -> Result<()> {
        for name in self.names()? {
            self.remove(&name)?;
        }
        match std::fs::remove_dir(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove the directory", self.0.display())(error))
            }
            _ => Ok(()),
        }
    }
}
