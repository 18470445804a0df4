//! The work of process 1 before and beside the agent: file systems, modules, the peers' root, reaping; no conversation
//! with the host.

use std::{
    ffi::CString, fs, io, os::unix::fs::symlink, path::Path, process::Command, thread::sleep, time::Duration,
};

use rustix::{
    mount::{MountFlags, mount, mount_move},
    process::{WaitOptions, chdir, chroot, wait},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
    system::{RebootCommand, finit_module, reboot},
};

/// Source, target, type: in the order in which they are mounted.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", "proc"),
    ("sysfs", "/sys", "sysfs"),
    ("devtmpfs", "/dev", "devtmpfs"),
    ("devpts", "/dev/pts", "devpts"),
    ("tmpfs", "/dev/shm", "tmpfs"),
    ("tracefs", "/sys/kernel/tracing", "tracefs"),
    ("debugfs", "/sys/kernel/debug", "debugfs"),
    ("bpf", "/sys/fs/bpf", "bpf"),
    ("cgroup2", "/sys/fs/cgroup", "cgroup2"),
    ("tmpfs", "/tmp", "tmpfs"),
    ("tmpfs", "/run", "tmpfs"),
];

/// Names in /dev that point into /proc.
const LINKS: &[(&str, &str)] = &[
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// The file that lists the modules to load, one path per line, dependencies first.
const MODULES: &str = "/modules/order";

/// Makes the guest a place where programs run. Failures are printed on the console and do not stop the boot.
pub(crate) fn prepare() {
    for (source, target, kind) in MOUNTS {
        tell(
            &format!("mount {target}"),
            mount_on(source, target, kind, MountFlags::empty(), ""),
        );
    }
    tell("console", use_console());
    for (from, to) in LINKS {
        let _ = symlink(from, to);
    }
    let _ = rustix::process::setsid();
    for module in fs::read_to_string(MODULES).unwrap_or_default().lines() {
        tell(&format!("module {module}"), load_module(module));
    }
    tell(
        "loopback",
        Command::new("/bin/busybox")
            .args(["ip", "link", "set", "lo", "up"])
            .status(),
    );
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    for word in command_line.split_whitespace() {
        if let Some(device) = word.strip_prefix("kestrel.root=") {
            tell(&format!("root {device}"), enter_root(device));
        }
    }
    // The number of this start is made when it is asked for first; so all clones have one, and what is kept for it serves all of them.
    tell("boot id", fs::read("/proc/sys/kernel/random/boot_id"));
}

/// Starts the agent and reaps children until it ends; then the guest is of no more use and powers off.
pub(crate) fn run_agent() {
    let agent = Command::new("/proc/self/exe").arg("agent").spawn();
    match agent {
        Ok(agent) => loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, _))) if pid.as_raw_nonzero().get().cast_unsigned() == agent.id() => break,
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    println!("guest-init: wait: {error}");
                    break;
                }
            }
        },
        Err(error) => println!("guest-init: agent: {error}"),
    }
    println!("guest-init: the agent is gone, powering off");
    let _ = reboot(RebootCommand::PowerOff);
}

fn tell<T>(what: &str, result: io::Result<T>) {
    if let Err(error) = result {
        println!("guest-init: {what}: {error}");
    }
}

fn mount_on(source: &str, target: &str, kind: &str, flags: MountFlags, options: &str) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let options = CString::new(options)?;
    mount(source, target, kind, flags, Some(options.as_c_str())).map_err(Into::into)
}

/// The kernel log's terminal becomes stdin, stdout and stderr, whatever the kernel gave us.
fn use_console() -> io::Result<()> {
    let console = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/console")?;
    dup2_stdin(&console)?;
    dup2_stdout(&console)?;
    dup2_stderr(&console)?;
    Ok(())
}

fn load_module(path: &str) -> io::Result<()> {
    finit_module(fs::File::open(path)?, c"", 0).map_err(Into::into)
}

/// Makes a read-only image the root, with a writable layer in memory over it, and carries the mounts along.
fn enter_root(device: &str) -> io::Result<()> {
    for _ in 0..1000 {
        if Path::new(device).exists() {
            break;
        }
        sleep(Duration::from_millis(5));
    }
    mount_on(device, "/image", "ext4", MountFlags::RDONLY, "")?;
    mount_on("tmpfs", "/layer", "tmpfs", MountFlags::empty(), "")?;
    fs::create_dir_all("/layer/upper")?;
    fs::create_dir_all("/layer/work")?;
    let options = "lowerdir=/image,upperdir=/layer/upper,workdir=/layer/work";
    mount_on("overlay", "/root.new", "overlay", MountFlags::empty(), options)?;
    for top in ["/proc", "/sys", "/dev", "/tmp", "/run"] {
        let target = format!("/root.new{top}");
        fs::create_dir_all(&target)?;
        mount_move(top, target.as_str())?;
    }
    chdir("/root.new")?;
    mount_move(".", "/")?;
    chroot(".")?;
    chdir("/")?;
    Ok(())
}
