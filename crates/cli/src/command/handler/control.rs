//! `kestrel handler control`: changes a parameter of a handler while it runs, or lets it begin anew.

use crate::exit::{Exit, Failure};
use clap::{Args, Subcommand};
use kestrel::kernel::Host;

/// Options of `handler control`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The handler, as `handler list` names it; its event, a pattern or the beginning of its name will do where that is clear
    #[arg(value_name = "HANDLER")]
    handler: String,
    /// The session, where there are several
    #[arg(long, value_name = "NAME", global = true)]
    session: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

/// A subcommand that controls a handler.
#[derive(Subcommand, Debug)]
enum Verb {
    /// Clear its maps and counts
    Reset,
    /// Change a parameter
    Set {
        /// The parameter and its value, written as in a table file: threshold=20ms
        #[arg(value_name = "NAME=VALUE")]
        setting: String,
    },
}

const EXAMPLES: &str = "\
Examples:
  kestrel handler control main/syscalls:sys_exit_read set threshold=20ms
  kestrel handler control '*sys_exit_read' reset";

/// Runs `kestrel handler control`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let store = crate::sessions::store(&Host::default())?;
    match &options.verb {
        Verb::Reset => {
            let done = store
                .change(options.session.as_deref())?
                .reset_handler(&options.handler)?;
            eprintln!("{} counts from 0", done.handler);
            for (map, others) in &done.maps {
                eprintln!("  {map} is empty{}", others_note("for", others));
            }
        }
        Verb::Set { setting } => {
            let Some((name, value)) = setting.split_once('=') else {
                let message = format!("`{setting}` does not say which parameter gets which value");
                return Err(Failure::new(Exit::Usage, message).hint("write NAME=VALUE: threshold=20ms"));
            };
            let change = store.change(options.session.as_deref())?;
            let done = change.set_parameter(&options.handler, name.trim(), value.trim())?;
            let others = others_note("in", &done.others);
            eprintln!(
                "{}: {} {} → {}{others}",
                done.handler, done.parameter, done.old, done.new
            );
        }
    }
    Ok(Exit::Done)
}

/// Names the other handlers that share a map or parameter.
fn others_note(how: &str, others: &[String]) -> String {
    match others {
        [] => String::new(),
        [one] => format!(", also {how} {one}"),
        [first, rest @ ..] => format!(", also {how} {first} and {} more", rest.len()),
    }
}
