//! Resources that the programs of a session are bound to, made of a plan or found again by its pins: control page, buffers, maps, objects.

use super::maps::{self, Maps};
use super::objects::Objects;
use crate::plan::{BufferPlan, Plan};
use kestrel_bpf::btf::{Btf, BtfKind, TypeId};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::ir::MapUse;
use kestrel_compiler::packets;
use kestrel_hook::buffer::bell::{self, Bell, Doorbell};
use kestrel_hook::buffer::reader::RingSpec;
use kestrel_hook::buffer::{self, Buffer};
use kestrel_hook::hook::control::{self, Control, Table};
use kestrel_hook::hook::{named, process_filter, relay, thread_names};
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec};
use kestrel_kernel::procfs::{self, possible_cpus};
use kestrel_trace::info::Uuid;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Resources that the programs of a session are bound to.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) host: Host,
    pub(super) control: Arc<Control>,
    /// The session's buffers, at least one.
    pub(super) buffers: Vec<Buffer>,
    /// How each buffer wakes its reader, by the buffer's index.
    pub(super) bells: Vec<Bell>,
    /// Ring buffer that wakes the reader of buffers, where one of them has a bell.
    pub(super) doorbell: Option<Doorbell>,
    /// Ring buffer that wakes the reader of messages, where that is another one.
    pub(super) message_bell: Option<Doorbell>,
    /// Processes of the traced command ([`process_filter::MAP`]).
    pub(super) process_filter: Option<Map>,
    /// Names of threads.
    pub(super) thread_names: Map,
    /// Hits of named probes, where there have been any.
    pub(super) hits: Option<Map>,
    /// Words that hooks pass on to others, where there are any.
    pub(super) relay: Option<Map>,
    /// The license under which programs are loaded, where it is not Kestrel's own.
    pub(super) license: Option<CString>,
    /// Perf event array for packets, where programs hand them over.
    pub(super) packets: Option<Map>,
    pub(super) maps: Maps,
    /// Compiled objects that handlers name.
    pub(super) objects: Objects,
}

impl Resources {
    /// Makes the resources that a plan wants; a persistent session has a reader of messages beside that of its buffers.
    pub(super) fn create(plan: &Plan, host: &Host, uuid: Uuid, is_persistent: bool) -> Result<Self> {
        let now = procfs::monotonic();
        let cpus: Vec<u32> = possible_cpus()?.iter().collect();
        let shapes = plan.buffers.iter().map(|buffer| buffer.geometry);
        buffer::check_memory(shapes, &cpus, host)?;
        let make = |(number, buffer): (usize, &BufferPlan)| {
            let ring = RingSpec {
                number: number as u32,
                geometry: buffer.geometry,
                uuid,
                cpus: &cpus,
                now,
            };
            Buffer::create(&buffer.name, &ring)
        };
        let buffers: Vec<Buffer> = plan.buffers.iter().enumerate().map(make).collect::<Result<_>>()?;
        let bells: Vec<Bell> = plan.buffers.iter().map(|buffer| buffer.bell).collect();
        let rings = bells.iter().any(|bell| *bell != Bell::Silent);
        let globals = &plan.globals;
        let license = globals.license.as_deref();
        let control = Control::create(uuid, now)?;
        for (index, parameter) in globals.parameters.iter().enumerate() {
            control.set_parameter(index, parameter.value);
        }
        // Handlers known at the start are compiled into the hooks, so that a table's number says all.
        for number in 1..=plan.tables.len() as u32 {
            control.set_table(number - 1, Table::known(number));
        }
        Ok(Self {
            host: host.clone(),
            control: Arc::new(control),
            buffers,
            doorbell: rings.then(Doorbell::create).transpose()?,
            message_bell: (rings && is_persistent).then(Doorbell::create).transpose()?,
            bells,
            process_filter: plan.follows().then(process_filter::create_map).transpose()?,
            thread_names: thread_names::create_map()?,
            hits: None,
            relay: None,
            license: license.and_then(|it| CString::new(it).ok()),
            packets: (!globals.packets.is_empty())
                .then(|| packets_map(cpus.len()))
                .transpose()?,
            maps: Maps::create(&globals.maps, globals.keeps_failures(), globals.unwinds_in_kernel)?,
            objects: Objects::default(),
        })
    }

    /// Loads a program, bound to these resources, to maps of its own and to those that are given for it.
    pub(super) fn load(
        &self,
        (event, function): (&str, &str),
        kind: ProgramKind,
        code: &kestrel_bpf::code::Code,
        uses: &[MapUse],
        types: Option<&Arc<Btf>>,
        given: &[(&str, &Map)],
    ) -> Result<(Program, Vec<Map>)> {
        let own = uses.iter().map(private_map).collect::<Result<Vec<_>>>()?;
        let fds = uses
            .iter()
            .zip(&own)
            .map(|(used, own)| self.map_fd(event, used, own.as_ref(), given));
        let fds: Vec<BorrowedFd<'_>> = fds.collect::<Result<_>>()?;
        let kfunc = |name: &str| -> Option<TypeId> { types?.find(BtfKind::Func, name) };
        let name = program_name(event);
        let spec = ProgramSpec::new(&name, kind, code, &fds).with_kfunc(&kfunc);
        let spec = ProgramSpec {
            function: Some(function),
            license: self.license.as_deref().unwrap_or(spec.license),
            ..spec
        };
        let program = Program::load(&spec)?;
        drop(fds);
        Ok((program, own.into_iter().flatten().collect()))
    }

    /// The descriptor of a map that the program of `event` uses.
    fn map_fd<'a>(
        &'a self,
        event: &str,
        used: &MapUse,
        own: Option<&'a Map>,
        given: &[(&str, &'a Map)],
    ) -> Result<BorrowedFd<'a>> {
        let name = match (used, own) {
            (MapUse::Private(_), Some(map)) => return Ok(map.as_fd()),
            (MapUse::Private(spec), None) => &spec.name,
            (MapUse::External(name), _) => name,
        };
        let given = given.iter().find(|(given, _)| given == name).map(|(_, map)| *map);
        let buffer = || self.buffers.iter().find(|b| *name == b.map_name());
        let map = given
            .or_else(|| buffer().map(Buffer::map))
            .or_else(|| self.maps.find(name))
            .or_else(|| self.hook_map(name));
        map.map(Map::as_fd).ok_or_else(|| Error::Compile {
            event: event.to_owned(),
            why: format!("it uses the map {name}, which the session does not have"),
        })
    }

    /// A map that the programs of hooks know by a name of their own.
    fn hook_map(&self, name: &str) -> Option<&Map> {
        match name {
            control::MAP => Some(self.control.map()),
            process_filter::MAP => self.process_filter.as_ref(),
            thread_names::MAP => Some(&self.thread_names),
            named::HITS => self.hits.as_ref(),
            relay::MAP => self.relay.as_ref(),
            packets::MAP => self.packets.as_ref(),
            bell::FILLED => self.doorbell.as_ref().map(Doorbell::map),
            // A session in the foreground has one bell: one process reads its pages and its messages.
            bell::RECORDS => self
                .message_bell
                .as_ref()
                .or(self.doorbell.as_ref())
                .map(Doorbell::map),
            _ => None,
        }
    }

    /// Puts a buffer at an index, or appends it; programs loaded later use it.
    pub(super) fn set_buffer(&mut self, place: usize, buffer: Buffer) {
        match self.buffers.get_mut(place) {
            Some(old) => *old = buffer,
            None => self.buffers.push(buffer),
        }
    }
}

fn private_map(used: &MapUse) -> Result<Option<Map>> {
    let MapUse::Private(spec) = used else {
        return Ok(None);
    };
    Ok(Some(maps::make(spec)?))
}

/// Program name as bpftool shows it: the last part of the event's name, as much as fits.
fn program_name(event: &str) -> String {
    format!("k_{}", event.rsplit(':').next().unwrap_or(event))
}

/// The map by which programs hand packets over, with a place for each CPU.
fn packets_map(cpus: usize) -> Result<Map> {
    let spec = MapSpec::new(MapKind::PERF_EVENT_ARRAY, packets::MAP, 4, 4, cpus as u32);
    Ok(Map::create(&spec)?)
}
