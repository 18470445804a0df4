//! Index of costly kernel data, kept for the next process until the kernel is another or its modules are: its symbols, the
//! functions that ftrace can hook, where each of its types begins and is found by name, and the types where they cannot be mapped. In files below /run; where they cannot be written or do not fit, the kernel is asked. Not kept are the symbols of
//! what comes and goes without a module (BPF programs, trampolines).
//!
//! ```text
//! file     = "kestrel index 2\n", boot id, "\n", one line for each module, "\n", size and checksum of the content (8 bytes each), content
//! symbols  = content: see Kallsyms::to_bytes
//! functions = content: see Traceable
//! types    = content: the kernel's BTF; no lines for modules
//! directory = size of the BTF (8 bytes), content: see Btf::directory; no lines for modules
//! ```

use crate::error::Result;
use crate::host::Host;
use crate::kallsyms::Kallsyms;
use crate::procfs;
use crate::tracefs::{TraceableFunction, Tracefs};
use bytes::Bytes;
use kestrel_bpf::btf::Btf;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Directory of the files.
const PLACE: &str = "/run/kestrel-index";

/// Changes with the shape of what is kept.
const HEAD: &str = "kestrel index 2";

/// The symbols of the kernel and its modules; those of BPF programs and of the kernel's own trampolines may be missing.
///
/// # Errors
/// As [`Kallsyms::read`].
pub fn symbols(host: &Host) -> Result<Kallsyms> {
    let place = IndexPlace::of(host, "symbols");
    if let Some(kept) = place.as_ref().and_then(IndexPlace::read)
        && let Some(symbols) = Kallsyms::from_bytes(kept)
    {
        return Ok(symbols);
    }
    let symbols = Kallsyms::read(host)?;
    if let Some(place) = place.filter(|_| !symbols.is_restricted()) {
        let lasting = symbols.lasting();
        place.write(&lasting.to_bytes());
    }
    Ok(symbols)
}

/// The functions that ftrace can hook, with their addresses where the kernel lists them.
///
/// # Errors
/// As [`Tracefs::traceable_functions`].
pub fn traceable(host: &Host) -> Result<Traceable> {
    let place = IndexPlace::of(host, "functions");
    if let Some(kept) = place.as_ref().and_then(IndexPlace::read)
        && let Ok(text) = String::from_utf8(kept)
    {
        return Ok(Traceable { text });
    }
    let tracefs = Tracefs::mount(host)?;
    let functions = match tracefs.traceable_functions_with_addresses() {
        Ok(functions) => functions,
        Err(_) => tracefs.traceable_functions()?,
    };
    let traceable = Traceable::new(&functions);
    if let Some(place) = place {
        place.write(traceable.text.as_bytes());
    }
    Ok(traceable)
}

/// The kernel's own types, parsed. Small blobs are no kernel's, and parsed at once.
pub(crate) fn parsed(host: &Host, types: Bytes) -> std::result::Result<Btf, kestrel_bpf::Error> {
    let place = IndexPlace::without_modules(host, "directory").filter(|_| types.len() >= LARGE);
    let Some(place) = place else {
        return Btf::parse(types);
    };
    let size = (types.len() as u64).to_le_bytes();
    if let Some(kept) = place.read().map(Bytes::from)
        && kept.starts_with(&size)
    {
        return Btf::parse_with(types, kept.slice(size.len()..));
    }
    let parsed = Btf::parse(types)?;
    place.write(&[&size[..], &parsed.directory()].concat());
    Ok(parsed)
}

/// Types of so many bytes take longer to go through than a file takes to read.
const LARGE: usize = 256 << 10;

/// The kernel's own types, of which sysfs gives a page at a time; `read` asks it.
pub(crate) fn types(host: &Host, size: usize, read: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let place = IndexPlace::without_modules(host, "types");
    let kept = place.as_ref().and_then(IndexPlace::read);
    if let Some(kept) = kept.filter(|kept| kept.len() == size) {
        return Ok(kept);
    }
    let types = read()?;
    if let Some(place) = place.filter(|_| types.len() == size) {
        place.write(&types);
    }
    Ok(types)
}

/// Functions that ftrace can hook: `name`, its module, and its address where the kernel lists it, between tabs; a line each, sorted.
#[derive(Clone, Debug, Default)]
pub struct Traceable {
    text: String,
}

impl Traceable {
    /// An index of these functions by name.
    pub fn new(functions: &[TraceableFunction]) -> Self {
        let mut order: Vec<&TraceableFunction> = functions.iter().collect();
        let key = |f: &TraceableFunction| (f.module.is_some(), f.address);
        order.sort_unstable_by(|a, b| {
            a.name
                .cmp(&b.name)
                .then_with(|| a.module.cmp(&b.module))
                .then_with(|| key(a).cmp(&key(b)))
        });
        let mut text = String::with_capacity(functions.len() * 48);
        for function in order {
            text.push_str(&function.name);
            text.push('\t');
            text.push_str(function.module.as_deref().unwrap_or_default());
            text.push('\t');
            if let Some(address) = function.address {
                text.push_str(&format!("{address:x}"));
            }
            text.push('\n');
        }
        Self { text }
    }

    /// The names, sorted, each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let mut last = "";
        self.lines().filter_map(move |(name, _, _)| {
            let new = name != last;
            last = name;
            new.then_some(name)
        })
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.of(name).next().is_some()
    }

    /// Whether a module (`None`: the kernel itself) has one of this name.
    pub fn has_in(&self, module: Option<&str>, name: &str) -> bool {
        self.of(name).any(|found| found == module.unwrap_or_default())
    }

    /// The modules that have one of this name; an empty one for the kernel itself.
    pub fn modules_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.of(name)
    }

    /// All addresses, sorted; `None` where the kernel does not tell them (before Linux 6.5).
    pub fn addresses(&self) -> Option<Vec<u64>> {
        let address = |(_, _, address): (_, _, &str)| u64::from_str_radix(address, 16).ok();
        let mut all: Vec<u64> = self.lines().filter_map(address).collect();
        all.sort_unstable();
        (!all.is_empty()).then_some(all)
    }

    fn lines(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.text.lines().filter_map(fields)
    }

    /// The modules of those of this name; an empty one for the kernel itself.
    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let (mut low, mut high) = (0, self.text.len());
        // Both are beginnings of lines: all before `low` are less than the name, none behind `high` is.
        while low < high {
            let middle = low + (high - low) / 2;
            let begin = self.text.as_bytes()[low..middle]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(low, |at| low + at + 1);
            let end = memchr::memchr(b'\n', &self.text.as_bytes()[begin..high])
                .map_or(high, |length| begin + length + 1);
            let line = self.text.get(begin..end).unwrap_or_default();
            if line.split('\t').next().unwrap_or_default() < name {
                low = end;
            } else {
                high = begin;
            }
        }
        let rest = self.text.get(low..).unwrap_or_default();
        let same = move |(found, _, _): &(&str, &str, &str)| *found == name;
        rest.lines()
            .map_while(fields)
            .take_while(same)
            .map(|(_, module, _)| module)
    }
}

fn fields(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.split_once('\t')?;
    let (module, address) = rest.split_once('\t')?;
    Some((name, module, address))
}

/// File of a kept index, and the kernel it is for.
struct IndexPlace<'h> {
    host: &'h Host,
    name: &'static str,
    /// Whether it holds only as long as there are the same modules.
    modules: bool,
    head: String,
}

impl<'h> IndexPlace<'h> {
    /// `None` where it is not known which kernel this is, or a module comes or goes just now.
    fn of(host: &'h Host, name: &'static str) -> Option<Self> {
        Some(Self {
            host,
            name,
            modules: true,
            head: head(host)?,
        })
    }

    /// The index of what no module changes.
    fn without_modules(host: &'h Host, name: &'static str) -> Option<Self> {
        let head = beginning(host)? + "\n";
        Some(Self {
            host,
            name,
            modules: false,
            head,
        })
    }

    /// Contents of the kept file, whole: a file that was cut or damaged, or that another user made, says nothing.
    fn read(&self) -> Option<Vec<u8>> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let mut file = options.open(self.host.path(PLACE).join(self.name)).ok()?;
        if !is_own(&file.metadata().ok()?) {
            return None;
        }
        let mut head = vec![0; self.head.len()];
        file.read_exact(&mut head).ok()?;
        if head != self.head.as_bytes() {
            return None;
        }
        let mut seal = [0; SEAL];
        file.read_exact(&mut seal).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        (seal == sealed(&bytes)).then_some(bytes)
    }

    /// Only a help: what cannot be written is asked for again.
    fn write(&self, content: &[u8]) {
        // A module that came while the kernel was asked may be there in part.
        if !self.modules || head(self.host).as_ref() == Some(&self.head) {
            let _ = self.replace(content);
        }
    }

    fn replace(&self, content: &[u8]) -> std::io::Result<()> {
        let folder = self.host.path(PLACE);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        if !is_own(&fs::symlink_metadata(&folder)?) {
            return Err(std::io::ErrorKind::PermissionDenied.into());
        }
        let new = folder.join(format!(".{}-{}", self.name, std::process::id()));
        let write = |new: &Path| {
            // Addresses of the kernel are for root alone.
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(new)?;
            file.write_all(self.head.as_bytes())?;
            file.write_all(&sealed(content))?;
            file.write_all(content)?;
            drop(file);
            fs::rename(new, folder.join(self.name))
        };
        write(&new).inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })
    }
}

/// Whether root or this process's user made something, and others may not write it.
fn is_own(found: &fs::Metadata) -> bool {
    let own = crate::process::user();
    !found.is_symlink() && (found.uid() == 0 || found.uid() == own) && found.mode() & 0o022 == 0
}

/// Size and checksum.
const SEAL: usize = 16;

/// The size and the checksum of a content, against damage, not against forgery; eight bytes at a time, since this is megabytes for every command.
fn sealed(content: &[u8]) -> [u8; SEAL] {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [1, 2, 3, 4_u64];
    let mut chunks = content.chunks_exact(32);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            let word = word.try_into().map_or(0, u64::from_le_bytes);
            *lane = (*lane ^ word).wrapping_mul(FACTOR).rotate_left(29);
        }
    }
    let mut sum = content.len() as u64;
    for byte in chunks.remainder() {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(FACTOR).rotate_left(29);
    }
    for lane in lanes {
        sum = (sum ^ lane).wrapping_mul(FACTOR).rotate_left(29);
    }
    let mut seal = [0; SEAL];
    seal[..8].copy_from_slice(&(content.len() as u64).to_le_bytes());
    seal[8..].copy_from_slice(&sum.to_le_bytes());
    seal
}

fn beginning(host: &Host) -> Option<String> {
    let boot = procfs::boot_id(host).ok()?;
    Some(format!("{HEAD}\n{boot}\n"))
}

/// Head that must be the same for a kept file to hold: which start of which kernel, and of each module its name, size and address.
fn head(host: &Host) -> Option<String> {
    let mut head = beginning(host)?;
    // A kernel without modules has no such file.
    for line in host.read("/proc/modules").unwrap_or_default().lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [name, size, _, _, "Live", address, ..] = words[..] else {
            return None;
        };
        head += &format!("{name} {size} {address}\n");
    }
    head.push('\n');
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, module: Option<&str>, address: u64) -> TraceableFunction {
        TraceableFunction {
            name: name.to_owned(),
            module: module.map(str::to_owned),
            address: (address > 0).then_some(address),
        }
    }

    #[test]
    fn functions_are_found_by_name_and_module() {
        let mut all: Vec<TraceableFunction> = (0..500)
            .map(|i| function(&format!("f_{i}"), None, 0x1000 + i))
            .collect();
        all.push(function("same", Some("ext4"), 0x9000));
        all.push(function("same", None, 0x8000));
        all.push(function("same", None, 0x100));
        let traceable = Traceable::new(&all);
        for function in &all {
            assert!(traceable.has(&function.name));
            assert!(traceable.has_in(function.module.as_deref(), &function.name));
        }
        for none in ["", "a", "f_", "f_1000", "f_49x", "sam", "same_", "zzz"] {
            assert!(!traceable.has(none), "{none}");
        }
        assert!(!traceable.has_in(Some("xfs"), "same"));
        assert_eq!(traceable.names().count(), 501);
        assert!(traceable.names().is_sorted());
        let addresses = traceable.addresses().unwrap();
        assert!(addresses.len() == 503 && addresses[0] == 0x100 && addresses.is_sorted());
        assert_eq!(Traceable::new(&[function("x", None, 0)]).addresses(), None);
        assert!(!Traceable::default().has("x"));
    }

    fn tree(modules: &str) -> (tempfile::TempDir, Host) {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/sys/kernel/random/boot_id", "11-22\n");
        write("proc/modules", modules);
        write(
            "proc/kallsyms",
            "ffffffff81000000 T _text\nffffffff81000100 T vfs_read\nffffffffc0000000 t go\t[ext4]\nffffffffc0009000 t bpf_prog_1\t[bpf]\n",
        );
        write("sys/kernel/tracing/events/enable", "0");
        write(
            "sys/kernel/tracing/available_filter_functions",
            "vfs_read\ngo [ext4]\n",
        );
        let host = Host::new(tree.path());
        (tree, host)
    }

    #[test]
    fn the_cached_symbols_are_used_until_a_module_is_loaded() {
        let (tree, host) = tree("ext4 100 0 - Live 0xffffffffc0000000\n");
        assert_eq!(symbols(&host).unwrap().len(), 4, "as the kernel says");
        assert!(traceable(&host).unwrap().has_in(Some("ext4"), "go"));
        // From now on nothing is asked of the kernel but which one it is.
        fs::write(tree.path().join("proc/kallsyms"), "").unwrap();
        fs::write(
            tree.path().join("sys/kernel/tracing/available_filter_functions"),
            "",
        )
        .unwrap();
        let kept = symbols(&host).unwrap();
        assert_eq!(kept.len(), 3, "without programs, which come and go");
        assert_eq!(
            kept.named("go").next().unwrap(),
            Kallsyms::parse("ffffffffc0000000 t go [ext4]\n".to_owned())
                .iter()
                .next()
                .unwrap()
        );
        assert_eq!(kept.at(0xffff_ffff_8100_0104).unwrap().0.name, "vfs_read");
        assert!(traceable(&host).unwrap().has("vfs_read"));
        // References to a module change nothing, another module does.
        fs::write(
            tree.path().join("proc/modules"),
            "ext4 100 1 xfs, Live 0xffffffffc0000000\n",
        )
        .unwrap();
        assert_eq!(symbols(&host).unwrap().len(), 3);
        let other = "ext4 100 1 xfs, Live 0xffffffffc0000000\nxfs 9 0 - Live 0xffffffffc0010000\n";
        fs::write(tree.path().join("proc/modules"), other).unwrap();
        assert_eq!(symbols(&host).unwrap().len(), 0);
        assert!(!traceable(&host).unwrap().has("vfs_read"));
    }

    #[test]
    fn types_are_kept_whole_or_asked_for() {
        let (_tree, host) = tree("");
        let asked = |text: &str| {
            let text = text.as_bytes().to_vec();
            move || Ok(text)
        };
        assert_eq!(types(&host, 4, asked("cut")).unwrap(), b"cut");
        assert_eq!(types(&host, 4, asked("abcd")).unwrap(), b"abcd");
        assert_eq!(types(&host, 4, asked("not asked")).unwrap(), b"abcd");
        assert_eq!(types(&host, 5, asked("other")).unwrap(), b"other");
    }

    #[test]
    fn the_directory_of_types_is_kept_and_used() {
        let (_tree, host) = tree("");
        let mut builder = kestrel_bpf::btf::write::Builder::new();
        let int = builder.int("int", 4);
        for number in 0..9000 {
            builder.structure(&format!("some_structure_{number}"), &[("a", int)]);
        }
        let types = Bytes::from(builder.finish());
        assert!(types.len() >= LARGE);
        let file = host.path(PLACE).join("directory");
        let found = || {
            let btf = parsed(&host, types.clone()).unwrap();
            btf.find(kestrel_bpf::btf::BtfKind::Struct, "some_structure_77")
                .unwrap()
        };
        let first = found();
        let whole = fs::read(&file).unwrap();
        assert_eq!(found(), first);
        assert_eq!(fs::read(&file).unwrap(), whole, "not written again");
        // Cut or of another blob, it is not used.
        fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(found(), first);
        parsed(&host, types.slice(..types.len())).unwrap();
        let small = kestrel_bpf::btf::write::Builder::new().finish();
        assert!(parsed(&host, small.into()).unwrap().is_empty());
    }

    #[test]
    fn a_truncated_or_foreign_cache_is_not_used() {
        let (tree, host) = tree("");
        let root = tree.path().join("sys/kernel/tracing");
        fs::create_dir_all(root.join("events")).unwrap();
        let all: String = (0..200).map(|i| format!("function_{i}\n")).collect();
        fs::write(root.join("available_filter_functions"), &all).unwrap();
        assert_eq!(traceable(&host).unwrap().names().count(), 200);
        let file = host.path(PLACE).join("functions");
        let whole = fs::read(&file).unwrap();
        for length in (0..whole.len()).step_by(7) {
            fs::write(&file, &whole[..length]).unwrap();
            assert_eq!(traceable(&host).unwrap().names().count(), 200, "cut at {length}");
        }
        let one = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(fs::read(&file).unwrap(), whole, "made anew: {one}");
        // Files that others may write, or made.
        let forged = Traceable::new(&[function("forged", None, 0)]).text;
        let head = whole.len() - traceable(&host).unwrap().text.len() - SEAL;
        fs::write(
            &file,
            [&whole[..head], &sealed(forged.as_bytes())[..], forged.as_bytes()].concat(),
        )
        .unwrap();
        assert!(traceable(&host).unwrap().has("forged"));
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        assert!(!traceable(&host).unwrap().has("forged"));
    }

    #[test]
    fn nothing_is_kept_while_a_module_comes_and_damage_is_no_answer() {
        let (tree, host) = tree("ext4 100 0 - Loading 0xffffffffc0000000\n");
        assert_eq!(symbols(&host).unwrap().len(), 4);
        assert!(!tree.path().join("run").exists());
        fs::write(
            tree.path().join("proc/modules"),
            "ext4 100 0 - Live 0xffffffffc0000000\n",
        )
        .unwrap();
        symbols(&host).unwrap();
        let file = host.path(PLACE).join("symbols");
        let whole = fs::read(&file).unwrap();
        for length in 0..whole.len() {
            fs::write(&file, &whole[..length]).unwrap();
            assert_eq!(symbols(&host).unwrap().len(), 4, "cut at {length}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x81;
            fs::write(&file, &damaged).unwrap();
            assert_eq!(symbols(&host).unwrap().len(), 4, "damaged at {at}");
        }
    }
}
