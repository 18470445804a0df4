//! Buffers by name: the names that Kestrel gives itself, and looking up those of a command line.

use super::{Buffer, REMOVED};
use kestrel_catalog::{Error, Result};

/// The one buffer of a nameless table.
pub const MAIN: &str = "main";
/// The buffer that handlers' messages to the agent go through.
pub const MESSAGES: &str = "messages";
/// Bytes of it per CPU.
pub const MESSAGES_BYTES: u64 = 64 << 10;

/// Numbers of the buffers that are frozen, thawed or reset under these names; no names: all but that of the agent's messages.
///
/// # Errors
/// When there is none of a name; it names those that can be meant. [`Error::AgentsBuffer`] for that of the messages.
pub fn numbers(buffers: &[Buffer], names: &[String]) -> Result<Vec<u32>> {
    let own: Vec<&str> = buffers.iter().map(Buffer::name).collect();
    steered(&own, names)
}

fn steered(buffers: &[&str], names: &[String]) -> Result<Vec<u32>> {
    let all = (0..).zip(buffers);
    let all = all.filter(|(_, buffer)| **buffer != MESSAGES && !buffer.starts_with(REMOVED));
    let all: Vec<(u32, &str)> = all.map(|(number, buffer)| (number, *buffer)).collect();
    if names.is_empty() {
        return Ok(all.iter().map(|(number, _)| *number).collect());
    }
    let number = |name: &String| match all.iter().find(|(_, buffer)| buffer == name) {
        Some((number, _)) => Ok(*number),
        None if name == MESSAGES && buffers.contains(&MESSAGES) => {
            Err(Error::AgentsBuffer { buffer: name.clone() })
        }
        None => Err(Error::NoSuchBuffer {
            wanted: name.clone(),
            known: all.iter().map(|(_, buffer)| (*buffer).to_owned()).collect(),
        }),
    };
    names.iter().map(number).collect()
}

/// The error that there is no buffer of this name, with the names that there are.
pub fn no_buffer(buffers: &[Buffer], wanted: &str) -> Error {
    Error::NoSuchBuffer {
        wanted: wanted.to_owned(),
        known: buffers
            .iter()
            .filter(|buffer| !buffer.is_removed())
            .map(|buffer| buffer.name().to_owned())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_of_messages_is_the_agents() {
        let all = ["m", MESSAGES, "n"];
        let asked = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            steered(&all, &names).map_err(|error| error.to_string())
        };
        assert_eq!(asked(&[]), Ok(vec![0, 2]));
        assert_eq!(asked(&["n"]), Ok(vec![2]));
        let message = asked(&["m", MESSAGES]).unwrap_err();
        assert!(message.contains("is the agent's"), "{message}");
        assert_eq!(
            asked(&["x"]).unwrap_err(),
            "the session has no buffer x; it has m, n"
        );
    }
}
