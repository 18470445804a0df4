//! Notes of ELF files, as tests read them.

use object::{Object, ObjectSection};

/// A USDT probe's note: where the `nop` and the semaphore are in the file's addresses, and its strings.
#[allow(dead_code, reason = "each file of tests needs some")]
pub(crate) struct ProbeNote {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) location: u64,
    pub(crate) semaphore: u64,
    pub(crate) arguments: String,
}

/// Contents of a section's notes that have this owner and type.
fn held<'d>(file: &object::File<'d>, section: &str, (owner, kind): (&[u8], u32)) -> Vec<&'d [u8]> {
    let mut rest = file.section_by_name(section).unwrap().data().unwrap();
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (name, size) = (word(rest, 0) as usize, word(rest, 4) as usize);
        let begin = 12 + name.next_multiple_of(4);
        assert_eq!((&rest[12..12 + name], word(rest, 8)), (owner, kind));
        all.push(&rest[begin..begin + size]);
        rest = &rest[(begin + size).next_multiple_of(4)..];
    }
    all
}

fn parts(text: &[u8]) -> Vec<String> {
    let parts = text.split(|byte| *byte == 0);
    parts
        .map(|part| String::from_utf8(part.to_vec()).unwrap())
        .collect()
}

/// All USDT probes.
pub(crate) fn probes(file: &object::File<'_>) -> Vec<ProbeNote> {
    let long = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let probe = |note: &&[u8]| {
        let strings = parts(&note[24..]);
        // bpftrace passes over notes that have anything behind the third text's NUL.
        assert_eq!((strings.len(), strings[3].as_str()), (4, ""), "{strings:?}");
        ProbeNote {
            group: strings[0].clone(),
            name: strings[1].clone(),
            arguments: strings[2].clone(),
            location: long(note, 0),
            semaphore: long(note, 16),
        }
    };
    held(file, ".note.stapsdt", (b"stapsdt\0", 3))
        .iter()
        .map(probe)
        .collect()
}

/// The descriptions: group, name, print format, fields.
pub(crate) fn strings(file: &object::File<'_>) -> Vec<Vec<String>> {
    let notes = held(file, ".note.kestrel", (b"kestrel\0", 1));
    let strings = notes.iter().map(|note| parts(note));
    strings
        .map(|strings| strings.into_iter().filter(|text| !text.is_empty()).collect())
        .collect()
}
