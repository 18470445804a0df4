//! Functions and instructions of programs and libraries by uprobe: all of them by one multi link, or one perf event each where the kernel has no such links (before 6.6).

use super::family::{Attach, Events, Sections};
use super::is_unknown_kind;
use super::links::Links;
use crate::error::{Error, Result};
use crate::executable::{Executable, Site};
use kestrel_bpf::object::Hook;
use kestrel_kernel::Errno;
use kestrel_kernel::bpf::{Link, Program, ProgramKind, UprobeMulti};
use kestrel_kernel::perf::{PerfEvent, Target};
use kestrel_kernel::preemption::Preemption;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Places of one file, in all processes that run it. The events' names say which: what stands behind the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Uprobes {
    pub path: PathBuf,
    pub at_return: bool,
}

impl Attach for Uprobes {
    fn program_kinds(&self, events: usize) -> Result<Vec<ProgramKind>> {
        Ok(match events > 1 {
            true => vec![ProgramKind::UprobeMulti, ProgramKind::Kprobe],
            false => vec![ProgramKind::Kprobe],
        })
    }

    fn descriptors(&self, events: u64, _cpus: u64) -> u64 {
        2 * events
    }

    fn sections(&self) -> Sections {
        let (hooks, written): (&[Hook], _) = match self.at_return {
            true => (&[Hook::Uretprobe], "SEC(\"uretprobe\")"),
            false => (&[Hook::Uprobe], "SEC(\"uprobe\")"),
        };
        Sections {
            hooks,
            written,
            loadable: None,
        }
    }

    fn letter(&self) -> char {
        't'
    }

    /// A thread can be preempted in the program; the kernel runs it for other threads meanwhile and skips nothing.
    fn is_preempted(&self, _preemption: Preemption) -> bool {
        false
    }

    fn is_guarded(&self) -> bool {
        false
    }

    fn maxactive(&self) -> Option<u32> {
        None
    }

    fn joins(&self) -> bool {
        true
    }

    fn describe(&self, _reads: &str) -> String {
        let kind = if self.at_return { "uretprobe" } else { "uprobe" };
        format!("{kind} in {}", self.path.display())
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let file = events.known.executables().get(&self.path)?;
        let mut links = Links::default();
        for program in programs {
            match kind {
                ProgramKind::UprobeMulti => self.by_links(&mut links, program, &file, events)?,
                _ => self.by_perf_events(&mut links, program, &file, events)?,
            }
        }
        Ok(links)
    }
}

impl Uprobes {
    /// One link for all, or one each where the kernel refuses one of them: it does not say which.
    fn by_links(
        &self,
        links: &mut Links,
        program: &Program,
        file: &Executable,
        events: &Events<'_>,
    ) -> Result<()> {
        let path = file.opened_path();
        let link = |offsets: &[u64], cookies: &[u64]| {
            let multi = UprobeMulti {
                path: &path,
                offsets,
                cookies,
                pid: 0,
                at_return: self.at_return,
                session: false,
            };
            Ok(Link::uprobe_multi(program, &multi)?)
        };
        let (mut offsets, mut cookies) = (Vec::new(), Vec::new());
        for (cookie, name) in (0..).zip(events.names) {
            for offset in Site::read(name).offsets(file)? {
                offsets.push(offset);
                cookies.push(cookie);
            }
        }
        match link(&offsets, &cookies) {
            Ok(link) => links.links.push(link),
            // The caller tries the next kind of program then.
            Err(error) if is_unknown_kind(ProgramKind::UprobeMulti, &error) => return Err(error),
            Err(_) => {
                let mut all = Vec::new();
                let missing = self.one_by_one(file, events, &mut |offset, cookie| {
                    all.push(link(&[offset], &[cookie])?);
                    Ok(())
                })?;
                links.links.extend(all);
                links.missing.extend(missing);
            }
        }
        Ok(())
    }

    fn by_perf_events(
        &self,
        links: &mut Links,
        program: &Program,
        file: &Executable,
        events: &Events<'_>,
    ) -> Result<()> {
        let (path, host) = (file.opened_path(), events.known.host());
        let missing = self.one_by_one(file, events, &mut |offset, cookie| {
            let event = PerfEvent::uprobe(host, &path, offset, self.at_return, Target::All)?;
            links.perf_event(program, event, cookie)
        })?;
        links.missing.extend(missing);
        Ok(())
    }

    /// Attaches at each place; gives those of optional events that the kernel refuses, as long as it takes one.
    fn one_by_one(
        &self,
        file: &Executable,
        events: &Events<'_>,
        attach: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<Vec<(String, String)>> {
        let (mut attached, mut missing) = (0, Vec::new());
        for (cookie, name) in (0..).zip(events.names) {
            for offset in Site::read(name).offsets(file)? {
                match attach(offset, cookie).map_err(|error| self.explain(name, error)) {
                    Ok(()) => attached += 1,
                    Err(error) if events.optional => missing.push((name, error)),
                    Err(error) => return Err(error),
                }
            }
        }
        match (attached, missing.is_empty()) {
            (0, false) => Err(missing.swap_remove(0).1),
            _ => {
                let in_words = |(name, error): (&&str, Error)| ((*name).to_owned(), error.to_string());
                Ok(missing.into_iter().map(in_words).collect())
            }
        }
    }

    /// Why the kernel refuses a place, where its answer says it.
    fn explain(&self, name: &str, error: Error) -> Error {
        match error.errno() {
            Some(Errno::ENOTSUPP | Errno::EOPNOTSUPP) => Error::Object {
                object: format!("{}:{name}", self.path.display()),
                why: "the kernel cannot run the instruction that stands there out of its place".to_owned(),
            },
            _ => error,
        }
    }
}
