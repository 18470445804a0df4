//! Programs and libraries as files: where they are, and where their functions begin in them.

use kestrel_catalog::foreign;
use kestrel_catalog::{Error, Result};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Where short names of libraries and programs are looked for, in this order.
const LIBRARIES: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
const PROGRAMS: &[&str] = &[
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// The path of a file that may be given by its name alone.
pub(super) fn find(file: &str) -> Result<String> {
    if file.contains('/') {
        return Ok(file.to_owned());
    }
    let places = if file.contains(".so") { LIBRARIES } else { PROGRAMS };
    let found = places
        .iter()
        .map(|place| format!("{place}/{file}"))
        .find(|path| Path::new(path).exists());
    found.ok_or_else(|| Error::Object {
        object: file.to_owned(),
        why: format!("no such file in {}", places.join(", ")),
    })
}

/// What matters of an ELF file.
#[derive(Debug)]
pub(super) struct Executable {
    /// Functions with their offsets in the file.
    pub(super) functions: Vec<(String, u64)>,
}

/// Files that were read: programs of one object often are on functions of one library, and each is looked for before it is loaded and when it is attached.
#[derive(Debug, Default)]
pub(super) struct Executables(Mutex<HashMap<String, Arc<Executable>>>);

impl Executables {
    /// What is in a file, which is read the first time.
    pub(super) fn get(&self, path: &str) -> Result<Arc<Executable>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(path) {
            return Ok(known.clone());
        }
        let read = Arc::new(Executable::read(path)?);
        known.insert(path.to_owned(), read.clone());
        Ok(read)
    }
}

impl Executable {
    fn read(path: &str) -> Result<Self> {
        let bytes = foreign::read(Path::new(path), foreign::LARGEST_PROGRAM).map_err(|error| Error::Io {
            action: "read",
            subject: path.to_owned(),
            error,
        })?;
        let file = object::File::parse(bytes.as_slice()).map_err(|error| Error::Object {
            object: path.to_owned(),
            why: error.to_string(),
        })?;
        let segments: Vec<(u64, u64, u64)> = file
            .segments()
            .map(|s| (s.address(), s.file_range().1, s.file_range().0))
            .collect();
        let offset = |address: u64| {
            segments
                .iter()
                .find(|(start, size, _)| (*start..start + size).contains(&address))
                .map(|(start, _, at)| address - start + at)
        };
        let mut functions = Vec::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            if symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
                continue;
            }
            if let (Ok(name), Some(at)) = (symbol.name(), offset(symbol.address())) {
                functions.push((name.to_owned(), at));
            }
        }
        Ok(Self { functions })
    }
}
