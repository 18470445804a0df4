//! Maps of an object on the kernel: created, or found pinned and reused where their shape fits; read and written by type.

use kestrel_bpf::btf::{Btf, TypeId};
use kestrel_bpf::object::Map as Declaration;
use kestrel_bpf::object::map::Pinning;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Errno;
use kestrel_kernel::bpf::{self, Map, MapBtf, MapInfo, MapKind, MapSpec, Pinned};
use kestrel_kernel::{Host, procfs};
use kestrel_trace::files;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Shape of a map, which decides whether one map can stand for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Shape {
    pub kind: MapKind,
    pub key_size: u32,
    pub value_size: u32,
    pub entries: u32,
    pub flags: u32,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            key_size,
            value_size,
            entries,
            flags,
        } = self;
        write!(
            f,
            "{kind}, key {key_size} B, value {value_size} B, {entries} entries, flags {flags:#x}"
        )
    }
}

impl From<&MapInfo> for Shape {
    fn from(info: &MapInfo) -> Self {
        Self {
            kind: info.kind,
            key_size: info.key_size,
            value_size: info.value_size,
            entries: info.entries,
            flags: info.flags,
        }
    }
}

/// A map of an object, on the kernel.
#[derive(Debug)]
pub struct BpfMap {
    pub(super) name: String,
    pub(super) map: Map,
    pub(super) key: Option<TypeId>,
    pub(super) value: Option<TypeId>,
    pub(super) types: Option<Arc<Btf>>,
    /// Whether it was there already.
    pub(super) reused: bool,
    pub(super) path: Option<PathBuf>,
    pub(super) is_data: bool,
}

impl std::ops::Deref for BpfMap {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.map
    }
}

impl BpfMap {
    /// A map that exists: its types are those with which it was loaded.
    pub fn found(name: &str, map: Map, is_data: bool) -> Self {
        let described = map.info().types;
        let types = described.and_then(|(number, ..)| Btf::parse(bpf::btf_bytes(number).ok()?).ok());
        let id = |ty: TypeId| (types.is_some() && ty != TypeId::VOID).then_some(ty);
        Self {
            name: name.to_owned(),
            key: described.and_then(|(_, key, _)| id(key)),
            value: described.and_then(|(.., value)| id(value)),
            types: types.map(Arc::new),
            map,
            reused: true,
            path: None,
            is_data,
        }
    }

    /// A map that another loader pinned ([`kestrel_kernel::bpf::pinned`]), with the types that the kernel was given for it.
    pub fn from_pin(name: &str, map: Map) -> Self {
        Self::found(name, map, false)
    }

    /// The name in the object.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a pinned one was found and taken.
    pub fn is_reused(&self) -> bool {
        self.reused
    }

    /// Path at which it is pinned.
    pub fn pinned_at(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether it holds the object's global data.
    pub fn is_data(&self) -> bool {
        self.is_data
    }

    /// The object's types and its key's in them, where the object says it.
    pub fn key_type(&self) -> Option<(&Btf, TypeId)> {
        Some((self.types.as_deref()?, self.key?))
    }

    /// The object's types and its value's in them.
    pub fn value_type(&self) -> Option<(&Btf, TypeId)> {
        Some((self.types.as_deref()?, self.value?))
    }
}

/// Path at which a map is to be pinned, if it is.
pub(super) fn pin_path(host: &Host, object: &str, map: &Declaration) -> Result<Option<PathBuf>> {
    let below = match map.pinning {
        Pinning::None => return Ok(None),
        Pinning::ByName => PathBuf::new(),
        Pinning::Global => ["tc", "globals"].iter().collect(),
        Pinning::Object => ["tc", &file_name(object)].iter().collect(),
    };
    Ok(Some(host.mount_bpffs()?.join(below).join(file_name(&map.name))))
}

/// bpffs takes no dots in names.
pub(super) fn file_name(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// Directories that a pin was alone in go with it.
pub(super) fn remove_empty(host: &Host, path: &Path) {
    let Ok(root) = host.bpffs() else { return };
    for parent in path
        .ancestors()
        .skip(1)
        .take_while(|parent| **parent != root && parent.starts_with(&root))
    {
        if std::fs::remove_dir(parent).is_err() {
            return;
        }
    }
}

/// Pins that go again unless they are kept: nothing is left behind when what follows fails.
#[derive(Debug)]
pub(super) struct NewPins {
    host: Host,
    paths: Vec<PathBuf>,
}

impl NewPins {
    pub(super) fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            paths: Vec::new(),
        }
    }

    /// Pins an object, with the directories on the way.
    pub(super) fn pin(&mut self, object: BorrowedFd<'_>, path: &Path) -> Result<()> {
        // A link of another user's would lead anywhere.
        if let Err(error) = files::Folder::above(path, true) {
            return Err(Error::Io {
                action: "create the directory of",
                subject: path.display().to_string(),
                error,
            });
        }
        if let Err(error) = bpf::pin(object, path) {
            remove_empty(&self.host, path);
            return Err(error.into());
        }
        self.paths.push(path.to_owned());
        Ok(())
    }

    /// Keeps the pins from now on.
    pub(super) fn keep(&mut self) {
        self.paths.clear();
    }
}

impl Drop for NewPins {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = bpf::unpin(path);
            remove_empty(&self.host, path);
        }
    }
}

/// The shape that a declaration asks for.
pub(super) fn shape(map: &Declaration) -> Result<Shape> {
    let kind = MapKind(map.kind);
    // Writes of a program on a CPU that has no entry are dropped, and not counted.
    let entries = match kind {
        MapKind::PERF_EVENT_ARRAY => map.entries.max(procfs::possible_cpus()?.len() as u32),
        _ => map.entries,
    };
    // Rings and perf arrays may name the type of their records as that of their value, for `Outputs`; the kernel wants other sizes.
    let (key_size, value_size) = match kind {
        MapKind::RINGBUF | MapKind::USER_RINGBUF => (0, 0),
        MapKind::PERF_EVENT_ARRAY => (4, 4),
        // How deep stacks are, objects often leave to their loaders; as deep as the kernel takes them unless the object says otherwise.
        MapKind::STACK_TRACE if map.value_size == 0 => (4, STACK_DEPTH * 8),
        _ => (map.key_size, map.value_size),
    };
    Ok(Shape {
        kind,
        key_size,
        value_size,
        entries,
        flags: map.flags,
    })
}

/// `PERF_MAX_STACK_DEPTH`: what `kernel.perf_event_max_stack` is at first.
const STACK_DEPTH: u32 = 127;

/// The pinned map, if there is one and it fits.
pub(super) fn reuse(path: &Path, declaration: &Declaration) -> Result<Option<Map>> {
    // Anything may lie there, also what is no map.
    if std::fs::symlink_metadata(path).is_err() {
        return Ok(None);
    }
    let objection = files::objection(path, files::user()).map_err(Error::io("look at", path.display()))?;
    if let Some(objection) = objection {
        return Err(Error::Untrusted {
            file: path.display().to_string(),
            refused: "is not taken for the object's map",
            objection,
        });
    }
    let other = |what: &str| Error::Object {
        object: format!("map {}", declaration.name),
        why: format!("{} is a pin of {what}", path.display()),
    };
    let found = match bpf::pinned(path)? {
        Pinned::Map(map) => map,
        Pinned::Program(_) => return Err(other("a program")),
        Pinned::Link(_) => return Err(other("a link")),
    };
    let (mut wanted, there) = (shape(declaration)?, Shape::from(found.info()));
    // A size that the object leaves open is that of the map; one entry for each processor is as many as its maker wanted.
    if declaration.entries == 0 || there.kind == MapKind::PERF_EVENT_ARRAY {
        wanted.entries = there.entries;
    }
    if wanted != there {
        return Err(Error::Object {
            object: format!("map {}", declaration.name),
            why: format!(
                "another one is pinned at {}:\n  there:  {there}\n  wanted: {wanted}\nremove the pin (--unpin), or change the declaration",
                path.display()
            ),
        });
    }
    Ok(Some(found))
}

/// Remark about the size of a map that has an entry for each processor, where the object says another.
pub(super) fn enlarged(declaration: &Declaration, map: &Map, reused: bool) -> Result<Option<String>> {
    let entries = map.info().entries;
    if map.info().kind != MapKind::PERF_EVENT_ARRAY {
        return Ok(None);
    }
    let (name, cpus) = (&declaration.name, procfs::possible_cpus()?.len() as u32);
    Ok(if reused && entries < cpus {
        Some(format!(
            "the map {name} was made with room for {entries} of {cpus} processors: what programs write on the others is lost, and nothing counts it"
        ))
    } else if !reused && (1..entries).contains(&declaration.entries) {
        Some(format!(
            "the map {name} has room for {} of {cpus} processors in the object: it is made for all of them",
            declaration.entries
        ))
    } else {
        None
    })
}

/// Kinds of maps that have no size of their own: a processor's, a task's, an inode's, a socket's, a control group's; and `struct_ops`.
const SIZELESS: &[MapKind] = &[
    MapKind::PERF_EVENT_ARRAY,
    MapKind::CGROUP_STORAGE,
    MapKind::PERCPU_CGROUP_STORAGE,
    MapKind::SK_STORAGE,
    MapKind::STRUCT_OPS,
    MapKind::INODE_STORAGE,
    MapKind::TASK_STORAGE,
    MapKind::CGRP_STORAGE,
];

/// How the user says the size of a map that the object leaves open: `None` where it does not, or it needs none.
pub(super) fn open_size(declaration: &Declaration) -> Option<String> {
    let ring = matches!(
        MapKind(declaration.kind),
        MapKind::RINGBUF | MapKind::USER_RINGBUF
    );
    let unit = if ring { "BYTES" } else { "ENTRIES" };
    (declaration.entries == 0 && !SIZELESS.contains(&MapKind(declaration.kind)))
        .then(|| format!("--map-size {}={unit}", declaration.name))
}

/// Kinds of maps for which the kernel takes no types of key and value.
const UNTYPED: &[MapKind] = &[
    MapKind::PROG_ARRAY,
    MapKind::PERF_EVENT_ARRAY,
    MapKind::STACK_TRACE,
    MapKind::CGROUP_ARRAY,
    MapKind::ARRAY_OF_MAPS,
    MapKind::HASH_OF_MAPS,
    MapKind::DEVMAP,
    MapKind::SOCKMAP,
    MapKind::CPUMAP,
    MapKind::XSKMAP,
    MapKind::SOCKHASH,
    MapKind::QUEUE,
    MapKind::STACK,
    MapKind::DEVMAP_HASH,
    MapKind::STRUCT_OPS,
    MapKind::RINGBUF,
    MapKind::BLOOM_FILTER,
    MapKind::USER_RINGBUF,
];

/// Makes a map.
pub(super) fn create(
    object: &str,
    map: &Declaration,
    btf: Option<BorrowedFd<'_>>,
    inner: Option<BorrowedFd<'_>>,
) -> Result<Map> {
    let shape = shape(map)?;
    let name = if map.is_data {
        data_name(object, &map.name)
    } else {
        map.name.clone()
    };
    let typed = !UNTYPED.contains(&MapKind(map.kind))
        && (map.key.is_some() || map.value.is_some())
        && (map.is_data || map.key.is_some());
    let id = |ty: Option<TypeId>| ty.map_or(0, |ty| ty.0);
    let types = btf.filter(|_| typed).map(|btf| MapBtf {
        btf,
        key: id(map.key),
        value: id(map.value),
    });
    let spec = MapSpec {
        flags: shape.flags,
        extra: map.extra,
        inner,
        btf: types,
        ..MapSpec::new(shape.kind, &name, shape.key_size, shape.value_size, shape.entries)
    };
    let made = match Map::create(&spec) {
        // Types are for people: a kernel that does not like them may take the map without.
        Err(error) if types.is_some() && error.errno() == Some(Errno::EINVAL) => {
            Map::create(&MapSpec { btf: None, ..spec })
        }
        made => made,
    };
    made.map_err(|error| explain(error, map, &shape))
}

/// `.rodata` of `count.o` is `count.rodata` to bpftool, as with other loaders.
fn data_name(object: &str, section: &str) -> String {
    let room = 15usize.saturating_sub(section.len());
    let stem: String = object.chars().take(room).collect();
    format!("{stem}{section}")
}

fn explain(error: kestrel_kernel::Error, map: &Declaration, shape: &Shape) -> Error {
    let refused = |why: String| Error::Unsupported {
        what: format!("cannot create the map {} ({shape})", map.name),
        why,
    };
    let errno = error.errno();
    let pages = shape.entries.is_power_of_two() && shape.entries >= 4096;
    let open = open_size(map);
    match errno {
        // Templates of inner maps may leave it open. Kernels say the one or the other.
        Some(Errno::EINVAL | Errno::E2BIG) if open.is_some() => refused(format!(
            "the object leaves its size to its own loader: say it, {}",
            open.unwrap_or_default()
        )),
        Some(Errno::EINVAL) if shape.kind.name().is_none() => refused(format!("this kernel knows no maps of type {}", shape.kind.0)),
        Some(Errno::EINVAL) if shape.kind == MapKind::RINGBUF && !pages => {
            refused("the size of a ring buffer (max_entries) must be a power of two and a multiple of the page size, 4096".to_owned())
        }
        Some(Errno::EINVAL) => refused("the kernel does not know this type of map, or not with these sizes and flags".to_owned()),
        Some(Errno::E2BIG) => refused("it is too large for this kernel".to_owned()),
        _ => error.into(),
    }
}
