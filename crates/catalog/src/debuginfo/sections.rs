//! The sections of an ELF file that debug information is in, as bytes: decompressed where the linker has compressed them.

use flate2::read::ZlibDecoder;
use gimli::{EndianSlice, RunTimeEndian, SectionId};
use object::{CompressionFormat, Object, ObjectSection};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::Read as _;

/// A slice of a DWARF section.
pub(super) type Slice<'d> = EndianSlice<'d, RunTimeEndian>;

/// A section has at most so many bytes, however many it says that it has when it is decompressed.
const LARGEST_SECTION: u64 = 1 << 31;

/// Sections of one file by their names.
pub(super) struct Sections {
    endian: RunTimeEndian,
    found: HashMap<String, Vec<u8>>,
}

impl fmt::Debug for Sections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.found.keys()).finish()
    }
}

impl Sections {
    /// The debug information of a file; `None` where it is no ELF file or has none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let mut found = HashMap::new();
        for section in file.sections() {
            let Some(name) = section.name().ok().filter(|name| name.starts_with(".debug_")) else {
                continue;
            };
            if let Some(data) = contents(&section) {
                found.entry(name.to_owned()).or_insert(data);
            }
        }
        let has = found.contains_key(".debug_info") || found.contains_key(".debug_info.dwo");
        has.then_some(Self { endian, found })
    }

    fn named(&self, name: Option<&str>) -> Slice<'_> {
        let data = name.and_then(|name| self.found.get(name));
        EndianSlice::new(data.map_or(&[], Vec::as_slice), self.endian)
    }

    /// A section without bytes.
    pub(super) fn empty(&self) -> Slice<'_> {
        EndianSlice::new(&[], self.endian)
    }

    /// A section by its number.
    pub(super) fn get(&self, id: SectionId) -> gimli::Result<Slice<'_>> {
        Ok(self.named(Some(id.name())))
    }

    /// A section of a file that the linker has not seen (`.dwo`, `.dwp`).
    pub(super) fn get_split(&self, id: SectionId) -> gimli::Result<Slice<'_>> {
        Ok(self.named(id.dwo_name()))
    }
}

fn contents<'d>(section: &impl ObjectSection<'d>) -> Option<Vec<u8>> {
    let data = section.compressed_data().ok()?;
    match data.format {
        CompressionFormat::None => Some(Cow::into_owned(Cow::Borrowed(data.data))),
        CompressionFormat::Zlib => {
            let size = data.uncompressed_size.min(LARGEST_SECTION);
            let mut bytes = Vec::new();
            let mut decoder = ZlibDecoder::new(data.data).take(size);
            decoder.read_to_end(&mut bytes).ok().map(|_| bytes)
        }
        _ => None,
    }
}
