//! Guests: Debian kernels under QEMU, from the package to a running clone that takes files and runs programs. Commands
//! decide what runs; this room decides how.
//!
//! ```text
//! mirror ─► apt ─► kernel ─► vmlinux, module ─► cpio ─► initramfs ─┐
//!                    peers' root image ─► root ────────────────────┼─► snapshot ─► machine (qmp) ─► Guest
//!                    guest-init, built statically ─────────────────┘
//! ```

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};
use vm_tests::protocol::{Reply, Request, Stream};

use hostile::Pauses;
use machine::{Engine, Happening, Hardware, Machine};

pub(crate) mod apt;
pub(crate) mod cache;
mod cpio;
mod hostile;
mod initramfs;
pub(crate) mod kernel;
pub(crate) mod machine;
pub(crate) mod mirror;
mod module;
mod qmp;
mod root;
mod snapshot;
mod vmlinux;

/// The kind of guest that is wanted.
#[derive(Debug, Clone)]
pub(crate) struct GuestSpec {
    /// Kernel series, as in `6.12`.
    pub(crate) series: String,
    pub(crate) engine: Engine,
    pub(crate) memory_mb: u32,
    pub(crate) cpus: u32,
    /// Boot the compressed image, which brings KASLR.
    pub(crate) compressed: bool,
    /// Debian packages to have inside.
    pub(crate) packages: Vec<String>,
    /// Debian suite that the packages come from.
    pub(crate) suite: String,
    /// Mirror to use instead of the machine's own.
    pub(crate) mirror: Option<String>,
}

impl GuestSpec {
    /// The guest that tests run in.
    pub(crate) fn plain(series: &str) -> Self {
        Self {
            series: series.to_owned(),
            engine: Engine::Emulated,
            memory_mb: 512,
            cpus: 2,
            compressed: false,
            packages: Vec::new(),
            suite: root::SUITE.to_owned(),
            mirror: None,
        }
    }

    /// The guest whose clock counts instructions.
    pub(crate) fn counted(series: &str) -> Self {
        Self {
            engine: Engine::Counted,
            cpus: 1,
            ..Self::plain(series)
        }
    }
}

/// Default suite of the peers' packages.
pub(crate) use root::SUITE;

/// A program to run in a guest.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) limit: Duration,
}

/// How a program's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    Exited(i32),
    Killed(i32),
    /// The kernel panicked or powered off.
    Died,
    /// The time limit passed.
    TimedOut,
}

impl ExitStatus {
    /// The exit status that a shell would give; 124 for a time-out, 125 for a dead guest.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128 + signal,
            Self::TimedOut => 124,
            Self::Died => 125,
        }
    }
}

/// A running guest; it is gone when dropped.
pub(crate) struct Guest {
    series: String,
    machine: Machine,
    /// Stop the guest at random while programs run in it.
    pub(crate) hostile: bool,
}

/// The template from which every guest of a kind is cloned: kernel, initramfs and image, all there.
pub(crate) struct GuestTemplate {
    cache: cache::Cache,
    boot: snapshot::Boot,
    kernel: kernel::Kernel,
}

impl GuestTemplate {
    /// Gets everything ready that the spec needs. `init` is the built first process.
    pub(crate) fn prepare(spec: &GuestSpec, init: &Path) -> Result<Self> {
        let cache = cache::Cache::open()?;
        let mirror = spec.mirror.as_deref();
        let kernel = kernel::Kernel::obtain(&cache, &spec.series, mirror)?;
        let busybox = initramfs::busybox(&cache, mirror)?;
        let initramfs = initramfs::build(&cache, &kernel, init, &busybox)?;
        let disk = match spec.packages.as_slice() {
            [] => None,
            packages => Some(root::image(&cache, &spec.suite, packages, mirror)?),
        };
        let hardware = Hardware {
            engine: spec.engine,
            memory_mb: spec.memory_mb,
            cpus: spec.cpus,
            disk,
        };
        let image = if spec.compressed {
            kernel.vmlinuz()
        } else {
            kernel.vmlinux()
        };
        let boot = snapshot::Boot {
            series: kernel.series.clone(),
            kernel: image,
            initramfs,
            hardware,
        };
        Ok(Self { cache, boot, kernel })
    }

    /// The kernel's release in these guests, as `uname -r` prints it.
    pub(crate) fn release(&self) -> &str {
        &self.kernel.release
    }

    /// Names and bytes of the modules that these guests have not loaded, dependencies first.
    pub(crate) fn spare_modules(&self) -> Result<Vec<(String, Vec<u8>)>> {
        self.kernel.spare_modules()
    }

    /// A folder for what guests make that later ones need not make again; it goes when the snapshot is taken anew.
    pub(crate) fn kept(&self) -> Result<std::path::PathBuf> {
        Ok(self.boot.folder(&self.cache)?.join(snapshot::KEPT))
    }

    /// A fresh guest.
    pub(crate) fn guest(&self) -> Result<Guest> {
        let machine = self.boot.clone_of(&self.cache)?;
        let mut guest = Guest {
            series: self.boot.series.clone(),
            machine,
            hostile: false,
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let mut seed = vec![0; 32];
        std::io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut seed)?;
        guest.ask(
            &Request::Wake {
                now: u64::try_from(now.as_nanos())?,
                seed,
            },
            &[],
        )?;
        Ok(guest)
    }
}

/// Longest time of the agent's answer to anything but a program.
const PATIENCE: Duration = Duration::from_secs(120);

impl Guest {
    /// Writes an executable file into the guest.
    pub(crate) fn put(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let request = Request::Put {
            path: path.to_owned(),
            mode: 0o755,
            size: bytes.len() as u64,
        };
        self.ask(&request, bytes).map(drop)
    }

    /// Copies a file of this machine into the guest.
    pub(crate) fn copy(&mut self, from: &Path, to: &str) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("read {}", from.display()))?;
        self.put(to, &bytes)
    }

    /// Reads a file of the guest.
    pub(crate) fn get(&mut self, path: &str) -> Result<Vec<u8>> {
        self.ask(
            &Request::Get {
                path: path.to_owned(),
            },
            &[],
        )
    }

    /// Runs a program to its end and hands its output on as it comes. Its time limit does not run while the guest waits for a processor of a busy machine.
    pub(crate) fn run(
        &mut self,
        program: &Program,
        mut output: impl FnMut(Stream, &[u8]),
    ) -> Result<ExitStatus> {
        let mut deadline = Instant::now() + program.limit;
        let mut starved = self.machine.starved();
        let (argv, env) = (program.argv.clone(), program.env.clone());
        let _pauses = self.hostile.then(|| Pauses::begin(self.machine.pid()));
        self.machine.send(
            &Request::Exec {
                argv,
                env,
                cwd: "/".into(),
            },
            &[],
        )?;
        loop {
            match self.machine.next(deadline) {
                Some(Happening::Reply(Reply::Output { stream, .. }, bytes)) => output(stream, &bytes),
                Some(Happening::Reply(
                    Reply::Exited {
                        signal: Some(signal), ..
                    },
                    _,
                )) => {
                    return Ok(ExitStatus::Killed(signal));
                }
                Some(Happening::Reply(Reply::Exited { code, .. }, _)) => {
                    return Ok(ExitStatus::Exited(code.unwrap_or(1)));
                }
                Some(Happening::Reply(Reply::Failed { what }, _)) => bail!("guest {}: {what}", self.series),
                Some(Happening::Reply(other, _)) => bail!("guest {}: out of step: {other:?}", self.series),
                Some(Happening::OutOfStep(error)) => bail!("guest {}: out of step: {error}", self.series),
                Some(Happening::Stopped | Happening::Silence) => return Ok(ExitStatus::Died),
                None => {
                    let longer = self.machine.starved();
                    let granted = longer.saturating_sub(starved);
                    // Any guest waits a little: only a machine that is busy for long is a reason to go on.
                    if granted > Duration::from_secs(1) {
                        deadline += granted;
                        starved = longer;
                        continue;
                    }
                    self.machine.provoke();
                    return Ok(ExitStatus::TimedOut);
                }
            }
        }
    }

    /// Runs a program and keeps its standard output; its standard error goes to ours.
    pub(crate) fn capture(&mut self, program: &Program) -> Result<(ExitStatus, Vec<u8>)> {
        let mut out = Vec::new();
        let ending = self.run(program, |stream, bytes| match stream {
            Stream::Out => out.extend_from_slice(bytes),
            Stream::Err => {
                let _ = std::io::stderr().write_all(bytes);
            }
        })?;
        Ok((ending, out))
    }

    /// Standard output of a command that must end with 0.
    pub(crate) fn output(&mut self, argv: &[&str], limit: Duration) -> Result<String> {
        let (status, out) = self.capture(&Program {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: Vec::new(),
            limit,
        })?;
        let out = String::from_utf8_lossy(&out).into_owned();
        let command = argv.first().unwrap_or(&"nothing");
        ensure!(
            status == ExitStatus::Exited(0),
            "{command} in guest {}: {status:?}: {out}",
            self.series
        );
        Ok(out)
    }

    /// Keeps the kernel's log in `target/vm` and returns its path and the part about the end.
    pub(crate) fn keep_log(&mut self) -> Result<(PathBuf, String)> {
        let log = self.machine.log();
        let folder = crate::workspace::root().join("target/vm");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)?
            .as_millis();
        let path = folder.join(format!("{}-{now}.log", self.series));
        fs::write(&path, &log).with_context(|| format!("write {}", path.display()))?;
        let end = [end_of(&log), self.machine.last_words()].join("\n");
        Ok((path, end.trim().to_owned()))
    }

    /// The processor time that this guest has used.
    pub(crate) fn busy(&self) -> Duration {
        self.machine.busy()
    }

    /// Writes the guest's memory to a file.
    pub(crate) fn dump(&mut self, path: &Path) -> Result<()> {
        self.machine.qmp.run("stop", serde_json::json!({}))?;
        self.machine.qmp.dump_memory(&std::path::absolute(path)?)
    }

    /// Writes the guest's memory to a file as it is, from the first byte on.
    pub(crate) fn save_memory(&mut self, path: &Path, mb: u32) -> Result<()> {
        self.machine.qmp.run("stop", serde_json::json!({}))?;
        let path = std::path::absolute(path)?;
        self.machine.qmp.save_memory(&path, u64::from(mb) << 20)
    }

    /// One request, one answer; output that a program's remains still send is dropped.
    fn ask(&mut self, request: &Request, payload: &[u8]) -> Result<Vec<u8>> {
        self.machine.send(request, payload)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.machine.next(deadline) {
                Some(Happening::Reply(Reply::Done | Reply::File { .. }, bytes)) => return Ok(bytes),
                Some(Happening::Reply(Reply::Output { .. }, _)) => {}
                Some(Happening::Reply(Reply::Failed { what }, _)) => bail!("guest {}: {what}", self.series),
                Some(other) => bail!(
                    "guest {}: {other:?}; its log ends:\n{}",
                    self.series,
                    end_of(&self.machine.log())
                ),
                None => bail!("guest {}: the agent did not answer for {PATIENCE:?}", self.series),
            }
        }
    }
}

/// The part of a kernel log about a crash, or its last lines.
fn end_of(log: &str) -> String {
    const SIGNS: &[&str] = &["Kernel panic", "BUG:", "Oops", "general protection", "NMI"];
    let lines: Vec<&str> = log.lines().collect();
    let crash = lines
        .iter()
        .position(|line| SIGNS.iter().any(|sign| line.contains(sign)));
    let from = crash.unwrap_or(lines.len().saturating_sub(20));
    lines[from..].join("\n")
}
