//! Hooks in modules that were unloaded and have come back are attached again.

use crate::session::attached::{Attached, Session};
use crate::session::modules::{ModuleGap, loading};
use kestrel_catalog::Result;
use kestrel_catalog::attach::Links;
use kestrel_catalog::catalog::Catalog;
use kestrel_kernel::procfs::ClockPair;
use std::time::{Duration, Instant};

/// Time between two looks for modules that were loaded again.
const LOOK: Duration = Duration::from_millis(50);

impl Attached {
    /// Attaches the program to its places again.
    fn attach_again(&mut self, catalog: &Catalog) -> Result<()> {
        let Some(place) = &self.module else { return Ok(()) };
        let mut links = Links::default();
        for (symbol, offset) in &place.spots {
            let symbol = format!("{}:{symbol}", place.module);
            let options = (place.at_return, place.maxactive);
            links.kprobe_at(&self.program, (&symbol, *offset), options, catalog)?;
        }
        self.links = links;
        Ok(())
    }
}

impl Session {
    /// Attaches what sits in modules that were unloaded and have come back, and notes what could not be seen; to be called from time to time.
    pub(crate) fn follow_modules(&mut self) {
        let hooks = || self.hooks.iter().filter(|hook| hook.module.is_some());
        let looked = self.modules.looked;
        if hooks().next().is_none() || looked.is_some_and(|last| last.elapsed() < LOOK) {
            return;
        }
        self.modules.looked = Some(Instant::now());
        self.modules.look += 1;
        let host = self.resources.host.clone();
        let mut catalog = None;
        for hook in &mut self.hooks {
            let Some(place) = &hook.module else { continue };
            let (module, before) = (place.module.clone(), place.loaded);
            let now = loading(&host, &module);
            if now == before {
                continue;
            }
            let time = ClockPair::now().realtime;
            let look = self.modules.look;
            let gap = self.modules.gap(&module, before.is_some(), time);
            if before.is_some() && !gap.events.contains(&hook.event) {
                gap.events.push(hook.event.clone());
            }
            if now.is_some() {
                let catalog = catalog.get_or_insert_with(|| Catalog::new(host.clone()));
                match hook.attach_again(catalog) {
                    Ok(()) => (gap.attached, gap.look) = (Some(time), look),
                    Err(error) => gap.refused = Some(error.to_string()),
                }
            }
            if let Some(place) = &mut hook.module {
                place.loaded = now;
            }
        }
    }

    /// Times in which functions of modules were not seen, because their module was not loaded or had just come.
    pub fn module_gaps(&self) -> &[ModuleGap] {
        &self.modules.gaps
    }
}
