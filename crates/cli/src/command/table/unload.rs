//! `kestrel table unload`: a table taken out of a running session.

use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::kernel::Host;

/// Options of `table unload`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The table; it must not be active, nor the target of another table's use_table()
    table: String,
    /// The session, where there are several
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Takes it out.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let store = crate::sessions::store(&Host::default())?;
    store.change(options.session.as_deref())?.unload(&options.table)?;
    Ok(Exit::Done)
}
