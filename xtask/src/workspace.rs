//! The repository's root.

use std::path::{Path, PathBuf};

/// The repository's root: where this program was compiled, unless cargo says otherwise.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    package
        .parent()
        .map_or_else(|| package.clone(), Path::to_path_buf)
}
