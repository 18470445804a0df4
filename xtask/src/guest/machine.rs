//! One QEMU process: its arguments, its sockets, its end. It knows nothing of snapshots or of what runs inside.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use tempfile::TempDir;
use vm_tests::protocol::{self, Reply, Request};

use super::qmp::{self, Qmp};

/// The emulator's name.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// How the guest's instructions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Engine {
    /// Emulation, one thread for all CPUs: with a thread each, guests die when hot code is patched.
    Emulated,
    /// Emulation in which the guest's clock counts instructions; one CPU.
    Counted,
    /// The host's own hardware support.
    Kvm,
}

/// The emulated processor: all that the emulator can do but for what it does slowly. It copies byte by byte where a processor
/// promises that `rep movsb` is fast; wide vectors are many small ones to it, and each switch of threads saves them. `cmpxchg16b` it does
/// wrongly (QEMU 7.2): an interrupt right behind one finds flags that are another instruction's operand, and the kernel dies of a double fault.
const EMULATED: &str = "max,-erms,-avx,-avx2,-xsave,-la57,-pku,-cx16";

impl Engine {
    /// Parameters of the kernel's command line beyond those of every guest; begins with a blank.
    ///
    /// Emulation translates code anew wherever it lies anew: with programs at random addresses, most of a guest's time went there
    /// (5.7 s of a test that takes 1.4 s now). Memory need not be cleared twice for tests, nor grace periods be long. Where instructions are counted nothing is
    /// changed: the figures are compared with written ones.
    pub(crate) fn parameters(self) -> &'static str {
        match self {
            Self::Emulated => " norandmaps init_on_alloc=0 rcupdate.rcu_expedited=1",
            Self::Counted | Self::Kvm => "",
        }
    }
}

/// The hardware, which is the same for every machine of one kind; with the kernel and its files it names a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Hardware {
    pub(crate) engine: Engine,
    pub(crate) memory_mb: u32,
    pub(crate) cpus: u32,
    /// A read-only disk with the peers' root image.
    pub(crate) disk: Option<PathBuf>,
}

impl Hardware {
    /// QEMU's arguments for everything that a snapshot depends on.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["-nodefaults", "-no-user-config", "-display", "none"]
            .map(String::from)
            .into();
        let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
        match self.engine {
            Engine::Emulated => add(&["-accel", "tcg,thread=single", "-cpu", EMULATED]),
            Engine::Counted => {
                add(&[
                    "-accel",
                    "tcg,thread=single",
                    "-cpu",
                    "max",
                    "-icount",
                    "shift=0,sleep=off",
                ]);
            }
            Engine::Kvm => add(&["-accel", "kvm", "-cpu", "host"]),
        }
        add(&[
            "-M",
            "pc,memory-backend=ram",
            "-m",
            &format!("{}M", self.memory_mb),
            "-smp",
            &self.cpus.to_string(),
        ]);
        add(&["-device", "virtio-serial-pci,id=serial", "-device", "vmcoreinfo"]);
        add(&["-action", "reboot=shutdown,shutdown=pause,panic=pause"]);
        if let Some(disk) = &self.disk {
            let drive = format!("file={},format=raw,if=none,readonly=on,id=root", disk.display());
            add(&["-drive", &drive, "-device", "virtio-blk-pci,drive=root"]);
        }
        arguments
    }
}

/// How the machine's memory relates to the file behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Writes go to the file: the original from which a snapshot is taken.
    Written,
    /// Writes stay with this machine: a clone.
    CopiedOnWrite,
}

/// Something that happened while a guest runs.
#[derive(Debug)]
pub(crate) enum Happening {
    /// The agent spoke.
    Reply(Reply, Vec<u8>),
    /// The connection to the agent broke: QEMU is gone.
    Silence,
    /// The bytes of the agent cannot be read.
    OutOfStep(io::Error),
    /// The guest stopped by itself: a panic, or a power-off.
    Stopped,
}

/// Ticks per second in /proc, the same on all of Linux's architectures that run us.
const TICKS: u64 = 100;

/// QEMU's process; it is killed when dropped, as a `Child` is not.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running QEMU; it is killed when dropped.
pub(crate) struct Machine {
    process: Emulator,
    pub(crate) qmp: Qmp,
    agent: UnixStream,
    happenings: Receiver<Happening>,
    folder: TempDir,
}

impl Machine {
    /// Starts QEMU with memory in `memory`, and connects to its sockets.
    pub(crate) fn start(hardware: &Hardware, memory: (&Path, Memory), more: &[String]) -> Result<Self> {
        // Socket paths are limited to 108 bytes, so not below a long TMPDIR.
        let folder = tempfile::Builder::new()
            .prefix("kestrel-vm-")
            .tempdir_in("/tmp")
            .context("make a folder in /tmp")?;
        let mut process = Emulator(Self::spawn(hardware, memory, more, folder.path())?);
        let mut alive = || match process.0.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let messages = fs::read_to_string(folder.path().join("stderr")).unwrap_or_default();
                bail!("{QEMU} ended ({status}): {}", messages.trim())
            }
        };
        let control = qmp::connect(&folder.path().join("qmp"), &mut alive)?;
        let agent = qmp::connect(&folder.path().join("agent"), &mut alive)?;
        let (sender, happenings) = channel();
        listen(agent.try_clone()?, sender.clone());
        let qmp = Qmp::open(control, move |event| {
            if matches!(event, "SHUTDOWN" | "GUEST_PANICKED") {
                let _ = sender.send(Happening::Stopped);
            }
        })?;
        Ok(Self {
            process,
            qmp,
            agent,
            happenings,
            folder,
        })
    }

    fn spawn(hardware: &Hardware, memory: (&Path, Memory), more: &[String], folder: &Path) -> Result<Child> {
        let (file, relation) = memory;
        let share = if relation == Memory::Written { "on" } else { "off" };
        let size = hardware.memory_mb;
        let folder_name = folder.display();
        let stderr = File::create(folder.join("stderr"))?;
        // setpriv: the emulator must not outlive us, whatever ends us.
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", QEMU])
            .args(hardware.arguments())
            .arg("-object")
            .arg(format!(
                "memory-backend-file,id=ram,size={size}M,mem-path={},share={share}",
                file.display()
            ))
            .args(["-qmp", &format!("unix:{folder_name}/qmp,server=on,wait=off")])
            .args([
                "-chardev",
                &format!("file,id=log,path={folder_name}/log"),
                "-serial",
                "chardev:log",
            ])
            .args([
                "-chardev",
                &format!("socket,id=agent,path={folder_name}/agent,server=on,wait=off"),
            ])
            .args([
                "-device",
                &format!(
                    "virtserialport,bus=serial.0,chardev=agent,name={}",
                    protocol::PORT
                ),
            ])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr)
            .spawn()
            .with_context(|| format!("start {QEMU} through setpriv"))
    }

    /// Sends a request to the agent.
    pub(crate) fn send(&mut self, request: &Request, payload: &[u8]) -> Result<()> {
        protocol::send(&mut self.agent, request, payload).context("speak to the guest's agent")
    }

    /// The next thing that happens, or `None` at the deadline.
    pub(crate) fn next(&self, deadline: Instant) -> Option<Happening> {
        match self
            .happenings
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            Ok(happening) => Some(happening),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Happening::Silence),
        }
    }

    /// The emulator's process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process.0)
    }

    /// The processor time that the emulator has used.
    pub(crate) fn busy(&self) -> Duration {
        // The fields of times stand behind the name, which may hold blanks: 12th and 13th from there.
        let text = fs::read_to_string(format!("/proc/{}/stat", self.process.0.id())).unwrap_or_default();
        let after = text.rsplit_once(") ").map_or("", |(_, after)| after);
        let ticks = after
            .split(' ')
            .skip(11)
            .take(2)
            .filter_map(|word| word.parse::<u64>().ok());
        Duration::from_millis(ticks.sum::<u64>() * (1000 / TICKS))
    }

    /// Time that the emulator was ready to run and did not, because others had the processors.
    pub(crate) fn starved(&self) -> Duration {
        // Of each thread: time on a processor, time waiting for one, in nanoseconds. The thread of the guest's CPUs waits longest.
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.0.id()));
        let waited = |thread: fs::DirEntry| -> Option<u64> {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().nth(1)?.parse().ok()
        };
        let all = threads.into_iter().flatten().flatten().filter_map(waited);
        Duration::from_nanos(all.max().unwrap_or_default())
    }

    /// The kernel's console so far.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(self.folder.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How the emulator ended, if it has, and what it said.
    pub(crate) fn last_words(&mut self) -> String {
        let printed = fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
        match self.process.0.try_wait() {
            Ok(Some(status)) => format!("{QEMU} ended ({status}) {}", printed.trim()),
            _ => printed.trim().to_owned(),
        }
    }

    /// Interrupts a guest that does not answer, so that its kernel says where it is, and gives it a moment.
    pub(crate) fn provoke(&mut self) {
        if self.qmp.run("inject-nmi", serde_json::json!({})).is_ok() {
            let deadline = Instant::now() + Duration::from_secs(3);
            while !matches!(
                self.next(deadline),
                None | Some(Happening::Stopped | Happening::Silence)
            ) {}
        }
    }
}

/// Turns the agent's bytes into happenings until the connection breaks.
fn listen(agent: UnixStream, to: Sender<Happening>) {
    thread::spawn(move || {
        let mut from = BufReader::with_capacity(1 << 17, agent);
        let mut next = || -> io::Result<Happening> {
            let reply: Reply = protocol::receive(&mut from)?;
            let mut payload = vec![0; usize::try_from(reply.payload()).map_err(io::Error::other)?];
            io::Read::read_exact(&mut from, &mut payload)?;
            Ok(Happening::Reply(reply, payload))
        };
        loop {
            let happening = next().unwrap_or_else(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Happening::Silence,
                _ => Happening::OutOfStep(error),
            });
            let last = matches!(happening, Happening::Silence | Happening::OutOfStep(_));
            if to.send(happening).is_err() || last {
                break;
            }
        }
    });
}
