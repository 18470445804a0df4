//! `cargo xtask vm`: one command in a guest, with its output, its status, and a word on how the guest ended.

use std::{
    io::Write,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use vm_tests::protocol::Stream;

use crate::{
    artifact::{self, Profile},
    guest::{self, ExitStatus, Guest, GuestSpec, GuestTemplate, Program, kernel, machine::Engine},
    install,
};

/// Boot a Debian kernel in a guest and run a command there.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Kernel series (5.10, 6.1, 6.12, 6.18, 7.2, 7.3), or `all` for each of these in turn.
    #[arg(long, default_value = kernel::DEFAULT)]
    kernel: String,
    /// Copy a file into `/`, executable, under its own name.
    #[arg(long, value_name = "FILE")]
    copy: Vec<PathBuf>,
    /// Debian packages to have in the guest (bpftrace, perf, trace-cmd, bpftool, babeltrace2, …).
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    with: Vec<String>,
    /// Debian suite that --with takes packages from.
    #[arg(long, default_value = guest::SUITE)]
    suite: String,
    /// Seconds until the guest is killed.
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// CPUs.
    #[arg(long, default_value_t = 2)]
    smp: u32,
    /// Memory in MiB.
    #[arg(long, default_value_t = 512)]
    memory: u32,
    /// Use the host's hardware support instead of emulation.
    #[arg(long)]
    kvm: bool,
    /// Have the guest's clock count instructions: one CPU, and nanoseconds are instructions.
    #[arg(long, conflicts_with_all = ["kvm", "smp"])]
    counted: bool,
    /// Write the guest's memory to this file at the end, however it ends (kdump-compressed if it ends in .kdump).
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Boot the compressed image, which brings KASLR, instead of the ELF file in it.
    #[arg(long)]
    bzimage: bool,
    /// Debian mirror to use instead of the machine's own; `debian` and `debian-security` are below it.
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// Build kestrel as shipped instead of quickly.
    #[arg(long)]
    release: bool,
    /// Do not build kestrel; the guest has none.
    #[arg(long)]
    bare: bool,
    /// Say how long each step took.
    #[arg(long, short)]
    verbose: bool,
    /// The command; a single word with spaces or shell characters in it is a line for `sh`.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Runs the command on each kernel asked for; the status is the first that is not 0.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    ensure!(
        options.kernel != "all" || options.dump.is_none(),
        "--dump names one file: name one kernel, too"
    );
    install::ensure(install::GUESTS)?;
    if !options.with.is_empty() {
        install::ensure(install::IMAGES)?;
    }
    let profile = if options.release {
        Profile::Release
    } else {
        Profile::Quick
    };
    let base = if options.bare {
        artifact::bare(profile)?
    } else {
        artifact::base(profile)?
    };
    let series = if options.kernel == "all" {
        kernel::ALL
    } else {
        &[&*options.kernel]
    };
    let mut code = 0;
    for series in series {
        let stable = GuestTemplate::prepare(&options.spec(series), &base.init)?;
        if options.kernel == "all" {
            eprintln!("── {series} ({})", stable.release());
        }
        let ending = options.run_on(&stable, &base, series)?;
        code = if code == 0 { ending.code() } else { code };
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

impl Options {
    fn spec(&self, series: &str) -> GuestSpec {
        GuestSpec {
            series: series.to_owned(),
            engine: match (self.counted, self.kvm) {
                (true, _) => Engine::Counted,
                (false, true) => Engine::Kvm,
                (false, false) => Engine::Emulated,
            },
            memory_mb: self.memory,
            cpus: if self.counted { 1 } else { self.smp },
            compressed: self.bzimage,
            packages: self.with.clone(),
            suite: self.suite.clone(),
            mirror: self.mirror.clone(),
        }
    }

    fn run_on(&self, stable: &GuestTemplate, base: &artifact::Base, series: &str) -> Result<ExitStatus> {
        let begun = Instant::now();
        let mut guest = stable.guest()?;
        let restored = begun.elapsed();
        for program in &base.programs {
            guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
        }
        for file in &self.copy {
            let name = file
                .file_name()
                .with_context(|| format!("{} has no name", file.display()))?;
            guest.copy(file, &format!("/{}", name.to_string_lossy()))?;
        }
        let sent = begun.elapsed();
        let program = Program {
            argv: shell_line(&self.command),
            env: Vec::new(),
            limit: Duration::from_secs(self.timeout),
        };
        let ending = guest.run(&program, |stream, bytes| {
            // Its reader may be gone (`| head`): the command still runs to its end.
            let _ = match stream {
                Stream::Out => std::io::stdout()
                    .write_all(bytes)
                    .and_then(|()| std::io::stdout().flush()),
                Stream::Err => std::io::stderr().write_all(bytes),
            };
        })?;
        if self.verbose {
            let (restored, sent, total) = (
                restored.as_secs_f64(),
                sent.as_secs_f64(),
                begun.elapsed().as_secs_f64(),
            );
            eprintln!(
                "guest {series}: restored {restored:.2} s, files {:.2} s, command {:.2} s",
                sent - restored,
                total - sent
            );
        }
        self.tell_the_end(&mut guest, series, ending)?;
        Ok(ending)
    }

    fn tell_the_end(&self, guest: &mut Guest, series: &str, ending: ExitStatus) -> Result<()> {
        let what = match ending {
            ExitStatus::Died => Some("the kernel panicked or powered off".to_owned()),
            ExitStatus::TimedOut => Some(format!("killed after {} s", self.timeout)),
            ExitStatus::Killed(signal) => Some(format!("the command was ended by signal {signal}")),
            ExitStatus::Exited(_) => None,
        };
        if matches!(ending, ExitStatus::Died | ExitStatus::TimedOut) {
            let (path, end) = guest.keep_log()?;
            eprintln!("{end}");
            eprintln!("guest {series}: kernel log kept in {}", path.display());
        }
        if let Some(path) = &self.dump {
            guest.dump(path)?;
            let size = std::fs::metadata(path)?.len() >> 20;
            eprintln!("guest {series}: memory dumped to {} ({size} MiB)", path.display());
        }
        if let Some(what) = what {
            eprintln!("guest {series}: {what}");
        }
        Ok(())
    }
}

/// One word that is more than a name is a line for the shell; several words are a command as they are.
fn shell_line(command: &[String]) -> Vec<String> {
    match command {
        [line] if line.contains(|c: char| c.is_whitespace() || "|&;<>()$`*?\"'".contains(c)) => {
            vec!["sh".to_owned(), "-c".to_owned(), line.clone()]
        }
        words => words.to_vec(),
    }
}
