//! `kestrel stop`: stops persistent sessions.

use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::kernel::Host;
use kestrel::kernel::process::CLOSER;
use kestrel::session::store::Stopped;
use kestrel_trace::print::{are, counted};

/// Options of `stop`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The session; not needed where there is only one
    #[arg(value_name = "NAME", conflicts_with = "session")]
    name: Option<String>,
    /// Same as the argument NAME
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// All sessions
    #[arg(long, conflicts_with_all = ["name", "session"])]
    all: bool,
}

/// Runs `kestrel stop`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let store = crate::sessions::store(&Host::default())?;
    store.sweep()?;
    if options.all {
        for name in store.names()? {
            report_stopped(&store.stop(Some(&name))?);
        }
        return Ok(Exit::Done);
    }
    report_stopped(&store.stop(options.name.as_deref().or(options.session.as_deref()))?);
    Ok(Exit::Done)
}

fn report_stopped(stopped: &Stopped) {
    let Stopped { name, detaching } = stopped;
    match detaching {
        0 => eprintln!("session {name} stopped"),
        many => eprintln!(
            "session {name} stopped; {} {} masked and being detached in the background (process {}), and wait while others are attached",
            counted(*many as u64, "hook"),
            are(*many as u64),
            CLOSER.to_string_lossy()
        ),
    }
}
