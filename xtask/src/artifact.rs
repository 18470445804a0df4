//! Programs for guests: statically linked programs, built by cargo in a target folder of their own so that the flags
//! for them never disturb a developer's builds.

use std::{
    env,
    ffi::OsStr,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
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
    /// Optimised like the shipped binary, with the names of its functions.
    Release,
    /// The binary of packages.
    Shipped,
}

/// A program that cargo built.
#[derive(Debug, Clone)]
pub(crate) struct Executable {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Whether it is a file of tests rather than a program.
    pub(crate) test: bool,
    /// The package that it is of, as cargo names it.
    package: String,
}

/// A line of cargo's messages, as far as it interests here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    target: Option<CargoTarget>,
    package_id: Option<String>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
    kind: Vec<String>,
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(crate::workspace::root()).stdin(Stdio::null());
    // Set where all tests run, for cargo's own build of these chores.
    cargo.env_remove(WRAPPER).env_remove(CLIPPY_ARGS);
    cargo
}

/// Variable of cargo: what compiles the workspace's packages in place of the compiler.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Variable of clippy's compiler: its further arguments, each with a separator behind it.
const CLIPPY_ARGS: &str = "CLIPPY_ARGS";

/// Arguments for clippy's compiler: every lint is an error. `.ci/run` reads them, too: what it compiles with others would be compiled again.
const DENY_WARNINGS: &str = include_str!("../../.ci/clippy_args").trim_ascii();

/// The cargo that checks the lints of what it compiles: `cargo clippy` would read every package once more, those of others, too.
pub(crate) fn linting_cargo() -> Command {
    let mut cargo = cargo();
    lint(&mut cargo, "clippy-driver".as_ref());
    cargo
}

fn lint(cargo: &mut Command, wrapper: &OsStr) {
    cargo.env(WRAPPER, wrapper).env(CLIPPY_ARGS, DENY_WARNINGS);
}

/// Whether quick builds check the lints of the guest tests.
static LINTS: AtomicBool = AtomicBool::new(false);

/// From now on quick builds check the lints of the guest tests.
pub(crate) fn lint_guest_tests() {
    LINTS.store(true, Ordering::Relaxed);
}

/// Builds what the cargo arguments select, statically, and returns the executables.
fn build(profile: Profile, arguments: &[&str]) -> Result<Vec<Executable>> {
    build_with(profile, arguments, &[])
}

/// Builds with further arguments for the compiler, by `cargo rustc`.
fn build_with(profile: Profile, arguments: &[&str], rustc: &[&str]) -> Result<Vec<Executable>> {
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
        .arg(crate::workspace::root().join("target/guest"))
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // Warnings are clippy's business; here they would be printed at every run.
        .env("RUSTFLAGS", "-C target-feature=+crt-static -A warnings");
    match profile {
        Profile::Release => cargo.arg("--release"),
        Profile::Shipped => cargo.args(["--profile", "dist"]),
        Profile::Quick => {
            if LINTS.load(Ordering::Relaxed) {
                lint(
                    &mut cargo,
                    crate::workspace::root().join("xtask/lint-guest-tests").as_ref(),
                );
            }
            cargo
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .env("CARGO_PROFILE_DEV_STRIP", "debuginfo")
                .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
                // Between the pieces of a crate: a fifth of the time that its compilation takes.
                .env("CARGO_PROFILE_DEV_LTO", "off")
        }
    };
    if !rustc.is_empty() {
        cargo.arg("--").args(rustc);
    }
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
        package: message.package_id.unwrap_or_default(),
    })
}

/// Files that every guest has: its first process, the product, and the programs that tests use.
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

/// The packages that guests have something of: the product, the guests' own programs and tests, what meets a kernel, the library. Every quick build selects all
/// of them: cargo gives a dependency the features that the selected packages ask for together, and whatever was selected otherwise would be compiled anew.
const PACKAGES: [&str; 4] = ["kestrel-cli", "vm-tests", "kestrel-kernel", "kestrel"];

/// The package of the guests' own programs.
const OWN: &str = "vm-tests";

/// The package of programs that are built otherwise.
const APART: &str = "guest-programs";

/// A file of tests that is built with the programs: features that only tests ask for count where a test is built, and would tell the programs' build from the
/// tests'.
const WITH_PROGRAMS: [&str; 2] = ["--test", "formats"];

/// Builds the first process, `kestrel` and the tests' programs.
pub(crate) fn base(profile: Profile) -> Result<Base> {
    programs(profile, &PACKAGES)
}

/// The programs of a guest without `kestrel`, for when it does not compile or does not matter.
pub(crate) fn bare(profile: Profile) -> Result<Base> {
    programs(profile, &[OWN])
}

/// The base in which costs are counted: `kestrel` as tests have it, since the kernel runs the same programs whoever compiled them, and the program that counts
/// as fast as what is shipped.
pub(crate) fn counted() -> Result<Base> {
    let mut base = base(Profile::Quick)?;
    let counting = build(Profile::Release, &["build", "-p", APART, "--bin", COUNTING])?;
    base.programs.retain(|program| program.name != COUNTING);
    base.programs.extend(counting);
    Ok(base)
}

/// The program that counts what events cost.
const COUNTING: &str = "cost";

fn programs(profile: Profile, packages: &[&str]) -> Result<Base> {
    let mut arguments = vec!["build", "--bins"];
    if profile == Profile::Quick && packages.len() > 1 {
        arguments.extend(WITH_PROGRAMS);
    }
    arguments.extend(packages.iter().flat_map(|package| ["-p", package]));
    let (init, programs) = build(profile, &arguments)?
        .into_iter()
        .filter(|built| !built.test)
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
    // Relocations in their packed form: 0.6 MB less. The start code of a static binary applies them itself, whatever C library the machine has.
    // Functions of the same code become one: 0.16 MB less. Nothing here compares functions by their addresses.
    // Functions marked `#[inline]` are inlined where they are small, not up to the 325 that LLVM allows.
    let packed = [
        "-C",
        "link-arg=-Wl,-z,pack-relative-relocs,--icf=all,-O2",
        "-C",
        "llvm-args=-inlinehint-threshold=150",
    ];
    let rustc = ["rustc", "--bin", "kestrel", "-p", PACKAGES[0]];
    let built = build_with(Profile::Shipped, &rustc, &packed)?;
    let kestrel = built.into_iter().find(|built| built.name == "kestrel");
    Ok(kestrel.context("cargo built no kestrel")?.path)
}

/// Builds the unit tests of all packages for this machine.
pub(crate) fn host_tests() -> Result<Vec<Executable>> {
    let mut cargo = linting_cargo();
    cargo.args(["test", "--quiet", "--no-run", "--workspace", "--lib", "--bins"]);
    built(&mut cargo)
}

/// Builds `kestrel` as `cargo build --release` does, beside what a developer builds.
pub(crate) fn release() -> Result<PathBuf> {
    let mut cargo = cargo();
    cargo.args(["build", "--quiet", "--release", "--bins", "-p", PACKAGES[0]]);
    let kestrel = built(&mut cargo)?
        .into_iter()
        .find(|built| built.name == "kestrel");
    Ok(kestrel.context("cargo built no kestrel")?.path)
}

/// The executables that a command of cargo builds for this machine.
fn built(cargo: &mut Command) -> Result<Vec<Executable>> {
    cargo.arg("--message-format=json-render-diagnostics");
    let output = cargo.stderr(Stdio::inherit()).output().context("run cargo")?;
    ensure!(output.status.success(), "cargo: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(executable).collect())
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
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    let arguments: Vec<&str> = ["build"].into_iter().chain(packages).chain(selected).collect();
    build(Profile::Quick, &arguments)
}

/// Builds examples with USDT probes by their names. perf takes the address of a probe for its place in the file: these are linked so that both are the same.
pub(crate) fn usdt_programs(names: &[&str]) -> Result<Vec<Executable>> {
    let mut all = Vec::new();
    for name in names {
        let arguments = ["rustc", "-p", APART, "--bin", name];
        all.extend(build_with(
            Profile::Quick,
            &arguments,
            &["-C", "link-arg=-Wl,--no-rosegment"],
        )?);
    }
    Ok(all)
}

/// The folders of packages whose files of tests run in guests: those written for guests, and those that meet a kernel, which find more
/// there than on most hosts.
const TESTED: [&str; 2] = ["tests/vm", "crates/kernel"];

/// Builds the files of guest tests; only the one that is asked for, where it is one of those written for guests.
pub(crate) fn guest_tests(file: Option<&str>) -> Result<Vec<Executable>> {
    let written = files(TESTED[0])?;
    let names = match file {
        Some(file) if written.iter().any(|name| name == file) => vec![file.to_owned()],
        _ => written.into_iter().chain(files(TESTED[1])?).collect(),
    };
    // By name: all files would be those of the other packages, too.
    let selected = names.iter().flat_map(|name| ["--test", name]);
    let packages = PACKAGES.iter().flat_map(|package| ["-p", package]);
    let arguments: Vec<&str> = ["build"].into_iter().chain(packages).chain(selected).collect();
    let built = build(Profile::Quick, &arguments)?;
    // Other packages may have a file of the same name.
    let tested = |built: &Executable| {
        let of = |folder: &str| built.package.contains(&format!("/{folder}#"));
        built.test && TESTED.iter().any(|folder| of(folder))
    };
    Ok(built.into_iter().filter(tested).collect())
}

/// The names of a package's files of tests, as cargo finds them.
fn files(package: &str) -> Result<Vec<String>> {
    let folder = crate::workspace::root().join(package).join("tests");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let is_file = path.extension().is_some_and(|extension| extension == "rs");
        if (is_file || path.join("main.rs").exists())
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
