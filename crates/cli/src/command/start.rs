//! `kestrel start`: starts a persistent session from a table file.

use crate::arguments::command_line;
use crate::exit::{Exit, Failure};
use crate::output::warnings::warn_of_plan;
use clap::Args;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::plan::{Options as PlanOptions, Source, plan};
use kestrel::session::start::Origin;
use kestrel::session::store::DEFAULT;
use kestrel::table::shipped;
use kestrel_trace::print::counted;
use std::time::Instant;

/// Options of `start`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The session's name, then a table file or the name of a shipped one; with one word only, the session is called `main`
    #[arg(value_name = "[NAME] FILE", num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// The table that is active first, instead of the file's first one
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// Print how events are attached and how long that took
    #[arg(short, long)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  kestrel start flight                                    a session `main` of a shipped table file
  kestrel start web /etc/kestrel/web.kst --table quiet    another session, with its table `quiet` active first
  kestrel handler list                                    counts and maps of its handlers and objects
  kestrel status                                          what it does
  kestrel stop                                            its end

The session is pinned in the kernel: it needs no process, and runs until `kestrel stop` or the next boot.";

/// Runs `kestrel start`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let (name, file) = match options.words.as_slice() {
        [name, file] => (name.as_str(), file),
        [file] => (DEFAULT, file),
        _ => return Err(Failure::new(Exit::Usage, "a table file is needed")),
    };
    let host = Host::default();
    let store = crate::sessions::store(&host)?;
    // A name in use is reported before the seconds that planning may take.
    store.free(name)?;
    let catalog = Catalog::new(host);
    let tables = shipped::open(file)?;
    let how = PlanOptions {
        persistent: true,
        ..PlanOptions::default()
    };
    let plan = plan(Source::File(&tables), &how, &catalog)?;
    warn_of_plan(&tables, &plan.warnings);
    let origin = Origin {
        command: &command_line(),
        file: Some(file),
    };
    let started = store.start(name, plan, &catalog, options.table.as_deref(), origin)?;
    for event in &started.skipped {
        eprintln!("  left out {}: {}", event.event, event.why);
    }
    if options.verbose {
        for detour in &started.fallbacks {
            eprintln!("  {} by {}: {}", detour.event, detour.used, detour.why);
        }
    }
    let active = started.session.active().map_or("none", |table| &table.name);
    eprintln!(
        "session {name} runs: {}, table {active} of {}, {:.2} s",
        counted(started.programs as u64, "program"),
        started.session.state().tables.len(),
        begun.elapsed().as_secs_f64()
    );
    Ok(Exit::Done)
}
