//! Output of tables of counted system calls.

use super::Format;
use crate::exit::{Exit, Failure};
use clap::ValueEnum;
use kestrel_trace::calls::{self, Group, table};
use std::io::Write;

/// Grouping of a table of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// All threads together, as strace -c
    #[default]
    Call,
    /// Each thread, as perf trace -s
    Thread,
    /// Each process
    Process,
}

impl From<By> for calls::By {
    fn from(by: By) -> Self {
        match by {
            By::Call => Self::Call,
            By::Thread => Self::Thread,
            By::Process => Self::Process,
        }
    }
}

/// Writes the tables, or JSON.
pub(crate) fn write(groups: &[Group], format: Format, out: &mut impl Write) -> Result<(), Failure> {
    match format {
        Format::Text => write!(out, "{}", table(groups))?,
        Format::Json => {
            let text = serde_json::to_string(&serde_json::json!({"syscalls": groups}))
                .map_err(|e| Failure::new(Exit::Internal, format!("cannot write the table as JSON: {e}")))?;
            writeln!(out, "{text}")?;
        }
    }
    Ok(())
}
