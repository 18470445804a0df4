//! Programs over recordings, for the commands that run them (`run --trace`, `report -e`): the loop over the records, and the losses that are printed after it.

use crate::exit::{Exit, Failure};
use crate::output::losses::report_read;
use crate::progress;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::plan::ProgramText;
use kestrel::replay::{Missing, Options, RecordedNames, Replaying};
use kestrel::script::Perform;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::record::Record;
use std::io::{IsTerminal, Write};
use std::sync::Arc;

/// Style of a program's output.
pub(crate) struct OutputStyle {
    /// Whether JSON lines are printed.
    pub(crate) json: bool,
    /// Whether only the program's own output is.
    pub(crate) quiet: bool,
    /// Whether it may run commands.
    pub(crate) allows_unsafe: bool,
    /// Whether what a terminal would obey in texts of others is spelled out.
    pub(crate) escaped: bool,
    /// Whether what `warnf()` says is left out.
    pub(crate) no_warnings: bool,
}

/// A prepared program: its warnings are to be shown before it runs.
pub(crate) struct Prepared {
    pub(crate) replaying: Replaying,
    perform: Perform,
    prints_maps: bool,
    quiet: bool,
    /// Whether the program has printed anything.
    printed: bool,
}

impl Prepared {
    /// Prepares a program for a recording of which nothing was read.
    pub(crate) fn new(program: &ProgramText, look: &OutputStyle, trace: &mut Trace) -> kestrel::Result<Self> {
        let options = Options {
            allows_unsafe: look.allows_unsafe,
        };
        let host = Host::default();
        let catalog = Catalog::new(host.clone());
        let replaying = Replaying::new(program, options, trace, &catalog)?;
        let names = RecordedNames::new(
            host.clone(),
            trace.symbols.kept_names().clone(),
            &trace.reader.info().clock,
        );
        let mut perform = Perform::of_recording(trace.symbols.clone(), Arc::new(names), host, look.json);
        perform.configure(&program.config);
        perform.escaped = look.escaped;
        perform.no_warnings = look.no_warnings;
        Ok(Self {
            replaying,
            perform,
            prints_maps: program.config.print_maps_on_exit,
            quiet: look.quiet,
            printed: false,
        })
    }

    /// Runs it over the records that are wanted; gives the code that the command ends with.
    pub(crate) fn run(
        mut self,
        trace: &mut Trace,
        wanted: &mut dyn FnMut(&Record<'_>) -> bool,
        out: &mut dyn Write,
    ) -> Result<Exit, Failure> {
        // A bar between lines would only tear them.
        let total = trace.packets;
        if !std::io::stdout().is_terminal()
            && let Some(mut bar) = progress::bar("running")
        {
            trace.reader.watch(Box::new(move |done| bar(done, total)));
        }
        if !self.quiet {
            let form = self.perform.form();
            let line = form.attached(self.replaying.handlers() as u64);
            match form.json {
                true => out.write_all(line.as_bytes())?,
                false => crate::screen::err().write_all(line.as_bytes())?,
            }
        }
        self.replaying.begin(&mut self.perform)?;
        self.write(out)?;
        let mut is_whole = true;
        while let Some((record, gap_ns)) = trace.reader.next_with_gap()? {
            if self.replaying.exit().is_some() {
                is_whole = false;
                break;
            }
            let wanted = wanted(&record);
            self.replaying.set_gap(gap_ns);
            self.replaying.record(&record, wanted, &mut self.perform)?;
            if !self.perform.out.is_empty() || !self.perform.err.is_empty() {
                self.write(out)?;
            }
        }
        self.replaying.end(&mut self.perform)?;
        if self.prints_maps {
            let printed = self.printed || !self.perform.out.is_empty();
            let before = self.perform.out.len();
            self.replaying.maps(&mut self.perform)?;
            if self.quiet && !printed {
                // Nothing was printed before the maps: they need no empty line before them.
                let maps = self.perform.out.split_off(before);
                let blank = maps.iter().take_while(|byte| **byte == b'\n').count();
                self.perform.out.extend(maps.get(blank..).unwrap_or_default());
            }
        }
        self.write(out)?;
        let lost = self.replaying.lost();
        if lost > 0 {
            let line = self.perform.form().lost(lost);
            out.write_all(line.as_bytes())?;
        }
        out.flush()?;
        if let Some(line) = unread(&self.replaying.missing()) {
            crate::screen::err().write_all(line.as_bytes())?;
        }
        if let Some(line) = unpaired(self.replaying.unpaired()) {
            crate::screen::err().write_all(line.as_bytes())?;
        }
        if let Some(line) = skipped(self.replaying.skipped_ticks()) {
            crate::screen::err().write_all(line.as_bytes())?;
        }
        match self.replaying.exit() {
            Some(code) if code != 0 => Ok(Exit::of_script(code)),
            // Records behind the end were not looked at.
            _ if !is_whole => Ok(Exit::Done),
            _ => Ok(report_read(&trace.reader, trace.summary.as_ref())),
        }
    }

    fn write(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        self.printed |= !self.perform.out.is_empty();
        Ok(self.perform.write(out, &mut crate::screen::err())?)
    }
}

/// The line about returns whose memory is at unknown addresses, since records may be missing between them and the entries before them.
fn unpaired(returns: u64) -> Option<String> {
    let (were, them) = if returns == 1 {
        ("return was", "it")
    } else {
        ("returns were", "them")
    };
    (returns > 0).then(|| {
        let what = "not paired with the entry before, because events may be missing between the two: the memory recorded with";
        format!("{returns} {were} {what} {them} is not read\n")
    })
}

/// The line about intervals that were not run.
fn skipped(ticks: u64) -> Option<String> {
    let counted = kestrel_trace::print::counted(ticks, "tick");
    (ticks > 0).then(|| format!("{counted} of intervals left out in long times without records: a longer interval, or --from and --to\n"))
}

/// The line about memory that programs wanted to read and records do not hold, with what holds it.
fn unread(missing: &[(&str, Missing)]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let counts = |of: fn(&Missing) -> u64| {
        let counted = missing.iter().filter(|(_, missing)| of(missing) > 0);
        let at: Vec<String> = counted
            .map(|(event, missing)| format!("{} at {event}", of(missing)))
            .collect();
        (
            missing.iter().map(|(_, missing)| of(missing)).sum::<u64>(),
            at.join(", "),
        )
    };
    let found = |(count, at): (u64, String), what: &str| {
        let reads = if count == 1 { "read" } else { "reads" };
        (count > 0).then(|| format!("{count} {reads} found {what} ({at})"))
    };
    let none = found(counts(|it| it.all), "no recorded memory");
    let part = found(counts(|it| it.part), "only the beginning of what was asked for");
    let lines: Vec<String> = none.into_iter().chain(part).collect();
    let advice = match missing.iter().find_map(|(event, _)| entry(event)) {
        Some(entry) => {
            format!(
                "record more: -e '{entry} {{ record(args, memN = buf(ADDRESS, BYTES)) }}', N the argument's number"
            )
        }
        None => "what holds it is an event at whose arguments the memory lies (docs/ask-later.md)".to_owned(),
    };
    Some(format!("{}; {advice}\n", lines.join(", ")))
}

/// The event that has the arguments of what an event is about, where there is one: the entry of a call at its return, too.
fn entry(event: &str) -> Option<String> {
    let event = event.strip_prefix("tracepoint:").unwrap_or(event);
    let mut prefixes = ["syscalls:sys_enter_", "syscalls:sys_exit_"].into_iter();
    let call = prefixes.find_map(|prefix| event.strip_prefix(prefix))?;
    Some(format!("syscalls:sys_enter_{call}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_found_nothing_are_counted_by_event() {
        let missing = |all, part| Missing { all, part };
        assert_eq!(unread(&[]), None);
        let line = unread(&[("a:b", missing(3, 0)), ("c:d", missing(1, 1))]).unwrap();
        assert_eq!(
            line,
            "4 reads found no recorded memory (3 at a:b, 1 at c:d), 1 read found only the beginning of what was asked for (1 at c:d); what holds it is an event at whose arguments the memory lies (docs/ask-later.md)\n"
        );
        let at = "tracepoint:syscalls:sys_exit_openat";
        let line = unread(&[("a:b", missing(3, 0)), (at, missing(1, 0))]).unwrap();
        let advice = "record more: -e 'syscalls:sys_enter_openat { record(args, memN = buf(ADDRESS, BYTES)) }', N the argument's number\n";
        assert!(line.ends_with(advice), "{line}");
    }
}
