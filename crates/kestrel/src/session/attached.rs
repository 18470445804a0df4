//! What a session attaches: its hooks' programs, what they could not see, and the switch that lets them work.

use super::identity::{new_uuid, trace_info};
use super::maps::Maps;
use super::metadata::Description;
use super::missed::Misses;
use super::objects::Objects;
use super::prepare::{self, Ready};
use super::refusal::{is_final, name_what_is_missing, reason};
use super::resources::Resources;
use super::{Fallback, Hits, Missed, Skipped, attach, modules, rejection};
use crate::plan::{BufferPlan, Hook, Plan, PlannedStrategy};
use kestrel_catalog::attach::{Links, Mechanism, close_many, is_slow, own_event, turn};
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::failures::Failure;
use kestrel_compiler::packets;
use kestrel_hook::buffer::bell::{Bell, Doorbell};
use kestrel_hook::buffer::reader::RingSpec;
use kestrel_hook::buffer::{self, Buffer};
use kestrel_hook::hook::control::{Control, Table};
use kestrel_hook::hook::process_filter::{self, ProcessFilter};
use kestrel_hook::hook::{second_chance, thread_names};
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, Program, ProgramKind, TestRun};
use kestrel_kernel::preemption::Preemption;
use kestrel_kernel::process::allow_open_files;
use kestrel_kernel::procfs::{self, possible_cpus};
use kestrel_object::BpfMap;
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::event::EventClass;
use kestrel_trace::info::TraceInfo;
use kestrel_trace::layout::Names;
use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::fs::File;
use std::time::{Duration, Instant};

/// A session: what is attached, and the resources that its programs are bound to.
#[derive(Debug)]
pub struct Session {
    pub(super) resources: Resources,
    /// Whose events are wanted.
    pub(super) target: ProcessFilter,
    /// Names of the events by their numbers.
    pub(super) numbers: Names,
    /// The trace's description in kernel memory, for a recovery from a memory image.
    pub(super) metadata: Option<Description>,
    pub(super) hooks: Vec<Attached>,
    pub(super) followers: Vec<Attached>,
    /// So many of them, one after the other, do the same.
    pub(super) follower_copies: usize,
    /// Which of the plan's hooks have their handlers in the program of another.
    pub(super) sharing: Vec<usize>,
    pub(super) classes: Vec<EventClass>,
    pub(super) detours: Vec<Fallback>,
    pub(super) left_out: Vec<Skipped>,
    pub(super) info: TraceInfo,
    /// When it was last looked for CPUs that have come.
    pub(super) looked: Option<Instant>,
    /// Modules that hooks sit in.
    pub(super) modules: modules::Followed,
    /// How long loading and attaching took.
    pub(super) attaching: Duration,
}

/// A loaded program and what it is attached to.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) event: String,
    /// Events of its set beside that.
    pub(super) others: usize,
    pub(super) program: Program,
    /// Maps of its own live as long as it does.
    pub(super) _maps: Vec<Map>,
    pub(super) links: Links,
    /// Handlers that come later: an array for each of its programs.
    pub(super) slots: Vec<Map>,
    /// Where threads can be preempted inside the program: the hits that were seen by it or by the programs behind it.
    pub(super) seen: Option<Map>,
    /// Where that is so, the number of these programs; else 0.
    pub(super) copies: u32,
    /// Type of the program.
    pub(super) kind: ProgramKind,
    /// How it is attached; none for what is attached beside the hooks.
    pub(super) mechanism: Option<Mechanism>,
    /// Where it sits in a module that may be unloaded.
    pub(super) module: Option<modules::InModule>,
    /// Where the kernel attaches it again with its module: the build of that.
    pub(super) module_build: Option<String>,
    /// Which of the plan's hooks it is, and which of the hook's ways.
    pub(super) hook: usize,
    pub(super) way: usize,
}

impl Attached {
    /// Whether it sees entries and returns.
    fn sees_both_ends(&self) -> bool {
        matches!(self.mechanism, Some(Mechanism::Calls(_)))
    }

    /// What it sees.
    fn hits(&self) -> Hits {
        match &self.mechanism {
            Some(Mechanism::Calls(_)) => Hits::Calls,
            Some(it) if it.letter() == 'r' => Hits::Returns,
            _ => Hits::Any,
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
        let now = procfs::monotonic();
        let uuid = new_uuid()?;
        let cpus: Vec<u32> = possible_cpus()?.iter().collect();
        let shapes = plan.buffers.iter().map(|buffer| buffer.geometry);
        buffer::check_memory(shapes, &cpus, catalog.host())?;
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
        let control = Control::create(uuid, now)?;
        for (index, parameter) in plan.globals.parameters.iter().enumerate() {
            control.set_parameter(index, parameter.value);
        }
        for number in 1..=plan.tables.len() as u32 {
            control.set_table(number - 1, Table::known(number));
        }
        let targets = plan.follows().then(process_filter::create_map).transpose()?;
        let mut info = trace_info(catalog.host(), &buffers, uuid, command);
        name.clone_into(&mut info.session);
        let mut session = Self {
            resources: Resources {
                host: catalog.host().clone(),
                control,
                buffers,
                doorbell: rings.then(Doorbell::create).transpose()?,
                message_bell: (rings && !name.is_empty()).then(Doorbell::create).transpose()?,
                bells,
                targets,
                names: thread_names::create_map()?,
                hits: None,
                relay: None,
                license: plan
                    .globals
                    .license
                    .as_deref()
                    .and_then(|it| CString::new(it).ok()),
                packets: (!plan.globals.packets.is_empty())
                    .then(|| packets_map(cpus.len()))
                    .transpose()?,
                maps: Maps::create(&plan.globals.maps, plan.globals.keeps_failures())?,
                objects: Objects::default(),
            },
            target: plan.target.clone(),
            numbers: match plan.globals.source {
                Some(_) => plan.hooks.iter().flat_map(Hook::whole_numbers).collect(),
                None => plan.hooks.iter().flat_map(Hook::numbers).collect(),
            },
            metadata: None,
            hooks: Vec::new(),
            followers: Vec::new(),
            follower_copies: 1,
            sharing: Vec::new(),
            classes: Vec::new(),
            detours: Vec::new(),
            left_out: Vec::new(),
            info,
            looked: None,
            modules: modules::Followed::default(),
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
                session.detach_apart();
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

    /// Attaches one of a plan's hooks, whose first strategy may be `ready`. One that only a pattern named is left out if the kernel refuses it.
    pub(super) fn add(
        &mut self,
        plan: &Plan,
        index: usize,
        ready: Option<Ready>,
        catalog: &Catalog,
    ) -> Result<()> {
        let hook = &plan.hooks[index];
        if self
            .end_attached(plan, hook)
            .is_some_and(Attached::sees_both_ends)
        {
            let way = hook.ways.first();
            self.classes
                .extend(way.map_or_else(Vec::new, |way| hook.classes(way)));
            self.sharing.push(index);
            return Ok(());
        }
        match self.attach(plan, hook, ready, catalog) {
            Ok((mut attached, classes, detour)) => {
                attached.hook = index;
                let missing = attached.links.missing().iter().cloned();
                self.left_out
                    .extend(missing.map(|(event, why)| Skipped { event, why }));
                self.detours.extend(detour);
                self.hooks.push(attached);
                self.classes.extend(classes);
                Ok(())
            }
            Err(error) if hook.optional && !is_final(&error) => {
                self.left_out.push(Skipped {
                    event: hook.event(),
                    why: error.to_string(),
                });
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// What was attached at the other end of the calls whose end a hook is at, if they were to share a program.
    fn end_attached(&self, plan: &Plan, hook: &Hook) -> Option<&Attached> {
        let call = hook.call?;
        let known = |attached: &&Attached| {
            plan.hooks
                .get(attached.hook)
                .is_some_and(|it| it.call == Some(call))
        };
        self.hooks.iter().find(known)
    }

    /// Tries the strategies of a hook in turn.
    pub(super) fn attach(
        &self,
        plan: &Plan,
        hook: &Hook,
        mut ready: Option<Ready>,
        catalog: &Catalog,
    ) -> Result<(Attached, Vec<EventClass>, Option<Fallback>)> {
        let mut last: Option<Error> = None;
        // A program for both ends comes too late for one that is seen in another way.
        let alone = self.end_attached(plan, hook).is_some();
        let possible = |way: &PlannedStrategy| !(alone && matches!(way.mechanism, Mechanism::Calls(_)));
        let ways = hook.ways.iter().enumerate();
        for (index, way) in ways.filter(|(_, way)| possible(way)) {
            let ready = ready.take().map_or_else(
                || Ready::compile(plan, hook, way, prepare::preemption(plan, catalog)),
                Ok,
            );
            let several = ready.as_ref().is_ok_and(|ready| ready.compiled.len() > 1);
            let mut attached = ready.and_then(|ready| self.attach_way(hook, way, ready, catalog));
            if several && attached.as_ref().is_err_and(second_chance::is_without_room) {
                let single = Ready::compile(plan, hook, way, Preemption::default());
                attached = single.and_then(|ready| self.attach_way(hook, way, ready, catalog));
            }
            match attached {
                Ok(mut attached) => {
                    attached.way = index;
                    let detour = last.map(|why| Fallback {
                        event: attached.event.clone(),
                        way: way.to_string(),
                        why: reason(&why),
                    });
                    return Ok((attached, hook.classes(way), detour));
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        let event = hook.event();
        Err(last.unwrap_or(Error::Compile {
            event,
            why: "no way to see it was found".to_owned(),
        }))
    }

    fn attach_way(
        &self,
        hook: &Hook,
        way: &PlannedStrategy,
        mut ready: Ready,
        catalog: &Catalog,
    ) -> Result<Attached> {
        let (event, function) = (hook.event(), hook.function());
        let types = catalog.types().ok();
        let kept = RefCell::new(ready.loaded.take());
        let loaded = Cell::new(ProgramKind::RawTracepoint);
        let calls = hook.calls(way);
        let load = |number: usize, kind: ProgramKind| -> Result<(Program, Vec<Map>)> {
            let kept = kept.borrow_mut().as_mut().and_then(|(known, programs)| {
                let there = *known == kind && !programs.is_empty();
                there.then(|| programs.remove(0))
            });
            let made = match kept {
                Some(made) => made,
                None => {
                    let compiled = &ready.compiled[number];
                    let given = ready.maps(number);
                    self.resources.load(
                        (&event, &function),
                        kind,
                        &compiled.code,
                        &compiled.maps,
                        types.as_ref(),
                        &given,
                    )?
                }
            };
            Ok(made)
        };
        let load_first = |kind: ProgramKind| {
            loaded.set(kind);
            let made = load(0, kind)?;
            // The first program that uses a program array decides which programs it takes.
            if let Some(slots) = ready.slots.first() {
                self.resources.objects.fill(slots, &calls, kind)?;
            }
            Ok(made)
        };
        let load_others = |kind: ProgramKind| {
            let others = 1..ready.compiled.len();
            others.map(|number| Ok(load(number, kind)?.0)).collect()
        };
        let source = hook
            .rows
            .first()
            .map_or_else(String::new, |row| row.source.to_string());
        let (program, mut maps, links) = attach::attach(hook, way, catalog, &load_first, &load_others)
            .map_err(|error| rejection::explain(error, &event, &source, &ready.compiled[0].code))?;
        maps.extend(ready.numbers.map(|(_, map)| map));
        ready.seen.as_ref().map_or(Ok(()), second_chance::begin)?;
        let copies = ready.seen.as_ref().map_or(0, |_| ready.compiled.len() as u32);
        Ok(Attached {
            event,
            others: hook.instances.len().saturating_sub(1),
            program,
            _maps: maps,
            links,
            slots: ready.slots,
            seen: ready.seen,
            copies,
            kind: loaded.get(),
            mechanism: Some(way.mechanism.clone()),
            module: modules::InModule::of(&way.mechanism, &hook.instances, catalog),
            module_build: modules::awaited(&way.mechanism)
                .and_then(|module| modules::build(catalog.host(), module)),
            hook: 0,
            way: 0,
        })
    }

    /// Lets the hooks work, all at once, from their next event on.
    pub fn activate(&self) {
        self.resources.control.activate(Table::known(1));
    }

    /// Masks all hooks at once; nothing is detached yet.
    pub fn deactivate(&self) {
        self.resources.control.activate(Table::NONE);
    }

    /// Has the periods of its intervals begin now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin_periods(&self) -> Result<()> {
        self.hooks.iter().try_for_each(|hook| hook.links.begin_periods())
    }

    /// Runs the handlers of an event of the session's own (`begin`, `end`), in the order of their texts; whether there are any.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fire(&self, name: &str) -> Result<bool> {
        let is_named =
            |hook: &&Attached| matches!(&hook.mechanism, Some(Mechanism::OnRequest(own)) if own.name == name);
        let mut any = false;
        for hook in self.hooks.iter().filter(is_named) {
            hook.program.test_run(&TestRun::default())?;
            any = true;
        }
        Ok(any)
    }

    /// Files of its iterators, in the order of their texts: who reads one to its end has walked once, and gets no bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn walks(&self) -> Result<Vec<File>> {
        let is_walk = |hook: &&Attached| matches!(hook.mechanism, Some(Mechanism::Iterator(_)));
        let walks = self.hooks.iter().filter(is_walk);
        let walks = walks.map(|hook| hook.links.walks());
        Ok(walks.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Names of the events that [`Session::fire`] fires: `begin`, `bench:lhist`, in the order of the program.
    pub fn own_events(&self) -> Vec<String> {
        let names = self.hooks.iter().filter_map(|hook| match &hook.mechanism {
            Some(Mechanism::OnRequest(own)) => Some(own.name.clone()),
            _ => None,
        });
        names.collect()
    }

    /// How often the handlers of an own event have run, and for how many nanoseconds, while [`kestrel_kernel::bpf::enable_stats`] was on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn own_runs(&self, name: &str) -> Result<(u64, u64)> {
        let mut runs = (0, 0);
        for hook in &self.hooks {
            if matches!(&hook.mechanism, Some(Mechanism::OnRequest(own)) if own.name == name) {
                let info = hook.program.info()?;
                runs = (runs.0 + info.runs, runs.1 + info.run_time);
            }
        }
        Ok(runs)
    }

    /// Gives one of its parameters another value.
    pub(crate) fn set_parameter(&self, index: usize, value: u64) {
        self.resources.control.set_parameter(index, value);
    }

    /// Detaches everything. Masked hooks cost next to nothing meanwhile.
    pub fn detach(&mut self) {
        self.hooks.clear();
        self.followers.clear();
    }

    /// Detaches everything. Where there is much of what the kernel takes long to detach (perf events and trampolines: some 0.1 s each), a
    /// process of its own does that, [`kestrel_kernel::process::CLOSER`]; gives for how many events. They are masked meanwhile.
    pub fn detach_apart(&mut self) -> usize {
        self.deactivate();
        // What tracefs was given for them can go only after them.
        let slow = |attached: &Attached| is_slow(attached.kind) && attached.links.events().is_empty();
        let hooks = std::mem::take(&mut self.hooks).into_iter();
        let (slowly, _at_once): (Vec<_>, Vec<_>) = hooks.partition(slow);
        let files = slowly
            .into_iter()
            .flat_map(|attached| attached.links.into_files());
        let apart = close_many(&self.resources.host, files.collect());
        self.followers.clear();
        apart
    }

    /// How often helpers have failed in its programs so far, where that is counted.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn failures(&self) -> Result<Vec<Failure>> {
        self.resources.maps.failures()
    }

    /// What its programs hand packets over by, where they do.
    pub fn packets(&self) -> Option<&Map> {
        self.resources.packets.as_ref()
    }

    /// What its handlers' maps hold now.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn map_snapshots(&self) -> Result<Vec<Snapshot>> {
        self.resources.maps.read(&self.numbers)
    }

    /// What one of its handlers' maps held at a generation; see [`Maps::read_generation`].
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn map_generation(
        &self,
        name: &str,
        generation: u64,
        value: Option<u64>,
    ) -> Result<Option<Snapshot>> {
        self.resources
            .maps
            .read_generation(name, generation, value, &self.numbers)
    }

    /// Removes what one of its handlers' maps held before a generation.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sweep_map(&self, name: &str, generation: u64, zeroed: bool) -> Result<()> {
        self.resources.maps.sweep_map(name, generation, zeroed)
    }

    /// Gives the maps of the compiled objects that its handlers call, each with the path of its file.
    pub fn each_object_map(&self, show: &mut dyn FnMut(&str, &BpfMap)) {
        self.resources.objects.each_map(show);
    }

    /// Whether stacks of processes are among the keys of its handlers' maps.
    pub fn has_user_stacks_in_maps(&self) -> bool {
        self.resources.maps.have_user_stacks()
    }

    /// Its handlers' maps, to be emptied.
    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.resources.maps
    }

    /// Its buffers, at least one, by number.
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
    pub fn detours(&self) -> &[Fallback] {
        &self.detours
    }

    /// Events that this kernel does not let be attached, and only a pattern named.
    pub fn left_out(&self) -> &[Skipped] {
        &self.left_out
    }

    /// Programs attached, followers of the command left out.
    pub fn programs(&self) -> usize {
        self.hooks.len()
    }

    /// Which of its plan's hooks have their handlers in the program of another.
    pub fn sharing(&self) -> &[usize] {
        &self.sharing
    }

    /// How long it took to load and attach them.
    pub fn attaching(&self) -> Duration {
        self.attaching
    }

    /// What programs did not see because they (or one sharing their guard) were running already on that CPU.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn missed(&self) -> Result<Vec<Missed>> {
        let mut all = Vec::new();
        let misses = Misses::new(&self.resources.host);
        let count_of = |hook: &Attached| -> Result<_> {
            let program = hook.program.info()?;
            let links = hook.links.infos()?;
            let own = hook.links.events().iter().map(own_event::OwnEvent::name);
            let taken = hook.seen.as_ref().map(second_chance::taken);
            let mechanism = hook.mechanism.as_ref();
            Ok(misses.of(mechanism, &program, links.into_iter(), own, taken.transpose()?))
        };
        // A hit that no copy of a follower saw was skipped in each.
        let followers = self.followers.chunks(self.follower_copies);
        for copies in self.hooks.chunks(1).chain(followers) {
            let [hook, others @ ..] = copies else { continue };
            let mut count = count_of(hook)?;
            for copy in others {
                let other = count_of(copy)?;
                count = match (count, other) {
                    (Ok(least), Ok(other)) => Ok(least.min(other)),
                    (Err(_), known) => known,
                    (known, Err(_)) => known,
                };
            }
            if hook.hits() == Hits::Returns || !matches!(count, Ok(0)) {
                all.push(Missed {
                    event: hook.event.clone(),
                    others: hook.others,
                    chosen: self.target != ProcessFilter::All,
                    count,
                    what: hook.hits(),
                });
            }
        }
        let unkept = self.resources.maps.unkept()?.into_iter();
        all.extend(unkept.map(|(event, count)| Missed {
            event,
            others: 0,
            chosen: false,
            count: Ok(count),
            what: Hits::Any,
        }));
        Ok(all)
    }
}

/// The map by which programs hand packets over, with a place for each CPU.
fn packets_map(cpus: usize) -> Result<Map> {
    let spec = MapSpec::new(MapKind::PERF_EVENT_ARRAY, packets::MAP, 4, 4, cpus as u32);
    Ok(Map::create(&spec)?)
}

/// The most files that are open while a plan is attached: each hook's program, link, perf event and own maps, a link and a perf event for each
/// function where the kernel has no multi links, and some for the process itself.
pub(super) fn files(plan: &Plan) -> u64 {
    let cpus = possible_cpus().map_or(1, |cpus| cpus.iter().count() as u64);
    let of = |hook: &Hook| {
        let mechanism = hook.ways.first().map(|way| &way.mechanism);
        8 + mechanism.map_or(0, |it| it.descriptors(hook.instances.len() as u64, cpus))
    };
    1024 + plan.hooks.iter().map(of).sum::<u64>()
}
