//! Functions and instructions of programs and libraries by uprobe: all of them by one multi link, or one perf event each where the kernel has no such links (before 6.6).

use super::family::{Attach, Events, Formatted, Preempted, Profile, Runner, Sections};
use super::is_unknown_kind;
use super::links::Links;
use super::site::Sites;
use crate::error::{Error, Result};
use crate::executable::Site;
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{Link, Program, ProgramKind, UprobeMulti};
use kestrel_kernel::perf::{PerfEvent, PerfTarget, UprobePlace};
use kestrel_kernel::{Errno, Host};
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

    fn profile(&self) -> Profile {
        let (hooks, written): (&[Hook], _) = match self.at_return {
            true => (&[Hook::Uretprobe], "SEC(\"uretprobe\")"),
            false => (&[Hook::Uprobe], "SEC(\"uprobe\")"),
        };
        Profile {
            sections: Sections {
                hooks,
                written,
                loadable: None,
            },
            letter: 't',
            // A thread can be preempted in the program; the kernel runs it for other threads meanwhile and skips nothing.
            preempted: Preempted::Never,
            guarded: false,
            maxactive: None,
            joins: true,
            formatted: Formatted::No,
            call_end: None,
            relays: true,
            loads_ahead: true,
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        let kind = if self.at_return { "uretprobe" } else { "uprobe" };
        format!("{kind} in {}", self.path.display())
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let file = events.known.executables().get(&self.path)?;
        let mut places = Vec::new();
        for (cookie, name) in (0..).zip(events.names) {
            for offset in Site::read(name).offsets(&file)? {
                places.push(UprobePlace {
                    offset,
                    semaphore: 0,
                    cookie,
                });
            }
        }
        let (path, host) = (file.opened_path(), events.known.host());
        let mut links = Links::default();
        for program in programs {
            let all = UserPlaces {
                path: &path,
                places: &places,
                at_return: self.at_return,
            };
            match all.attach(kind, program, host) {
                Ok(attached) => links.extend([attached]),
                // The caller tries the next kind of program then.
                Err(error) if is_unknown_kind(kind, &error) => return Err(error),
                // The kernel does not say which of the places it refuses.
                Err(_) => links.extend([self.one_by_one(kind, program, &all, events)?]),
            }
        }
        Ok(links)
    }
}

/// Places in a file.
#[derive(Clone, Copy, Debug)]
pub struct UserPlaces<'a> {
    /// The program or library.
    pub path: &'a str,
    /// Where in it.
    pub places: &'a [UprobePlace],
    /// Whether the program runs at the functions' return.
    pub at_return: bool,
}

impl UserPlaces<'_> {
    /// Attaches a program: by one link if its kind takes many, else by a perf event each.
    ///
    /// # Errors
    /// The kernel's; nothing is left attached then.
    pub fn attach(&self, kind: ProgramKind, program: &Program, host: &Host) -> Result<Links> {
        let session = kind == ProgramKind::UprobeSession;
        if session || kind == ProgramKind::UprobeMulti {
            let multi = UprobeMulti {
                path: self.path,
                places: self.places,
                at_return: self.at_return,
                session,
            };
            return Ok(Link::uprobe_multi(program, &multi)?.into());
        }
        let mut links = Links::default();
        for place in self.places {
            let event = PerfEvent::uprobe(host, self.path, place, self.at_return, PerfTarget::All)?;
            links.perf_event(program, event, place.cookie)?;
        }
        Ok(links)
    }
}

impl Uprobes {
    /// Attaches at each place by itself; without those of optional events that the kernel refuses, as long as it takes one.
    fn one_by_one(
        &self,
        kind: ProgramKind,
        program: &Program,
        all: &UserPlaces<'_>,
        events: &Events<'_>,
    ) -> Result<Links> {
        let (mut links, mut refused) = (Links::default(), None);
        for place in all.places {
            let one = UserPlaces {
                places: &[*place],
                ..*all
            };
            let name = events
                .names
                .get(place.cookie as usize)
                .copied()
                .unwrap_or_default();
            match one.attach(kind, program, events.known.host()) {
                Ok(link) => links.extend([link]),
                Err(error) => {
                    let error = self.explain(name, error);
                    if !events.optional || error.is_shortage() {
                        return Err(error);
                    }
                    links.missing.push((name.to_owned(), error.to_string()));
                    refused = Some(error);
                }
            }
        }
        match refused {
            Some(error) if links.count() == 0 => Err(error),
            _ => Ok(links),
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
