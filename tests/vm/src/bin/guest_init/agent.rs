//! The agent: carries out the host's requests over the virtio-serial port; prepares nothing itself.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read},
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, Timespec, clock_settime};
use vm_tests::protocol::{self, Reply, Request, Stream};

/// Time that output is awaited after a program ended while something it left running still holds its streams.
const LINGER: Duration = Duration::from_millis(300);

/// The port as a reader: a virtio-serial port answers 0 bytes while the other end is closed.
struct Port(File);

impl Read for Port {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Ok(0) => thread::sleep(Duration::from_millis(1)),
                result => return result,
            }
        }
    }
}

/// The port as a writer, shared by the threads that forward output.
#[derive(Clone)]
struct Line(Arc<Mutex<File>>);

impl Line {
    fn send(&self, reply: &Reply, payload: &[u8]) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        protocol::send(&mut *file, reply, payload)
    }
}

/// Answers requests until the port fails.
pub(crate) fn serve() -> io::Result<()> {
    let port = fs::OpenOptions::new().read(true).write(true).open(find_port()?)?;
    let line = Line(Arc::new(Mutex::new(port.try_clone()?)));
    let mut requests = BufReader::with_capacity(1 << 17, Port(port));
    line.send(&Reply::Ready, &[])?;
    loop {
        let request = protocol::receive(&mut requests)?;
        if let Err(error) = answer(&request, &mut requests, &line) {
            line.send(
                &Reply::Failed {
                    what: format!("{}: {error}", subject(&request)),
                },
                &[],
            )?;
        }
    }
}

fn subject(request: &Request) -> String {
    match request {
        Request::Put { path, .. } => format!("write {path}"),
        Request::Get { path } => format!("read {path}"),
        Request::Exec { argv, cwd, .. } => format!("run {argv:?} in {cwd}"),
        Request::Wake { .. } => "set the clock".into(),
        Request::Panic => "panic".into(),
    }
}

fn answer(request: &Request, rest: &mut impl Read, line: &Line) -> io::Result<()> {
    match request {
        Request::Put { path, mode, size } => {
            put(path, *mode, &mut rest.take(*size))?;
            line.send(&Reply::Done, &[])
        }
        Request::Get { path } => {
            let bytes = fs::read(path)?;
            line.send(
                &Reply::File {
                    size: bytes.len() as u64,
                },
                &bytes,
            )
        }
        Request::Exec { argv, env, cwd } => exec(argv, env, cwd, line),
        Request::Wake { now, seed } => {
            let now = Timespec {
                tv_sec: i64::try_from(now / 1_000_000_000).map_err(io::Error::other)?,
                tv_nsec: i64::try_from(now % 1_000_000_000).map_err(io::Error::other)?,
            };
            clock_settime(ClockId::Realtime, now)?;
            fs::write("/dev/urandom", seed)?;
            line.send(&Reply::Done, &[])
        }
        Request::Panic => fs::write("/proc/sysrq-trigger", "c"),
    }
}

/// Writes a file; when that fails the announced bytes are read all the same, so that the next request is found.
fn put(path: &str, mode: u32, bytes: &mut impl Read) -> io::Result<()> {
    let written = (|| {
        if let Some(folder) = Path::new(path).parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::create(path)?;
        io::copy(bytes, &mut file)?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    })();
    io::copy(bytes, &mut io::sink())?;
    written
}

fn exec(argv: &[String], env: &[(String, String)], cwd: &str, line: &Line) -> io::Result<()> {
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| io::Error::other("no program named"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/",
        )
        .env("HOME", "/root")
        .env("TERM", "dumb")
        .env("LANG", "C.UTF-8")
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pumps = [
        child.stdout.take().map(|from| forward(Stream::Out, from, line)),
        child.stderr.take().map(|from| forward(Stream::Err, from, line)),
    ];
    let status = child.wait()?;
    let deadline = Instant::now() + LINGER;
    while pumps.iter().flatten().any(|pump| !pump.is_finished()) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    line.send(
        &Reply::Exited {
            code: status.code(),
            signal: status.signal(),
        },
        &[],
    )
}

fn forward(stream: Stream, mut from: impl Read + Send + 'static, line: &Line) -> thread::JoinHandle<()> {
    let line = line.clone();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(size) = from.read(&mut buffer) {
            if size == 0
                || line
                    .send(
                        &Reply::Output {
                            stream,
                            size: size as u64,
                        },
                        &buffer[..size],
                    )
                    .is_err()
            {
                break;
            }
        }
    })
}

/// Waits for the port to appear (its driver may be a module that was loaded just now).
fn find_port() -> io::Result<String> {
    for _ in 0..2000 {
        for entry in fs::read_dir("/sys/class/virtio-ports")
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == protocol::PORT {
                return Ok(format!("/dev/{}", entry.file_name().to_string_lossy()));
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(io::Error::other("no virtio-serial port"))
}
