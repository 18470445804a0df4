//! Reading the object file of a command line.

use crate::exit::{Exit, Failure};
use kestrel::bounded_read::{self, LARGEST_OBJECT};
use kestrel::bpf::Object;
use kestrel_trace::files::Objection;
use std::path::Path;

/// Reads an object file, and notes whether other users could have written it.
pub(super) fn open(path: &Path) -> Result<(Object, Option<Objection>), Failure> {
    let failed = |why: String| {
        Failure::new(
            Exit::Failed,
            format!("cannot read the object {}: {why}", path.display()),
        )
    };
    let given = bounded_read::give(path, LARGEST_OBJECT).map_err(|error| failed(error.to_string()))?;
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    // `count.bpf.o` is `count`.
    let name = stem.strip_suffix(".bpf").unwrap_or(&stem);
    Ok((Object::open_as(name, &given.bytes)?, given.objection))
}
