//! The messages between a guest's agent and its host: shapes and framing, nothing about what either side does with them.
//!
//! Every message is a 4-byte little-endian length followed by that many bytes of JSON. A message that announces a
//! `size` is followed by exactly that many raw bytes. The host speaks first after [`Reply::Ready`]; one request is
//! answered before the next is read.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Name of the virtio-serial port that carries the messages.
pub const PORT: &str = "kestrel.agent";

/// The longest JSON part accepted, in bytes; longer ones mean that the two sides have lost step.
const LONGEST: u32 = 1 << 20;

/// A request of the host to the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Write the `size` raw bytes that follow to `path` with these permission bits. Answer: `Done`.
    Put {
        /// Where, absolute.
        path: String,
        /// Permission bits.
        mode: u32,
        /// Bytes that follow.
        size: u64,
    },
    /// Send a file back. Answer: `File`.
    Get {
        /// Which, absolute.
        path: String,
    },
    /// Run a program to its end. Answer: any number of `Output`, then `Exited`.
    Exec {
        /// Program and arguments, as they are (no shell in between).
        argv: Vec<String>,
        /// Variables added to the agent's environment.
        env: Vec<(String, String)>,
        /// Working directory.
        cwd: String,
    },
    /// A restored snapshot wakes with the clock and the random pool of the moment it was taken: set the one
    /// (nanoseconds since 1970), stir the other. Answer: `Done`.
    Wake {
        /// Wall clock, nanoseconds since 1970.
        now: u64,
        /// Bytes for the random pool.
        seed: Vec<u8>,
    },
    /// Crash the kernel. No answer.
    Panic,
}

/// A reply of the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// The guest is up; sent once per boot.
    Ready,
    /// The request was carried out.
    Done,
    /// The request failed; the agent goes on.
    Failed {
        /// The attempt, and the kernel's error.
        what: String,
    },
    /// A piece of a running program's output: `size` raw bytes follow.
    Output {
        /// Which of its two streams.
        stream: Stream,
        /// Bytes that follow.
        size: u64,
    },
    /// The program ended.
    Exited {
        /// Exit status of the program, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// The file asked for: `size` raw bytes follow.
    File {
        /// Bytes that follow.
        size: u64,
    },
}

impl Reply {
    /// The raw bytes that follow this message.
    #[must_use]
    pub fn payload(&self) -> u64 {
        match self {
            Self::Output { size, .. } | Self::File { size } => *size,
            _ => 0,
        }
    }
}

/// The two streams of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Writes a message and the raw bytes that belong to it in one write.
///
/// # Errors
/// Errors of the writer.
pub fn send<T: Serialize>(to: &mut impl Write, message: &T, payload: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    if length > LONGEST {
        let why = format!("a message of {length} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let mut frame = Vec::with_capacity(4 + json.len() + payload.len());
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&json);
    frame.extend_from_slice(payload);
    to.write_all(&frame)?;
    to.flush()
}

/// Reads a message; the raw bytes that it announces are the caller's to read.
///
/// # Errors
/// Errors of the reader; `InvalidData` for a length or JSON that cannot be right.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes"),
        ));
    }
    let mut json = vec![0; length as usize];
    from.read_exact(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_as_they_are() {
        let argv: Vec<String> = ["sh", "-c", "echo \"a  b\"\n", "", "ü"]
            .map(String::from)
            .to_vec();
        let request = Request::Exec {
            argv: argv.clone(),
            env: vec![("A".into(), String::new())],
            cwd: "/".into(),
        };
        let mut wire = Vec::new();
        send(&mut wire, &request, b"rest").unwrap();
        let mut wire = wire.as_slice();
        match receive(&mut wire).unwrap() {
            Request::Exec { argv: back, env, .. } => assert_eq!((back, env.len()), (argv, 1)),
            other => panic!("{other:?}"),
        }
        assert_eq!(wire, b"rest");
    }

    #[test]
    fn an_absurd_length_is_refused() {
        let error = receive::<Reply>(&mut [0xff; 16].as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
