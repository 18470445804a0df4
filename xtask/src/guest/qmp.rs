//! QEMU's control socket: commands with their answers, and the events that arrive between them. It knows no guest.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Longest time of QEMU's answer to a command.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open control socket.
pub(crate) struct Qmp {
    to: UnixStream,
    answers: Receiver<Value>,
}

impl Qmp {
    /// Takes the socket over; names of events go to `events`.
    pub(crate) fn open(socket: UnixStream, events: impl Fn(&str) + Send + 'static) -> Result<Self> {
        let (answer, answers) = channel();
        let from = BufReader::new(socket.try_clone()?);
        thread::spawn(move || sort_lines(from, &answer, events));
        let mut qmp = Self { to: socket, answers };
        qmp.run("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Runs one command and returns its answer.
    pub(crate) fn run(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.to, "{line}").with_context(|| format!("QMP {command}"))?;
        let mut answer = self
            .answers
            .recv_timeout(PATIENCE)
            .with_context(|| format!("QMP {command}: no answer"))?;
        if let Some(error) = answer.get("error") {
            bail!("QMP {command}: {}", error["desc"].as_str().unwrap_or("refused"));
        }
        Ok(answer["return"].take())
    }

    /// Lets the memory file stand outside of what is migrated, on either side of a snapshot.
    pub(crate) fn leave_memory_in_its_file(&mut self) -> Result<()> {
        let capability = json!([{ "capability": "x-ignore-shared", "state": true }]);
        self.run("migrate-set-capabilities", json!({ "capabilities": capability }))?;
        Ok(())
    }

    /// Waits until a migration, in either direction, is over.
    pub(crate) fn finish_migration(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let state = self.run("query-migrate", json!({}))?;
            match state["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed") => bail!("QEMU could not move the machine's state: {state}"),
                _ => thread::sleep(Duration::from_millis(1)),
            }
        }
        bail!("QEMU did not finish moving the machine's state in {PATIENCE:?}")
    }

    /// Writes the guest's memory to a file: ELF, or kdump-compressed when the name ends in `.kdump`.
    pub(crate) fn dump_memory(&mut self, path: &Path) -> Result<()> {
        let format = if path.extension().is_some_and(|end| end == "kdump") {
            "kdump-zlib"
        } else {
            "elf"
        };
        let protocol = format!("file:{}", path.display());
        self.run(
            "dump-guest-memory",
            json!({ "paging": false, "protocol": protocol, "format": format }),
        )?;
        Ok(())
    }

    /// Writes that many bytes of the guest's memory, from physical address 0 on, to a file.
    pub(crate) fn save_memory(&mut self, path: &Path, bytes: u64) -> Result<()> {
        let filename = path.display().to_string();
        self.run(
            "pmemsave",
            json!({ "val": 0, "size": bytes, "filename": filename }),
        )?;
        Ok(())
    }
}

fn sort_lines(from: BufReader<UnixStream>, answers: &Sender<Value>, events: impl Fn(&str)) {
    for line in from.lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if let Some(event) = message["event"].as_str() {
            events(event);
        } else if message.get("QMP").is_none() && answers.send(message).is_err() {
            break;
        }
    }
}

/// Connects to a socket that a program started just now is about to make; `alive` says whether it still runs.
pub(crate) fn connect(path: &Path, mut alive: impl FnMut() -> Result<()>) -> Result<UnixStream> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match UnixStream::connect(path) {
            Ok(socket) => return Ok(socket),
            Err(error) if Instant::now() > deadline => {
                return Err(error).with_context(|| format!("connect to {}", path.display()));
            }
            Err(_) => {
                alive()?;
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
