//! Performing a program's output records: lines printed, maps shown.

use super::at_once::{self, AtOnce, Done, shell};
use super::failed::FailureMessages;
use super::maps::ProgramMaps;
use crate::session::Session;
use crate::session::maps::symbols;
use crate::system_names::SystemNames;
use crate::user_symbols::{LiveNames, Naming};
use kestrel_catalog::Result;
use kestrel_compiler::lang::config::Config;
use kestrel_kernel::Host;
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::names::Names;
use kestrel_trace::output::{Effect, Form, Sites};
use kestrel_trace::print::{Trailer, counted, shown};
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::unwound::Unwound;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Default of the most bytes that `cat` shows of a file.
const MAX_OF_A_FILE: u64 = 10_240;

/// The suffix of strings that were cut (`str_trunc_trailer`), and the length of those that may have been (`max_strlen`).
#[derive(Debug)]
struct CutTrailer {
    text: String,
    longest: Option<usize>,
}

impl CutTrailer {
    fn lent(&self) -> Trailer<'_> {
        Trailer {
            text: &self.text,
            longest: self.longest,
        }
    }
}

/// Outcome of performing a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done; what there was to print is printed.
    Done,
    /// The program is to end, with this code.
    Exit(i64),
}

/// Performs records; what they print is collected until it is taken.
#[derive(Debug)]
pub struct Perform {
    /// Whether JSON lines are printed.
    pub json: bool,
    /// Whether what `warnf` says is left out.
    pub no_warnings: bool,
    /// Whether what a terminal would obey in strings of others is spelled out.
    pub escaped: bool,
    /// Whether lost updates of full maps are reported with their places, among the failures of helpers, and so not here.
    pub lost_by_place: bool,
    /// Messages for the first failure of each place, at its place among the records; without them failures are only counted.
    pub failures: Option<Box<dyn FailureMessages>>,
    /// The suffix of strings that were cut.
    trailer: CutTrailer,
    /// Most bytes that `cat` shows of a file (`max_cat_bytes`).
    max_cat: u64,
    /// How user stacks name functions (`show_debug_info`, `cpp_demangle`).
    naming: Naming,
    /// The processes whose copied stacks are unwound by their tables (`dw_ustack`).
    pub unwound: Vec<u32>,
    /// Other processes of which that was asked: said once of each.
    not_unwound: BTreeSet<u32>,
    /// Standard output since it was taken last.
    pub out: Vec<u8>,
    /// Standard error since it was taken last.
    pub err: Vec<u8>,
    /// Lengths of both at each write to standard error: the order of the two.
    order: Vec<(usize, usize)>,
    /// Addresses that `unwatch` named since they were taken last.
    pub unwatched: Vec<u64>,
    /// Number of messages of `errorf`.
    pub errors: u64,
    /// Set by the signal that ends the program: commands that still wait are then counted and not run, but for those of `end`.
    pub interrupted: Arc<AtomicBool>,
    /// Whether handlers of `end` are performed, whose commands are run whatever ended the program.
    pub at_end: bool,
    not_run: u64,
    /// Updates of maps that were lost and have been said, by the maps' names.
    lost: HashMap<String, u64>,
    symbols: Symbols,
    names: Arc<dyn Names>,
    /// The code of processes, where stacks or addresses of theirs are shown.
    code: Option<LiveNames>,
    host: Host,
    sites: Sites,
    at_once: AtOnce,
    /// Whether addresses are those of a recording, which this system has no names for.
    recorded: bool,
}

impl Perform {
    /// A performer that has performed nothing yet.
    pub fn new(symbols: Symbols, host: Host, json: bool) -> Self {
        let names = Arc::new(SystemNames::new(host.clone()));
        Self::with_names(symbols, names, host, json)
    }

    fn with_names(symbols: Symbols, names: Arc<dyn Names>, host: Host, json: bool) -> Self {
        Self {
            json,
            no_warnings: false,
            lost_by_place: false,
            failures: None,
            escaped: false,
            trailer: CutTrailer {
                text: Form::TEXT.trailer.text.to_owned(),
                longest: None,
            },
            max_cat: MAX_OF_A_FILE,
            naming: Naming {
                lines: true,
                mangled: false,
            },
            unwound: Vec::new(),
            not_unwound: BTreeSet::new(),
            out: Vec::new(),
            err: Vec::new(),
            order: Vec::new(),
            unwatched: Vec::new(),
            errors: 0,
            interrupted: Arc::default(),
            at_end: false,
            not_run: 0,
            lost: HashMap::new(),
            symbols: symbols.with_names(names.clone()),
            names,
            code: None,
            host,
            sites: Sites::default(),
            at_once: AtOnce::default(),
            recorded: false,
        }
    }

    /// The performer of a program over a recording: `symbols` are all the names that its addresses have, `names` knows its clocks.
    pub fn of_recording(symbols: Symbols, names: Arc<dyn Names>, host: Host, json: bool) -> Self {
        Self {
            recorded: true,
            ..Self::with_names(symbols, names, host, json)
        }
    }

    /// Takes over the settings of a program that are about its output.
    pub fn configure(&mut self, config: &Config) {
        self.trailer = CutTrailer {
            text: config.str_trunc_trailer.clone(),
            longest: usize::try_from(config.max_strlen).ok(),
        };
        self.max_cat = config.max_cat_bytes;
        self.naming = Naming {
            lines: config.show_debug_info,
            mangled: !config.cpp_demangle,
        };
    }

    /// Begins to follow the code of processes, where the session's records or maps have stacks or addresses of theirs.
    ///
    /// # Errors
    /// When the kernel does not let it be followed: then they are shown as numbers.
    pub fn follow(&mut self, session: &Session) -> Result<()> {
        let in_maps = session.has_user_stacks_in_maps();
        self.code = LiveNames::follow(session.classes(), in_maps, &self.host)?;
        if let Some(code) = &mut self.code {
            code.name_by(self.naming);
        }
        Ok(())
    }

    /// Takes what processes have changed in their memory; often, because the way to their binaries may end with them.
    ///
    /// # Errors
    /// When a ring of the kernel's makes no sense.
    pub fn poll(&mut self) -> Result<()> {
        self.code.as_mut().map_or(Ok(()), LiveNames::poll)
    }

    /// Whether the code of processes is followed.
    pub fn follows(&self) -> bool {
        self.code.is_some()
    }

    /// Form of the output.
    pub fn form(&self) -> Form<'_> {
        Form {
            json: self.json,
            escaped: self.escaped,
            trailer: self.trailer.lent(),
        }
    }

    /// Performs one record.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn record(&mut self, maps: &mut dyn ProgramMaps, record: &Record<'_>) -> Result<Outcome> {
        let unwound = self.unwind(record)?;
        let record = &Record {
            unwound: unwound.as_ref(),
            ..*record
        };
        let form = Form {
            json: self.json,
            escaped: self.escaped,
            trailer: self.trailer.lent(),
        };
        if let Some(code) = &mut self.code {
            code.learn(record, &mut self.symbols)?;
        }
        let verb = record.event.action.as_ref().map(|action| action.verb.as_str());
        self.errors += u64::from(verb == Some("errorf"));
        match self.sites.effect(record, form, &self.symbols) {
            Some(Effect::Print(text)) => self.out.extend_from_slice(&text),
            Some(Effect::Warn(_)) if self.no_warnings => {}
            Some(Effect::Complain(text) | Effect::Warn(text)) if self.json => {
                self.out.extend_from_slice(&text)
            }
            Some(Effect::Complain(text) | Effect::Warn(text)) => self.complain(&text),
            Some(Effect::PrintMap(map)) => {
                let read = maps.as_of(&map.name, map.generation)?;
                self.snapshots(read.into_iter().collect(), map.top, map.div);
            }
            Some(Effect::Cleared {
                name,
                generation,
                zeroed,
            }) => maps.sweep(&name, generation, zeroed)?,
            Some(Effect::Exit { code }) => return Ok(Outcome::Exit(code)),
            Some(Effect::Unwatch { address }) => self.unwatched.push(address),
            Some(Effect::Cat { path }) => {
                let read = match self.at_once.take(record) {
                    Some(Done::File(read)) => read,
                    _ => self.read_file(&path),
                };
                self.cat(&path, read);
            }
            Some(Effect::Run { command }) => match self.at_once.take(record) {
                Some(Done::Command(ended)) => self.ran(&command, ended),
                _ => self.run(&command),
            },
            None => {}
        }
        Ok(Outcome::Done)
    }

    /// The frames of a stack that a record has a copy of, if it is of a process that is unwound.
    fn unwind(&mut self, record: &Record<'_>) -> Result<Option<Unwound>> {
        let Some(code) = self.code.as_mut().filter(|_| record.stack_copy().is_some()) else {
            return Ok(None);
        };
        if self.unwound.contains(&record.pid) {
            return code.unwind(record);
        }
        if self.not_unwound.insert(record.pid) {
            let line = format!(
                "WARNING: No DWARF unwind data available for this process: {} is none of those that -p, -c and --dwarf-pid name; its innermost frame is shown alone\n",
                record.pid
            );
            self.complain(line.as_bytes());
        }
        Ok(None)
    }

    /// The rings are read anew: there is time for actions that do not wait.
    pub(super) fn begin_reading(&mut self) {
        self.at_once.begin_reading();
    }

    /// Takes note of a record that came out of a ring, and whose turn has not come yet: files are read and commands run now.
    pub(super) fn arrived(&mut self, record: &Record<'_>) {
        if record
            .event
            .action
            .as_ref()
            .is_some_and(|action| action.verb == "exit")
        {
            self.at_once.exits(record);
        }
        let is_wanted = at_once::is_of(record.event) && !record.event.is_long();
        if !is_wanted || !self.at_once.is_before_exit(record) || !self.at_once.has_time() {
            return;
        }
        if self.interrupted.load(Ordering::Relaxed) {
            return;
        }
        let begun = Instant::now();
        let form = Form {
            json: self.json,
            escaped: self.escaped,
            trailer: self.trailer.lent(),
        };
        let done = match self.sites.effect(record, form, &self.symbols) {
            Some(Effect::Cat { path }) => Done::File(self.read_file(&path)),
            Some(Effect::Run { command }) => Done::Command(shell(&command)),
            _ => return,
        };
        self.at_once.took(begun.elapsed());
        self.at_once.keep(record, done);
    }

    fn read_file(&self, path: &[u8]) -> std::io::Result<Vec<u8>> {
        let path = Path::new(OsStr::from_bytes(path));
        // A pipe, whose writer may never come, is refused.
        let opened = kestrel_trace::files::open_ordinary(path)?;
        let mut held = Vec::new();
        opened.file.take(self.max_cat).read_to_end(&mut held)?;
        Ok(held)
    }

    fn cat(&mut self, path: &[u8], read: std::io::Result<Vec<u8>>) {
        match read {
            Ok(held) => self.out.extend(self.form().file(held)),
            Err(error) => {
                let words = error.to_string();
                let words = words.split(" (os error").next().unwrap_or_default();
                let path = String::from_utf8_lossy(path);
                self.fail(&format!("failed to open file '{}' ({words})", shown(&path)));
            }
        }
    }

    fn run(&mut self, command: &[u8]) {
        // Commands take far longer than the events that ask for them: those of a backlog could take minutes.
        if !self.at_end && self.interrupted.load(Ordering::Relaxed) {
            self.not_run += 1;
            return;
        }
        self.ran(command, shell(command));
    }

    /// Prints what a command printed, and how it failed.
    fn ran(&mut self, command: &[u8], ended: std::io::Result<Output>) {
        let command = String::from_utf8_lossy(command);
        match ended {
            Ok(ended) => {
                self.complain(&ended.stderr);
                self.out.extend(self.form().command(ended.stdout));
                if !ended.status.success() {
                    let how = match ended.status.code() {
                        Some(code) => format!("command exited with code {code}"),
                        None => format!("command ended with {}", ended.status),
                    };
                    self.fail(&format!("{how}: `{}`", shown(&command)));
                }
            }
            Err(error) => self.fail(&format!("cannot run `{}`: {error}", shown(&command))),
        }
    }

    /// Says something on standard error.
    pub(super) fn complain(&mut self, text: &[u8]) {
        self.err.extend_from_slice(text);
        self.order.push((self.out.len(), self.err.len()));
    }

    /// Writes what was printed and what was said, each behind what came before it, and forgets it: both may go to one terminal.
    pub fn write(&mut self, out: &mut dyn Write, err: &mut dyn Write) -> std::io::Result<()> {
        let (mut printed, mut messages) = (self.out.as_slice(), self.err.as_slice());
        let (mut out_at, mut err_at) = (0, 0);
        for (out_end, err_end) in self.order.drain(..) {
            let some = printed.split_off(..out_end.saturating_sub(out_at).min(printed.len()));
            out.write_all(some.unwrap_or_default())?;
            out.flush()?;
            let some = messages.split_off(..err_end.saturating_sub(err_at).min(messages.len()));
            err.write_all(some.unwrap_or_default())?;
            (out_at, err_at) = (out_end, err_end);
        }
        out.write_all(printed)?;
        err.write_all(messages)?;
        self.clear();
        Ok(())
    }

    /// Forgets what was printed and said.
    pub fn clear(&mut self) {
        self.out.clear();
        self.err.clear();
        self.order.clear();
    }

    /// Reports what could not be done; the program goes on.
    fn fail(&mut self, why: &str) {
        self.complain(format!("ERROR: {why}\n").as_bytes());
    }

    fn snapshots(&mut self, mut snapshots: Vec<Snapshot>, top: u64, div: u64) {
        for snapshot in &mut snapshots {
            let lost = std::mem::take(&mut snapshot.lost);
            let before = self.lost.insert(snapshot.ty.name.clone(), lost).unwrap_or(0);
            if lost > before && !self.lost_by_place {
                let title = snapshot.ty.title();
                let (updates, keys) = (
                    counted(lost - before, "update"),
                    counted(snapshot.ty.entries.into(), "key"),
                );
                let line = format!(
                    "WARNING: Map full; can't update element. {title} has room for {keys}: {updates} lost; `config = {{ max_map_keys = N }}` or `let {title} = hash(N)` gives it more\n"
                );
                self.complain(line.as_bytes());
            }
        }
        let symbols = match self.recorded {
            true => self.symbols.clone(),
            false => {
                let code = self.code.as_mut().map(LiveNames::code);
                let (symbols, _notes) = symbols(&snapshots, &self.host, code);
                symbols.with_names(self.names.clone())
            }
        };
        for snapshot in &snapshots {
            self.out.extend(self.form().map(snapshot, top, div, &symbols));
        }
    }

    /// Says how many commands were not run because the program was asked to end before.
    pub fn say_not_run(&mut self) {
        match std::mem::take(&mut self.not_run) {
            0 => {}
            not_run => {
                let line = format!(
                    "WARNING: {not_run} commands of system() were not run: the program was ended before\n"
                );
                self.complain(line.as_bytes());
            }
        }
    }

    /// Shows all maps, as at the program's end.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub fn maps(&mut self, maps: &mut dyn ProgramMaps) -> Result<()> {
        let mut snapshots = maps.all()?;
        snapshots.retain(|snapshot| !snapshot.is_empty());
        snapshots.sort_unstable_by(|a, b| a.ty.name.cmp(&b.ty.name));
        self.out.extend_from_slice(self.form().end().as_bytes());
        self.snapshots(snapshots, 0, 1);
        Ok(())
    }
}
