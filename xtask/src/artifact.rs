//! What goes into guests: statically linked programs, built by cargo in a target folder of their own so that the flags
//! for them never disturb a developer's builds.

use std::{
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
    /// As fast as what is shipped, with the names of its functions.
    Release,
    /// As packages carry it.
    Shipped,
}

/// A program that cargo built.
#[derive(Debug, Clone)]
pub(crate) struct Executable {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Whether it is a file of tests rather than a program.
    pub(crate) test: bool,
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
    kind: Vec<String>,
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::workspace()).stdin(Stdio::null());
    cargo
}

/// Builds what the cargo arguments select, statically, and returns the executables.
fn build(profile: Profile, arguments: &[&str]) -> Result<Vec<Executable>> {
    let mut cargo = cargo();
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
        // Warnings are clippy's business; here they would be told at every run.
        .env("RUSTFLAGS", "-C target-feature=+crt-static -A warnings");
    match profile {
        Profile::Release => cargo.arg("--release"),
        Profile::Shipped => cargo.args(["--profile", "dist"]),
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
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(executable).collect())
}

fn executable(line: &str) -> Option<Executable> {
    let message: Message = serde_json::from_str(line).ok()?;
    let (path, target) = (message.executable?, message.target?);
    let test = target.kind.iter().any(|kind| kind == "test");
    (message.reason == "compiler-artifact").then_some(Executable {
        name: target.name,
        path,
        test,
    })
}

/// What every guest has: its first process, the product, and the programs that tests use.
pub(crate) struct Base {
    pub(crate) init: PathBuf,
    pub(crate) programs: Vec<Executable>,
}

impl Base {
    /// The product.
    pub(crate) fn kestrel(&self) -> Result<&std::path::Path> {
        let kestrel = self.programs.iter().find(|program| program.name == "kestrel");
        Ok(&kestrel.context("cargo built no kestrel")?.path)
    }
}

/// The name under which the first process is built.
const INIT: &str = "guest-init";

/// The package of the product, and that of the guests' own programs.
const PACKAGES: [&str; 2] = ["kestrel-cli", "vm-tests"];

/// Builds the first process, `kestrel` and the tests' programs.
pub(crate) fn base(profile: Profile) -> Result<Base> {
    programs(profile, &PACKAGES)
}

/// The same without `kestrel`, for when it does not compile or does not matter.
pub(crate) fn bare(profile: Profile) -> Result<Base> {
    programs(profile, &PACKAGES[1..])
}

fn programs(profile: Profile, packages: &[&str]) -> Result<Base> {
    let packages = packages.iter().flat_map(|package| ["-p", package]);
    let arguments: Vec<&str> = ["build", "--bins"].into_iter().chain(packages).collect();
    let (init, programs) = build(profile, &arguments)?
        .into_iter()
        .partition::<Vec<_>, _>(|built| built.name == INIT);
    let init = init
        .into_iter()
        .next()
        .with_context(|| format!("cargo built no {INIT}"))?
        .path;
    Ok(Base { init, programs })
}

/// Builds `kestrel` as packages carry it.
pub(crate) fn shipped() -> Result<PathBuf> {
    let built = build(Profile::Shipped, &["build", "--bins", "-p", PACKAGES[0]])?;
    let kestrel = built.into_iter().find(|built| built.name == "kestrel");
    Ok(kestrel.context("cargo built no kestrel")?.path)
}

/// Builds `kestrel` as `cargo build --release` does, beside what a developer builds.
pub(crate) fn release() -> Result<PathBuf> {
    let mut cargo = cargo();
    cargo.args(["build", "--quiet", "--release", "--bins", "-p", PACKAGES[0]]);
    cargo.arg("--message-format=json-render-diagnostics");
    let output = cargo.stderr(Stdio::inherit()).output().context("run cargo")?;
    ensure!(output.status.success(), "cargo build: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let mut built = text.lines().filter_map(executable);
    let kestrel = built.find(|built| built.name == "kestrel");
    Ok(kestrel.context("cargo built no kestrel")?.path)
}

/// Builds the example of the library that measures what a switch costs.
pub(crate) fn switch() -> Result<PathBuf> {
    let built = build(
        Profile::Release,
        &["build", "-p", "kestrel", "--example", "switch"],
    )?;
    let example = built.into_iter().find(|built| built.name == "switch");
    Ok(example.context("cargo built no example called switch")?.path)
}

/// Builds examples of the library by their names.
pub(crate) fn examples(names: &[&str]) -> Result<Vec<Executable>> {
    let selected = names.iter().flat_map(|name| ["--example", name]);
    let arguments: Vec<&str> = ["build", "-p", "kestrel"].into_iter().chain(selected).collect();
    build(Profile::Quick, &arguments)
}

/// Packages whose files of tests run in guests: those written for guests, and those that meet a kernel, which find more
/// there than on most hosts.
const TESTED: [&str; 2] = ["vm-tests", "kestrel-kernel"];

/// Builds the files of guest tests; only the one that is asked for, where it is one of those written for guests.
pub(crate) fn guest_tests(file: Option<&str>) -> Result<Vec<Executable>> {
    let folder = crate::workspace().join("tests/vm/tests");
    let there = |file: &&str| {
        folder.join(format!("{file}.rs")).exists() || folder.join(file).join("main.rs").exists()
    };
    let file = file.filter(there);
    let packages = if file.is_some() { &TESTED[..1] } else { &TESTED[..] };
    let packages = packages.iter().flat_map(|package| ["-p", package]);
    let arguments: Vec<&str> = ["test", "--no-run", "--test", file.unwrap_or("*")]
        .into_iter()
        .chain(packages)
        .collect();
    let built = build(Profile::Quick, &arguments)?;
    Ok(built.into_iter().filter(|built| built.test).collect())
}
