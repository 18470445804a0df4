//! The end of a recording: what was lost and missed is counted, names are found, and the trace is closed.

use super::switching::{self, Totals};
use super::{Recorded, Recorder};
use crate::postprocess::{Progress, counts, postprocess, tally};
use kestrel_catalog::Result;
use kestrel_catalog::catalog::Catalog;
use kestrel_trace::aggregate::KeptMaps;
use kestrel_trace::print::counted;
use kestrel_trace::summary::{CutShort, Missed, Summary, note_frozen};
use std::sync::{Arc, PoisonError};

impl Recorder {
    /// Ends the recording (a long one takes a while: `progress` is called with how far it is): counts what each event lost, finds names for the
    /// addresses and processes in it. What it returns holds the masked session: drop it to detach.
    ///
    /// # Errors
    /// When the trace cannot be read back or the rest not be written; the packets stay. After a write that failed, what can be written is, and the
    /// summary says how much is missing.
    pub fn finish(mut self, catalog: &Catalog, progress: Option<Progress>) -> Result<Recorded> {
        let mut stopped = Ok(());
        if self.ended.is_none() {
            stopped = self.stop();
            if self.failed.is_none() {
                std::mem::replace(&mut stopped, Ok(()))?;
            }
        }
        _ = self.wait_for_all();
        let missed = self.session.missed()?;
        let uncounted = self.session.uncounted()?;
        let classes = self.session.classes();
        let mut names = self.names.clone();
        names.extend(self.session.thread_names()?);
        // This is the last reference.
        let code = self.code.take().and_then(Arc::into_inner);
        let mut code = code.map(|code| code.into_inner().unwrap_or_else(PoisonError::into_inner));
        if let Some(code) = &mut code {
            code.end()?;
        }
        let mut seen = postprocess(
            &self.path,
            classes,
            names,
            catalog.host(),
            code.as_mut(),
            progress,
        )?;
        let totals = Totals {
            tally: tally((0..).zip(self.session.buffers()), classes),
            hits: missed
                .iter()
                .filter_map(|missed| missed.count.as_ref().ok())
                .sum(),
            frozen: switching::frozen(&self.session),
        };
        let Totals {
            mut tally,
            hits,
            frozen,
        } = totals.since(&self.counted);
        for (of, unwritten) in &self.unwritten {
            let counts = tally.entry(*of).or_default();
            counts.lost += unwritten;
            // Of buffers that count what they hold this is not what was overwritten.
            counts.recorded = counts.recorded.saturating_sub(*unwritten);
        }
        let mut summary = Summary {
            version: self.session.info().tracer_version.clone(),
            command: self.session.info().command.clone(),
            started_ns: self.clocks.realtime,
            duration_ns: self.ended.unwrap_or_default().as_nanos() as u64,
            events: counts(classes, &tally, &seen.recorded),
            frozen: Some(frozen),
            missed: Some(Missed {
                hits,
                at_least: uncounted.is_some() || missed.iter().any(|missed| missed.count.is_err()),
            }),
            notes: Vec::new(),
            limits: Vec::new(),
            cut_short: self.failed.take().map(|why| CutShort {
                unwritten: self.unwritten.values().sum(),
                why,
            }),
        };
        let frozen = self.session.buffers().iter();
        summary
            .notes
            .extend(frozen.filter_map(|b| note_frozen(b.name(), b.lost_frozen())));
        let gaps = self.session.module_gaps().iter().map(ToString::to_string);
        summary.notes.extend(gaps);
        for missed in missed.iter().filter(|missed| !missed.is_nothing()) {
            summary.notes.push(missed.to_string());
        }
        if let Some(uncounted) = uncounted {
            let came = summary.events.iter().map(|count| (&count.event, count.cpu));
            let hits = summary.missed.unwrap_or_default().hits;
            match uncounted.matters(hits, came) {
                true => summary.notes.push(uncounted.to_string()),
                false => summary.limits.push(uncounted.to_string()),
            }
        }
        summary.notes.extend(seen.notes.iter().cloned());
        if self.unread.unfinished > 0 {
            summary.notes.push(format!(
                "a record that was never finished: {}; {} behind it cannot be read",
                counted(self.unread.unfinished, "page"),
                counted(self.unread.torn, "record")
            ));
        }
        let maps = self.session.map_snapshots()?;
        if !maps.is_empty() {
            let (names, notes) = crate::session::maps::symbols(&maps, catalog.host(), code.as_mut());
            for note in notes {
                if !summary.notes.contains(&note) {
                    summary.notes.push(note);
                }
            }
            let kept = self.writer.keep_maps(&KeptMaps::new(maps, &names));
            // On a full disk a trace without them is better than none.
            if summary.cut_short.is_none() {
                kept?;
            }
        }
        if !seen.unwound.is_empty() {
            let kept = self.writer.keep_unwound(&seen.unwound);
            if summary.cut_short.is_none() {
                kept?;
            }
        }
        if let Some(threads) = self.session.target_threads()? {
            seen.tasks.follow(threads);
        }
        let kept = self.writer.keep_tasks(&seen.tasks);
        if summary.cut_short.is_none() {
            kept?;
        }
        let written = if summary.cut_short.is_some() {
            self.writer.finish_short(&summary, &seen.symbols, &seen.processes)
        } else {
            self.writer.finish(&summary, &seen.symbols, &seen.processes)?
        };
        stopped?;
        Ok(Recorded {
            path: self.path,
            written,
            summary,
            session: self.session,
            code,
        })
    }
}
