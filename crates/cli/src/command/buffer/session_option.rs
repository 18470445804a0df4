//! The option that names a session.

use clap::Args;

/// The `--session` option.
#[derive(Args, Debug)]
pub(super) struct SessionOption {
    /// The session; not needed where there is only one
    #[arg(long, value_name = "NAME")]
    pub(super) session: Option<String>,
}
