//! A persistent session, found again by its pins: read by any command that may, changed by one command at a time.

use crate::session::attached::Session;
use crate::session::lock::Lock;
use crate::session::maps::Maps;
use crate::session::metadata;
use crate::session::objects::{self, Objects};
use crate::session::pins::{self, Directory};
use crate::session::resources::Resources;
use crate::session::state::{BufferState, State, TableState};
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::bell::Doorbell;
use kestrel_hook::hook::control::Control;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_hook::hook::thread_names;
use kestrel_kernel::Host;
use kestrel_kernel::bpf::Map;
use kestrel_kernel::procfs::possible_cpus;
use kestrel_object::BpfMap;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::info::{TraceInfo, Uuid};
use kestrel_trace::process::Processes;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Attempts at opening the buffers while another command changes the session.
const OPEN_RETRIES: u32 = 5;

/// A persistent session, opened by its pins.
#[derive(Debug)]
pub struct PinnedSession {
    pub(in crate::session) directory: Directory,
    pub(in crate::session) state: State,
    pub(in crate::session) control: Control,
    /// The host whose kernel it is in.
    pub(in crate::session) host: Host,
    /// The identity of the pin that the state was read from; an older one where it was replaced at the same time.
    pub(in crate::session) version: Option<u64>,
}

pub(in crate::session) fn version(directory: &Directory) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(directory.path().join(pins::STATE));
    found.ok().map(|found| found.ino())
}

impl PinnedSession {
    pub(in crate::session) fn open(host: &Host, directory: PathBuf, name: &str) -> Result<Self> {
        let directory = Directory::at(directory);
        let version = version(&directory);
        let state = State::from_map(&directory.map(pins::STATE)?, name)?;
        let control = Control::open(directory.map(pins::CONTROL)?)?;
        Ok(Self {
            directory,
            state,
            control,
            host: host.clone(),
            version,
        })
    }

    /// The session as its state is now.
    ///
    /// # Errors
    /// The kernel's, or when it has ended.
    pub fn reopen(&self) -> Result<Self> {
        Self::open(&self.host, self.directory.path().to_owned(), self.name())
    }

    /// The session's name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Directory of its pins.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// State of the session.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The page that its hooks read first.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The active table; none while it is one that is on its way out.
    pub fn active(&self) -> Option<&TableState> {
        self.state.active(self.control.active())
    }

    /// The identity of its trace.
    ///
    /// # Errors
    /// When the state holds something else.
    pub fn uuid(&self) -> Result<Uuid> {
        Uuid::parse(&self.state.uuid).ok_or_else(|| Error::State {
            session: self.state.name.clone(),
            why: format!("`{}` is not an identity", self.state.uuid),
        })
    }

    /// The trace that its packets belong to, with the rings of the state that was read when it was opened.
    ///
    /// The description in kernel memory is replaced before the state is: it may name a ring that no state has yet, or never will have because its maker was killed.
    /// The state says which rings there are.
    ///
    /// # Errors
    /// The kernel's, or when the metadata cannot be read.
    pub fn info(&self) -> Result<TraceInfo> {
        let mut info = metadata::read(&self.directory.map(pins::META)?, self.uuid()?)?;
        info.buffers = self.state.rings();
        Ok(info)
    }

    /// The identity of the session's state as its pin holds it now, without reading it; `None` when the session has ended.
    pub fn version(&self) -> Option<u64> {
        version(&self.directory)
    }

    /// Whether the session is as it was when this was opened: the same rings, tables and kinds of record.
    pub(crate) fn is_current(&self) -> bool {
        self.version.is_some() && self.version() == self.version
    }

    /// The names of threads that it keeps, which can be read as long as this is held.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn thread_names(&self) -> Result<ThreadNames> {
        Ok(ThreadNames(self.directory.map(pins::NAMES)?))
    }

    /// The buffers by number.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn buffers(&self) -> Result<Vec<Buffer>> {
        let cpus: Vec<u32> = possible_cpus()?.iter().collect();
        let mut opened = self.open_buffers(&self.state, &cpus);
        for _ in 0..OPEN_RETRIES {
            if opened.is_ok() {
                break;
            }
            // One was resized since the state was read, perhaps, and is pinned under another name now.
            match self.directory.map(pins::STATE) {
                Ok(map) => opened = self.open_buffers(&State::from_map(&map, self.name())?, &cpus),
                Err(_) => break,
            }
        }
        opened
    }

    fn open_buffers(&self, state: &State, cpus: &[u32]) -> Result<Vec<Buffer>> {
        let open = |state: &BufferState| {
            let map = self.directory.map(&pins::buffer(state))?;
            Buffer::open(&state.name, map, state.geometry(), cpus)
        };
        let both = |state: &BufferState| {
            let before = state.earlier().map(|earlier| open(&earlier)).transpose()?;
            let before = before.map(|before| before.resized(state.resized - 1, None));
            Ok(open(state)?.resized(state.resized, before))
        };
        state.buffers.iter().map(both).collect()
    }

    /// The handlers' maps.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn maps(&self) -> Result<Maps> {
        let open = |ty: &MapType| Ok((ty.clone(), self.directory.map(&pins::map(&ty.name))?));
        let maps: Vec<(MapType, Map)> = self.state.maps.iter().map(open).collect::<Result<_>>()?;
        let state = match maps.is_empty() {
            true => None,
            false => Some(self.directory.map(pins::MAPS)?),
        };
        let with_stacks = self.state.maps.iter().filter(|ty| ty.most_frames().is_some());
        let stacks = with_stacks
            .map(|ty| Ok((ty.name.clone(), self.directory.map(&pins::stacks(&ty.name))?)))
            .collect::<Result<_>>()?;
        Maps::open(state, maps, stacks)
    }

    /// Contents of the handlers' maps now.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn map_snapshots(&self) -> Result<Vec<Snapshot>> {
        self.maps()?.read(&self.state.event_names())
    }

    /// The maps of a compiled object in which handlers are, by the object's number: global data among them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn object_maps(&self, object: u32) -> Result<Vec<BpfMap>> {
        let known = self.state.objects.iter().filter(|known| known.number == object);
        known
            .flat_map(|known| known.maps.iter().map(move |map| (known, map)))
            .map(|(known, map)| objects::found(&self.directory, known, map))
            .collect()
    }

    /// A pinned map of the session.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn map(&self, name: &str) -> Result<Map> {
        self.directory.map(name)
    }

    /// A [`Session`] over this session's resources without hooks, filter or license: to prepare a change.
    ///
    /// # Errors
    /// The kernel's, or when a part is missing.
    pub fn session(&self) -> Result<Session> {
        let mut info = self.info()?;
        let buffers = self.buffers()?;
        // Buffers that were removed keep their places, by which programs and traces number the others.
        info.buffers = (0..)
            .zip(&buffers)
            .filter(|(_, buffer)| !buffer.is_removed())
            .flat_map(|(place, buffer)| buffer.infos(place))
            .collect();
        Ok(Session {
            resources: Resources {
                host: self.host.clone(),
                control: Arc::new(Control::open(self.directory.map(pins::CONTROL)?)?),
                buffers,
                bells: Vec::new(),
                doorbell: self.doorbell(pins::BELL)?,
                message_bell: self.doorbell(pins::MESSAGE_BELL)?,
                process_filter: self.directory.map(pins::TARGETS).ok(),
                thread_names: self.directory.map(pins::NAMES)?,
                hits: self.directory.map(pins::HITS).ok(),
                relay: self.directory.map(pins::RELAY).ok(),
                license: None,
                packets: None,
                maps: self.maps()?,
                objects: Objects::of(&self.state.objects, &self.directory),
            },
            process_filter: ProcessFilter::All,
            event_names: self.state.event_names(),
            metadata: None,
            hooks: Vec::new(),
            trackers: Vec::new(),
            tracker_copies: 1,
            sharing: Vec::new(),
            classes: info.events.clone(),
            fallbacks: Vec::new(),
            skipped: Vec::new(),
            info,
            looked: None,
            modules: Default::default(),
            attaching: std::time::Duration::ZERO,
        })
    }

    /// Doorbell that writers of some of its rings ring; `None` in sessions of Kestrels that had none.
    fn doorbell(&self, pin: &str) -> Result<Option<Doorbell>> {
        let map = self.state.bell.then(|| self.directory.map(pin)).transpose()?;
        map.map(Doorbell::open).transpose()
    }

    /// Doorbell that writers of messages ring.
    pub(crate) fn message_bell(&self) -> Result<Option<Doorbell>> {
        self.doorbell(pins::MESSAGE_BELL)
    }

    /// Doorbell that writers of streams ring.
    pub(crate) fn stream_bell(&self) -> Result<Option<Doorbell>> {
        self.doorbell(pins::BELL)
    }

    pub(in crate::session) fn no_table(&self, wanted: &str) -> Error {
        Error::NoSuchTable {
            wanted: wanted.to_owned(),
            place: format!("the session {}", self.state.name),
            known: self.state.tables.iter().map(|t| t.name.clone()).collect(),
        }
    }
}

/// Names of threads that appeared, or changed their name, since a session began.
#[derive(Debug)]
pub struct ThreadNames(pub(in crate::session) Map);

impl ThreadNames {
    /// The newest name of a thread, if it appeared or changed it since.
    pub fn name(&self, tid: u32) -> Option<Vec<u8>> {
        thread_names::newest_name(&self.0, tid)
    }

    /// The names so far.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read(&self) -> Result<Processes> {
        let mut all = Processes::default();
        thread_names::collect(&self.0, &mut all)?;
        Ok(all)
    }
}

/// A session while this process, and no other, changes it.
#[derive(Debug)]
pub struct Change {
    pub(in crate::session) session: PinnedSession,
    _lock: Lock,
}

impl Deref for Change {
    type Target = PinnedSession;

    fn deref(&self) -> &PinnedSession {
        &self.session
    }
}

impl Change {
    /// Finishes what a killed command began, and attaches what CPUs that have come since must have.
    pub(in crate::session) fn begin(session: PinnedSession, lock: Lock) -> Result<Self> {
        let mut change = Self { session, _lock: lock };
        change.settle()?;
        change.sweep()?;
        if !change.state.unknown_relays().is_empty() {
            // Where the kernel refuses, or there is no room, a change must be possible that makes some: the status says it, and the next one tries again.
            let _still_unknown = change.make_relays_known(&Catalog::new(change.host.clone()));
        }
        change.follow_cpus()?;
        Ok(change)
    }

    /// Makes a table active: events of all CPUs meet its handlers from their next one on.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`]; [`Error::TableInUse`] for the one of named probes, which is in force beside the active one.
    pub fn use_table(&self, name: &str) -> Result<()> {
        let table = self.state.table(name).ok_or_else(|| self.no_table(name))?;
        self.not_of_probes("use", name)?;
        self.control.switch(table.word());
        Ok(())
    }
}
