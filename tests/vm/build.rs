//! The examples in the documentation of `kestrel::probe` and of its page, as functions that a guest test calls: what is printed there runs. And the pages
//! for people, whose command lines guest tests run.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The rooms whose examples are taken, from here.
const DOCUMENTED: &str = "../../crates/kestrel/src/probe";
/// The page whose example is taken.
const PAGE: &str = "../../docs/library.md";

/// The pages for people.
const README: &str = "../../README.md";
const PAGES: &str = "../../docs";

/// Programs with known stacks, and how each is compiled: at fixed addresses or at any, with a symbol table or without, with frame pointers or without.
const STACKS: [(&str, &str, &[&str]); 6] = [
    ("stacks", "stacks.c", &["-O0", FRAMES, "-static", "-g"]),
    ("stacks_stripped", "stacks.c", &["-O0", FRAMES, "-static", "-s"]),
    ("stacks_pie", "stacks.c", &["-O0", FRAMES, "-static-pie", "-g"]),
    ("stacks_frameless", "stacks.c", &["-O1", FRAMELESS, "-static-pie"]),
    // Optimised, a function that calls no other has no frame.
    ("stacks_cpp", "stacks.cpp", &["-O0", FRAMES, "-static-pie"]),
    (
        "stacks_cpp_frameless",
        "stacks.cpp",
        &["-O2", FRAMELESS, "-static"],
    ),
];
const FRAMES: &str = "-fno-omit-frame-pointer";
const FRAMELESS: &str = "-fomit-frame-pointer";
/// The same in Rust, without frame pointers and with.
const RUST: &str = "programs/stacks.rs";
const RUST_BUILDS: [(&str, &[&str]); 2] = [
    ("stacks_rust", &["-C", "force-frame-pointers=yes"]),
    (
        "stacks_rust_frameless",
        &["-C", "force-frame-pointers=no", "-C", "relocation-model=static"],
    ),
];

/// The same in Go, whose compiler not every machine has: an empty file stands for the program there.
const GO: &str = "programs/stacks.go";

/// Programs of calls with arguments that point to something: as programs of the kernel's own interface make them, and as 32-bit programs do.
const CALLS: [(&str, &str, &[&str]); 2] = [
    ("awkward_calls", "programs/awkward_calls.c", &["-static"]),
    ("compat_calls", "programs/compat_calls.c", &["-static", "-no-pie"]),
];

/// A program with events of its own, and where its header is.
const SERVER: &str = "../../crates/tracepoint/examples/server.c";
const HEADERS: &str = "../../crates/tracepoint/include";

fn main() -> std::io::Result<()> {
    pages()?;
    programs()?;
    tracepoints()?;
    println!("cargo::rerun-if-changed={DOCUMENTED}");
    println!("cargo::rerun-if-changed={PAGE}");
    let mut files: Vec<_> = fs::read_dir(DOCUMENTED)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    let mut all: Vec<(String, String)> = Vec::new();
    for file in files {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        println!("cargo::rerun-if-changed={}", file.display());
        all.extend(
            fenced(&fs::read_to_string(&file)?)
                .into_iter()
                .map(|(line, text)| (format!("{name}:{line}"), text)),
        );
    }
    let page = indented(&fs::read_to_string(PAGE)?, "    use kestrel::probe::");
    all.extend(page.map(|text| ("library.md".to_owned(), text)));
    let mut out = String::new();
    let mut table = String::new();
    for (number, (place, text)) in all.iter().enumerate() {
        let end = if text.contains("Ok::<") {
            ""
        } else {
            "    Ok(())\n"
        };
        let _ = write!(
            out,
            "fn example_{number}() -> Result<(), kestrel::Error> {{\n{text}{end}}}\n\n"
        );
        let _ = writeln!(table, "    ({place:?}, example_{number}),");
    }
    let _ = write!(
        out,
        "/// Where each stands, and what it does.\nconst EXAMPLES: &[(&str, fn() -> Result<(), kestrel::Error>)] = &[\n{table}];\n"
    );
    let to = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&to).join("documented.rs"), out)
}

/// The programs with known stacks, each to be written into a guest.
fn programs() -> std::io::Result<()> {
    let to = env::var_os("OUT_DIR").unwrap_or_default();
    for (name, source, options) in STACKS {
        let source = format!("programs/{source}");
        println!("cargo::rerun-if-changed={source}");
        let compiler = if source.ends_with("cpp") { "c++" } else { "cc" };
        let mut command = Command::new(compiler);
        command
            .args(options)
            .arg("-o")
            .arg(Path::new(&to).join(name))
            .arg(&source);
        assert!(command.status()?.success(), "{compiler} of {source}");
    }
    println!("cargo::rerun-if-changed={RUST}");
    for (name, options) in RUST_BUILDS {
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc
            .args(["--edition=2024", "-C", "opt-level=1", "-C", "strip=debuginfo"])
            .args(["-C", "target-feature=+crt-static"])
            .args(options);
        let status = rustc
            .arg("-o")
            .arg(Path::new(&to).join(name))
            .arg(RUST)
            .status()?;
        assert!(status.success(), "rustc of {RUST}");
    }
    println!("cargo::rerun-if-changed={GO}");
    println!("cargo::rerun-if-env-changed=PATH");
    let program = Path::new(&to).join("stacks_go");
    let mut go = Command::new("go");
    go.env("CGO_ENABLED", "0")
        .env("GO111MODULE", "off")
        .env("GOCACHE", Path::new(&to).join("go-cache"))
        .args(["build", "-o"])
        .arg(&program)
        .arg(GO);
    match go.status() {
        Ok(status) => assert!(status.success(), "go of {GO}"),
        Err(_) => fs::write(&program, "")?,
    }
    for (name, source, options) in CALLS {
        println!("cargo::rerun-if-changed={source}");
        let mut compiler = Command::new("cc");
        compiler.args(["-O0", "-w"]).args(options).arg("-o");
        let status = compiler.arg(Path::new(&to).join(name)).arg(source).status()?;
        assert!(status.success(), "cc of {source}");
    }
    Ok(())
}

/// A program with events by the header, stripped.
fn tracepoints() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={SERVER}");
    println!("cargo::rerun-if-changed={HEADERS}");
    let to = env::var_os("OUT_DIR").unwrap_or_default();
    let mut compiler = Command::new("cc");
    compiler.args(["-static-pie", "-s", "-O2", "-I", HEADERS, "-o"]);
    let status = compiler
        .arg(Path::new(&to).join("server_c"))
        .arg(SERVER)
        .status()?;
    assert!(status.success(), "cc of {SERVER}");
    Ok(())
}

/// The pages with their names, README.md first.
fn pages() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={README}");
    println!("cargo::rerun-if-changed={PAGES}");
    let mut files = vec![README.into()];
    for entry in fs::read_dir(PAGES)? {
        files.push(entry?.path());
    }
    files[1..].sort();
    let mut table = String::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(table, "    ({name:?}, {:?}),", fs::read_to_string(&file)?);
    }
    let text =
        format!("/// Pages for people, each with its name.\nconst PAGES: &[(&str, &str)] = &[\n{table}];\n");
    let to = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&to).join("pages.rs"), text)
}

/// The Rust examples in a file's documentation, each with its first line's number.
fn fenced(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) else {
            inside = false;
            continue;
        };
        let doc = doc.strip_prefix(' ').unwrap_or(doc);
        match doc.strip_prefix("```") {
            Some("" | "no_run") if !inside => {
                inside = true;
                all.push((number + 1, String::new()));
            }
            Some(_) => inside = false,
            None if inside => {
                // Hidden lines of an example are compiled all the same.
                let code = doc.strip_prefix("# ").unwrap_or(doc);
                if let Some((_, text)) = all.last_mut() {
                    text.push_str(code);
                    text.push('\n');
                }
            }
            None => {}
        }
    }
    all
}

/// The indented block that begins so.
fn indented(text: &str, begin: &str) -> Option<String> {
    let lines = text.lines().skip_while(|line| !line.starts_with(begin));
    let block: Vec<&str> = lines
        .take_while(|line| line.is_empty() || line.starts_with("    "))
        .collect();
    (!block.is_empty()).then(|| block.join("\n") + "\n")
}
