//! `kestrel top`: events, who causes them, handlers' maps, buffers and losses, again and again.

mod model;
mod plain;
mod reading;
mod source;
mod view;

use crate::events::Events;
use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work};
use crate::output::Format;
use crate::targets::{Targets, nobodys_own};
use crate::terminal::{fill, is_possible};
use clap::Args;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::kernel::procfs;
use kestrel::plan;
use model::Model;
use reading::ReadingParts;
use source::{Own, Sessions, Source, USUAL, interval, split_sessions_and_events};
use std::io::Write;
use std::time::Duration;
use view::TopView;

/// Options of `top`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Events to count (`sched:*`), or sessions to look at; without any all sessions, or where none runs scheduler events and system calls
    #[arg(value_name = "EVENT|SESSION")]
    words: Vec<String>,
    #[command(flatten)]
    events: Events,
    #[command(flatten)]
    targets: Targets,
    /// The time between two updates: seconds, or with ms, s, m
    #[arg(short = 'I', long, short_alias = 'd', alias = "delay", value_name = "TIME", value_parser = interval, default_value = "2s")]
    interval: Duration,
    /// Print batches of text instead of filling the terminal, as without a terminal
    #[arg(long, short_alias = 'b', alias = "stdio", alias = "batch")]
    plain: bool,
    /// Print so many batches and end
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Maximum number of rows in each table of a batch; 0 for all
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,
    /// Output format of each batch; JSON is one object per line
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Also count Kestrel's own events, which are left out otherwise
    #[arg(long)]
    include_self: bool,
    /// A command as other tools take one here: refused, with what is meant
    #[arg(last = true, value_name = "COMMAND", hide = true)]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel top                                             all sessions; without one scheduler events and system calls
  kestrel top 'sched:*' 'irq:*'                           these events: rates, totals, who causes them
  kestrel top -e 'syscalls:sys_exit_read { @[comm] = hist(args.ret) }'
  kestrel top -e 'kprobe:vfs_*' -p firefox -I 500ms       of a process, twice a second
  kestrel top flight                                      a session: events, maps, buffers, losses
  kestrel top -n 3 --format json 'sched:*'                three batches for a program
  kestrel top 'sched:*' | less                            text where there is no terminal

Keys: Enter goes into a row and Esc back, / filters, < > choose the column to sort by, Space pauses, q ends, ? shows all. What this
command does itself is left out.";

/// Runs `kestrel top`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if let Some(command) = options.command.first() {
        let message = format!("`{command}` cannot have the terminal that the view fills");
        return Err(Failure::new(Exit::Usage, message)
            .hint("run it in another one, and `kestrel top -p NAME` here; `kestrel stat -- COMMAND` counts events of one"));
    }
    let (sessions, mut texts) = split_sessions_and_events(&options.words)?;
    let host = Host::default();
    let catalog = Catalog::new(host.clone());
    texts.extend(options.events.texts(&catalog)?);
    let mut source = source(options, sessions, texts, &catalog)?;
    let is_plain = options.plain || options.iterations.is_some() || options.format == Format::Json;
    let shown = match !is_plain && is_possible() {
        true => fill(&mut TopView::new(source.as_mut(), options.interval)),
        false => print(options, source.as_mut()),
    };
    source.end();
    shown.map(|()| Exit::Done)
}

/// Source of the readings.
fn source<'c>(
    options: &Options,
    sessions: Vec<String>,
    texts: Vec<String>,
    catalog: &'c Catalog,
) -> Result<Box<dyn Source + 'c>, Failure> {
    let host = catalog.host();
    let target = options.targets.find(host)?;
    let cpus = options.targets.cpus(host)?;
    let is_narrow = target.is_some() || !cpus.is_empty();
    if !sessions.is_empty() && (!texts.is_empty() || is_narrow) {
        let message = format!(
            "the session {} says itself which events it has, and whose",
            sessions[0]
        );
        return Err(
            Failure::new(Exit::Usage, message).hint("leave out -e, -p, -t and -C, or the session's name")
        );
    }
    // Sessions that run already are looked at before anything is attached.
    if texts.is_empty() && !is_narrow {
        let store = crate::sessions::store(host)?;
        let names = match sessions.is_empty() {
            true => store.names().unwrap_or_default(),
            false => sessions,
        };
        if !names.is_empty() {
            return Ok(Box::new(Sessions::open(&store, &names, host)?));
        }
    }
    if target.is_none() && options.targets.only_own {
        return Err(nobodys_own("-p or -t"));
    }
    let (texts, title) = match texts.is_empty() {
        true => (
            USUAL.map(str::to_owned).to_vec(),
            "scheduler events and system calls".to_owned(),
        ),
        false => {
            let title = texts.join(", ");
            (texts, title)
        }
    };
    let options_of_plan = plan::Options {
        target: target.unwrap_or_default(),
        only_own: options.targets.only_own,
        cpus,
        ..plan::Options::default()
    };
    let own = Own::start(&texts, title, options.include_self, options_of_plan, catalog)?;
    Ok(Box::new(own))
}

/// Prints batches until so many are printed, or a signal asks for the end.
fn print(options: &Options, source: &mut dyn Source) -> Result<(), Failure> {
    let mut foreground = Foreground::new(None)?;
    let mut batches = Batches {
        options,
        source,
        model: Model::default(),
        left: options.iterations,
        begun: false,
    };
    foreground.run(&mut batches)
}

/// Batches that are printed one after the other.
struct Batches<'a> {
    options: &'a Options,
    source: &'a mut dyn Source,
    model: Model,
    left: Option<u64>,
    begun: bool,
}

impl Work for Batches<'_> {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        if last {
            return Ok(Duration::ZERO);
        }
        let reading = self.source.read(ReadingParts::default())?;
        self.model.take(reading);
        // The first batch has rates, too.
        if std::mem::replace(&mut self.begun, true) {
            let title = self.source.title();
            let now = procfs::realtime();
            let text = match self.options.format {
                Format::Json => plain::line(&self.model, &title, now)? + "\n",
                Format::Text => plain::batch(&mut self.model, &title, &time_of_day(now), self.options.rows),
            };
            let mut out = crate::screen::out();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            self.left = self.left.map(|left| left.saturating_sub(1));
        }
        Ok(match self.has_ended() {
            true => Duration::ZERO,
            false => self.options.interval,
        })
    }

    fn has_ended(&self) -> bool {
        self.left == Some(0) || self.source.has_ended()
    }
}

/// A time in ns since 1970 as the time of its day, UTC.
fn time_of_day(now: u64) -> String {
    let seconds = now / 1_000_000_000 % 86_400;
    format!(
        "{:02}:{:02}:{:02} UTC",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}
