//! Tracking programs that a session attaches beside its hooks: they follow a command's processes, and keep the names of threads.

use crate::plan::Plan;
use crate::session::attached::{Attached, Session};
use crate::session::pinned::ThreadNames;
use kestrel_bpf::btf::Btf;
use kestrel_catalog::attach::{Attach, Events, RawTracepoint};
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_hook::hook::process_filter::{self, ProcessFilter, Tracker};
use kestrel_hook::hook::{second_chance, thread_names};
use kestrel_kernel::bpf::{Map, ProgramKind, ValueCheck};
use kestrel_trace::process::Processes;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Error about following a command, which cannot be without types.
fn following(error: Error) -> Error {
    let why = match error {
        Error::Unsupported { why, .. } => why,
        other => other.to_string(),
    };
    Error::Unsupported {
        what: "following a command's processes (`-- CMD`), or the threads that events are about (-p PID), takes the kernel's types; \
               -a takes none, -p PID --only-own neither"
            .to_owned(),
        why,
    }
}

impl Session {
    /// Attaches what lets a command's process in at its exec. Before the hooks: the kernel calls those of one tracepoint in the order in which they
    /// came, and a hook there shall see that exec, too. (Not so one that reads the formatted entry: perf's function calls it, which another tracer may have
    /// put there before.)
    pub(in crate::session) fn admit(&mut self, catalog: &Catalog, target: &ProcessFilter) -> Result<()> {
        match target {
            ProcessFilter::Command(pid) => {
                let types = catalog.types().map_err(following)?;
                self.attach_trackers(vec![process_filter::admission(*pid)?], &types, catalog)
            }
            _ => Ok(()),
        }
    }

    /// Lets a command's process in before its exec, so that the exec's own entry is seen. Of what it does before that nothing else should be
    /// shown.
    ///
    /// # Errors
    /// When the map cannot be written.
    pub fn admit_before_exec(&self, pid: u32) -> Result<()> {
        if let Some(map) = &self.resources.process_filter {
            map.update(
                &0_u32.to_ne_bytes(),
                &process_filter::single_process(pid),
                ValueCheck::Any,
            )?;
        }
        Ok(())
    }

    /// Attaches what follows the targets' threads, where that is asked for, and what keeps the names of threads. The latter is a convenience: without types
    /// it is left out; a program (`kestrel run`) prints what its handlers say, and nothing asks for other names.
    pub(in crate::session) fn follow(&mut self, plan: &Plan, catalog: &Catalog) -> Result<()> {
        let target = &plan.target;
        let follows = self.resources.process_filter.is_some();
        let types = match catalog.types() {
            Ok(types) => types,
            Err(error) if follows => return Err(following(error)),
            Err(_) => return Ok(()),
        };
        let mut trackers = match plan.globals.source {
            Some(_) => Vec::new(),
            None => thread_names::trackers(&types)?,
        };
        if follows {
            trackers.extend(process_filter::trackers(target, &types)?);
        }
        self.attach_trackers(trackers, &types, catalog)?;
        match (target, &self.resources.process_filter) {
            (ProcessFilter::Processes(pids), Some(map)) => {
                process_filter::enter_threads(map, pids, catalog.host())
            }
            _ => Ok(()),
        }
    }

    /// Each several times where threads are preempted inside of them: what they do may be done twice, and each has a guard of its own, so that a hit is missed only where
    /// all are skipped.
    fn attach_trackers(&mut self, trackers: Vec<Tracker>, types: &Arc<Btf>, catalog: &Catalog) -> Result<()> {
        self.tracker_copies = match catalog.preemption().tracepoints {
            true => second_chance::PROGRAMS as usize,
            false => 1,
        };
        for tracker in trackers {
            for _ in 0..self.tracker_copies {
                self.attach_tracker(&tracker, types, catalog)?;
            }
        }
        Ok(())
    }

    fn attach_tracker(&mut self, tracker: &Tracker, types: &Arc<Btf>, catalog: &Catalog) -> Result<()> {
        let event = tracker.tracepoint.to_owned();
        let code = &tracker.code;
        let (program, maps) = self.resources.load(
            (&event, tracker.tracepoint),
            ProgramKind::RawTracepoint,
            &code.code,
            &code.maps,
            Some(types),
            &[],
        )?;
        let tracepoint = RawTracepoint {
            name: tracker.tracepoint.to_owned(),
        };
        let events = Events {
            known: catalog,
            names: &[],
            optional: false,
        };
        // Attached by the layer that events use, so that missed hits are counted as an event's are.
        let links = tracepoint.attach(ProgramKind::RawTracepoint, &[&program], &events)?;
        self.trackers.push(Attached {
            event,
            others: 0,
            program,
            _maps: maps,
            links,
            slots: Vec::new(),
            seen: None,
            kind: ProgramKind::RawTracepoint,
            mechanism: None,
            module_build: None,
            copies: 0,
            module: None,
            constant_records: Vec::new(),
            idle: false,
            hook: 0,
            strategy: 0,
        });
        Ok(())
    }

    /// The threads whose events were wanted, those that have ended among them, ascending; none where all are.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(crate) fn target_threads(&self) -> Result<Option<Vec<u32>>> {
        match (&self.process_filter, &self.resources.process_filter) {
            (ProcessFilter::Threads(threads), _) => {
                let mut threads = threads.clone();
                threads.sort_unstable();
                threads.dedup();
                Ok(Some(threads))
            }
            (_, Some(map)) => process_filter::ever_followed(map).map(Some),
            (_, None) => Ok(None),
        }
    }

    /// Names of threads that appeared, or changed their name, since the session began.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn thread_names(&self) -> Result<Processes> {
        let mut all = Processes::default();
        thread_names::collect(&self.resources.thread_names, &mut all)?;
        Ok(all)
    }

    /// The thread names that it keeps, to be asked for one at a time while the session goes on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kept_names(&self) -> Result<ThreadNames> {
        let descriptor = self
            .resources
            .thread_names
            .as_fd()
            .try_clone_to_owned()
            .map_err(Error::io("share the names of threads of", "the session"))?;
        Ok(ThreadNames(Map::from_fd(descriptor)?))
    }
}
