//! `kestrel table list`: the tables of a session, and which one is active.

use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::columns::Column::Left;
use crate::output::columns::Columns;
use crate::output::json;
use crate::output::tables::text;
use clap::Args;
use kestrel::kernel::Host;
use kestrel::table::TableFile;
use kestrel::table::shipped::SHIPPED;
use std::io::Write;

/// Options of `table list`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The session, where there are several
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// The table files that come with Kestrel, instead of a session's tables
    #[arg(long, conflicts_with = "session")]
    shipped: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs `kestrel table list`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if options.shipped {
        return shipped(options.format);
    }
    let store = crate::sessions::store(&Host::default())?;
    let session = store.session(options.session.as_deref())?;
    let tables = session.tables();
    let mut out = crate::screen::out();
    match options.format {
        Format::Json => {
            for table in &tables {
                writeln!(out, "{}", json::line(table)?)?;
            }
        }
        Format::Text => out.write_all(text(&tables).as_bytes())?,
    }
    Ok(Exit::Done)
}

/// Lists the table files that come with Kestrel.
fn shipped(format: Format) -> Result<Exit, Failure> {
    let mut out = Vec::new();
    let mut columns = Columns::new([Left, Left]);
    for shipped in SHIPPED {
        let file = TableFile::parse(shipped.text, shipped.name)?;
        let names: Vec<&str> = file.table_names().collect();
        match format {
            Format::Text => {
                let about = format!("{} (tables: {})", shipped.about, names.join(", "));
                columns.row("", [shipped.name.to_owned(), about]);
            }
            Format::Json => {
                let object =
                    serde_json::json!({ "name": shipped.name, "about": shipped.about, "tables": names });
                writeln!(out, "{object}")?;
            }
        }
    }
    out.extend_from_slice(columns.text().as_bytes());
    crate::screen::out().write_all(&out)?;
    Ok(Exit::Done)
}
