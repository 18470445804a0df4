//! `cargo xtask objects`: all BPF objects of a folder run in a guest, one by one, with what came of each and the share that runs of those that can.
//!
//! Where the command says what an object leaves to its own loader (a map's size, what to attach to), it is run again with that, as a user would. What
//! still does not run is a failure of ours, unless bpftool does not load it either.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use vm_tests::protocol::Stream;

use crate::{
    artifact::{self, Base, Profile},
    guest::{ExitStatus, Guest, GuestSpec, GuestTemplate, Program, kernel},
    install,
};

/// Load and attach every BPF object of a folder in a guest, and say which run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The folder; files that end in `.o` are taken.
    folder: PathBuf,
    /// Kernel series.
    #[arg(long, default_value = kernel::DEFAULT)]
    kernel: String,
    /// Ask bpftool (libbpf) about those that do not run: what it does not load either is not ours to serve.
    #[arg(long)]
    bpftool: bool,
    /// Options of `kestrel bpf run` for all of them, such as --strict.
    #[arg(last = true)]
    options: Vec<String>,
}

/// Time limit of an object.
const LIMIT: Duration = Duration::from_secs(60);
/// Options that are added one after the other because the command asks for them.
const ROUNDS: usize = 8;

/// Outcome of an object.
enum Outcome {
    /// The object runs, with this number of its programs left out.
    Runs(usize),
    /// The object has no program that is an event's, or is loaded by no program.
    NotOurs(String),
    Fails(String),
}

/// Runs all; the status says whether all that are ours ran.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::GUESTS)?;
    let mut objects: Vec<PathBuf> = fs::read_dir(&options.folder)
        .with_context(|| format!("list {}", options.folder.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "o"))
        .collect();
    objects.sort();
    ensure!(
        !objects.is_empty(),
        "{} holds no object",
        options.folder.display()
    );
    let base = artifact::base(Profile::Quick)?;
    let mut spec = GuestSpec::plain(&options.kernel);
    if options.bpftool {
        spec.packages.push("bpftool".to_owned());
    }
    let mut trial = Trial {
        stable: GuestTemplate::prepare(&spec, &base.init)?,
        base,
        guest: None,
        bpftool: options.bpftool,
    };
    let (mut ran, mut failed) = (0usize, 0usize);
    for object in &objects {
        let name = object.file_name().unwrap_or_default().to_string_lossy();
        // A trial adds options that one object needs: the next begins without them.
        let mut given = options.options.clone();
        match trial.object(object, &mut given)? {
            Outcome::Runs(left) => {
                ran += 1;
                let left = if left == 0 {
                    String::new()
                } else {
                    format!(", without {left} of its programs")
                };
                let added = given[options.options.len()..].join(" ");
                let added = if added.is_empty() {
                    added
                } else {
                    format!(", with {added}")
                };
                println!("runs      {name}{left}{added}");
            }
            Outcome::NotOurs(why) => println!("not ours  {name}: {why}"),
            Outcome::Fails(why) => {
                failed += 1;
                println!("fails     {name}: {why}");
            }
        }
    }
    let ours = ran + failed;
    let share = if ours == 0 {
        0.0
    } else {
        100.0 * ran as f64 / ours as f64
    };
    println!(
        "{ran} of {ours} run on {} ({share:.1} %), {} are not ours",
        trial.stable.release(),
        objects.len() - ours
    );
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A guest in which one object is run after the other.
struct Trial {
    stable: GuestTemplate,
    base: Base,
    /// The guest of the object before, unless that ended badly.
    guest: Option<Guest>,
    bpftool: bool,
}

impl Trial {
    /// Runs one, with what it leaves to its loader.
    fn object(&mut self, object: &Path, given: &mut Vec<String>) -> Result<Outcome> {
        for _ in 0..ROUNDS {
            let (ending, printed) = self.command(
                object,
                &["kestrel", "bpf", "run", "/object.o", "--duration", "0"],
                given,
            )?;
            let came = outcome(ending, &printed);
            match asked_for(&printed).filter(|_| matches!(came, Outcome::Fails(_))) {
                Some(more) if !given.ends_with(&more) => given.extend(more),
                _ => {
                    let Outcome::Fails(why) = came else {
                        return Ok(came);
                    };
                    return self.neither(object, why);
                }
            }
        }
        Ok(Outcome::Fails(format!(
            "it asks for more than {ROUNDS} options: {}",
            given.join(" ")
        )))
    }

    /// Bpftool's message about an object that does not run.
    fn neither(&mut self, object: &Path, why: String) -> Result<Outcome> {
        if !self.bpftool {
            return Ok(Outcome::Fails(why));
        }
        const LOAD: &str = "bpftool prog loadall /object.o /sys/fs/bpf/oracle 2>/dev/null >/dev/null; status=$?; rm -rf /sys/fs/bpf/oracle; exit $status";
        let (ending, _) = self.command(object, &["sh", "-c", LOAD], &[])?;
        Ok(match ending {
            ExitStatus::Exited(0) => Outcome::Fails(why),
            _ => Outcome::NotOurs(format!("libbpf does not load it either: {why}")),
        })
    }

    fn command(&mut self, object: &Path, argv: &[&str], options: &[String]) -> Result<(ExitStatus, String)> {
        let mut running = match self.guest.take() {
            Some(running) => running,
            None => {
                let mut fresh = self.stable.guest()?;
                for program in &self.base.programs {
                    fresh.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
                }
                fresh
            }
        };
        running.copy(object, "/object.o")?;
        let argv = argv.iter().map(|word| (*word).to_owned());
        let program = Program {
            argv: argv.chain(options.iter().cloned()).collect(),
            env: Vec::new(),
            limit: LIMIT,
        };
        let mut printed = Vec::new();
        let ending = running.run(&program, |stream, bytes| {
            if matches!(stream, Stream::Err) {
                printed.extend_from_slice(bytes);
            }
        })?;
        if !matches!(ending, ExitStatus::Died | ExitStatus::TimedOut) {
            self.guest = Some(running);
        }
        Ok((ending, String::from_utf8_lossy(&printed).into_owned()))
    }
}

/// The options that the command asks for, with values that do.
fn asked_for(printed: &str) -> Option<Vec<String>> {
    if let Some((_, size)) = printed.split_once("--map-size ") {
        let (map, kind) = size.split_once('=')?;
        let size = if kind.starts_with("BYTES") { 1 << 20 } else { 4096 };
        return Some(vec!["--map-size".to_owned(), format!("{map}={size}")]);
    }
    // The configuration of Debian's kernels, which guests do not have in /boot.
    if let Some((_, option)) = printed.split_once("say it: --set ") {
        let (option, _) = option.split_once("=VALUE")?;
        let value = if option == "CONFIG_HZ" { "250" } else { "y" };
        return Some(vec!["--set".to_owned(), format!("{option}={value}")]);
    }
    let (_, target) = printed.split_once("give it as ")?;
    let (program, shape) = target.split_once("=…, in the way of `")?;
    let target = match shape.split_once('/')?.0 {
        "kprobe" | "kretprobe" | "kprobe.multi" | "kretprobe.multi" | "kprobe.session" => "ksys_read",
        "fentry" | "fexit" => "vfs_read",
        "uprobe" | "uretprobe" => "/usr/bin/kestrel:main",
        "tracepoint" => "sched/sched_switch",
        "raw_tracepoint" | "tp_btf" => "sched_switch",
        _ => return None,
    };
    Some(vec![format!("{program}={target}")])
}

fn outcome(ending: ExitStatus, printed: &str) -> Outcome {
    let why = printed
        .lines()
        .filter(|line| !line.starts_with("note: "))
        .take(3)
        .map(str::trim)
        .collect::<Vec<_>>()
        .join("; ");
    match ending {
        ExitStatus::Exited(0) => Outcome::Runs(
            printed
                .lines()
                .filter(|line| line.contains(" is left out: "))
                .count(),
        ),
        _ if why.contains("other loaders' business") || why.contains("it has no program") => {
            Outcome::NotOurs(why)
        }
        ExitStatus::Exited(_) => Outcome::Fails(why),
        other => Outcome::Fails(format!("{other:?}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_distinguished() {
        let left = "note: the program a is left out: x\n";
        assert!(matches!(outcome(ExitStatus::Exited(0), left), Outcome::Runs(1)));
        let foreign = "kestrel: program p: sections like `struct_ops` are other loaders' business: they are no events\n";
        assert!(matches!(
            outcome(ExitStatus::Exited(2), foreign),
            Outcome::NotOurs(_)
        ));
        assert!(
            matches!(outcome(ExitStatus::Exited(1), "kestrel: no\n"), Outcome::Fails(why) if why == "kestrel: no")
        );
        assert!(matches!(outcome(ExitStatus::Died, ""), Outcome::Fails(_)));
    }

    #[test]
    fn options_that_refusals_ask_for_are_added() {
        let size =
            "kestrel: cannot create the map ring (ringbuf, …): say it, --map-size ring=BYTES, a power of two";
        assert_eq!(asked_for(size).unwrap(), ["--map-size", "ring=1048576"]);
        let target =
            "kestrel: program p: give it as p=…, in the way of `kprobe/FUNCTION[+OFFSET]` behind the slash";
        assert_eq!(asked_for(target).unwrap(), ["p=ksys_read"]);
        assert_eq!(asked_for("kestrel: no"), None);
    }
}
