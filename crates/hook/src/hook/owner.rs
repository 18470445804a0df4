//! The process that a buffer is for: while it runs, records that name no buffer go there, whatever is the CPU's current one.
//!
//! Each record is asked anew, by the process that runs, as the predicate `/pid == N/` does. So the buffer holds this process's records from its first event to its last one, on
//! every CPU, in whatever state the process was when the session began. A switch of the CPU's buffer (`use_buffer`) cannot be as exact: between the event that
//! switches it, `sched:sched_switch`, and the moment in which the kernel takes up the next process, there are more events, and they are still the last one's.
//! Processes that it starts are others.

use super::{control, process_filter};
use kestrel_compiler::check::globals::Parameter;
use kestrel_compiler::check::tree::Type;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Operand};
use kestrel_compiler::sink::SinkError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Process to which a buffer belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Owner {
    /// The one of this number.
    Process(u32),
    /// The one whose number a parameter holds at the time.
    Parameter(String),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => write!(f, "{pid}"),
            Self::Parameter(name) => f.write_str(name),
        }
    }
}

impl Owner {
    /// Parses a text: a process's number, or a parameter's name.
    ///
    /// # Errors
    /// With what it may be.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(pid) => Self::process(pid),
            Err(_) => Ok(Self::Parameter(text.to_owned())),
        }
    }

    /// The process of this number.
    ///
    /// # Errors
    /// Where none can have it.
    pub fn process(pid: u64) -> Result<Self, String> {
        match u32::try_from(pid) {
            Ok(pid) if (1..process_filter::NUMBERS).contains(&pid) => Ok(Self::Process(pid)),
            _ => Err(format!(
                "a process has a number from 1 to {}",
                process_filter::NUMBERS - 1
            )),
        }
    }

    /// Whether these parameters have the one that it names.
    ///
    /// # Errors
    /// With what is there.
    pub fn check<'p>(&self, parameters: impl IntoIterator<Item = &'p Parameter>) -> Result<(), String> {
        let Self::Parameter(wanted) = self else {
            return Ok(());
        };
        let mut numbers = Vec::new();
        for parameter in parameters {
            match parameter.ty {
                Type::Integer { .. } => numbers.push(parameter.name.as_str()),
                _ if parameter.name == *wanted => {
                    return Err(format!("the parameter \"{wanted}\" holds no number"));
                }
                _ => {}
            }
        }
        if numbers.contains(&wanted.as_str()) {
            return Ok(());
        }
        Err(match numbers.as_slice() {
            [] => format!("\"{wanted}\" is neither a process's number nor a parameter"),
            known => format!(
                "\"{wanted}\" is neither a process's number nor a parameter: there are {}",
                known.join(", ")
            ),
        })
    }
}

/// Goes to a buffer's block where the process runs that the buffer is for; the code goes on where none does.
pub(crate) fn emit_route(
    b: &mut Builder,
    owners: &[(&Owner, BlockId)],
    parameters: &[String],
) -> Result<(), SinkError> {
    if owners.is_empty() {
        return Ok(());
    }
    let running = process_filter::tgid(b);
    for (owner, buffer) in owners {
        let wanted: Operand = match owner {
            Owner::Process(pid) => Operand::from(i64::from(*pid)),
            Owner::Parameter(name) => {
                let place = parameters.iter().position(|known| known == name);
                let place = place.ok_or_else(|| SinkError(format!("there is no parameter {name}")))?;
                control::emit_parameter(b, place as u32).into()
            }
        };
        b.branch_if(Condition::Equal, running, wanted, *buffer);
    }
    Ok(())
}
