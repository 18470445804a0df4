//! From an object to the kernel: types, maps, code, slots, in the order in which one needs the other; all of it goes again if anything fails.

use super::attach::{self, Bound};
use super::kernel::{Found, Kernel};
use super::map::{self, BpfMap, NewPins};
use super::opened::{Object, wrong};
use super::{kconfig, refusal};
use kestrel_bpf::btf::Kind;
use kestrel_bpf::code::{Code, MapRef, Relocation, RelocationTarget};
use kestrel_bpf::object::map::{Content, Filling, Inner, Map as Declaration};
use kestrel_bpf::object::{Linked, Program as Declared, Reference};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{self, Map, Program, ProgramBtf, ProgramSpec, ValueCheck};
use kestrel_kernel::procfs;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

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

    /// Its name in the object.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// Its section's name.
    pub fn section(&self) -> &str {
        &self.declared.section.text
    }

    /// The program itself.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What the verifier wrote, if that was asked for.
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
    // What can be known to fail fails before anything is made.
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

/// How people learn that a program is missing.
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
    /// Nothing of it yet.
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

    /// Its programs.
    pub fn programs(&self) -> &[LoadedProgram] {
        &self.programs
    }

    /// Its maps, in the order of the object.
    pub fn maps(&self) -> &[BpfMap] {
        &self.maps
    }

    /// What should be known about how it was loaded, in sentences.
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

    /// Makes sure that the sizes of all maps are known.
    fn check_sizes(&self, given: &dyn Fn(&str) -> Result<Option<Map>>) -> Result<()> {
        let mut open = Vec::new();
        for map in self.object.parsed.maps() {
            let Some(option) = map::open_size(map) else {
                continue;
            };
            let elsewhere = self
                .object
                .settings
                .pinned
                .iter()
                .any(|(name, _)| *name == map.name);
            let path = map::pin_path(&self.object.host, &self.object.name, map)?;
            let pinned = path.is_some_and(|path| std::fs::symlink_metadata(path).is_ok());
            if !elsewhere && !pinned && given(&map.name)?.is_none() {
                open.push(option);
            }
        }
        // Compilers have an order of their own for what a program declares.
        open.sort_unstable();
        match open.as_slice() {
            [] => Ok(()),
            [one] => Err(self.object.wrong(format!(
                "it leaves the size of a map to its own loader: say it, {one} (of a ring, a power of two from 4096 on)"
            ))),
            many => Err(self.object.wrong(format!(
                "it leaves the sizes of {} maps to its own loader: say them, {} (of rings, powers of two from 4096 on)",
                many.len(),
                many.join(" ")
            ))),
        }
    }

    fn make_maps(&mut self) -> Result<()> {
        self.make_maps_with(&|_| Ok(None)).map(drop)
    }

    /// Makes the maps, but for those that other processes have already, by their names; says whether any was given.
    pub(super) fn make_maps_with(&mut self, given: &dyn Fn(&str) -> Result<Option<Map>>) -> Result<bool> {
        let mut any = false;
        self.check_sizes(given)?;
        let declared = self.object.parsed.maps().to_vec();
        let types = self
            .object
            .parsed
            .btf()
            .and_then(|btf| kestrel_bpf::btf::Btf::parse(btf.bytes().clone()).ok())
            .map(Arc::new);
        let mut made: Vec<Option<BpfMap>> = declared.iter().map(|_| None).collect();
        // Templates first; what holds maps later. Two rounds do: maps in maps hold none.
        for round in 0..2 {
            for (index, map) in declared.iter().enumerate() {
                let later = matches!(map.inner, Some(Inner::Map(_)));
                if later != (round == 1) {
                    continue;
                }
                let inner = match &map.inner {
                    Some(Inner::Map(held)) => made.get(*held).and_then(Option::as_ref).map(|map| &map.map),
                    _ => None,
                };
                if inner.is_none() && later {
                    return Err(self
                        .object
                        .wrong(format!("the map {} holds maps that hold maps", map.name)));
                }
                let (found, reused, path) = match given(&map.name)? {
                    Some(map) => {
                        any = true;
                        (map, true, None)
                    }
                    None => self.make_map(map, inner)?,
                };
                self.notes.extend(map::enlarged(map, &found, reused)?);
                if let Some(place) = made.get_mut(index) {
                    *place = Some(BpfMap {
                        name: map.name.clone(),
                        map: found,
                        key: map.key,
                        value: map.value,
                        types: types.clone(),
                        reused,
                        path,
                        is_data: map.is_data,
                    });
                }
            }
        }
        self.maps = made.into_iter().flatten().collect();
        Ok(any)
    }

    fn make_map(
        &self,
        declared: &Declaration,
        inner: Option<&Map>,
    ) -> Result<(Map, bool, Option<std::path::PathBuf>)> {
        let mut pinned = self.object.settings.pinned.iter();
        if let Some((_, path)) = pinned.find(|(name, _)| *name == declared.name) {
            let found = map::reuse(path, declared)?.ok_or_else(|| {
                let why = format!(
                    "nothing is pinned at {}, where its map {} should be",
                    path.display(),
                    declared.name
                );
                self.object.wrong(why)
            })?;
            return Ok((found, true, None));
        }
        let path = map::pin_path(&self.object.host, &self.object.name, declared)?;
        if let Some(path) = &path
            && let Some(found) = map::reuse(path, declared)?
        {
            return Ok((found, true, Some(path.clone())));
        }
        let btf = self.btf.as_ref().map(AsFd::as_fd);
        // The kernel takes the shape of inner maps from one that exists while the outer one is made.
        let template = match &declared.inner {
            Some(Inner::Template(template)) => Some(map::create(&self.object.name, template, btf, None)?),
            _ => None,
        };
        let inner = inner.or(template.as_ref()).map(AsFd::as_fd);
        let made = map::create(&self.object.name, declared, btf, inner)?;
        let kconfig;
        let content: Option<&[u8]> = match &declared.content {
            Content::Empty => None,
            Content::Bytes(bytes) => Some(bytes),
            Content::Kconfig(variables) => {
                let btf = self
                    .object
                    .parsed
                    .btf()
                    .ok_or_else(|| self.object.wrong("it has no types"))?;
                kconfig = kconfig::values(
                    &self.object.host,
                    &self.object.settings.config,
                    btf,
                    variables,
                    declared.value_size,
                )?;
                Some(&kconfig)
            }
        };
        if let Some(content) = content {
            made.update(&[0; 4], content, ValueCheck::Any)?;
        }
        if declared.is_data && declared.flags & bpf::sys::MAP_PROGRAM_READ_ONLY != 0 {
            // The verifier takes values of frozen maps for constants, and so drops branches that need helpers of other kernels.
            made.freeze()?;
        }
        Ok((made, false, path))
    }

    pub(super) fn load_program(&mut self, bound: Bound, declared: Declared) -> Result<LoadedProgram> {
        let mut linked = self
            .object
            .parsed
            .link(&declared)
            .map_err(|error| wrong(&self.object.name, &error))?;
        if let Some(types) = self.object.parsed.btf() {
            linked.answer_type_matches(|ty| self.kernel.matches(types, ty))?;
        }
        let (code, called) = self.resolve(&linked)?;
        let target = match &bound.module {
            Some(module) => Some(self.module(module)?),
            None => None,
        };
        let maps: Vec<BorrowedFd<'_>> = self.maps.iter().map(|map| map.map.as_fd()).collect();
        let modules: Vec<BorrowedFd<'_>> = called
            .iter()
            .filter_map(|module| self.modules.get(module))
            .map(AsFd::as_fd)
            .collect();
        let kfunc = |name: &str| {
            self.kernel
                .find(Kind::Func, name)
                .ok()
                .flatten()
                .map(|found| found.id)
        };
        let license = self
            .object
            .parsed
            .license()
            .cloned()
            .unwrap_or_else(|| c"GPL".to_owned());
        // Samples declare the version that they were compiled for; what old kernels compare with is their own.
        let version = procfs::version_code(&self.object.host)
            .ok()
            .or(self.object.parsed.version());
        let btf = self.btf.as_ref().filter(|_| !linked.functions.is_empty());
        let spec = ProgramSpec {
            license: &license,
            kernel_version: version.unwrap_or(0),
            flags: if declared.section.sleepable {
                bpf::sys::PROGRAM_SLEEPABLE
            } else {
                0
            },
            target: target
                .and_then(|module| self.modules.get(&module))
                .map(AsFd::as_fd),
            btf: btf.map(|btf| ProgramBtf {
                btf: btf.as_fd(),
                functions: &linked.functions,
                lines: &linked.lines,
                relocations: &linked.core,
            }),
            modules: &modules,
            log_level: u32::from(self.object.settings.verifier_log),
            ..ProgramSpec::new(&declared.name, bound.kind, &code, &maps).with_kfunc(&kfunc)
        };
        if btf.is_none() && !linked.core.is_empty() {
            return Err(self.object.wrong(format!(
                "{} needs its types for CO-RE relocations, and the kernel does not take them",
                declared.name
            )));
        }
        let program = Program::load(&spec)
            .map_err(|error| refusal::explain(error, &self.object, &declared, &linked, &code))?;
        let prints = code
            .insns
            .iter()
            .any(|insn| insn.code == CALL && insn.src == 0 && PRINTERS.contains(&insn.imm));
        Ok(LoadedProgram {
            declared,
            program,
            bound,
            prints,
        })
    }

    /// The descriptor of a module's types, opened once.
    fn module(&mut self, name: &str) -> Result<String> {
        if !self.modules.contains_key(name) {
            self.modules.insert(name.to_owned(), bpf::module_btf(name)?);
        }
        Ok(name.to_owned())
    }

    /// Fills in what only this kernel knows; maps stay references.
    /// Answers with the modules whose functions it calls, too.
    fn resolve(&mut self, linked: &Linked) -> Result<(Code, Vec<String>)> {
        let mut called = Vec::new();
        let mut code = Code {
            insns: linked.insns.clone(),
            ..Code::default()
        };
        for (insn, reference) in &linked.references {
            let mut refer = |target| code.relocations.push(Relocation { insn: *insn, target });
            match reference {
                Reference::Map(map) => refer(RelocationTarget::Map(MapRef(*map as u32))),
                Reference::MapValue(map) => refer(RelocationTarget::MapValue(MapRef(*map as u32))),
                Reference::Function { name, weak } => match self.kernel.find(Kind::Func, name)? {
                    Some(Found { module: None, .. }) => refer(RelocationTarget::Kfunc(name.clone())),
                    // The call's offset is a place in a list of descriptors, whose first is the kernel's own.
                    Some(Found {
                        module: Some(module),
                        id,
                    }) => {
                        let module = self.module(&module)?;
                        let known = called.iter().position(|known| *known == module);
                        let place = known.unwrap_or_else(|| {
                            called.push(module);
                            called.len() - 1
                        });
                        if let Some(insn) = code.insns.get_mut(*insn) {
                            (insn.src, insn.off, insn.imm) =
                                (PSEUDO_KFUNC_CALL, place as i16 + 1, id.0 as i32);
                        }
                    }
                    // The verifier refuses the call if it can be reached.
                    None if *weak => {
                        if let Some(insn) = code.insns.get_mut(*insn) {
                            (insn.src, insn.imm) = (0, MISSING);
                        }
                    }
                    None => {
                        return Err(Error::Unsupported {
                            what: format!("the kernel function {name}"),
                            why: "this kernel has none of this name that programs may call".to_owned(),
                        });
                    }
                },
                Reference::Symbol { name, ty, weak } => {
                    let (pseudo, low, high) = self.symbol(name, ty.is_some(), *weak)?;
                    if let Some(insn) = code.insns.get_mut(*insn) {
                        (insn.src, insn.imm) = (pseudo, low);
                    }
                    if let Some(insn) = code.insns.get_mut(*insn + 1) {
                        insn.imm = high;
                    }
                }
            }
        }
        Ok((code, called))
    }

    /// Source register and halves of the immediate of the load of a kernel symbol's address.
    fn symbol(&mut self, name: &str, typed: bool, weak: bool) -> Result<(u8, i32, i32)> {
        let missing = || Error::Unsupported {
            what: format!("the kernel symbol {name}"),
            why: "this kernel has none of this name; declare it __weak if the program can do without"
                .to_owned(),
        };
        if !typed {
            let address = self
                .kernel
                .symbols()?
                .named(name)
                .map(|symbol| symbol.address)
                .find(|address| *address != 0);
            return match address {
                Some(address) => Ok((0, address as u32 as i32, (address >> 32) as u32 as i32)),
                None if weak => Ok((0, 0, 0)),
                None => Err(missing()),
            };
        }
        let found = match self.kernel.find(Kind::Var, name)? {
            Some(found) => Some(found),
            None => self.kernel.find(Kind::Func, name)?,
        };
        match found {
            Some(Found { id, module: None }) => Ok((PSEUDO_BTF_ID, id.0 as i32, 0)),
            Some(Found {
                id,
                module: Some(module),
            }) => {
                let module = self.module(&module)?;
                let fd = self.modules.get(&module).map_or(0, AsRawFd::as_raw_fd);
                Ok((PSEUDO_BTF_ID, id.0 as i32, fd))
            }
            None if weak => Ok((0, 0, 0)),
            None => Err(missing()),
        }
    }

    /// Slots of program arrays and of maps of maps that the object fills itself.
    pub(super) fn fill_slots(&self) -> Result<()> {
        for (declared, map) in self.object.parsed.maps().iter().zip(&self.maps) {
            for (slot, filling) in &declared.filling {
                match filling {
                    Filling::Map(held) => {
                        if let Some(held) = self.maps.get(*held) {
                            map.set_slot(*slot, held.map.as_fd())?;
                        }
                    }
                    Filling::Program(name) => {
                        let program = self
                            .programs
                            .iter()
                            .find(|program| program.declared.name == *name);
                        let left = self.left.iter().any(|(left, _)| left == name);
                        if left || !self.object.settings.takes(name, true) {
                            continue;
                        }
                        let program = program.ok_or_else(|| {
                            self.object.wrong(format!(
                                "slot {slot} of {} wants the program {name}, which is not there",
                                map.name
                            ))
                        })?;
                        map.set_slot(*slot, program.program.as_fd())?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// `BPF_PSEUDO_KFUNC_CALL`.
const PSEUDO_KFUNC_CALL: u8 = 2;
/// `BPF_PSEUDO_BTF_ID`.
const PSEUDO_BTF_ID: u8 = 3;
/// The number of a helper that no kernel has.
const MISSING: i32 = 0x0bad_f00d;
/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// `bpf_trace_printk` and `bpf_trace_vprintk`.
const PRINTERS: [i32; 2] = [6, 177];
