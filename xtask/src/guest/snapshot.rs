//! A machine's memory in a file, taken once the agent is up and restored as often as wanted, each time as a private
//! copy-on-write clone; named by a hash of what it was made from.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail};
use serde_json::json;
use vm_tests::protocol::Reply;

use super::{
    cache::{Cache, digest},
    machine::{Engine, Happening, Hardware, Machine, Memory, QEMU},
};

/// The machine to boot.
#[derive(Debug, Clone)]
pub(crate) struct Boot {
    /// For the snapshot's name, as in `6.12`.
    pub(crate) series: String,
    pub(crate) kernel: PathBuf,
    pub(crate) initramfs: PathBuf,
    pub(crate) hardware: Hardware,
}

/// Longest time of a boot; hardware that has not booted a kernel by then does not work.
fn patience(engine: Engine) -> Duration {
    Duration::from_secs(if engine == Engine::Kvm { 20 } else { 120 })
}

/// Snapshots that were not used for so long are removed.
const STALE: Duration = Duration::from_secs(2 * 24 * 3600);

/// The folder beside a snapshot for what its clones make and later ones need not make again.
pub(super) const KEPT: &str = "kept";

impl Boot {
    fn command_line(&self) -> String {
        let root = if self.hardware.disk.is_some() {
            " kestrel.root=/dev/vda"
        } else {
            ""
        };
        let parameters = self.hardware.engine.parameters();
        format!("console=ttyS0 panic=-1 oops=panic unknown_nmi_panic quiet{parameters}{root}")
    }

    /// Where the snapshot is, or will be.
    pub(super) fn folder(&self, cache: &Cache) -> Result<PathBuf> {
        cache.folder(&format!("snapshot/{}-{}", self.series, self.key()?))
    }

    /// A running clone whose agent is ready. Makes the snapshot first if it is not there.
    pub(crate) fn clone_of(&self, cache: &Cache) -> Result<Machine> {
        let folder = self.folder(cache)?;
        let lock = File::create(folder.join("lock")).context("lock a snapshot")?;
        if !is_whole(&folder) {
            lock.lock()?;
            if !is_whole(&folder) {
                remove_stale(&cache.folder("snapshot")?);
                self.take(&folder)
                    .with_context(|| format!("boot kernel {}", self.series))?;
            }
        }
        lock.lock_shared()?;
        File::create(folder.join("done"))?; // The mark that it is in use.
        restore(&self.hardware, &folder).with_context(|| format!("restore {}", folder.display()))
    }

    /// Everything that the snapshot depends on, hashed. Other files in the cache bear names that change with their content.
    fn key(&self) -> Result<String> {
        let version = Command::new(QEMU)
            .arg("--version")
            .output()
            .with_context(|| format!("run {QEMU}"))?;
        // A root image that was made anew bears the old one's name, and a guest that has the old one mounted would read it as damaged.
        let made = [Some(&self.kernel), self.hardware.disk.as_ref()]
            .into_iter()
            .flatten()
            .map(|path| {
                let time = fs::metadata(path)?.modified()?;
                let time = time.duration_since(SystemTime::UNIX_EPOCH)?;
                Ok(format!("{} {}", path.display(), time.as_nanos()))
            })
            .collect::<Result<Vec<_>>>()?
            .join("\0");
        let arguments = self.hardware.arguments().join("\0");
        let initramfs = self.initramfs.display().to_string();
        let command_line = self.command_line();
        let pieces = [&*made, &initramfs, &command_line, &arguments].map(str::as_bytes);
        Ok(digest(pieces.into_iter().chain([version.stdout.as_slice()]))[..16].to_owned())
    }

    /// Boots the kernel and writes its memory and its machine's state into files of the folder.
    fn take(&self, folder: &Path) -> Result<()> {
        let begun = Instant::now();
        let (memory, state) = (folder.join("memory"), folder.join("state"));
        let _ = fs::remove_file(&memory);
        // Files kept of clones of an earlier one are of another start of the kernel.
        let _ = fs::remove_dir_all(folder.join(KEPT));
        let path = |path: &Path| path.display().to_string();
        let boot = [
            "-kernel",
            &path(&self.kernel),
            "-initrd",
            &path(&self.initramfs),
            "-append",
            &self.command_line(),
        ]
        .map(str::to_owned);
        let mut machine = Machine::start(&self.hardware, (&memory, Memory::Written), &boot)?;
        await_ready(&machine, patience(self.hardware.engine))?;
        sleep(Duration::from_millis(50)); // Until the guest idles, or every clone repeats what it was busy with.
        machine.qmp.run("stop", json!({}))?;
        machine.qmp.leave_memory_in_its_file()?;
        machine.qmp.run(
            "migrate",
            json!({ "uri": format!("exec:cat > '{}'", state.display()) }),
        )?;
        machine.qmp.finish_migration()?;
        for line in machine
            .log()
            .lines()
            .filter(|line| line.starts_with("guest-init:"))
        {
            eprintln!("guest {}: {line}", self.series);
        }
        drop(machine);
        File::create(folder.join("done"))?;
        eprintln!(
            "guest {}: booted and snapshot taken in {:.1} s",
            self.series,
            begun.elapsed().as_secs_f64()
        );
        Ok(())
    }
}

fn await_ready(machine: &Machine, patience: Duration) -> Result<()> {
    let log = || {
        machine
            .log()
            .lines()
            .rev()
            .take(30)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
            .join("\n")
    };
    match machine.next(Instant::now() + patience) {
        Some(Happening::Reply(Reply::Ready, _)) => Ok(()),
        None => bail!(
            "the guest was not up after {patience:?}; its log ends:\n{}",
            log()
        ),
        Some(other) => bail!("the guest did not come up ({other:?}); its log ends:\n{}", log()),
    }
}

fn restore(hardware: &Hardware, folder: &Path) -> Result<Machine> {
    let memory = folder.join("memory");
    let incoming = ["-incoming".to_owned(), "defer".to_owned()];
    let mut machine = Machine::start(hardware, (&memory, Memory::CopiedOnWrite), &incoming)?;
    machine.qmp.leave_memory_in_its_file()?;
    let state = format!("exec:cat '{}'", folder.join("state").display());
    machine.qmp.run("migrate-incoming", json!({ "uri": state }))?;
    machine.qmp.finish_migration()?;
    machine.qmp.run("cont", json!({}))?;
    Ok(machine)
}

/// Whether a snapshot's files are all there: cleaning a cache by age removes the large ones, which are never written again, and leaves the mark of use.
fn is_whole(folder: &Path) -> bool {
    ["memory", "state", "done"]
        .iter()
        .all(|file| folder.join(file).exists())
}

/// Removes snapshots that have not been used for long and are not in use.
fn remove_stale(snapshots: &Path) {
    for entry in fs::read_dir(snapshots).into_iter().flatten().flatten() {
        let used = fs::metadata(entry.path().join("done")).and_then(|file| file.modified());
        let old = used.is_ok_and(|used| {
            SystemTime::now()
                .duration_since(used)
                .is_ok_and(|age| age > STALE)
        });
        let Ok(lock) = File::open(entry.path().join("lock")) else {
            continue;
        };
        if old && lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_differ_have_arguments_that_differ() {
        let plain = Hardware {
            engine: Engine::Emulated,
            memory_mb: 512,
            cpus: 2,
            disk: None,
        };
        let others = [
            Hardware {
                engine: Engine::Counted,
                ..plain.clone()
            },
            Hardware {
                engine: Engine::Kvm,
                ..plain.clone()
            },
            Hardware {
                memory_mb: 256,
                ..plain.clone()
            },
            Hardware {
                cpus: 1,
                ..plain.clone()
            },
            Hardware {
                disk: Some("/x".into()),
                ..plain.clone()
            },
        ];
        for other in others {
            assert_ne!(other.arguments(), plain.arguments());
        }
    }
}
