//! `kestrel bpf`: compiled BPF objects; one file per verb.

pub(crate) mod maps;
mod refused;
mod run;
mod show;

pub(crate) use refused::refused;

use crate::exit::{Exit, Failure};
use clap::Subcommand;
use kestrel::bounded_read::{self, LARGEST_OBJECT};
use kestrel::bpf::Object;
use kestrel_trace::files::Objection;
use std::path::Path;

/// The verbs about objects.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Load an object, attach its programs, and wait until Ctrl-C
    Run(Box<run::Options>),
    /// Show what is in an object, without loading it
    Show(show::Options),
}

/// Carries out a verb.
pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(options) => run::run(options),
        Command::Show(options) => show::run(options),
    }
}

/// Reads an object file, and what others could change about it.
fn open(path: &Path) -> Result<(Object, Option<Objection>), Failure> {
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
