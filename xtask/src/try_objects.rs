//! `cargo xtask objects`: all BPF objects of a folder run in a guest, one by one, with what came of each and the share that runs.

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
    guest::{Ending, Guest, Program, Stable, Wish, kernel},
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
    /// Options of `kestrel bpf run` for all of them, such as --strict.
    #[arg(last = true)]
    options: Vec<String>,
}

/// One object has this long.
const LIMIT: Duration = Duration::from_secs(60);

/// What came of an object.
enum Outcome {
    /// It runs; so many of its programs were left out.
    Runs(usize),
    /// It has no program that is an event's.
    NotOurs,
    Fails(String),
}

/// Runs all; the status tells whether all that are ours ran.
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
    let stable = Stable::prepare(&Wish::plain(&options.kernel), &base.init)?;
    let mut guest = None;
    let (mut ran, mut failed) = (0usize, 0usize);
    for object in &objects {
        let name = object.file_name().unwrap_or_default().to_string_lossy();
        match one(&mut guest, &stable, &base, object, &options.options)? {
            Outcome::Runs(left) => {
                ran += 1;
                let left = if left == 0 {
                    String::new()
                } else {
                    format!(", without {left} of its programs")
                };
                println!("runs      {name}{left}");
            }
            Outcome::NotOurs => println!("not ours  {name}"),
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
        stable.release(),
        objects.len() - ours
    );
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs one, in the guest of the one before unless that ended badly.
fn one(
    guest: &mut Option<Guest>,
    stable: &Stable,
    base: &Base,
    object: &Path,
    options: &[String],
) -> Result<Outcome> {
    let mut running = match guest.take() {
        Some(running) => running,
        None => {
            let mut fresh = stable.guest()?;
            for program in &base.programs {
                fresh.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
            }
            fresh
        }
    };
    running.copy(object, "/object.o")?;
    let mut argv: Vec<String> = ["kestrel", "bpf", "run", "/object.o", "--duration", "0"]
        .map(str::to_owned)
        .to_vec();
    argv.extend_from_slice(options);
    let program = Program {
        argv,
        env: Vec::new(),
        limit: LIMIT,
    };
    let mut said = Vec::new();
    let ending = running.run(&program, |stream, bytes| {
        if matches!(stream, Stream::Err) {
            said.extend_from_slice(bytes);
        }
    })?;
    let said = String::from_utf8_lossy(&said).into_owned();
    if !matches!(ending, Ending::Died | Ending::TimedOut) {
        *guest = Some(running);
    }
    Ok(outcome(ending, &said))
}

fn outcome(ending: Ending, said: &str) -> Outcome {
    let why = said
        .lines()
        .filter(|line| !line.starts_with("note: "))
        .take(3)
        .map(str::trim)
        .collect::<Vec<_>>()
        .join("; ");
    match ending {
        Ending::Exited(0) => Outcome::Runs(
            said.lines()
                .filter(|line| line.contains(" is left out: "))
                .count(),
        ),
        _ if why.contains("other loaders' business") || why.contains("it has no program") => Outcome::NotOurs,
        Ending::Exited(_) => Outcome::Fails(why),
        other => Outcome::Fails(format!("{other:?}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_told_apart() {
        let left = "note: the program a is left out: x\n";
        assert!(matches!(outcome(Ending::Exited(0), left), Outcome::Runs(1)));
        let foreign = "kestrel: program p: sections like `struct_ops` are other loaders' business: they are no events\n";
        assert!(matches!(outcome(Ending::Exited(2), foreign), Outcome::NotOurs));
        assert!(
            matches!(outcome(Ending::Exited(1), "kestrel: no\n"), Outcome::Fails(why) if why == "kestrel: no")
        );
        assert!(matches!(outcome(Ending::Died, ""), Outcome::Fails(_)));
    }
}
