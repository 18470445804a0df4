//! `kestrel stop`: the end of a session that stays.

use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::kernel::Host;
use kestrel::session::store::Store;

/// Options of `stop`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The session; not needed where there is only one
    #[arg(value_name = "NAME", conflicts_with = "session")]
    name: Option<String>,
    /// The same
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// All sessions
    #[arg(long, conflicts_with_all = ["name", "session"])]
    all: bool,
}

/// Stops.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let store = Store::open(&Host::default())?;
    store.sweep()?;
    if options.all {
        for name in store.names()? {
            store.stop(Some(&name))?;
            eprintln!("session {name} stopped");
        }
        return Ok(Exit::Done);
    }
    let name = store.stop(options.name.as_deref().or(options.session.as_deref()))?;
    eprintln!("session {name} stopped");
    Ok(Exit::Done)
}
