//! Output shared by commands: formats, columns, and one file per kind of data.

pub(crate) mod calls;
pub(crate) mod checks;
pub(crate) mod columns;
pub(crate) mod groups;
pub(crate) mod json;
pub(crate) mod latencies;
pub(crate) mod losses;
pub(crate) mod object_maps;
pub(crate) mod tables;
pub(crate) mod warnings;

use clap::ValueEnum;

/// How data is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines or tables for people
    #[default]
    Text,
    /// JSON, one object per line where there are many
    Json,
}
