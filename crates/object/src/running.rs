//! An object at work: attached, asked about, pinned, taken down when it is dropped.

use super::attach;
use super::load::{Loaded, LoadedProgram, left_out};
use super::map::{BpfMap, NewPins, file_name};
use kestrel_bpf::object::Hook;
use kestrel_catalog::attach::Links;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{LinkDetail, ProgramInfo};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// An attached program.
#[derive(Debug)]
pub struct Attached {
    program: usize,
    links: Links,
    /// Hits that were dropped while it was attached, where it is no longer.
    missed: u64,
}

impl Attached {
    /// Number of places that it is attached to, by a link or event each.
    pub fn count(&self) -> usize {
        self.links.count()
    }

    /// How it is attached, for people: `link`, `perf event`, `tracefs GROUP/NAME`; empty if it is attached to nothing.
    pub fn how(&self) -> String {
        self.links.describe()
    }

    /// Hits that the kernel dropped before they reached the program, where it counts them per link.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub fn missed(&self) -> Result<u64> {
        let mut sum = self.missed;
        for link in self.links.each() {
            sum += match link.info()?.detail {
                LinkDetail::KprobeMulti { missed, .. } | LinkDetail::Kprobe { missed, .. } => missed,
                _ => 0,
            };
        }
        Ok(sum)
    }
}

/// An object at work. Dropping it detaches, and removes all that is not pinned.
#[derive(Debug)]
pub struct Running {
    // In this order: what is attached goes before what it uses.
    attached: Vec<Attached>,
    loaded: Loaded,
}

impl Loaded {
    /// Attaches every program to what its section or [`Object::attach_to`](crate::Object::attach_to) says, and pins the maps that ask to be.
    ///
    /// # Errors
    /// [`Error::Kernel`], [`Error::NoSuchEvent`] with near names; nothing is left behind.
    pub fn attach(self) -> Result<Running> {
        Running::attach(self)
    }
}

impl Running {
    fn attach(mut loaded: Loaded) -> Result<Self> {
        for map in loaded.maps.iter().filter(|map| !map.reused) {
            if let Some(path) = &map.path {
                loaded.pins.pin(map.map.as_fd(), path)?;
            }
        }
        let (mut attached, mut notes) = (Vec::new(), Vec::new());
        let mut first = None;
        for (index, one) in loaded.programs.iter().enumerate() {
            let name = &one.declared.name;
            let links = match attach::attach(&loaded.kernel, name, &one.bound, &one.program, &loaded.maps) {
                Ok(links) => links,
                Err(error) if loaded.object.settings.spares(name, &error) => {
                    notes.push(left_out(name, &error));
                    first = first.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if links.count() == 0 && !one.bound.held {
                notes.push(format!("the program {} is loaded and attached to nothing: its section `{}` is other loaders' business", one.declared.name, one.declared.section.text));
            }
            attached.push(Attached {
                program: index,
                links,
                missed: 0,
            });
        }
        if let (true, Some(error)) = (attached.is_empty(), first) {
            return Err(error);
        }
        loaded.pins.keep();
        loaded.notes.extend(notes);
        Ok(Self { attached, loaded })
    }

    /// Takes all programs off what they are attached to: what they wrote and counted is kept, and no longer changes. Pinned links go on.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the kernel does not say how many hits it dropped; they are taken off all the same.
    pub fn detach(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        for attached in &mut self.attached {
            match attached.missed() {
                Ok(missed) => attached.missed = missed,
                Err(error) => outcome = Err(error),
            }
            attached.links = Links::default();
        }
        outcome
    }

    /// The loaded object.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Each program with its attachment.
    pub fn programs(&self) -> impl Iterator<Item = (&LoadedProgram, &Attached)> {
        self.attached
            .iter()
            .filter_map(|attached| Some((self.loaded.programs.get(attached.program)?, attached)))
    }

    /// The maps, in the order of the object.
    pub fn maps(&self) -> &[BpfMap] {
        &self.loaded.maps
    }

    /// A map by its name.
    pub fn map(&self, name: &str) -> Option<&BpfMap> {
        self.loaded.maps.iter().find(|map| map.name == name)
    }

    /// Kernel information about each program: with [`kestrel_kernel::bpf::enable_stats`], how often and long it ran.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub fn stats(&self) -> Result<Vec<(String, ProgramInfo)>> {
        self.programs()
            .map(|(one, _)| Ok((one.declared.name.clone(), one.program.info()?)))
            .collect()
    }

    /// A file for each iterator: reading it runs the program once over all it walks.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub fn iterators(&self) -> Result<Vec<(String, File)>> {
        let mut files = Vec::new();
        for (program, attached) in self.programs() {
            let iterates = program
                .declared
                .section
                .kind()
                .is_some_and(|kind| kind.hook == Hook::Iter);
            if let Some(link) = attached.links.each().first().filter(|_| iterates) {
                files.push((program.name().to_owned(), link.iterate()?));
            }
        }
        Ok(files)
    }

    /// Pins links and maps in a directory of bpffs, which is made: they stay at work when this is dropped. The names are `link_PROGRAM`
    /// (and `link_PROGRAM_1` and so on where there are several), `program_PROGRAM` and `map_MAP`.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory is not in bpffs; [`Error::Object`] if something is attached that cannot be pinned; [`Error::Kernel`] if
    /// something of the name is pinned there. Nothing is left pinned then.
    pub fn pin(&self, directory: &Path) -> Result<()> {
        if !Host::is_in_bpffs(directory) {
            return Err(Error::Io {
                action: "pin in",
                subject: directory.display().to_string(),
                error: std::io::Error::other(
                    "it is not in a file system of the type bpf, as /sys/fs/bpf is, and pins can be nowhere else",
                ),
            });
        }
        let mut pins = NewPins::new(&self.loaded.object.host);
        for (program, attached) in self.programs() {
            let links = attached.links.each();
            // A program on a perf event without a link would be detached with this process, in spite of its pin.
            if links.len() < attached.links.count() {
                return Err(Error::Object {
                    object: format!("program {}", program.name()),
                    why: format!(
                        "it is attached by a {}, which cannot be pinned; --via link can, on kernels from 5.15 on",
                        attached.how()
                    ),
                });
            }
            for (index, link) in links.iter().enumerate() {
                let number = if index == 0 {
                    String::new()
                } else {
                    format!("_{index}")
                };
                pins.pin(
                    link.as_fd(),
                    &directory.join(format!("link_{}{number}", file_name(program.name()))),
                )?;
            }
            pins.pin(
                program.program.as_fd(),
                &directory.join(format!("program_{}", file_name(program.name()))),
            )?;
        }
        for map in &self.loaded.maps {
            pins.pin(
                map.map.as_fd(),
                &directory.join(format!("map_{}", file_name(map.name.trim_start_matches('.')))),
            )?;
        }
        pins.keep();
        Ok(())
    }

    /// Removes the pins of its maps, those that were found, too; answers with their paths.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub fn unpin(&self) -> Result<Vec<std::path::PathBuf>> {
        self.loaded.object.unpin()
    }
}
