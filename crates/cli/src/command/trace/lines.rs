//! Records as lines of text or JSON while they happen, with names of threads and of code.

use super::names::ThreadNameLookup;
use crate::exit::Failure;
use crate::output::Format;
use clap::ValueEnum;
use kestrel::kernel::Host;
use kestrel::user_symbols::{LiveNames, UserCode};
use kestrel_trace::event::EventClass;
use kestrel_trace::export::{Calls, Export, Json, Style, Text, Tracefs};
use kestrel_trace::print::shown;
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use std::time::Duration;

/// The longest pause where stacks of processes are named: the way to a binary may end with its process.
const FOLLOWING: Duration = Duration::from_millis(10);

/// Format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LineFormat {
    /// Lines for people
    Text,
    /// The layout of tracefs's trace_pipe
    Tracefs,
    /// JSON, one object per line
    Json,
}

impl LineFormat {
    /// Lines for records beside output of this form.
    pub(super) fn of(format: Format) -> Self {
        match format {
            Format::Json => Self::Json,
            Format::Text => Self::Text,
        }
    }

    /// Format of everything that is no record.
    pub(super) fn beside(self) -> Format {
        match self {
            Self::Json => Format::Json,
            Self::Text | Self::Tracefs => Format::Text,
        }
    }
}

/// Prints records.
pub(super) struct Lines {
    printer: Box<dyn Export>,
    names: ThreadNameLookup,
    code: Option<LiveNames>,
}

/// Begins to follow what processes have mapped, where records of these classes have their stacks. Without the right to, stacks show addresses.
pub(super) fn follow(classes: &[EventClass], maps: bool, host: &Host) -> Option<LiveNames> {
    LiveNames::follow(classes, maps, host).unwrap_or_else(|error| {
        remark!("stacks of processes show addresses: {error}");
        None
    })
}

impl Lines {
    pub(super) fn new(
        format: LineFormat,
        symbols: Symbols,
        names: ThreadNameLookup,
        code: Option<LiveNames>,
    ) -> Self {
        let processes = Processes::default();
        let printer: Box<dyn Export> = match format {
            LineFormat::Json => Box::new(Json::new(symbols, processes)),
            LineFormat::Tracefs => Box::new(Tracefs::new(Style::default(), symbols, processes)),
            LineFormat::Text => Box::new(Text::new(Style::default(), symbols, processes)),
        };
        Self { printer, names, code }
    }

    /// Takes what processes have changed in their memory.
    pub(super) fn poll(&mut self) -> Result<(), Failure> {
        if let Some(code) = &mut self.code {
            code.poll()?;
        }
        Ok(())
    }

    /// Appends a record.
    pub(super) fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> kestrel::Result<()> {
        self.names.update(record, &mut self.printer.names_mut().processes);
        self.with_frames(record, |printer, record| printer.record(record, out))
    }

    /// Gives a record of a system call to `calls`, which append those that are over with it.
    pub(super) fn call(
        &mut self,
        record: &Record<'_>,
        calls: &mut Calls,
        out: &mut Vec<u8>,
    ) -> kestrel::Result<()> {
        self.with_frames(record, |printer, record| {
            calls.record_with_stacks(record, true, printer, out)
        })
    }

    /// The printer of records.
    pub(super) fn printer(&self) -> &dyn Export {
        self.printer.as_ref()
    }

    /// Gives the printer a record with the frames and the names of its stacks.
    fn with_frames(
        &mut self,
        record: &Record<'_>,
        taken: impl FnOnce(&mut dyn Export, &Record<'_>),
    ) -> kestrel::Result<()> {
        let Some(code) = &mut self.code else {
            taken(self.printer.as_mut(), record);
            return Ok(());
        };
        let unwound = code.unwind(record)?;
        let record = Record {
            unwound: unwound.as_ref(),
            ..*record
        };
        code.learn(&record, &mut self.printer.names_mut().symbols)?;
        taken(self.printer.as_mut(), &record);
        Ok(())
    }

    /// Code of processes, as far as it is known.
    pub(super) fn code(&mut self) -> Option<&mut UserCode> {
        self.code.as_mut().map(LiveNames::code)
    }

    /// Says once for each binary why its code has no names.
    pub(super) fn report_unnamed(&mut self) {
        for remark in self.code.iter_mut().flat_map(LiveNames::take_remarks) {
            remark!("{}", shown(&remark));
        }
    }

    /// A pause, or a shorter one where processes are followed.
    pub(super) fn longest(&self, pause: Duration) -> Duration {
        match self.code {
            Some(_) => pause.min(FOLLOWING),
            None => pause,
        }
    }
}
