//! Programs and libraries as ELF files: their functions and USDT probes, and where these lie in the file; not what they have mapped where.

mod archive;
mod described;
pub mod language;
mod library_cache;
mod lookup;
mod site;
mod usdt;

pub use lookup::find;
pub use site::Site;
pub use usdt::{
    Argument, ArgumentPlace, Description, Field, UsdtFieldKind, UsdtProbe, UsdtProbes, arguments,
};

use crate::bounded_read;
use crate::debuginfo::{self, DebugInfo, Identity};
use crate::error::{Error, Near, Result};
use kestrel_compiler::lang::diag::nearest;
use kestrel_trace::files;
use language::Language;
use object::elf::STT_GNU_IFUNC;
use object::{Object, ObjectKind, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolFlags, SymbolKind};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The linker's name, mangled where the language mangles names.
    pub name: String,
    /// Where its code lies in the file.
    pub offset: u64,
    /// Bytes of code; 0 where the file does not say.
    pub size: u64,
    /// Whether it only chooses the function that callers get (`strlen` of glibc).
    pub indirect: bool,
}

/// Bytes of a file that are mapped: from which address on, how many, from where in the file.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    size: u64,
    offset: u64,
}

/// An ELF file, kept open: whatever is put at its path meanwhile, it is this one that is read and probed.
#[derive(Debug)]
pub struct Executable {
    path: PathBuf,
    file: File,
    /// Where in the file it is: all of it, or the part of an archive.
    inside: Range<usize>,
    segments: Vec<Segment>,
    functions: Arc<[Function]>,
    /// Whether its functions are only those that others call: the rest was taken out.
    stripped: bool,
    folders: Vec<PathBuf>,
    identity: Identity,
    debug: OnceLock<Option<DebugInfo>>,
    described: Mutex<described::DescribedFunctions>,
    /// The functions and those that its debug file names.
    named_elsewhere: OnceLock<Arc<[Function]>>,
}

/// Files that were read: many probes often are on functions of one library.
#[derive(Debug, Default)]
pub struct Executables {
    known: Mutex<HashMap<PathBuf, Arc<Executable>>>,
    folders: Vec<PathBuf>,
}

impl Executables {
    /// Looks for debug files in these folders, too.
    pub(crate) fn look_into(&mut self, folders: Vec<PathBuf>) {
        self.folders = folders;
        self.known
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The file at a path, which is read the first time.
    ///
    /// # Errors
    /// When it cannot be read, or is no ELF file.
    pub fn get(&self, path: &Path) -> Result<Arc<Executable>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(path) {
            return Ok(known.clone());
        }
        let read = Arc::new(Executable::open(path, &self.folders)?);
        known.insert(path.to_owned(), read.clone());
        // Attaching asks for it by its whole path.
        known.entry(read.path.clone()).or_insert_with(|| read.clone());
        Ok(read)
    }
}

impl Executable {
    fn open(path: &Path, folders: &[PathBuf]) -> Result<Self> {
        let unreadable = Error::io("read", path.display());
        let no_program = |why: String| Error::Object {
            object: path.display().to_string(),
            why,
        };
        let written = path.to_string_lossy();
        // The name of an ordinary file may have `!/` in it.
        let in_archive = archive::split(&written).filter(|_| !path.exists());
        let outer = in_archive.map_or(path, |(archive, _)| Path::new(archive));
        let opened = files::open(outer).map_err(&unreadable)?;
        let again = opened.file.try_clone().map_err(&unreadable)?;
        let bytes = bounded_read::all_of(again, bounded_read::LARGEST_PROGRAM).map_err(&unreadable)?;
        let inside = match in_archive {
            Some((_, file)) => archive::find(&bytes, file).map_err(no_program)?,
            None => 0..bytes.len(),
        };
        let begin = inside.start as u64;
        let own = bytes.get(inside.clone()).unwrap_or_default();
        let Parsed {
            mut segments,
            mut functions,
            stripped,
        } = parse(own).map_err(|error| no_program(error.to_string()))?;
        // Uprobes are placed by offsets into the file that is mapped, which is the whole archive.
        for segment in &mut segments {
            segment.offset = segment.offset.saturating_add(begin);
        }
        for function in &mut functions {
            function.offset = function.offset.saturating_add(begin);
        }
        let path = match in_archive {
            Some((_, file)) => PathBuf::from(format!("{}!/{file}", opened.path.display())),
            None => opened.path,
        };
        Ok(Self {
            path,
            file: opened.file,
            inside,
            segments,
            functions: functions.into(),
            stripped,
            folders: folders.to_vec(),
            identity: Identity::of(own),
            debug: OnceLock::new(),
            described: Mutex::default(),
            named_elsewhere: OnceLock::new(),
        })
    }

    /// The bytes of the program itself.
    fn own_bytes(&self) -> Vec<u8> {
        let read = self.bytes(self.inside.start as u64, self.inside.len());
        read.unwrap_or_default()
    }

    /// The functions, then those of its debug file that it does not name: their addresses are the same, their places are the program's.
    fn with_those_of(&self, debug: &[u8]) -> Vec<Function> {
        let named = symbols(debug).unwrap_or_default();
        let mut all = self.functions.to_vec();
        let mut seen: HashSet<(String, u64)> = all.iter().map(|f| (f.name.clone(), f.offset)).collect();
        for (address, function) in named {
            let Some(offset) = self.offset_of(address) else {
                continue;
            };
            if seen.insert((function.name.clone(), offset)) {
                all.push(Function { offset, ..function });
            }
        }
        all
    }

    /// Debug information of the file, from wherever it is.
    pub fn debug_info(&self) -> Option<&DebugInfo> {
        let info = self.debug.get_or_init(|| {
            DebugInfo::find_of(&self.path, &self.identity, || self.own_bytes(), &self.folders)
        });
        info.as_ref()
    }

    /// Path of the file, links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path by which the kernel finds this very file as long as this is not dropped.
    pub fn opened_path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// The functions, those of its symbol table first; of one without names also those of its debug file.
    pub fn functions(&self) -> &[Function] {
        self.shared_functions()
    }

    fn shared_functions(&self) -> &Arc<[Function]> {
        if !self.stripped {
            return &self.functions;
        }
        self.named_elsewhere.get_or_init(|| {
            let file = debuginfo::debug_file(&self.path, &self.identity, &self.folders);
            file.map_or_else(
                || self.functions.clone(),
                |bytes| self.with_those_of(&bytes).into(),
            )
        })
    }

    /// The function that an offset in the file is in.
    pub fn function_at(&self, offset: u64) -> Option<&Function> {
        let holds = |f: &&Function| (f.offset..f.offset.saturating_add(f.size.max(1))).contains(&offset);
        self.functions().iter().find(holds)
    }

    /// Functions whose name, as a language shows it or the linker, is right; each with its name in the language.
    pub fn named(
        &self,
        language: Option<Language>,
        right: &dyn Fn(&str) -> bool,
    ) -> Vec<(&Function, String)> {
        let named = |function: &Function| {
            let names = language.map_or_else(Vec::new, |language| language.names(&function.name));
            // A C++ program's functions with C's linkage have no mangled names: `main`, and what is `extern "C"`.
            if matches!(language, None | Some(Language::Cpp)) && names.is_empty() {
                return right(&function.name).then(|| function.name.clone());
            }
            let found = names.iter().any(|name| right(name)) || right(&function.name);
            names.into_iter().next().filter(|_| found)
        };
        let functions = self.functions().iter();
        functions
            .filter_map(|function| Some((function, named(function)?)))
            .collect()
    }

    /// The address and the size of a symbol.
    pub fn symbol(&self, name: &str) -> Option<(u64, u64)> {
        let bytes = self.own_bytes();
        let parsed = object::File::parse(bytes.as_slice()).ok()?;
        let mut symbols = parsed.symbols().chain(parsed.dynamic_symbols());
        let found = symbols.find(|symbol| !symbol.is_undefined() && symbol.name() == Ok(name))?;
        Some((found.address(), found.size()))
    }

    /// Whether the loader may put it at any address.
    pub(crate) fn is_position_independent(&self) -> bool {
        let kind = object::File::parse(self.own_bytes().as_slice()).map(|file| file.kind());
        kind.is_ok_and(|kind| kind == ObjectKind::Dynamic)
    }

    /// Whether it is a program rather than a library: it has an entry, and names its loader unless it is static.
    pub fn is_program(&self) -> bool {
        let bytes = self.own_bytes();
        let parsed = object::File::parse(bytes.as_slice());
        parsed.is_ok_and(|file| file.entry() != 0 && file.section_by_name(".interp").is_some())
    }

    /// The address at which its code begins, as the kernel counts it: the lowest of the segments that are run.
    pub(crate) fn code_begin(&self) -> Option<u64> {
        let bytes = self.own_bytes();
        let parsed = object::File::parse(bytes.as_slice()).ok()?;
        let run = parsed.segments().filter(|segment| {
            let SegmentFlags::Elf { p_flags, .. } = segment.flags() else {
                return false;
            };
            p_flags.contains(object::elf::PF_X)
        });
        run.map(|segment| segment.address()).min()
    }

    /// Where the byte of an address lies in the file.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        offset_in(&self.segments, address)
    }

    /// The address of a byte of the file, as debuggers know it.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let behind = offset.checked_sub(segment.offset)?;
            (behind < segment.size).then(|| segment.address.checked_add(behind))?
        })
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn bytes(&self, offset: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map(|()| bytes)
            .map_err(Error::io("read", self.path.display()))
    }

    /// The error for a function that it does not have, with names that come close.
    pub fn no_function(&self, wanted: &str, language: Option<Language>) -> Error {
        let (functions, sought) = (self.shared_functions().clone(), wanted.to_owned());
        let near = Near::new(move || {
            let names: Vec<String> = functions.iter().flat_map(|f| shown(f, language)).collect();
            let near = nearest(&sought, names.iter().map(String::as_str));
            near.into_iter().map(Into::into).collect()
        });
        Error::NoFunction {
            file: self.path.display().to_string(),
            wanted: wanted.to_owned(),
            near,
            stripped: self.functions().is_empty(),
        }
    }
}

/// A function's names in a language, those of the linker without one.
fn shown(function: &Function, language: Option<Language>) -> Vec<String> {
    language.map_or_else(
        || vec![function.name.clone()],
        |language| language.names(&function.name),
    )
}

fn offset_in(segments: &[Segment], address: u64) -> Option<u64> {
    let mut holding = segments.iter();
    let holding = holding.find(|s| {
        address
            .checked_sub(s.address)
            .is_some_and(|behind| behind < s.size)
    })?;
    holding.offset.checked_add(address - holding.address)
}

struct Parsed {
    segments: Vec<Segment>,
    functions: Vec<Function>,
    stripped: bool,
}

fn parse(bytes: &[u8]) -> object::Result<Parsed> {
    let file = object::File::parse(bytes)?;
    let segment = |s: object::Segment<'_, '_>| Segment {
        address: s.address(),
        size: s.file_range().1,
        offset: s.file_range().0,
    };
    let segments: Vec<Segment> = file.segments().map(segment).collect();
    let mut seen = HashSet::new();
    let mut functions = Vec::new();
    for (address, function) in symbols_of(&file) {
        if let Some(offset) = offset_in(&segments, address)
            && seen.insert((function.name.clone(), offset))
        {
            functions.push(Function { offset, ..function });
        }
    }
    Ok(Parsed {
        segments,
        functions,
        stripped: file.symbols().next().is_none(),
    })
}

/// Functions of a file by their addresses.
fn symbols(bytes: &[u8]) -> object::Result<Vec<(u64, Function)>> {
    Ok(symbols_of(&object::File::parse(bytes)?))
}

fn symbols_of(file: &object::File<'_>) -> Vec<(u64, Function)> {
    let mut functions = Vec::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
            continue;
        }
        let Some(name) = symbol.name().ok().filter(|name| !name.is_empty()) else {
            continue;
        };
        let indirect = matches!(
            symbol.flags(),
            SymbolFlags::Elf { st_info, .. } if st_info.st_type() == STT_GNU_IFUNC
        );
        let function = Function {
            name: name.to_owned(),
            offset: 0,
            size: symbol.size(),
            indirect,
        };
        functions.push((symbol.address(), function));
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_says_where_its_functions_lie() {
        let own = std::env::current_exe().unwrap();
        let own = Executables::default().get(&own).unwrap();
        let found = own.named(Some(Language::Rust), &|name| name.ends_with("executable::parse"));
        let (function, _) = found.first().expect("this file's own function");
        assert_eq!(
            own.function_at(function.offset + 1).unwrap().offset,
            function.offset
        );
        assert!(
            own.bytes(function.offset, 4)
                .unwrap()
                .iter()
                .any(|byte| *byte != 0)
        );
    }

    #[test]
    fn damaged_files_are_refused() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        for cut in [0, 1, 63, 64, 200, 5000] {
            // No symbols are found, or an error says why; nothing panics.
            let _ = parse(&own[..cut.min(own.len())]);
        }
        let mut bent = own[..own.len().min(1 << 16)].to_vec();
        for at in (0..bent.len()).step_by(37) {
            bent[at] ^= 0x5a;
            let _ = parse(&bent);
        }
    }
}
