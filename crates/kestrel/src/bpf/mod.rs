//! Compiled BPF objects (clang's ELF files) onto the running kernel: maps made or found, code loaded, attached, taken down; not how objects are read.
//!
//! ```no_run
//! use kestrel::bpf::Object;
//! let bytes = std::fs::read("count.o")?;
//! let running = Object::open(&bytes)?.attach_to("count", "vfs_read")?.load()?.attach()?;
//! let hits = running.map("hits").ok_or("no such map")?.typed::<u32, u64>()?;
//! println!("{:?} by process 1, {} processes", hits.get(&1)?, hits.entries()?.len());
//! // Dropping `running` detaches and removes all that is not pinned.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `cargo run --example bpf_calls` shows the rest: values by CPU, global variables, pins that outlive the program and are opened again.

mod attach;
pub(crate) mod handler;
mod kconfig;
mod kernel;
mod load;
mod map;
pub mod output;
mod refusal;
mod running;
mod typed;
pub mod value;

pub use handler::{HandlerFile, trusted};
pub use kestrel_bpf::btf::{Btf, TypeId};
pub use kestrel_bpf::object::map::Pinning;
pub use kestrel_bpf::object::{Hook, KINDS, Linked, Map as MapDeclaration, Program as ProgramDeclaration};
pub use kestrel_bpf::verifier_log::VerifierLog;
pub use kestrel_catalog::verifier::Refusal;
pub use load::{Loaded, LoadedProgram};
pub use map::{BpfMap, Shape};
pub use running::{Attached, Running};
pub use typed::TypedMap;

use kestrel_bpf::object;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use std::path::{Path, PathBuf};

/// How a kprobe is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    /// A perf kprobe; where the kernel has none, an event of tracefs.
    #[default]
    Best,
    /// A perf kprobe with a link, which can be pinned.
    Link,
    /// An event in tracefs' `kprobe_events`, as on old kernels.
    Tracefs,
}

/// What is wanted of an object beside what its sections say.
#[derive(Clone, Debug, Default)]
struct Settings {
    /// Program and target.
    targets: Vec<(String, String)>,
    /// Options of the kernel's configuration, as the user says they are.
    config: Vec<(String, String)>,
    at_return: bool,
    via: Via,
    verifier_log: bool,
    strict: bool,
    optional: bool,
    /// The only programs to take, if any are named; and those to leave out.
    only: Vec<String>,
    without: Vec<String>,
    /// Maps that somebody else made, by their names, and where they are pinned.
    pinned: Vec<(String, PathBuf)>,
}

impl Settings {
    /// Whether a program is taken as far as the user says; `held` are those that others call.
    fn takes(&self, program: &str, held: bool) -> bool {
        let is = |name: &String| name == program;
        (self.only.is_empty() || held || self.only.iter().any(is)) && !self.without.iter().any(is)
    }

    /// Whether a program was asked for by its name.
    fn asks_for(&self, program: &str) -> bool {
        self.targets.iter().any(|(name, _)| name == program) || self.only.iter().any(|name| name == program)
    }

    /// Whether the others may go on without a program that this happens to. What a section says is a wish: objects carry programs for other
    /// kernels. What the user says is not.
    fn spares(&self, program: &str, error: &Error) -> bool {
        /// The kernel has no such thing, or not in this shape; not: it has no room, or we may not.
        const ABSENT: &[&str] = &[
            "ENOENT",
            "EINVAL",
            "EBADF",
            "EOPNOTSUPP",
            "ENOTSUPP",
            "EADDRNOTAVAIL",
            "EILSEQ",
            "ENODEV",
            "ESRCH",
        ];
        let absent = match error {
            Error::NoSuchEvent { .. }
            | Error::NoPlace { .. }
            | Error::Unsupported { .. }
            | Error::Object { .. } => true,
            Error::Kernel(error) => error
                .errno()
                .and_then(kestrel_kernel::Errno::name)
                .is_some_and(|name| ABSENT.contains(&name)),
            _ => false,
        };
        absent && !self.strict && !self.asks_for(program)
    }
}

/// An object that was read and not yet loaded.
#[derive(Debug)]
pub struct Object {
    name: String,
    parsed: object::Object,
    settings: Settings,
    host: Host,
}

impl Object {
    /// Reads an object's bytes.
    ///
    /// # Errors
    /// [`Error::Object`] with what is wrong with them.
    pub fn open(bytes: &[u8]) -> Result<Self> {
        Self::open_as("object", bytes)
    }

    /// The same with a name, which is in messages, in the names of global data and in the paths of the object's own pins: a file's, without `.o`.
    ///
    /// # Errors
    /// As [`Object::open`].
    pub fn open_as(name: &str, bytes: &[u8]) -> Result<Self> {
        let parsed = object::Object::parse(bytes).map_err(|error| wrong(name, &error))?;
        Ok(Self {
            name: name.to_owned(),
            parsed,
            settings: Settings::default(),
            host: Host::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was read.
    pub fn parsed(&self) -> &object::Object {
        &self.parsed
    }

    /// Attaches a program to something else than its section says: what would stand behind the section's first `/`.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such program, or it cannot be attached to anything else.
    pub fn attach_to(mut self, program: &str, target: &str) -> Result<Self> {
        self.has_program(program)?;
        self.settings.targets.retain(|(known, _)| known != program);
        self.settings
            .targets
            .push((program.to_owned(), target.to_owned()));
        Ok(self)
    }

    fn has_program(&self, program: &str) -> Result<()> {
        let names: Vec<&str> = self.parsed.programs().iter().map(|p| p.name.as_str()).collect();
        match names.contains(&program) {
            true => Ok(()),
            false => Err(self.wrong(format!(
                "it has no program `{program}`; it has {}",
                names.join(", ")
            ))),
        }
    }

    /// Takes only the programs that are named so, one call each, with those that they call; the others are not loaded.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such program.
    pub fn only(mut self, program: &str) -> Result<Self> {
        self.has_program(program)?;
        self.settings.only.push(program.to_owned());
        Ok(self)
    }

    /// Leaves a program out: it is not loaded.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such program.
    pub fn without(mut self, program: &str) -> Result<Self> {
        self.has_program(program)?;
        self.settings.without.push(program.to_owned());
        Ok(self)
    }

    /// Takes the map that is pinned at a path, which another loader made, for one of the object's.
    ///
    /// # Errors
    /// [`Error::Object`] if the object has no such map.
    pub fn map_from(mut self, map: &str, path: &Path) -> Result<Self> {
        let names: Vec<&str> = self.parsed.maps().iter().map(|map| map.name.as_str()).collect();
        if !names.contains(&map) {
            return Err(self.wrong(format!("it has no map `{map}`; it has {}", names.join(", "))));
        }
        self.settings.pinned.retain(|(known, _)| known != map);
        self.settings.pinned.push((map.to_owned(), path.to_owned()));
        Ok(self)
    }

    /// Attaches the one program that leaves its target open, or else the only one, to `target`.
    ///
    /// # Errors
    /// [`Error::Object`] if it is not clear which program is meant.
    pub fn attach_only_to(self, target: &str) -> Result<Self> {
        let all = self.parsed.programs();
        let mut open = all.iter().filter(|program| program.section.target.is_empty());
        let only = match (all, open.next(), open.next()) {
            ([only], ..) => only.name.clone(),
            (_, Some(only), None) => only.name.clone(),
            _ => {
                let names: Vec<&str> = all.iter().map(|p| p.name.as_str()).collect();
                return Err(self.wrong(format!(
                    "it has {} programs: say which one is meant, NAME={target}, with NAME one of {}",
                    all.len(),
                    names.join(", ")
                )));
            }
        };
        self.attach_to(&only, target)
    }

    /// Gives a global variable (`const volatile u32 wanted;`) another value from the start, in its own bytes.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such variable, or it has another size.
    pub fn set(mut self, variable: &str, value: &[u8]) -> Result<Self> {
        let set = self.parsed.set_variable(variable, value);
        set.map_err(|error| wrong(&self.name, &error))?;
        Ok(self)
    }

    /// The same with a number, made as wide as the variable is.
    ///
    /// # Errors
    /// As [`Object::set`]; and if the number does not fit.
    pub fn set_number(self, variable: &str, number: i64) -> Result<Self> {
        let size = self
            .parsed
            .variable(variable)
            .map_or(0, |variable| variable.size as usize);
        let bytes = number.to_le_bytes();
        let (kept, rest) = bytes.split_at(size.min(8));
        let top = kept.last().copied().unwrap_or(0);
        let fits =
            rest.iter().all(|byte| *byte == 0) || rest.iter().all(|byte| *byte == 0xff) && top & 0x80 != 0;
        if !fits && size > 0 {
            return Err(self.wrong(format!(
                "the variable {variable} has {size} bytes, too few for {number}"
            )));
        }
        let mut value = kept.to_vec();
        value.resize(size, 0);
        self.set(variable, &value)
    }

    /// Gives a map room for so many entries, or a ring so many bytes: some objects leave that to whoever loads them.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such map.
    pub fn map_size(mut self, map: &str, entries: u32) -> Result<Self> {
        let set = self.parsed.set_map_entries(map, entries);
        set.map_err(|error| wrong(&self.name, &error))?;
        Ok(self)
    }

    /// Says what an option of the kernel's configuration is (`CONFIG_HZ`, `250`), for variables declared `extern … __kconfig`, where the
    /// kernel does not tell or something else is wanted.
    pub fn config(mut self, option: &str, value: &str) -> Self {
        let config = &mut self.settings.config;
        config.retain(|(known, _)| known != option);
        config.push((option.to_owned(), value.to_owned()));
        self
    }

    /// Attaches kprobe programs to the return of their functions.
    pub fn at_return(mut self, at_return: bool) -> Self {
        self.settings.at_return = at_return;
        self
    }

    /// Chooses how kprobes are attached.
    pub fn via(mut self, via: Via) -> Self {
        self.settings.via = via;
        self
    }

    /// Makes it an error if any program finds nothing to be attached to; otherwise the others go on without those, and [`Loaded::notes`] and
    /// [`Running::loaded`] name them. What was asked for with [`Object::attach_to`] is always strict, and so is an object of which nothing is left.
    pub fn strict(mut self, strict: bool) -> Self {
        self.settings.strict = strict;
        self
    }

    /// Takes the programs of sections that begin with `?`, too.
    pub fn with_optional(mut self, optional: bool) -> Self {
        self.settings.optional = optional;
        self
    }

    /// Keeps what the verifier writes about programs that it accepts, too ([`LoadedProgram::log`]).
    pub fn with_verifier_log(mut self) -> Self {
        self.settings.verifier_log = true;
        self
    }

    /// Makes or finds the maps and loads the programs.
    ///
    /// # Errors
    /// [`Error::Refused`] if the verifier refuses a program; [`Error::Object`], [`Error::Kernel`]. Nothing stays behind.
    pub fn load(self) -> Result<Loaded> {
        load::load(self)
    }

    /// Where maps of this object are pinned, for those that ask to be.
    ///
    /// # Errors
    /// If bpffs is not mounted and cannot be.
    pub fn pin_paths(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut paths = Vec::new();
        for map in self.parsed.maps() {
            if let Some(path) = map::pin_path(&self.host, &self.name, map)? {
                paths.push((map.name.clone(), path));
            }
        }
        Ok(paths)
    }

    /// Removes the pins of this object's maps; answers with those that were there.
    ///
    /// # Errors
    /// As [`Object::pin_paths`].
    pub fn unpin(&self) -> Result<Vec<PathBuf>> {
        let mut removed = Vec::new();
        for (_, path) in self.pin_paths()? {
            if kestrel_kernel::bpf::unpin(&path)? {
                map::remove_empty(&self.host, &path);
                removed.push(path);
            }
        }
        Ok(removed)
    }

    fn wrong(&self, why: impl Into<String>) -> Error {
        Error::Object {
            object: self.name.clone(),
            why: why.into(),
        }
    }
}

fn wrong(object: &str, error: &kestrel_bpf::Error) -> Error {
    let why = match error {
        kestrel_bpf::Error::Object(why) => why.clone(),
        other => other.to_string(),
    };
    Error::Object {
        object: object.to_owned(),
        why,
    }
}
