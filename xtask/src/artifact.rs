//! What goes into guests: statically linked programs, built by cargo in a target folder of their own so that the flags
//! for them never disturb a developer's builds.

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Named explicitly, so that `crt-static` does not reach build scripts and procedural macros.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Soon there, light to send.
    Quick,
    /// As shipped.
    Release,
}

/// A line of cargo's messages, as far as it interests here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::workspace()).stdin(Stdio::null());
    // Warnings are clippy's business; here they would be told at every run.
    cargo
}

/// Builds what the cargo arguments select, statically, and returns the executables by target name.
pub(crate) fn build(profile: Profile, arguments: &[&str]) -> Result<BTreeMap<String, PathBuf>> {
    let mut cargo = cargo();
    // Warnings are clippy's business; here they would be told at every run.
    cargo
        .args(arguments)
        .args([
            "--quiet",
            "--target",
            TARGET,
            "--message-format=json-render-diagnostics",
        ])
        .arg("--target-dir")
        .arg(crate::workspace().join("target/guest"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static -A warnings");
    match profile {
        Profile::Release => cargo.arg("--release"),
        Profile::Quick => cargo
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_STRIP", "debuginfo")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1"),
    };
    let output = cargo.stderr(Stdio::inherit()).output().context("run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {}: {}",
        arguments.join(" "),
        output.status
    );
    let mut executables = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Message>(line) else {
            continue;
        };
        if let ("compiler-artifact", Some(executable), Some(target)) =
            (&*message.reason, message.executable, message.target)
        {
            executables.insert(target.name, executable);
        }
    }
    Ok(executables)
}

/// The two programs that every guest has.
pub(crate) struct Base {
    pub(crate) init: PathBuf,
    pub(crate) kestrel: PathBuf,
}

/// Builds the first process and `kestrel`.
pub(crate) fn base(profile: Profile) -> Result<Base> {
    let mut built = build(
        profile,
        &["build", "-p", "kestrel-cli", "-p", "vm-tests", "--bins"],
    )?;
    let mut take = |name: &str| {
        built
            .remove(name)
            .with_context(|| format!("cargo built no {name}"))
    };
    Ok(Base {
        init: take("guest-init")?,
        kestrel: take("kestrel")?,
    })
}
