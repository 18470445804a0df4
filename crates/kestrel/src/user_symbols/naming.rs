//! Names for the places of binaries that records need, by blazesym: from the binary, from separate debug files, from what a program wrote about its generated code.

use super::binaries::{Binaries, MappedBinary, build_id_of};
use super::perf_map::{self, Home};
use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Reason, Sym, Symbolized, Symbolizer};
use kestrel_catalog::executable::language;
use kestrel_kernel::Host;
use kestrel_trace::files;
use kestrel_trace::user_symbol::{Binary, Code, Inlined, Line, Mapping, UserSymbols};
use object::read::{Object as _, ObjectSegment as _, ReadCache};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Folders with debug files by build id.
const DEBUG_FOLDERS: [&str; 2] = ["/usr/lib/debug/.build-id", "/lib/debug/.build-id"];

/// Places that records need names for.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// By process: the mappings that records met.
    mappings: HashMap<u32, HashSet<MappingKey>>,
    /// By binary: places in it.
    places: BTreeMap<u32, BTreeSet<u64>>,
    /// By process: addresses that lay in nothing that is known.
    unmapped: BTreeMap<u32, BTreeSet<u64>>,
}

/// A mapping with which it can stand in a set.
pub(super) type MappingKey = (u64, u64, u64, u64, u64, u32);

pub(super) fn key_of(it: &Mapping) -> MappingKey {
    (it.from_ns, it.until_ns, it.start, it.end, it.offset, it.binary)
}

impl Needed {
    /// Notes an address of a process and what lay there.
    pub(super) fn add(&mut self, pid: u32, address: u64, mapping: Option<Mapping>) {
        let Some(it) = mapping else {
            self.unmapped.entry(pid).or_default().insert(address);
            return;
        };
        self.mappings.entry(pid).or_default().insert(key_of(&it));
        self.places
            .entry(it.binary)
            .or_default()
            .insert(it.place(address));
    }
}

/// How code is named.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Naming {
    /// With inlined functions and source lines, which takes reading debug information.
    pub(crate) lines: bool,
    /// As compilers spell functions, and not as people do.
    pub(crate) mangled: bool,
}

impl Naming {
    /// With inlined functions and source lines, or without.
    pub(super) fn with(lines: bool) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }
}

/// Names functions, and on request their inlined functions and source lines.
#[derive(Debug)]
pub(super) struct Namer {
    symbolizer: Symbolizer,
    lines: bool,
    mangled: bool,
}

/// Names of a place: by the symbol table, and by debug information where that was asked.
type Answer<'n> = (Option<Symbolized<'n>>, Option<Symbolized<'n>>);

impl Namer {
    pub(super) fn new(naming: Naming) -> Self {
        let Naming { lines, mangled } = naming;
        let builder = Symbolizer::builder()
            // Its demangler takes every name of C for C++: `f` would be `float`.
            .enable_demangling(false)
            .enable_code_info(lines)
            .enable_inlined_fns(lines);
        Self {
            symbolizer: builder.build(),
            lines,
            mangled,
        }
    }

    /// A function's name as it is to be shown.
    fn shown(&self, name: &str) -> String {
        match self.mangled {
            true => name.to_owned(),
            false => language::demangled(name),
        }
    }

    /// Asks symbol tables first: debug information has no start of a function that lies in several pieces. It is asked for lines, and for what
    /// no table knows.
    fn ask(&self, path: &Path, input: Input<&[u64]>) -> Vec<Answer<'_>> {
        let ask = |debug_syms| {
            let mut elf = Elf::new(path);
            elf.debug_syms = debug_syms;
            self.symbolizer.symbolize(&Source::from(elf), input).ok()
        };
        let plain = ask(false);
        let is_known = |found: &Symbolized<'_>| matches!(found, Symbolized::Sym(_));
        let all_known = plain.as_ref().is_some_and(|all| all.iter().all(is_known));
        let detailed = match all_known && !self.lines {
            true => None,
            false => ask(true),
        };
        let (mut plain, mut detailed) = (plain.into_iter().flatten(), detailed.into_iter().flatten());
        input
            .into_inner()
            .iter()
            .map(|_| (plain.next(), detailed.next()))
            .collect()
    }
}

/// The names of a trace with inlined functions and source lines, as far as the binaries are still there in the same build.
pub(super) fn with_lines(known: &UserSymbols, host: &Host) -> UserSymbols {
    let namer = Namer::new(Naming::with(true));
    known.renamed(|binary| {
        let file = files::open_ordinary(&host.path(&binary.path)).ok()?.file;
        let build_id = build_id_of(&file);
        if build_id.as_deref().map(digits) != binary.build_id {
            return None;
        }
        let places = binary.code.iter().map(|code| code.at).collect();
        let mapped = MappedBinary::opened(&binary.path, build_id, file);
        Some(of_file(&mapped, &places, &namer, host)).filter(|found| found.code.len() >= binary.code.len())
    })
}

/// Finds the names of the addresses that are needed.
pub(super) fn name(needed: &Needed, binaries: &Binaries, host: &Host, naming: Naming) -> UserSymbols {
    let namer = Namer::new(naming);
    let mut named: Vec<Binary> = Vec::new();
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut generated: HashMap<u32, Vec<u32>> = HashMap::new();
    for (number, places) in &needed.places {
        let Some(binary) = binaries.get(*number) else {
            continue;
        };
        numbers.insert(*number, named.len() as u32);
        match binary.generated_by {
            // Its places depend on where it lay: the addresses are put together below.
            Some(pid) => {
                generated.entry(pid).or_default().push(*number);
                named.push(Binary {
                    path: "//anon".to_owned(),
                    ..Binary::default()
                });
            }
            None => named.push(of_file(binary, places, &namer, host)),
        }
    }
    let mut processes: BTreeMap<u32, Vec<Mapping>> = BTreeMap::new();
    let pids: BTreeSet<u32> = needed
        .mappings
        .keys()
        .chain(needed.unmapped.keys())
        .copied()
        .collect();
    for pid in pids {
        let own = processes.entry(pid).or_default();
        let unmapped = needed.unmapped.get(&pid).into_iter().flatten();
        let mut wanted: BTreeMap<u64, (u64, u64)> =
            unmapped.map(|address| (*address, (0, u64::MAX))).collect();
        for &(from_ns, until_ns, start, end, offset, binary) in
            needed.mappings.get(&pid).into_iter().flatten()
        {
            let mapping = Mapping {
                from_ns,
                until_ns,
                start,
                end,
                offset,
                binary,
            };
            let is_generated = generated.values().flatten().any(|number| *number == binary);
            if is_generated {
                let places = needed.places.get(&binary).into_iter().flatten();
                let addresses = places.filter_map(|at| start.checked_add(at.checked_sub(offset)?));
                wanted.extend(addresses.map(|address| (address, (from_ns, until_ns))));
            }
            let Some(number) = numbers.get(&binary) else {
                continue;
            };
            own.push(Mapping {
                binary: *number,
                ..mapping
            });
        }
        // Code that a process inherited has the names that its parent wrote.
        let inherited = own.iter().filter_map(|mapping| {
            let number = numbers.iter().find(|(_, named)| **named == mapping.binary)?.0;
            binaries.get(*number)?.generated_by
        });
        let writers: BTreeSet<u32> = inherited.collect();
        let mut writers = [pid].into_iter().chain(writers);
        if let Some((binary, mappings)) =
            writers.find_map(|writer| of_generated(writer, &wanted, binaries.home(writer), host))
        {
            let number = named.len() as u32;
            named.push(binary);
            own.extend(mappings.into_iter().map(|mapping| Mapping {
                binary: number,
                ..mapping
            }));
        }
    }
    processes.retain(|_, mappings| !mappings.is_empty());
    UserSymbols::new(named, processes)
}

/// Names of generated code: for each function that an address lies in, a mapping for as long as the memory was there. `wanted` are addresses, each with the time from and until which its memory was mapped.
fn of_generated(
    pid: u32,
    wanted: &BTreeMap<u64, (u64, u64)>,
    home: Option<&Home>,
    host: &Host,
) -> Option<(Binary, Vec<Mapping>)> {
    if wanted.is_empty() {
        return None;
    }
    let (symbols, path) = perf_map::read(host, pid, home)?;
    let (mut code, mut mappings) = (Vec::new(), BTreeMap::new());
    for (&address, &(from_ns, until_ns)) in wanted {
        let Some(found) = symbols.resolve(address) else {
            continue;
        };
        code.push(Code {
            at: address,
            function: found.name.to_owned(),
            offset: found.offset,
            ..Code::default()
        });
        let start = address - found.offset;
        // Its places are the addresses themselves.
        let mapping = Mapping {
            from_ns,
            until_ns,
            start,
            end: start.saturating_add(found.size),
            offset: start,
            binary: 0,
        };
        mappings.insert((start, from_ns), mapping);
    }
    let binary = Binary {
        path: path.display().to_string(),
        code,
        ..Binary::default()
    };
    (!mappings.is_empty()).then(|| (binary, mappings.into_values().collect()))
}

/// A binary without names.
pub(super) fn unnamed(binary: &MappedBinary) -> Binary {
    Binary {
        path: binary.path.clone(),
        build_id: binary.build_id.as_deref().map(digits),
        ..Binary::default()
    }
}

/// A binary of a file, with names of its places.
pub(super) fn of_file(binary: &MappedBinary, places: &BTreeSet<u64>, namer: &Namer, host: &Host) -> Binary {
    let mut named = unnamed(binary);
    let build_id = named.build_id.clone();
    if binary.path.starts_with('[') {
        return named;
    }
    let Some(file) = &binary.file else {
        named.unnamed = Some(why_closed(binary, host));
        return named;
    };
    if binary.is_rewritten() {
        named.unnamed = Some(changed(binary, build_id_of(file)));
        return named;
    }
    let places: Vec<u64> = places.iter().copied().collect();
    let path = path_of(file, &binary.path, host);
    let mut missing = Vec::new();
    let found = namer.ask(&path, Input::FileOffset(&places));
    sort_out(namer, &places, found, &mut named.code, &mut missing);
    if !missing.is_empty()
        && let Some(debug) = build_id.as_deref().and_then(|id| debug_file(id, host))
    {
        by_debug_file(file, &debug, namer, &mut missing, &mut named.code);
    }
    if !missing.is_empty() && !has_symbol_table(file) {
        let id = build_id.map_or_else(String::new, |id| format!(" for build id {id}"));
        named.unnamed = Some(format!("it is stripped, and there is no debug file{id}"));
    }
    named
}

/// Places that have names, and those that have none.
fn sort_out(
    namer: &Namer,
    places: &[u64],
    found: Vec<Answer<'_>>,
    code: &mut Vec<Code>,
    missing: &mut Vec<u64>,
) {
    for (&at, found) in places.iter().zip(found) {
        match found {
            (Some(Symbolized::Sym(symbol)), Some(Symbolized::Sym(detail))) => {
                code.push(code_of(namer, at, &symbol, &detail));
            }
            (Some(Symbolized::Sym(symbol)), _) | (_, Some(Symbolized::Sym(symbol))) => {
                code.push(code_of(namer, at, &symbol, &symbol));
            }
            // Code between functions, as the linker's stubs are, has no name anywhere.
            (Some(Symbolized::Unknown(Reason::InvalidFileOffset)), _) => {}
            _ => missing.push(at),
        }
    }
}

/// The name of a place, with lines and inlined functions out of `detail`.
fn code_of(namer: &Namer, at: u64, symbol: &Sym<'_>, detail: &Sym<'_>) -> Code {
    let inlined = detail.inlined.iter().map(|inlined| Inlined {
        function: namer.shown(&inlined.name),
        line: inlined.code_info.as_ref().map(line_of),
    });
    Code {
        at,
        function: namer.shown(&symbol.name),
        offset: symbol.offset as u64,
        line: detail.code_info.as_deref().map(line_of),
        inlined: inlined.collect(),
    }
}

fn line_of(info: &CodeInfo<'_>) -> Line {
    Line {
        file: info.to_path().display().to_string(),
        number: info.line.unwrap_or(0),
    }
}

/// Names from a debug file, whose own places in the file are others: the addresses that the linker chose are the same.
fn by_debug_file(file: &File, debug: &Path, namer: &Namer, missing: &mut Vec<u64>, code: &mut Vec<Code>) {
    let cache = ReadCache::new(file);
    let Ok(parsed) = object::File::parse(&cache) else {
        return;
    };
    let address = |at: u64| {
        parsed.segments().find_map(|segment| {
            let (from, size) = segment.file_range();
            let inside = at.checked_sub(from).filter(|inside| *inside < size)?;
            Some(segment.address() + inside)
        })
    };
    let wanted: Vec<(u64, u64)> = missing
        .iter()
        .filter_map(|at| Some((*at, address(*at)?)))
        .collect();
    let addresses: Vec<u64> = wanted.iter().map(|(_, address)| *address).collect();
    let found = namer.ask(debug, Input::VirtOffset(&addresses));
    let places: Vec<u64> = wanted.iter().map(|(at, _)| *at).collect();
    missing.clear();
    sort_out(namer, &places, found, code, missing);
}

/// The debug file of a build: a package's, or one that debuginfod's clients have fetched.
fn debug_file(build_id: &str, host: &Host) -> Option<PathBuf> {
    let (head, rest) = build_id.split_at_checked(2)?;
    let packages = DEBUG_FOLDERS.map(|folder| host.path(format!("{folder}/{head}/{rest}.debug")));
    let folders = [
        std::env::var_os("DEBUGINFOD_CACHE_PATH").map(PathBuf::from),
        std::env::var_os("XDG_CACHE_HOME").map(|home| PathBuf::from(home).join("debuginfod_client")),
        std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/debuginfod_client")),
    ];
    let fetched = folders
        .into_iter()
        .flatten()
        .map(|folder| folder.join(build_id).join("debuginfo"));
    packages.into_iter().chain(fetched).find(|path| path.is_file())
}

/// A path by which an open file is read: its own where it still lies there, because debug files are looked for beside it.
fn path_of(file: &File, path: &str, host: &Host) -> PathBuf {
    let named = host.path(path);
    let same = || {
        let (open, there) = (file.metadata().ok()?, std::fs::metadata(&named).ok()?);
        Some((open.dev(), open.ino()) == (there.dev(), there.ino()))
    };
    match same() {
        Some(true) => named,
        _ => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
    }
}

/// Why a binary was not opened.
fn why_closed(binary: &MappedBinary, host: &Host) -> String {
    match files::open_ordinary(&host.path(&binary.path)) {
        Err(_) => "the file is gone".to_owned(),
        Ok(there) => changed(binary, build_id_of(&there.file)),
    }
}

/// The note that a binary was replaced by another build since it was mapped.
fn changed(binary: &MappedBinary, found: Option<Vec<u8>>) -> String {
    let words = |id: Option<&[u8]>| id.map_or_else(|| "none".to_owned(), digits);
    let found = words(found.as_deref());
    match &binary.build_id {
        Some(mapped) => format!(
            "the file has changed: its build id is {found}, that of the process was {}",
            digits(mapped)
        ),
        None => format!(
            "another file lies there now (its build id is {found}), or it was changed before it could be opened"
        ),
    }
}

fn has_symbol_table(file: &File) -> bool {
    let cache = ReadCache::new(file);
    let Ok(parsed) = object::File::parse(&cache) else {
        return false;
    };
    parsed.section_by_name(".symtab").is_some()
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
