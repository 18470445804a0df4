//! An object that was opened: what of it is wanted, before anything is loaded.

use super::map;
use super::settings::Settings;
use kestrel_bpf::object;
use kestrel_catalog::attach::KprobeVia;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use std::path::{Path, PathBuf};

/// An object that was read and not yet loaded.
#[derive(Debug)]
pub struct Object {
    pub(crate) name: String,
    pub(crate) parsed: object::Object,
    pub(crate) settings: Settings,
    pub(crate) host: Host,
}

impl Object {
    /// Reads an object's bytes.
    ///
    /// # Errors
    /// [`Error::Object`] with what is wrong with them.
    pub fn open(bytes: &[u8]) -> Result<Self> {
        Self::open_as("object", bytes)
    }

    /// Opens an object under a name, which is in messages, in the names of global data and in the paths of the object's own pins: a file's, without `.o`.
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

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parsed object.
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

    /// Sets a variable to a number, made as wide as the variable is.
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

    /// Gives a map room for so many entries, or a ring so many bytes: some objects leave that to their loader.
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
    pub fn via(mut self, via: KprobeVia) -> Self {
        self.settings.via = via;
        self
    }

    /// Makes it an error if any program finds nothing to be attached to; otherwise the others go on without those, and [`Loaded::notes`](crate::Loaded::notes) and
    /// [`Running::loaded`](crate::Running::loaded) name them. What was asked for with [`Object::attach_to`] is always strict, and so is an object of which nothing is left.
    pub fn strict(mut self, strict: bool) -> Self {
        self.settings.strict = strict;
        self
    }

    /// Takes the programs of sections that begin with `?`, too.
    pub fn with_optional(mut self, optional: bool) -> Self {
        self.settings.optional = optional;
        self
    }

    /// Keeps what the verifier writes about programs that it accepts, too ([`LoadedProgram::log`](crate::LoadedProgram::log)).
    pub fn with_verifier_log(mut self) -> Self {
        self.settings.verifier_log = true;
        self
    }

    /// Paths of the maps of this object that ask to be pinned.
    fn pin_paths(&self) -> Result<Vec<(String, PathBuf)>> {
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
    /// If bpffs is not mounted and cannot be.
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

    pub(crate) fn wrong(&self, why: impl Into<String>) -> Error {
        Error::Object {
            object: self.name.clone(),
            why: why.into(),
        }
    }
}

pub(crate) fn wrong(object: &str, error: &kestrel_bpf::Error) -> Error {
    let why = match error {
        kestrel_bpf::Error::Object(why) => why.clone(),
        other => other.to_string(),
    };
    Error::Object {
        object: object.to_owned(),
        why,
    }
}
