//! The debug information of programs (DWARF): their functions' parameters, their types as BTF, their lines of source; in the program itself, in debug files
//! beside it or of packages, in split files. Foreign bytes never panic: what is damaged is not known.

mod files;
mod function;
mod lines;
mod sections;
mod spelling;
mod types;
mod unit;
mod unwind;

pub use function::{Parameter, ParameterPlace, Signature};
pub use lines::{Line, Lines};
pub use unwind::unwind_rows;

pub(crate) use files::Identity;
use gimli::{Dwarf, DwarfPackage, DwoId};
use kestrel_bpf::btf::{Btf, TypeId};
use sections::Sections;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use types::Types;
use unit::{Die, Units};

/// The debug information of one program.
#[derive(Debug)]
pub struct DebugInfo {
    program: PathBuf,
    /// The debug file, where it is another one.
    debug: Option<PathBuf>,
    sections: Sections,
    folders: Vec<PathBuf>,
}

/// Functions of a program, and the types that they name.
#[derive(Clone, Debug)]
pub struct Described {
    /// The types, over those that were given.
    pub types: Arc<Btf>,
    /// Facts of each function, by its address.
    pub functions: HashMap<u64, Signature>,
    /// Structs of C++ that are passed by their address, whatever their size.
    pub by_address: HashSet<TypeId>,
}

/// The bytes of the debug file of a program, which also may lie in the folders.
pub(crate) fn debug_file(program: &Path, own: &Identity, folders: &[PathBuf]) -> Option<Vec<u8>> {
    files::debug_file(program, own, folders).map(|(_, bytes)| bytes)
}

/// Split files of a program, read for some of its units.
struct Splits {
    package: Option<Sections>,
    /// By the place of the unit in the program that names it.
    single: BTreeMap<usize, Sections>,
}

impl DebugInfo {
    /// The debug information of the program of these bytes; it and its debug file may also lie in the folders.
    pub fn find(program: &Path, bytes: &[u8], folders: &[PathBuf]) -> Option<Self> {
        Self::find_of(program, &Identity::of(bytes), || bytes, folders)
    }

    /// Like [`DebugInfo::find`], for a program whose bytes are read where they are needed.
    pub(crate) fn find_of<B: AsRef<[u8]>>(
        program: &Path,
        own: &Identity,
        bytes: impl FnOnce() -> B,
        folders: &[PathBuf],
    ) -> Option<Self> {
        let made = |sections, debug| Self {
            program: program.to_owned(),
            debug,
            sections,
            folders: folders.to_vec(),
        };
        let sections = own.described.then(|| Sections::read(bytes().as_ref())).flatten();
        if let Some(sections) = sections {
            return Some(made(sections, None));
        }
        let (path, bytes) = files::debug_file(program, own, folders)?;
        Some(made(Sections::read(&bytes)?, Some(path)))
    }

    /// The debug information in these bytes alone.
    ///
    /// ```
    /// use kestrel_catalog::debuginfo::DebugInfo;
    /// assert!(DebugInfo::of(b"no program").is_none());
    /// ```
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Self::find(Path::new(""), bytes, &[])
    }

    fn units(&self) -> Option<Rc<Units<'_>>> {
        let dwarf = Dwarf::load(|id| self.sections.get(id)).ok()?;
        Some(Units::new(dwarf))
    }

    /// Descriptions of the functions that begin at these addresses. Their types and those that have names in the same units lie over the base.
    pub fn describe(&self, base: Option<&Arc<Btf>>, addresses: &[u64]) -> Option<Described> {
        let units = self.units()?;
        let mut homes: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for address in addresses {
            if let Some(begin) = units.holding(*address) {
                homes.entry(begin).or_default().push(*address);
            }
        }
        let splits = self.splits(&units, homes.keys().copied());
        let mut types = Types::over(base.map(Arc::as_ref));
        let mut functions = HashMap::new();
        let mut alive = Vec::new();
        for (begin, addresses) in &homes {
            let Some(root) = splits.root(&units, *begin) else {
                continue;
            };
            // Types refer to what they were read from by its address, which therefore must not change.
            alive.push(root.clone());
            function::named_types(&root, &mut types, 0);
            for (address, die) in function::find(&root, addresses) {
                functions.insert(address, function::signature(&die, address, &mut types));
            }
        }
        let (bytes, by_address) = types.finish();
        drop(alive);
        let types = match base {
            Some(base) => Btf::parse_split(Arc::clone(base), bytes),
            None => Btf::parse(bytes),
        };
        Some(Described {
            types: Arc::new(types.ok()?),
            functions,
            by_address,
        })
    }

    /// Where statements of a line of source begin.
    pub fn lines(&self, wanted: Line<'_>) -> Lines {
        let mut search = lines::Search::default();
        let Some(units) = self.units() else {
            return Lines::default();
        };
        for begin in units.begins().collect::<Vec<_>>() {
            let Some(root) = function::root(&units, begin) else {
                continue;
            };
            let scopes = || {
                let units = self.units()?;
                let splits = self.splits(&units, std::iter::once(begin));
                Some(lines::scopes(&splits.root(&units, begin)?))
            };
            search.unit(&root, scopes, wanted);
        }
        search.finish(wanted)
    }

    /// Reads the split files of units, where they have some.
    fn splits(&self, units: &Rc<Units<'_>>, begins: impl Iterator<Item = usize>) -> Splits {
        let mut wanted = Vec::new();
        for begin in begins {
            if let Some(root) = function::root(units, begin)
                && root.unit.dwo_id.is_some()
                && let Ok(Some(name)) = root.unit.dwo_name()
                && let Ok(name) = units.dwarf.attr_string(&root.unit, name)
            {
                let folder = root.unit.comp_dir;
                let folder = folder.map_or_else(String::new, |folder| folder.to_string_lossy().into_owned());
                wanted.push((begin, folder, name.to_string_lossy().into_owned()));
            }
        }
        let package = (!wanted.is_empty()).then(|| {
            let programs: Vec<&Path> = std::iter::once(self.program.as_path())
                .chain(self.debug.as_deref())
                .collect();
            Sections::read(&files::package(&programs, &self.folders)?)
        });
        let package = package.flatten();
        let single = wanted.into_iter().filter_map(|(begin, folder, name)| {
            // A program's package has what its single files have.
            if package.is_some() {
                return None;
            }
            let bytes = files::split_file(&self.program, &folder, &name, &self.folders)?;
            Some((begin, Sections::read(&bytes)?))
        });
        let single = single.collect();
        Splits { package, single }
    }
}

impl Splits {
    /// The entry of a unit with all that it has: in its split file, where it has one.
    fn root<'d>(&'d self, units: &Rc<Units<'d>>, begin: usize) -> Option<Die<'d>> {
        let skeleton = function::root(units, begin)?;
        let Some(id) = skeleton.unit.dwo_id else {
            return Some(skeleton);
        };
        let dwarf = self.dwarf(units, begin, id);
        let split = dwarf.and_then(|dwarf| Units::split(dwarf, id, &skeleton.unit));
        Some(split.unwrap_or(skeleton))
    }

    fn dwarf<'d>(
        &'d self,
        units: &Rc<Units<'d>>,
        begin: usize,
        id: DwoId,
    ) -> Option<Dwarf<sections::Slice<'d>>> {
        if let Some(package) = &self.package {
            let read = DwarfPackage::load(|id| package.get_split(id), package.empty()).ok()?;
            return read.find_cu(id, &units.dwarf).ok()?;
        }
        let own = self.single.get(&begin)?;
        let mut dwarf = Dwarf::load(|id| own.get_split(id)).ok()?;
        dwarf.make_dwo(&units.dwarf);
        Some(dwarf)
    }
}
