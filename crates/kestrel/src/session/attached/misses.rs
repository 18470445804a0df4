//! Hits that a session's programs did not see, by hook.

use super::{Attached, Session};
use crate::session::missed::Misses;
use crate::session::{HitKind, Missed};
use kestrel_catalog::Result;
use kestrel_catalog::attach::own_event;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_hook::hook::second_chance;

impl Session {
    /// Hits that programs did not see because they (or one sharing their guard) were running already on that CPU.
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
        // A hit that no copy of a tracker saw was skipped in each.
        let trackers = self.trackers.chunks(self.tracker_copies);
        for copies in self.hooks.chunks(1).chain(trackers) {
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
            if hook.hits() == HitKind::Returns || !matches!(count, Ok(0)) {
                all.push(Missed {
                    event: hook.event.clone(),
                    further_events: hook.others,
                    filtered: self.process_filter != ProcessFilter::All,
                    count,
                    hits: hook.hits(),
                });
            }
        }
        let unkept = self.resources.maps.unkept()?.into_iter();
        all.extend(unkept.map(|(event, count)| Missed {
            event,
            further_events: 0,
            filtered: false,
            count: Ok(count),
            hits: HitKind::Any,
        }));
        Ok(all)
    }
}
