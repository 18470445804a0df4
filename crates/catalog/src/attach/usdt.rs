//! USDT probes of programs and libraries, attached as uprobes whose semaphore the kernel raises while they are attached.

use super::family::{Attach, Events, Profile, Runner};
use super::links::Links;
use super::site::Sites;
use super::uprobe::{Uprobes, UserPlaces};
use crate::error::{Error, Result};
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{Program, ProgramKind};
use kestrel_kernel::perf::UprobePlace;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All places of a USDT probe whose arguments lie alike, in all processes that run the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Usdt {
    pub path: PathBuf,
    pub provider: String,
    pub name: String,
    /// Where the arguments lie, as the probe's note says it.
    pub arguments: String,
}

impl Usdt {
    fn as_uprobes(&self) -> Uprobes {
        Uprobes {
            path: self.path.clone(),
            at_return: false,
        }
    }
}

impl Attach for Usdt {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::Kprobe])
    }

    fn descriptors(&self, events: u64, _cpus: u64) -> u64 {
        2 * events
    }

    fn profile(&self) -> Profile {
        let mut profile = self.as_uprobes().profile();
        profile.sections.hooks = &[Hook::Uprobe];
        // Each probe has fields of its own.
        profile.joins = false;
        profile
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        format!("probe in {}", self.path.display())
    }

    fn attach(&self, kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let file = events.known.executables().get(&self.path)?;
        let probes = file.usdt_probes_named(&self.provider, &self.name)?;
        let alike = probes.iter().filter(|probe| probe.arguments == self.arguments);
        let place = |probe: &crate::executable::UsdtProbe| UprobePlace {
            offset: probe.offset,
            semaphore: probe.semaphore,
            cookie: 0,
        };
        let places: Vec<UprobePlace> = alike.map(place).collect();
        if places.is_empty() {
            return Err(Error::Object {
                object: format!("{}:{}:{}", self.path.display(), self.provider, self.name),
                why: "the file is another than before: its probe has other arguments".to_owned(),
            });
        }
        let all = UserPlaces {
            path: &file.opened_path(),
            places: &places,
            at_return: false,
        };
        let mut links = Links::default();
        for program in programs {
            links.extend([all.attach(kind, program, events.known.host())?]);
        }
        Ok(links)
    }
}
