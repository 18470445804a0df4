//! `kestrel status`: what the sessions that stay are doing.

use super::{Format, table};
use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::kernel::Host;
use kestrel::session::store::Store;
use std::io::Write;

/// Options of `status`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The session, instead of all
    #[arg(value_name = "NAME", conflicts_with = "session")]
    name: Option<String>,
    /// The same
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// How to show it
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Shows.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let store = Store::open(&Host::default())?;
    store.sweep()?;
    let wanted = options.name.as_deref().or(options.session.as_deref());
    let names = match wanted {
        Some(name) => vec![name.to_owned()],
        None => store.names()?,
    };
    let mut out = std::io::stdout().lock();
    if names.is_empty() {
        eprintln!("no session runs");
        return Ok(Exit::Failed);
    }
    for name in names {
        let session = store.session(Some(&name))?;
        writeln!(out, "session {name}")?;
        out.write_all(table::list::text(&session.tables()).as_bytes())?;
    }
    Ok(Exit::Done)
}
