//! The documentation, run: the examples of `kestrel::probe` and of its page, and the commands that the help of `probe` shows. The pages' are in `pages`.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::catalog::Catalog;
use kestrel::code::Code;
use kestrel::kernel::Host;
use std::fs;
use std::time::{Duration, Instant};
use vm_tests::{kestrel, shell};

/// Made by the build script; what is shown to readers may be written for them and not for lints.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::nursery,
    clippy::restriction,
    unused_imports,
    unused_mut,
    unused_variables,
    dead_code,
    reason = "examples are as short as they can be"
)]
mod examples {
    include!(concat!(env!("OUT_DIR"), "/documented.rs"));

    /// Runs them; gives how many.
    pub(super) fn run() -> usize {
        for (place, example) in EXAMPLES {
            let begun = std::time::Instant::now();
            if let Err(error) = example() {
                panic!("{place}: {error}");
            }
            println!("{place}: {:?}", begun.elapsed());
        }
        EXAMPLES.len()
    }
}

/// Waits until the kernel has no probe any more.
fn none_left() {
    let list = Host::default().mount_debugfs().unwrap().join("kprobes/list");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let left = fs::read_to_string(&list).unwrap();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{left}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_example_of_the_library_runs() {
    assert!(examples::run() >= 10, "of the module, its types, and the page");
    none_left();
}

/// The lines of a text that call the product's `probe`, without their remarks.
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.map(|line| line.strip_prefix("# ").unwrap_or(line));
    lines
        .filter(|line| line.starts_with("kestrel probe "))
        .map(|line| line.split("   ").next().unwrap_or(line).trim().to_owned())
        .collect()
}

#[test]
fn every_command_that_probe_shows_in_its_help_runs() {
    if std::env::var("KESTREL_PROBES").is_err() {
        return vm_tests::skip("some thirty commands take a while: set KESTREL_PROBES");
    }
    let catalog = Catalog::new(Host::default());
    let function = Code::new(&catalog).unwrap().function(None, "vfs_read").unwrap();
    let mut inside = function
        .instructions
        .iter()
        .filter(|i| i.offset > 8 && i.probeable.is_ok());
    let inside = format!("vfs_read+{:#x}", inside.next().unwrap().offset);
    let address = format!("{:#x}", function.address);
    // Lines that every kernel has another place for; modules and programs that a guest has not; of a pipe its beginning.
    let fitting = |line: &String| {
        let line = line.split(" | ").next().unwrap_or(line);
        let line = line
            .replace("vfs_read+0x12", &inside)
            .replace("0xffffffff812345a0", &address)
            .replace("\"calls.o\"", "\"/object_handler.o:at_entry\"");
        (!line.contains("xfs") && !line.contains(">>")).then_some(line)
    };
    fs::write(
        "/tmp/my.probes",
        "m1 kprobe:vfs_write { count() }\nm2 kretprobe:vfs_write { count() }\n",
    )
    .unwrap();
    let mut ran = 0;
    for verb in ["", "add", "list", "show", "disable", "enable", "remove"] {
        let words: Vec<&str> = ["probe", verb, "--help"]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect();
        let help = kestrel(&words).success();
        let examples = commands(&help);
        assert!(!examples.is_empty(), "{verb}: {help}");
        for line in examples.iter().filter_map(fitting) {
            let run = shell(&format!("cd /tmp && {line}"));
            assert_eq!(run.code, Some(0), "{line}: {}{}", run.out, run.err);
            ran += 1;
        }
        // The kernel's own switch is among the examples.
        kestrel(&["probe", "enable", "--kernel"]).success();
    }
    assert!(ran > 15, "{ran}");
    none_left();
}
