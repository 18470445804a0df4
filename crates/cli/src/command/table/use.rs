//! `kestrel table use`: one table instead of another, from the next event of every CPU on.

use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::kernel::Host;

/// Options of `table use`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The table
    table: String,
    /// The session, where there are several
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Runs `kestrel table use`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let store = crate::sessions::store(&Host::default())?;
    store
        .change(options.session.as_deref())?
        .use_table(&options.table)?;
    Ok(Exit::Done)
}
