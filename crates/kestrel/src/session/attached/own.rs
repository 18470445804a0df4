//! Events of the session itself, which it fires: `begin` and `end`, the files of its iterators, the periods of its intervals.

use super::{Attached, Session};
use crate::plan::constant_records::ConstantRecord;
use crate::session::maps::Generations;
use kestrel_catalog::Result;
use kestrel_catalog::attach::OnRequest;
use kestrel_hook::hook::control::Control;
use kestrel_kernel::bpf::{Link, TestRun, pin, unpin};
use kestrel_kernel::host::BPFFS_PLACE;
use kestrel_trace::event::{EventClass, EventId};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Attached {
    /// The event of the session's own at which its program runs.
    fn own_event(&self) -> Option<&OnRequest> {
        self.mechanism.as_ref()?.own_event()
    }
}

impl Session {
    /// Starts the periods of its intervals now.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn begin_periods(&self) -> Result<()> {
        self.hooks.iter().try_for_each(|hook| hook.links.begin_periods())
    }

    /// Runs the handlers of an event of the session's own (`begin`, `end`), in source order; whether there are any.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn fire(&self, name: &str) -> Result<bool> {
        let hooks = self.own_hooks(name);
        for hook in &hooks {
            self.fire_one(*hook)?;
        }
        Ok(!hooks.is_empty())
    }

    /// The places of its hooks at an event of its own, in source order.
    pub(crate) fn own_hooks(&self, name: &str) -> Vec<usize> {
        let hooks = self.hooks.iter().enumerate();
        hooks
            .filter(|(_, hook)| hook.own_event().is_some_and(|own| own.name == name))
            .map(|(place, _)| place)
            .collect()
    }

    /// Runs the handlers of one of them; whether they did anything beside [`Session::known_records`].
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn fire_one(&self, hook: usize) -> Result<bool> {
        let Some(hook) = self.hooks.get(hook).filter(|hook| !hook.idle) else {
            return Ok(false);
        };
        hook.program.test_run(&TestRun::default())?;
        Ok(true)
    }

    /// The records that one of them stands for, as they are now, before its handlers run.
    ///
    /// # Errors
    /// None but those of a session that is damaged.
    pub(crate) fn known_records(&self, hook: usize) -> Result<Vec<(&EventClass, Vec<u8>)>> {
        let mut records = Vec::new();
        for (id, known) in self
            .hooks
            .get(hook)
            .into_iter()
            .flat_map(|hook| &hook.constant_records)
        {
            let Some(class) = self.classes.iter().find(|class| class.id == *id) else {
                continue;
            };
            let map = known
                .generation
                .as_ref()
                .map(|generation| generation.map.as_str());
            let generation = map.map_or(Ok(0), |map| self.resources.maps.generation(map))?;
            records.push((class, known.bytes(generation)));
        }
        Ok(records)
    }

    /// The reader's periodic work: the period in ns and the records of each such event, in source order.
    pub(crate) fn periodic(&self) -> Vec<(u64, Vec<(EventId, ConstantRecord)>)> {
        let period = |hook: &Attached| hook.own_event()?.every;
        let hooks = self.hooks.iter();
        hooks
            .filter_map(|hook| Some((period(hook)?, hook.constant_records.clone())))
            .collect()
    }

    /// Generations of the session's maps, for a thread of its reader.
    pub(crate) fn generations(&self) -> Generations {
        self.resources.maps.shared_generations()
    }

    /// The control page, for another thread of the reader.
    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.resources.control)
    }

    /// Files of its iterators, in source order. Reading one to its end runs the iterator once; no bytes come.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn iterator_files(&self) -> Result<Vec<File>> {
        let is_walk = |hook: &&Attached| hook.mechanism.as_ref().is_some_and(|it| it.is_read());
        let walks = self.hooks.iter().filter(is_walk);
        let walks = walks.map(|hook| hook.links.iterator_files());
        Ok(walks.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Pins those of its iterators that are to outlive it; gives where, in source order. Without a session they hold nothing but their maps.
    ///
    /// # Errors
    /// When a pin cannot be made, as where there is one already; none is left then.
    pub fn pin_iterators(&self) -> Result<Vec<PathBuf>> {
        let mut made: Vec<PathBuf> = Vec::new();
        for hook in &self.hooks {
            let Some(place) = hook.mechanism.as_ref().and_then(|it| it.pin()) else {
                continue;
            };
            for link in hook.links.each() {
                if let Err(error) = self.pin_one(link, place) {
                    for place in &made {
                        unpin(place)?;
                    }
                    return Err(error);
                }
                made.push(place.to_path_buf());
            }
        }
        Ok(made)
    }

    fn pin_one(&self, link: &Link, place: &Path) -> Result<()> {
        let host = self.host();
        if place.starts_with(BPFFS_PLACE) {
            host.mount_bpffs()?;
        }
        Ok(pin(link.as_fd(), place)?)
    }

    /// Names of the events that [`Session::fire`] fires: `begin`, `bench:lhist`, in the order of the program.
    pub fn own_events(&self) -> Vec<String> {
        let names = self.hooks.iter().filter_map(Attached::own_event);
        names.map(|own| own.name.clone()).collect()
    }

    /// Number and time (ns) of the runs of an own event's handlers, while [`kestrel_kernel::bpf::enable_stats`] was on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn own_runs(&self, name: &str) -> Result<(u64, u64)> {
        let mut runs = (0, 0);
        for hook in &self.hooks {
            if hook.own_event().is_some_and(|own| own.name == name) {
                let info = hook.program.info()?;
                runs = (runs.0 + info.runs, runs.1 + info.run_time);
            }
        }
        Ok(runs)
    }
}
