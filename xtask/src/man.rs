//! `cargo xtask man`: the manual pages of all commands, which `kestrel` makes of the definition of its command line.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::artifact;

/// Write the manual pages of all commands into a directory.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The directory; it is made where it is not there.
    #[arg(default_value = "target/man")]
    directory: PathBuf,
}

/// Builds the command and lets it write them.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let directory = std::path::absolute(&options.directory).context("find the current directory")?;
    let status = artifact::cargo()
        .args(["run", "--quiet", "--package", "kestrel-cli", "--", "man"])
        .arg(&directory)
        .status()
        .context("run cargo")?;
    ensure!(status.success(), "kestrel man {}: {status}", directory.display());
    println!("manual pages in {}", directory.display());
    Ok(ExitCode::SUCCESS)
}

/// Lets a `kestrel` that is built write them.
pub(crate) fn write(kestrel: &Path, directory: &Path) -> Result<()> {
    printed(kestrel, &["man".as_ref(), directory.as_os_str()]).map(drop)
}

/// The completions of command lines for the shell of this name.
pub(crate) fn completions(kestrel: &Path, shell: &str) -> Result<Vec<u8>> {
    printed(kestrel, &["completions".as_ref(), shell.as_ref()])
}

/// Output of `kestrel` with these arguments.
fn printed(kestrel: &Path, arguments: &[&std::ffi::OsStr]) -> Result<Vec<u8>> {
    let output = Command::new(kestrel)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run {}", kestrel.display()))?;
    ensure!(
        output.status.success(),
        "{} {arguments:?}: {}",
        kestrel.display(),
        output.status
    );
    Ok(output.stdout)
}
