//! Attachments of a session: its hooks' programs, what they could not see, and the switch that lets them work.
//!
//! | room | what it does |
//! |---|---|
//! | `hooks` | attaches a hook's programs by the first strategy that this kernel takes |
//! | `own` | events of the session itself: begin, end, iterators, the periods of intervals |
//! | `maps` | the maps of handlers and objects |
//! | `misses` | hits that programs did not see |

mod hooks;
mod maps;
mod misses;
mod own;
mod watchpoints;

use super::identity::{new_uuid, trace_info};
use super::kernel_error::name_what_is_missing;
use super::metadata::Description;
use super::prepare;
use super::resources::Resources;
use super::{Fallback, HitKind, Skipped, modules};
use crate::plan::constant_records::ConstantRecord;
use crate::plan::{Hook, Plan};
use kestrel_catalog::Result;
use kestrel_catalog::attach::{Links, Mechanism, close_many, is_slow, own_event, turn};
use kestrel_catalog::catalog::Catalog;
use kestrel_hook::buffer::Buffer;
use kestrel_hook::hook::control::Table;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{Map, Program, ProgramKind};
use kestrel_kernel::process::allow_open_files;
use kestrel_kernel::procfs::possible_cpus;
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::layout::Names;
use std::time::{Duration, Instant};

/// A session: what is attached, and the resources that its programs are bound to.
#[derive(Debug)]
pub struct Session {
    pub(super) resources: Resources,
    /// The processes that are traced.
    pub(super) process_filter: ProcessFilter,
    /// Names of the events by their numbers.
    pub(super) event_names: Names,
    /// The trace's description in kernel memory, for a recovery from a memory image.
    pub(super) metadata: Option<Description>,
    pub(super) hooks: Vec<Attached>,
    pub(super) trackers: Vec<Attached>,
    /// Number of consecutive programs that are copies of one (second chances).
    pub(super) tracker_copies: usize,
    /// Which of the plan's hooks have their handlers in the program of another.
    pub(super) sharing: Vec<usize>,
    pub(super) classes: Vec<EventClass>,
    pub(super) fallbacks: Vec<Fallback>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) info: TraceInfo,
    /// When CPUs that were plugged in were last looked for.
    pub(super) looked: Option<Instant>,
    /// Modules that hooks sit in.
    pub(super) modules: modules::ModuleWatch,
    /// Time of loading and attaching.
    pub(super) attaching: Duration,
}

/// A loaded program and what it is attached to.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) event: String,
    /// The number of further events that the program serves.
    pub(super) others: usize,
    pub(super) program: Program,
    /// Maps of the program alone, which live as long as it does.
    pub(super) _maps: Vec<Map>,
    pub(super) links: Links,
    /// Program arrays for handlers that are loaded later, one for each copy of the program.
    pub(super) slots: Vec<Map>,
    /// Hits that one of the program's copies saw; only where threads can be preempted inside it, and it has copies (second chances).
    pub(super) seen: Option<Map>,
    /// The number of the copies; 0 without.
    pub(super) copies: u32,
    /// Type of the program.
    pub(super) kind: ProgramKind,
    /// How it is attached; none for what is attached beside the hooks.
    pub(super) mechanism: Option<Mechanism>,
    /// Place of the hook in a module that may be unloaded.
    pub(super) module: Option<modules::ModulePlace>,
    /// The build of its module, where the kernel attaches it again when the module is loaded again.
    pub(super) module_build: Option<String>,
    /// Records with constant contents, by their numbers: the reader makes them, not the program.
    pub(super) constant_records: Vec<(EventId, ConstantRecord)>,
    /// Whether its handlers do nothing but those records.
    pub(super) idle: bool,
    /// Which of the plan's hooks it is, and which of the hook's strategies.
    pub(super) hook: usize,
    pub(super) strategy: usize,
}

impl Attached {
    /// Whether it sees entries and returns.
    fn sees_both_ends(&self) -> bool {
        self.mechanism.as_ref().is_some_and(|it| it.call_end().is_some())
    }

    /// Kind of hits.
    fn hits(&self) -> HitKind {
        match &self.mechanism {
            _ if self.sees_both_ends() => HitKind::Calls,
            Some(it) if it.letter() == 'r' => HitKind::Returns,
            Some(_) | None => HitKind::Any,
        }
    }
}

impl Session {
    /// Makes buffers, loads and attaches everything; hooks return at once until [`Session::activate`].
    ///
    /// # Errors
    /// The first thing that could not be made; nothing is left attached.
    pub fn start(plan: &Plan, catalog: &Catalog, command: &str) -> Result<Self> {
        Self::make(plan, catalog, command, "").map_err(|error| name_what_is_missing(error, catalog.host()))
    }

    /// Makes and attaches what a plan says, under the `name` of a persistent session.
    pub(super) fn make(plan: &Plan, catalog: &Catalog, command: &str, name: &str) -> Result<Self> {
        allow_open_files(files(plan));
        own_event::sweep(catalog.host());
        let uuid = new_uuid()?;
        let resources = Resources::create(plan, catalog.host(), uuid, !name.is_empty())?;
        let mut info = trace_info(catalog.host(), &resources.buffers, uuid, command);
        name.clone_into(&mut info.session);
        let mut session = Self {
            resources,
            process_filter: plan.target.clone(),
            event_names: match plan.globals.source {
                Some(_) => plan.hooks.iter().flat_map(Hook::whole_numbers).collect(),
                None => plan.hooks.iter().flat_map(Hook::numbers).collect(),
            },
            metadata: None,
            hooks: Vec::new(),
            trackers: Vec::new(),
            tracker_copies: 1,
            sharing: Vec::new(),
            classes: Vec::new(),
            fallbacks: Vec::new(),
            skipped: Vec::new(),
            info,
            looked: None,
            modules: modules::ModuleWatch::default(),
            attaching: Duration::ZERO,
        };
        session.resources.objects.add(&plan.objects);
        let begun = Instant::now();
        let _turn = turn(catalog.host());
        session.admit(catalog, &plan.target)?;
        let ready = prepare::prepare(&session.resources, plan, catalog);
        for (hook, ready) in ready.into_iter().enumerate() {
            if let Err(error) = session.add(plan, hook, ready, catalog) {
                // All or none: those before it are detached in the background, and the error is reported at once.
                session.detach_in_background();
                return Err(error);
            }
        }
        session.attaching = begun.elapsed();
        session.info.events.clone_from(&session.classes);
        let metadata = Description::create(&session.info, 1)?;
        metadata.bind(session.hooks.iter().map(|hook| &hook.program))?;
        session.metadata = Some(metadata);
        session.follow(plan, catalog)?;
        session.resources.objects.keep();
        Ok(session)
    }

    /// Lets the hooks work, all at once, from their next event on.
    pub fn activate(&self) {
        self.resources.control.activate(Table::known(1));
    }

    /// Masks all hooks at once; nothing is detached yet.
    pub fn deactivate(&self) {
        self.resources.control.activate(Table::NONE);
    }

    /// Whether all hooks are masked: before it begins, and when a handler has called `exit`.
    pub fn is_masked(&self) -> bool {
        self.resources.control.active() == Table::NONE
    }

    /// Gives one of its parameters another value.
    pub(crate) fn set_parameter(&self, index: usize, value: u64) {
        self.resources.control.set_parameter(index, value);
    }

    /// Detaches everything. Masked hooks cost next to nothing meanwhile.
    pub fn detach(&mut self) {
        self.hooks.clear();
        self.trackers.clear();
    }

    /// Detaches everything. Where there is much of what the kernel takes long to detach (perf events and trampolines: some 0.1 s each), a
    /// process of its own does that, [`kestrel_kernel::process::CLOSER`]; gives for how many events. They are masked meanwhile.
    pub fn detach_in_background(&mut self) -> usize {
        self.deactivate();
        // Links on events of tracefs are closed here: such an event can be removed only when nothing is attached to it any more.
        let slow = |attached: &Attached| is_slow(attached.kind) && attached.links.events().is_empty();
        let hooks = std::mem::take(&mut self.hooks).into_iter();
        let (slowly, _at_once): (Vec<_>, Vec<_>) = hooks.partition(slow);
        let files = slowly
            .into_iter()
            .flat_map(|attached| attached.links.into_files());
        let in_background = close_many(&self.resources.host, files.collect());
        self.trackers.clear();
        in_background
    }

    /// The buffers, at least one, by number.
    pub fn buffers(&self) -> &[Buffer] {
        &self.resources.buffers
    }

    /// The host that it traces.
    pub fn host(&self) -> &Host {
        &self.resources.host
    }

    /// The trace that the buffer's packets belong to.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// The kinds of record that can come.
    pub fn classes(&self) -> &[EventClass] {
        &self.classes
    }

    /// Events that are not seen in the best way planned.
    pub fn fallbacks(&self) -> &[Fallback] {
        &self.fallbacks
    }

    /// Events that this kernel does not let be attached, and only a pattern named.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Programs attached, trackers of the command left out.
    pub fn programs(&self) -> usize {
        self.hooks.len()
    }

    /// Time that loading and attaching took.
    pub fn attaching(&self) -> Duration {
        self.attaching
    }
}

/// The most files that are open while a plan is attached: each hook's program, link, perf event and own maps, a link and a perf event for each
/// function where the kernel has no multi links, and some for the process itself.
pub(super) fn files(plan: &Plan) -> u64 {
    let cpus = possible_cpus().map_or(1, |cpus| cpus.iter().count() as u64);
    let of = |hook: &Hook| {
        let mechanism = hook.strategies.first().map(|strategy| &strategy.mechanism);
        8 + mechanism.map_or(0, |it| it.descriptors(hook.instances.len() as u64, cpus))
    };
    1024 + plan.hooks.iter().map(of).sum::<u64>()
}
