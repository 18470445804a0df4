//! BPF objects for guest tests and programs that they are attached to, compiled by Debian's clang from the sources in `tests/vm/objects`.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};

use crate::install;

/// The prefix of their names in a guest.
pub(crate) const PLACE: &str = "/object_";

/// Sources that are compiled without types, as objects were before there were any.
const WITHOUT_TYPES: &[&str] = &["classic"];

/// How sources of objects are compiled.
const BPF: &[&str] = &[
    "-O2",
    "--target=bpf",
    "-Wall",
    "-Werror",
    "-Wno-unused-variable",
    "-Wno-unused-const-variable",
    "-c",
];

/// Objects compiled already: once is enough for all guests.
static COMPILED: Mutex<Option<Vec<PathBuf>>> = Mutex::new(None);

/// Compiles all of them, the first time; answers with the objects.
pub(crate) fn compile() -> Result<Vec<PathBuf>> {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*compiled {
        Some(objects) => Ok(objects.clone()),
        None => Ok(compiled.insert(compile_now()?).clone()),
    }
}

fn compile_now() -> Result<Vec<PathBuf>> {
    install::ensure(install::COMPILER)?;
    let sources = crate::workspace::root().join("tests/vm/objects");
    let target = crate::workspace::root().join("target/guest/objects");
    fs::create_dir_all(&target)?;
    let mut objects = Vec::new();
    for entry in fs::read_dir(&sources).with_context(|| format!("list {}", sources.display()))? {
        let source = entry?.path();
        let stem = source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut clang = Command::new("clang");
        let object = match source.extension().and_then(|extension| extension.to_str()) {
            Some("c") => {
                clang.args(BPF);
                if !WITHOUT_TYPES.contains(&&*stem) {
                    clang.arg("-g");
                }
                target.join(format!("{stem}.o"))
            }
            // A program for objects to be attached to.
            Some("S") => {
                clang.args(["-nostdlib", "-static"]);
                target.join(&stem)
            }
            _ => continue,
        };
        let status = clang
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .stdin(Stdio::null())
            .status()
            .context("run clang")?;
        ensure!(status.success(), "clang {}: {status}", source.display());
        objects.push(object);
    }
    objects.sort();
    Ok(objects)
}
