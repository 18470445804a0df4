//! From an object to the kernel: types, maps, code, slots, in the order in which one needs the other; all of it goes again if anything fails.
//!
//! | room | what it does |
//! |---|---|
//! | `maps` | maps made or found, with their content and slots |
//! | `program` | code with what only this kernel knows filled in, and loaded |

mod maps;
mod program;

use super::attach::{self, Bound};
use super::kernel::Kernel;
use super::map::{BpfMap, NewPins};
use super::opened::Object;
use kestrel_bpf::object::Program as Declared;
use kestrel_bpf::object::map::Filling;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{self, Program};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// A program of an object, in the kernel.
#[derive(Debug)]
pub struct LoadedProgram {
    pub(super) declared: Declared,
    pub(super) program: Program,
    pub(super) bound: Bound,
    prints: bool,
}

impl LoadedProgram {
    /// Whether it calls `bpf_printk`.
    pub fn prints(&self) -> bool {
        self.prints
    }

    /// The name in the object.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// The section's name.
    pub fn section(&self) -> &str {
        &self.declared.section.text
    }

    /// The program itself.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The verifier's log, if that was asked for.
    pub fn log(&self) -> Option<&str> {
        self.program.log()
    }
}

/// An object in the kernel, not attached yet. Dropping it removes all that is not pinned.
#[derive(Debug)]
pub struct Loaded {
    pub(super) object: Object,
    pub(super) kernel: Kernel,
    pub(super) programs: Vec<LoadedProgram>,
    pub(super) maps: Vec<BpfMap>,
    pub(super) pins: NewPins,
    pub(super) notes: Vec<String>,
    pub(super) btf: Option<OwnedFd>,
    /// Descriptors of modules' types, which instructions may name.
    pub(super) modules: HashMap<String, OwnedFd>,
    /// Programs that the others do without, and why.
    pub(super) left: Vec<(String, Error)>,
}

impl Object {
    /// Makes or finds the maps and loads the programs.
    ///
    /// # Errors
    /// [`Error::Refused`] if the verifier refuses a program; [`Error::Object`], [`Error::Kernel`]. Nothing is left behind.
    pub fn load(self) -> Result<Loaded> {
        load(self)
    }
}

fn load(object: Object) -> Result<Loaded> {
    let wanted = wanted(&object)?;
    let mut loaded = Loaded::empty(object);
    // Attachments that are known to fail fail before anything is made.
    let mut bound = Vec::new();
    for program in wanted {
        let target = loaded.target(&program);
        let held = loaded.is_held(&program);
        match attach::bind(&loaded.kernel, &program, &target, held, &loaded.object.settings) {
            Ok(found) => bound.push((found, program)),
            Err(error) => loaded.leave(&program.name, error)?,
        }
    }
    loaded.load_types();
    if loaded.object.parsed.license().is_none() {
        loaded
            .notes
            .push("the object has no license section: GPL is assumed".to_owned());
    }
    if bound.is_empty() && !loaded.left.is_empty() {
        return Err(loaded.left.swap_remove(0).1);
    }
    loaded.make_maps()?;
    let others = bound.iter().all(|(bound, _)| bound.is_foreign());
    for (bound, program) in bound {
        let (name, foreign) = (program.name.clone(), bound.is_foreign());
        let absent = bound.traced_function().map(str::to_owned);
        match loaded.load_program(bound, program) {
            Ok(one) => loaded.programs.push(one),
            // Programs that nothing here attaches are no reason to do without those that are.
            Err(error @ Error::Refused(_)) if foreign && !others && !loaded.object.settings.strict => {
                loaded.left.push((name, error));
            }
            Err(error @ Error::Refused(_)) => match absent {
                Some(absent) if loaded.kernel.has_no_address(&absent) => {
                    let why = "the function has types, but this kernel has no code of it".to_owned();
                    let what = format!("the program {name} on the function {absent}");
                    loaded.leave(&name, Error::Unsupported { what, why })?;
                }
                _ => return Err(error),
            },
            Err(error) => loaded.leave(&name, error)?,
        }
    }
    if loaded.programs.is_empty() && !loaded.left.is_empty() {
        return Err(loaded.left.swap_remove(0).1);
    }
    loaded.fill_slots()?;
    loaded.tell_twins();
    loaded
        .notes
        .extend(loaded.left.iter().map(|(name, error)| left_out(name, error)));
    Ok(loaded)
}

/// Remark that a program is missing, and why.
pub(super) fn left_out(program: &str, error: &Error) -> String {
    let text = error.to_string();
    let why = text
        .strip_prefix(&format!("program {program}: "))
        .unwrap_or(&text);
    format!("the program {program} is left out: {why}")
}

/// The programs to load: all but those that only come when asked for.
fn wanted(object: &Object) -> Result<Vec<Declared>> {
    let asked = |program: &Declared| object.settings.asks_for(&program.name);
    let meant: Vec<_> = object
        .parsed
        .programs()
        .iter()
        .filter(|p| object.settings.takes(&p.name, is_held(object, p)))
        .collect();
    if meant.is_empty() && !object.parsed.programs().is_empty() {
        return Err(object.wrong("all its programs are left out"));
    }
    let all: Vec<_> = meant
        .into_iter()
        .filter(|p| !p.section.optional || object.settings.optional || asked(p))
        .cloned()
        .collect();
    if let (true, Some(first)) = (all.is_empty(), object.parsed.programs().first()) {
        return Err(object.wrong(format!(
            "all its programs are optional (their sections begin with `?`): name those that are wanted, {}=TARGET, or take all with --optional",
            first.name
        )));
    }
    if all.is_empty() {
        return Err(object
            .wrong("it has no program: functions are programs in a section like SEC(\"kprobe/vfs_read\")"));
    }
    Ok(all)
}

/// Whether a program array of the object holds a program.
fn is_held(object: &Object, program: &Declared) -> bool {
    let fillings = object.parsed.maps().iter().flat_map(|map| &map.filling);
    fillings
        .into_iter()
        .any(|(_, filling)| matches!(filling, Filling::Program(name) if *name == program.name))
}

impl Loaded {
    /// An object of which nothing is loaded yet.
    pub(super) fn empty(object: Object) -> Self {
        Self {
            pins: NewPins::new(&object.host),
            kernel: Kernel::new(object.host.clone()),
            object,
            programs: Vec::new(),
            maps: Vec::new(),
            notes: Vec::new(),
            btf: None,
            modules: HashMap::new(),
            left: Vec::new(),
        }
    }

    /// Gives the kernel the object's types.
    pub(super) fn load_types(&mut self) {
        if let Some(btf) = self.object.parsed.btf() {
            match bpf::load_btf(btf.bytes()) {
                Ok(fd) => self.btf = Some(fd),
                Err(error) => self.notes.push(format!(
                    "the kernel does not take the object's types: {error}; going on without them"
                )),
            }
        }
    }

    /// Goes on without a program, if that is allowed.
    pub(super) fn leave(&mut self, program: &str, error: Error) -> Result<()> {
        if !self.object.settings.spares(program, &error) {
            return Err(error);
        }
        self.left.push((program.to_owned(), error));
        Ok(())
    }

    /// The programs that were loaded.
    pub fn programs(&self) -> &[LoadedProgram] {
        &self.programs
    }

    /// The maps, in the order of the object.
    pub fn maps(&self) -> &[BpfMap] {
        &self.maps
    }

    /// Remarks about how it was loaded, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether a program array of the object holds it.
    pub(super) fn is_held(&self, program: &Declared) -> bool {
        is_held(&self.object, program)
    }

    fn target(&self, program: &Declared) -> String {
        let given = self
            .object
            .settings
            .targets
            .iter()
            .find(|(name, _)| *name == program.name);
        given.map_or_else(|| program.section.target.clone(), |(_, target)| target.clone())
    }

    /// Says which programs see the same calls or hits in different ways: objects have such twins for kernels that know only one of the ways.
    fn tell_twins(&mut self) {
        let mut notes = Vec::new();
        for (index, one) in self.programs.iter().enumerate() {
            let twin = self.programs[..index]
                .iter()
                .find(|other| one.bound.is_twin_of(&other.bound));
            if let (Some(other), Some((what, name))) = (twin, one.bound.event()) {
                notes.push(format!(
                    "the programs {} ({}) and {} ({}) both see each {what} {name}: what both count is counted twice; --without NAME leaves one out",
                    other.name(),
                    other.section(),
                    one.name(),
                    one.section()
                ));
            }
        }
        self.notes.extend(notes);
    }
}
