//! The binaries that processes have mapped. Each is opened when it is first seen, so that it can be read when its process or its name is gone.
//!
//! Files are distinguished by path, inode and time of change. Build ids come from the files themselves, because having perf's side band carry them does harm
//! (`kestrel_kernel::perf::side_band`).

use super::perf_map::Home;
use kestrel_kernel::Host;
use kestrel_kernel::perf::side_band::CodeMapping;
use kestrel_kernel::process::allow_open_files;
use kestrel_kernel::procfs::{ClockPair, Mapped};
use kestrel_trace::files;
use object::Endianness;
use object::elf::{ELF_NOTE_GNU, FileHeader32, FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader as _, SectionHeader as _};
use object::read::{FileKind, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Most binaries that are held open at once.
const OPEN: u64 = 1024;
/// Allowance for other files that a session and this process have open.
const OTHERS: u64 = 4096;
/// Most attempts to open a binary, through other processes that map it.
const TRIES: u32 = 8;

/// Suffix that the kernel puts behind the path of a file that has been removed.
const DELETED: &str = " (deleted)";

/// Identity of a binary: path and inode. Several binaries can have one path, one after another or in several containers.
type Identity = (String, u64);

/// A mapping of a process that was seen, in perf's side band or in /proc.
#[derive(Clone, Copy, Debug)]
struct Sight<'m> {
    pid: u32,
    range: (u64, u64),
    path: &'m str,
    inode: u64,
    /// When it was mapped, ns of `CLOCK_MONOTONIC`, where that is known.
    time_ns: Option<u64>,
}

/// A mapped binary.
#[derive(Debug)]
pub(super) struct MappedBinary {
    /// The path as the process sees it.
    pub(super) path: String,
    pub(super) build_id: Option<Vec<u8>>,
    /// The file, where it could be opened.
    pub(super) file: Option<File>,
    /// The process that has generated the code, where it is of no file.
    pub(super) generated_by: Option<u32>,
    /// When the file had been changed last at the time it was opened.
    changed_ns: Option<u64>,
    tries: u32,
}

impl MappedBinary {
    /// A binary whose file is open.
    pub(super) fn opened(path: &str, build_id: Option<Vec<u8>>, file: File) -> Self {
        Self {
            path: path.to_owned(),
            build_id,
            changed_ns: changed_at(&file),
            file: Some(file),
            generated_by: None,
            tries: 0,
        }
    }

    /// Whether the file was written since it was opened, so that it is of another build.
    pub(super) fn is_rewritten(&self) -> bool {
        self.file
            .as_ref()
            .is_some_and(|file| changed_at(file) != self.changed_ns && build_id_of(file) != self.build_id)
    }
}

/// The mapped binaries, by number.
#[derive(Debug)]
pub(super) struct Binaries {
    host: Host,
    all: Vec<MappedBinary>,
    numbers: HashMap<Identity, u32>,
    /// By process that generates code: where it writes the names of that code.
    homes: HashMap<u32, Home>,
    /// Root directories of processes other than `/`: containers' and those of chroot(2).
    roots: Vec<PathBuf>,
    clocks: ClockPair,
    open: u64,
}

/// Whether a path names memory of no file: of the kernel, or of what a program generates.
pub(super) fn is_generated(path: &str) -> bool {
    path.is_empty()
        || path.starts_with("//anon")
        || path.starts_with("/memfd:")
        || path.starts_with("/dev/zero")
}

impl Binaries {
    pub(super) fn new(host: &Host) -> Self {
        allow_open_files(OPEN + OTHERS);
        Self {
            host: host.clone(),
            all: Vec::new(),
            numbers: HashMap::new(),
            homes: HashMap::new(),
            roots: Vec::new(),
            clocks: ClockPair::now(),
            open: 0,
        }
    }

    /// The binary of that number.
    pub(super) fn get(&self, number: u32) -> Option<&MappedBinary> {
        self.all.get(number as usize)
    }

    /// Adds an open file that no process is known to have mapped; gives its number.
    pub(super) fn add_open(&mut self, path: &str, file: File) -> u32 {
        let build_id = build_id_of(&file);
        self.add(path, build_id, Some(file), None)
    }

    /// Where a process that generates code writes the names of that code.
    pub(super) fn home(&self, pid: u32) -> Option<&Home> {
        self.homes.get(&pid)
    }

    /// Whether the binary of that number is a file, and not code that a process has generated.
    pub(super) fn is_of_a_file(&self, number: u32) -> bool {
        self.get(number)
            .is_some_and(|binary| binary.generated_by.is_none())
    }

    /// The number of the binary that a process has mapped, as /proc has it.
    pub(super) fn mapped(&mut self, pid: u32, mapped: &Mapped) -> u32 {
        self.number(Sight {
            pid,
            range: (mapped.start, mapped.end),
            path: &mapped.path,
            inode: mapped.inode,
            time_ns: None,
        })
    }

    /// The number of the binary that a process has mapped at a time.
    pub(super) fn changed(&mut self, pid: u32, mapping: &CodeMapping, time_ns: u64) -> u32 {
        self.number(Sight {
            pid,
            range: (mapping.start, mapping.end),
            path: &mapping.path,
            inode: mapping.inode,
            time_ns: Some(time_ns),
        })
    }

    fn number(&mut self, sight: Sight<'_>) -> u32 {
        if is_generated(sight.path) {
            return self.generated(sight.pid);
        }
        let path = sight.path.strip_suffix(DELETED).unwrap_or(sight.path);
        let sight = Sight { path, ..sight };
        let identity = (path.to_owned(), sight.inode);
        let Some(known) = self.numbers.get(&identity).copied() else {
            let file = self.open(sight);
            return self.enter(identity, file);
        };
        let binary = &mut self.all[known as usize];
        match &binary.file {
            None if binary.tries == 0 || path.starts_with('[') => return known,
            None => binary.tries -= 1,
            Some(file) if changed_at(file) == binary.changed_ns => return known,
            // The file was renamed, removed, or rewritten in place.
            Some(file) if build_id_of(file) == binary.build_id && binary.build_id.is_some() => {
                binary.changed_ns = changed_at(file);
                return known;
            }
            Some(_) => {
                let file = self.open(sight);
                return self.enter(identity, file);
            }
        }
        if let Some(file) = self.open(sight) {
            self.open += 1;
            let binary = &mut self.all[known as usize];
            *binary = MappedBinary::opened(path, build_id_of(&file), file);
        }
        known
    }

    /// Adds a binary that is seen for the first time.
    fn enter(&mut self, identity: Identity, file: Option<File>) -> u32 {
        self.open += u64::from(file.is_some());
        let build_id = file.as_ref().and_then(build_id_of);
        let number = self.add(&identity.0, build_id, file, None);
        self.numbers.insert(identity, number);
        number
    }

    /// The number of the code that a process has generated.
    fn generated(&mut self, pid: u32) -> u32 {
        if !self.homes.contains_key(&pid)
            && self.open < OPEN
            && let Some(home) = Home::of(&self.host, pid)
        {
            self.open += u64::from(home.is_open());
            self.homes.insert(pid, home);
        }
        let identity = (format!("//anon {pid}"), 0);
        if let Some(known) = self.numbers.get(&identity) {
            return *known;
        }
        let number = self.add("//anon", None, None, Some(pid));
        self.numbers.insert(identity, number);
        number
    }

    fn add(
        &mut self,
        path: &str,
        build_id: Option<Vec<u8>>,
        file: Option<File>,
        generated_by: Option<u32>,
    ) -> u32 {
        self.all.push(MappedBinary {
            path: path.to_owned(),
            build_id,
            changed_ns: file.as_ref().and_then(changed_at),
            file,
            generated_by,
            tries: TRIES,
        });
        self.all.len() as u32 - 1
    }

    /// Opens what a process has mapped: by the mapping itself, by its path in the process's root directory, or by its path where the same file
    /// lies. The last two may be other files, so they count only with the same inode, and unchanged since they were mapped.
    fn open(&mut self, sight: Sight<'_>) -> Option<File> {
        let Sight { pid, path, .. } = sight;
        if !path.starts_with('/') || self.open >= OPEN {
            return None;
        }
        let process = |rest: String| self.host.path(format!("/proc/{pid}/{rest}"));
        let (start, end) = sight.range;
        let mapping = process(format!("map_files/{start:x}-{end:x}"));
        // A device may be mapped, too.
        if std::fs::metadata(&mapping).is_ok_and(|it| it.is_file())
            && let Ok(file) = File::open(mapping)
            && files::is_of_inode(&file, sight.inode)
        {
            return Some(file);
        }
        if let Ok(root) = std::fs::read_link(process("root".to_owned()))
            && root.as_os_str() != "/"
            && !self.roots.contains(&root)
        {
            self.roots.push(root);
        }
        let inner = path.trim_start_matches('/');
        let mut places = vec![process(format!("root/{inner}")), self.host.path(path)];
        places.extend(self.roots.iter().map(|root| root.join(inner)));
        let latest = sight.time_ns.map(|time| self.date(time));
        let is_same = |file: &File| {
            file.metadata().is_ok_and(|it| it.is_file())
                && files::is_of_inode(file, sight.inode)
                && latest.is_none_or(|latest| changed_at(file).is_some_and(|changed| changed <= latest))
        };
        // By now the path may lead to another file.
        let files = places.iter().filter_map(|place| files::open_ordinary(place).ok());
        let files = files.map(|opened| opened.file);
        files.into_iter().find(is_same)
    }

    /// Converts a time of the monotonic clock to one since 1970, as the times of files are.
    fn date(&self, time_ns: u64) -> u64 {
        time_ns.saturating_add_signed(self.clocks.offset())
    }
}

/// When a file was changed last (ns since 1970): its bytes, its names or its rights.
fn changed_at(file: &File) -> Option<u64> {
    let about = file.metadata().ok()?;
    let (seconds, ns) = (
        u64::try_from(about.ctime()).ok()?,
        u64::try_from(about.ctime_nsec()).ok()?,
    );
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

/// The build id in the notes of a file. Only the first pages are read, where the notes are, and not the symbols.
pub(super) fn build_id_of(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    match FileKind::parse(&cache).ok()? {
        FileKind::Elf64 => noted::<FileHeader64<Endianness>>(&cache),
        FileKind::Elf32 => noted::<FileHeader32<Endianness>>(&cache),
        _ => None,
    }
}

/// The build id in the notes of an ELF file's segments, or else of its sections.
fn noted<H: FileHeader<Endian = Endianness>>(cache: &ReadCache<&File>) -> Option<Vec<u8>> {
    let header = H::parse(cache).ok()?;
    let endian = header.endian().ok()?;
    let id = |mut notes: NoteIterator<'_, H>| {
        while let Some(note) = notes.next().ok()? {
            if note.name() == ELF_NOTE_GNU && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
        None
    };
    let segments = header.program_headers(endian, cache).ok()?.iter();
    let mut of_segments = segments.filter_map(|segment| segment.notes(endian, cache).ok()?);
    of_segments.find_map(&id).or_else(|| {
        let sections = header.section_headers(endian, cache).ok()?.iter();
        sections
            .filter_map(|section| section.notes(endian, cache).ok()?)
            .find_map(&id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::procfs;

    #[test]
    fn the_own_binary_is_held_open_and_is_one_however_it_is_seen() {
        let host = Host::default();
        let pid = std::process::id();
        let mut binaries = Binaries::new(&host);
        let maps = procfs::maps(&host, pid).unwrap();
        let own = std::env::current_exe().unwrap();
        let code = maps
            .iter()
            .find(|it| it.permissions.execute && it.path == own.to_str().unwrap())
            .unwrap();
        let number = binaries.mapped(pid, code);
        let binary = binaries.get(number).unwrap();
        let id = binary.build_id.clone();
        assert!(binary.file.is_some());
        let mapping = CodeMapping {
            start: code.start,
            end: code.end,
            offset: code.offset,
            path: code.path.clone(),
            inode: code.inode,
        };
        assert!(id.is_some());
        assert_eq!(binaries.changed(pid, &mapping, u64::MAX), number);
        // A file of that path, but another inode, is another binary, and the one that lies there is not taken for it.
        let other = CodeMapping {
            start: 1,
            end: 2,
            inode: 1,
            ..mapping.clone()
        };
        let other = binaries.changed(pid, &other, u64::MAX);
        assert_ne!(other, number);
        assert!(binaries.get(other).unwrap().file.is_none());
    }

    #[test]
    fn a_file_that_is_written_anew_in_its_place_is_another_binary() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let id = build_id_of(&File::open(std::env::current_exe().unwrap()).unwrap()).unwrap();
        let at = own.windows(id.len()).position(|bytes| bytes == id).unwrap();
        std::fs::write(&path, &own).unwrap();
        let host = Host::default();
        let mut binaries = Binaries::new(&host);
        let mapping = CodeMapping {
            start: 1,
            end: 2,
            offset: 0,
            path: path.display().to_string(),
            inode: std::fs::metadata(&path).unwrap().ino(),
        };
        // No process has it mapped, so it is found by its path; one that was changed since it was mapped is not.
        let since = |binaries: &mut Binaries, time_ns| binaries.changed(0, &mapping, time_ns);
        let early = since(&mut binaries, 0);
        assert!(binaries.get(early).unwrap().file.is_none());
        let late = procfs::monotonic() + 1_000_000_000;
        let first = since(&mut binaries, late);
        assert_eq!(first, early);
        assert_eq!(binaries.get(first).unwrap().build_id.as_deref(), Some(&id[..]));
        std::fs::hard_link(&path, folder.path().join("another")).unwrap();
        assert_eq!(since(&mut binaries, late), first, "only its names have changed");
        let mut other = own;
        other[at] ^= 1;
        std::fs::write(&path, &other).unwrap();
        let second = since(&mut binaries, late);
        assert_ne!(second, first);
        assert!(binaries.get(first).unwrap().is_rewritten());
        assert!(!binaries.get(second).unwrap().is_rewritten());
    }
}
