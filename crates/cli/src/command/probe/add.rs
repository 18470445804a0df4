//! `kestrel probe add`: adds named probes, which stay attached when the command returns.

use super::{remarks, rows};
use crate::arguments::command_line;
use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::language::Diagnostic;
use kestrel::session::named::{SESSION, check};
use kestrel_trace::files::Objection;
use kestrel_trace::print::counted;
use std::path::{Path, PathBuf};

/// Options of `probe add`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Pairs of a name and an event; or lines of the kernel's `kprobe_events`, each one word
    #[arg(value_name = "NAME EVENT")]
    words: Vec<String>,
    /// Also add the probes of a file: one name and event per line; indented lines continue the line above
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The session of the probes; it is created if there is none of this name
    #[arg(long, value_name = "NAME", default_value = SESSION)]
    session: String,
    /// Add them disabled
    #[arg(long)]
    disabled: bool,
    /// Replace probes of the same names
    #[arg(long)]
    replace: bool,
    /// Check them and print them in the event language; nothing is loaded
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  kestrel probe add reads 'kprobe:vfs_read { record(args.file, args.count) }'
  kestrel probe add r1 'kretprobe:vfs_read /retval > 0/ { @bytes = sum(retval) }' w1 kprobe:vfs_write
  kestrel probe add switches 'sched:sched_switch { count() }'
  kestrel probe add 'p:fs/open do_sys_openat2 dfd=$arg1 name=+0($arg2):ustring' 'r:fs/opened do_sys_openat2 $retval'
  kestrel probe add after 'kprobe:vfs_read+0x12:post { record(regs) }' call jprobe:vfs_write
  kestrel probe add calls 'kprobe:vfs_read handler \"calls.o\"'
  kestrel probe add --file my.probes

A command adds all of its probes or none. Records go to the buffer of the session:
  kestrel buffer dump --session probes -o DIR && kestrel print DIR
`kestrel buffer resize --session probes main 64M` gives them another size while they work.
What handlers count is in `kestrel handler list --session probes`; `kestrel stop probes` ends all of it.";

/// The longest file of probes that is read.
const LONGEST: u64 = 16 << 20;

/// Reads a file of probes (or /dev/stdin) up to [`LONGEST`] bytes, and notes whether other users could have written it.
fn read(file: &Path) -> std::io::Result<(String, Option<Objection>)> {
    let given = kestrel::bounded_read::give(file, LONGEST)?;
    let text = String::from_utf8(given.bytes).map_err(|_| std::io::Error::other("it is not UTF-8 text"))?;
    Ok((text, given.objection))
}

/// Prints warnings with their source.
fn show(warnings: &[(String, Diagnostic)]) {
    for (text, warning) in warnings {
        eprintln!(
            "{}",
            crate::style::diagnostics(std::slice::from_ref(warning), text)
        );
    }
}

/// Runs `kestrel probe add`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let catalog = Catalog::new(Host::default());
    let mut requests = rows::from_words(&options.words, &catalog)?;
    if let Some(file) = &options.file {
        let name = file.display().to_string();
        let (text, objection) =
            read(file).map_err(|error| Failure::new(Exit::Failed, format!("cannot read {name}: {error}")))?;
        let mut rows = rows::from_file(&text, &name, &catalog)?;
        rows.iter_mut()
            .for_each(|row| row.objection.clone_from(&objection));
        requests.extend(rows);
    }
    if requests.is_empty() {
        return Err(Failure::new(Exit::Usage, "there is no probe to add")
            .hint("kestrel probe add NAME 'kprobe:vfs_read { record() }'"));
    }
    for request in &mut requests {
        request.disabled = options.disabled;
    }
    // Each is checked as the session would, without needing one.
    if options.dry_run {
        for request in &requests {
            let warnings = check(request, &catalog)?;
            show(&warnings);
            println!("{} {}", request.name, request.source);
        }
        return Ok(Exit::Done);
    }
    let store = crate::sessions::store(catalog.host())?;
    let added = store.add_probes(
        &options.session,
        &requests,
        options.replace,
        &catalog,
        &command_line(),
    )?;
    show(&added.warnings);
    for event in &added.left_out {
        eprintln!("  left out {}: {}", event.event, event.why);
    }
    let many = match requests.as_slice() {
        [one] => format!("probe {}", one.name),
        several => counted(several.len() as u64, "probe"),
    };
    eprintln!("{many} added to the session {}", options.session);
    let session = store.session(Some(&options.session))?;
    remarks::report_inactive(&session, catalog.host());
    Ok(Exit::Done)
}
