//! The unwind tables of one binary (`.eh_frame`, its index, `.debug_frame`) and where its segments lie: what a module of framehop is made of.

use super::binaries::MappedBinary;
use framehop::{ExplicitModuleSectionInfo, Module};
use kestrel_kernel::{Host, procfs};
use kestrel_trace::user_symbol::Mapping;
use object::elf::PF_X;
use object::read::{Object, ObjectSection, ObjectSegment, ReadCache, ReadRef, SegmentFlags};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Most bytes of a table that is read: the largest programs have some tens of MiB.
const LONGEST: u64 = 1 << 28;
/// Most bytes of a vDSO.
const LONGEST_VDSO: u64 = 1 << 20;
/// The kernel's own library in each process.
const VDSO: &str = "[vdso]";

/// Bytes of a section, shared by all processes that have the binary mapped.
pub(super) type Bytes = Arc<[u8]>;

/// A section of a binary, with its addresses.
#[derive(Clone, Debug)]
struct Section {
    addresses: Range<u64>,
    bytes: Option<Bytes>,
}

/// A part of the file that is mapped as code.
#[derive(Clone, Debug)]
struct Segment {
    /// Bytes of the file.
    file: Range<u64>,
    /// Where its first byte lies when the binary lies at 0.
    address: u64,
}

/// Unwind tables of a binary.
#[derive(Clone, Debug, Default)]
pub(super) struct UnwindTables {
    segments: Vec<Segment>,
    text: Option<Section>,
    got: Option<Section>,
    eh_frame: Option<Section>,
    eh_frame_hdr: Option<Section>,
    debug_frame: Option<Section>,
}

impl UnwindTables {
    /// Reads the tables of a binary; `None` where it has none, or is of another architecture.
    pub(super) fn of(binary: &MappedBinary) -> Option<Self> {
        match &binary.file {
            Some(file) => Self::parse(&ReadCache::new(file)),
            // Each process has the same one: the kernel's.
            None if binary.path == VDSO => Self::parse(own_vdso()?.as_slice()),
            None => None,
        }
    }

    fn parse<'d, R: ReadRef<'d>>(bytes: R) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        if !file.is_64() {
            return None;
        }
        let section = |name: &str, wanted: bool| {
            let section = file.section_by_name(name)?;
            let addresses = section.address()..section.address().checked_add(section.size())?;
            let bytes = || (section.size() <= LONGEST).then(|| section.data().ok());
            Some(Section {
                addresses,
                bytes: wanted.then(bytes).flatten().flatten().map(Arc::from),
            })
        };
        let code = file.segments().filter(
            |segment| matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags & PF_X == PF_X),
        );
        let segments = code.filter_map(|segment| {
            let (at, size) = segment.file_range();
            Some(Segment {
                file: at..at.checked_add(size)?,
                address: segment.address(),
            })
        });
        Some(Self {
            segments: segments.collect(),
            text: section(".text", false),
            got: section(".got", false),
            eh_frame: section(".eh_frame", true),
            eh_frame_hdr: section(".eh_frame_hdr", true),
            debug_frame: section(".debug_frame", true),
        })
    }

    /// The binary as it is mapped.
    pub(super) fn module(&self, mapping: &Mapping) -> Option<Module<Bytes>> {
        let page = |offset: u64| offset & !0xfff;
        let segment = self
            .segments
            .iter()
            .find(|it| (page(it.file.start)..it.file.end).contains(&mapping.offset))?;
        // Segments begin anywhere in a page, mappings at its start.
        let linked = segment
            .address
            .wrapping_add(mapping.offset)
            .wrapping_sub(segment.file.start);
        let base = mapping.start.checked_sub(linked)?;
        let addresses = |section: &Option<Section>| section.as_ref().map(|it| it.addresses.clone());
        let bytes = |section: &Option<Section>| section.as_ref()?.bytes.clone();
        let info = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: addresses(&self.text),
            got_svma: addresses(&self.got),
            eh_frame_svma: addresses(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: addresses(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            debug_frame: bytes(&self.debug_frame),
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(String::new(), mapping.start..mapping.end, base, info))
    }
}

/// The image of the vDSO that this process has.
pub(crate) fn own_vdso() -> Option<Vec<u8>> {
    let maps = procfs::maps(&Host::default(), std::process::id()).ok()?;
    let mapped = maps.into_iter().find(|mapped| mapped.path == VDSO)?;
    let size = mapped
        .end
        .checked_sub(mapped.start)
        .filter(|size| *size <= LONGEST_VDSO)?;
    let mut image = vec![0; size as usize];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut image, mapped.start).ok()?;
    Some(image)
}
