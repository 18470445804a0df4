//! Programs about single system calls that keep what an argument points to from the entry of a call to its return, as bpftrace's `opensnoop` and its like do: the lines
//! that they print live, and over a recording of all system calls of the same run.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// The mark that all lines to compare have in them.
const MARK: &str = "kestrel-snooped";

/// The program of a process of its own when a line comes: a signal to itself, and another program in its place.
const OWN: &str = "echo ready; read go; kill -23 $$; exec /bin/cat kestrel-snooped one two";

/// Files opened and asked about, programs executed, signals sent, sockets connected, texts written; of two processes. Of what is written a recording holds 32
/// bytes: longer writes (the messages of some `cat`) are left out.
pub const PROGRAM: &str = r#"
begin { printf("begin\n"); }
syscalls:sys_enter_openat /pid == $1 || pid == $2/ { @file[tid] = args.filename; }
syscalls:sys_exit_openat /@file[tid]/ {
    $fd = args.ret >= 0 ? args.ret : -1;
    $error = args.ret >= 0 ? 0 : -args.ret;
    printf("open %d %d %s\n", $fd, $error, str(@file[tid]));
    delete(@file, tid);
}
syscalls:sys_enter_statx, syscalls:sys_enter_newfstatat /pid == $1 || pid == $2/ { @asked[tid] = args.filename; }
syscalls:sys_exit_statx, syscalls:sys_exit_newfstatat /@asked[tid]/ {
    printf("stat %d %s\n", args.ret, str(@asked[tid]));
    delete(@asked, tid);
}
syscalls:sys_enter_kill /pid == $1 || pid == $2/ { @kill[tid] = (args.pid, args.sig); }
syscalls:sys_exit_kill /@kill[tid].1 == 23/ {
    printf("kill kestrel-snooped %d %d %d\n", @kill[tid].0 == pid, @kill[tid].1, args.ret);
    delete(@kill, tid);
}
syscalls:sys_enter_execve /pid == $1 || pid == $2/ { printf("exec %s %s\n", str(args.argv[1]), str(args.argv[2])); join(args.argv); }
syscalls:sys_enter_execve /pid == $1 || pid == $2/ { printf("program %s\n", str(args.filename)); join(args.argv, "|"); }
syscalls:sys_enter_connect /pid == $1 || pid == $2/ {
    $address = (struct sockaddr *)args.uservaddr;
    printf("connect kestrel-snooped %d %d %r\n", $address->sa_family, args.uservaddr->sa_family, buf(args.uservaddr, args.addrlen));
}
syscalls:sys_enter_write /args.count <= 32 && (pid == $1 || pid == $2)/ { printf("write %d %s\n", args.count, str(args.buf, args.count)); }
raw_syscalls:sys_enter /args.id == 257 && (pid == $1 || pid == $2)/ { printf("raw %s\n", str(uptr(args.args[1]))); }
"#;

/// First words of lines, and how many begin with them at least: some system calls are made more often than was asked for.
pub const MIN: &[(&str, usize)] = &[
    ("open ", 40),
    ("stat ", 40),
    ("kill ", 1),
    ("exec kestrel-snooped one", 1),
    ("/bin/cat kestrel-snooped one two", 1),
    ("/bin/cat|kestrel-snooped|one|two", 1),
    ("connect ", 20),
    ("write ", 20),
    ("raw ", 40),
];

/// The lines of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// While it happened.
    pub live: Vec<String>,
    /// Over the recording.
    pub later: Vec<String>,
}

/// Does in this process what the program prints.
fn work(folder: &Path) -> io::Result<()> {
    for number in 0..20 {
        let file = folder.join(format!("{MARK}-{number}"));
        fs::write(&file, "something")?;
        _ = fs::metadata(&file)?;
        _ = File::open(folder.join(format!("no-{MARK}-{number}")));
        _ = fs::metadata(folder.join(format!("no-{MARK}-{number}")));
        _ = UnixStream::connect(format!("/{MARK}"));
        let mut null = fs::OpenOptions::new().write(true).open("/dev/null")?;
        null.write_all(format!("{MARK} {number}").as_bytes())?;
    }
    Ok(())
}

/// Runs the program of this process live and records all of its system calls at the same time, then runs it over the recording. `folder` is empty.
///
/// # Errors
/// When the program is refused or events were lost, in words.
pub fn compare(kestrel: &Path, folder: &Path) -> io::Result<Lines> {
    fs::write(folder.join("snoops.bt"), PROGRAM)?;
    let pid = std::process::id().to_string();
    let trace = folder.join("recorded");
    let mut own = Running::start(Command::new("sh").args(["-c", OWN]).stdin(Stdio::piped()))?;
    let mut ready = String::new();
    own.out.read_line(&mut ready)?;
    let pids = [pid, own.child.id().to_string()];
    let mut record = Command::new(kestrel);
    record
        .args(["record", "-v", "--syscalls", "-p", &pids.join(","), "-o"])
        .arg(&trace);
    let mut record = Running::start(&mut record)?;
    let mut run = Command::new(kestrel);
    run.args(["run", "-q"]).arg(folder.join("snoops.bt")).args(&pids);
    let mut run = Running::start(&mut run)?;
    // It says so when everything is attached.
    let mut printed = String::new();
    while !printed.starts_with("recording into ") {
        printed.clear();
        if record.err.read_line(&mut printed)? == 0 {
            return Err(io::Error::other("no recording begins"));
        }
    }
    let mut line = String::new();
    while !line.contains("begin") {
        line.clear();
        if run.out.read_line(&mut line)? == 0 {
            return Err(io::Error::other(format!(
                "the program does not run: {}",
                run.end()?.1
            )));
        }
    }
    work(folder)?;
    let input = own.child.stdin.take();
    input
        .ok_or_else(|| io::Error::other("no input"))?
        .write_all(b"go\n")?;
    own.end()?;
    run.interrupt()?;
    record.interrupt()?;
    let (live, _) = run.end()?;
    let (_, printed) = record.end()?;
    if !printed.contains("lost 0, missed 0") {
        return Err(io::Error::other(format!("the recording is not whole: {printed}")));
    }
    let mut later = Command::new(kestrel);
    later
        .args(["run", "-q", "--trace"])
        .arg(&trace)
        .arg(folder.join("snoops.bt"))
        .args(&pids);
    let later = later.output()?;
    if !later.status.success() {
        let printed = String::from_utf8_lossy(&later.stderr).into_owned();
        return Err(io::Error::other(printed));
    }
    Ok(Lines {
        live: marked(&live),
        later: marked(&String::from_utf8_lossy(&later.stdout)),
    })
}

/// The lines of what was done here, in an order of their own: those of two processors at once have none.
fn marked(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| line.contains(MARK))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

/// A command that runs until it is interrupted.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Running {
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let err = child.stderr.take().ok_or_else(|| io::Error::other("no output"))?;
        Ok(Self {
            child,
            out: BufReader::new(out),
            err: BufReader::new(err),
        })
    }

    fn interrupt(&self) -> io::Result<()> {
        let pid = self.child.id().to_string();
        Command::new("sh")
            .args(["-c", "kill -INT $0", &pid])
            .status()
            .map(drop)
    }

    /// Output on both ways, to its end.
    fn end(&mut self) -> io::Result<(String, String)> {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out)?;
        self.err.read_to_string(&mut err)?;
        self.child.wait()?;
        Ok((out, err))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
