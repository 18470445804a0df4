//! Records of system calls written out as calls: a line for each when it is over, records of other events between them as their own format has them.

use super::Style;
use super::clock::Clock;
use super::format::Export;
use crate::calls::{
    Abi, Call, Descriptors, EXIT, End, FORK, Pairing, Pieces, RAW_ENTER, RAW_EXIT, Reader as CallReader,
    Renames, SIGNAL, Signature, Signatures, Summary, ThreadEvent, json, line,
};
use crate::ctf::read::{Reader, Source};
use crate::error::{Error, Result};
use crate::event::EventClass;
use crate::process::Processes;
use crate::record::Record;
use crate::syscall::{Set, SignalSet};
use std::collections::HashMap;
use std::io::Write;

/// Layout of printed calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// strace's lines.
    Lines,
    /// JSON, one object per line.
    Json,
}

/// Selection of the calls to show.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Calls of all these sets.
    pub sets: Vec<Set>,
    /// Only those that fail.
    pub failed_only: bool,
    /// Only those that took at least so long, ns.
    pub slower_than: Option<u64>,
    /// Signals whose coming is shown.
    pub signals: SignalSet,
    /// Whether ends of threads are left out.
    pub no_exits: bool,
    /// The command's process until its exec: what Kestrel does in it before, it does for itself.
    pub before_exec: Option<u32>,
    /// Whether the sets have a call, by its name.
    known: HashMap<String, bool>,
}

impl Shown {
    /// The calls of all these sets.
    pub fn of(sets: impl IntoIterator<Item = Set>) -> Self {
        Self {
            sets: sets.into_iter().collect(),
            ..Self::default()
        }
    }

    fn has(&mut self, signature: &Signature) -> bool {
        if self.sets.is_empty() {
            return true;
        }
        let name = signature.shown();
        if let Some(known) = self.known.get(&name) {
            return *known;
        }
        let has = self.sets.iter().all(|set| signature.is_in(set));
        self.known.insert(name, has);
        has
    }
}

/// A call in which a thread was when the records began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInProgress {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The interface by which it was made.
    pub abi: Abi,
    /// The call's number there.
    pub number: u64,
    /// The arguments' registers.
    pub arguments: [u64; 6],
    /// Strings that arguments point to, by the arguments' places.
    pub texts: Vec<(usize, Vec<u8>)>,
}

/// Consumer of calls: lines, or a table.
#[derive(Clone, Debug)]
pub struct Calls {
    reader: CallReader,
    renames: Renames,
    pairing: Pairing,
    files: Descriptors,
    /// Whether descriptors are shown with the names of their files: only where the recording has what was open at its start, and what was closed since.
    names_files: bool,
    processes: Processes,
    shown: Shown,
    layout: Layout,
    clock: Clock,
    nanoseconds: bool,
    summary: Option<Summary>,
    lines: u64,
}

impl Calls {
    /// The calls with these numbers, in a layout.
    pub fn new(signatures: Signatures, shown: Shown, layout: Layout, style: Style) -> Self {
        Self {
            renames: Renames::new(&signatures),
            reader: CallReader::new(signatures),
            pairing: Pairing::default(),
            files: Descriptors::default(),
            names_files: true,
            processes: Processes::default(),
            shown,
            layout,
            clock: Clock::new(style.times),
            nanoseconds: style.nanoseconds,
            summary: None,
            lines: 0,
        }
    }

    /// Number of calls shown so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// An exporter that counts records instead of showing them.
    pub fn counted(self, summary: Summary) -> Self {
        Self {
            summary: Some(summary),
            ..self
        }
    }

    /// The choice of what is shown.
    pub fn shown_mut(&mut self) -> &mut Shown {
        &mut self.shown
    }

    /// Only numbers stand for descriptors.
    pub fn without_files(self) -> Self {
        Self {
            names_files: false,
            ..self
        }
    }

    /// A process has a file open.
    pub fn open(&mut self, pid: u32, number: i64, name: impl Into<String>) {
        self.files.insert(pid, number, name);
    }

    /// Shows a call that began before the records, and in which its thread is at `time_ns`; its return, where it comes, has its arguments.
    pub fn in_progress(&mut self, current: &CallInProgress, time_ns: u64, out: &mut Vec<u8>) {
        let signature = self.reader.signature(current.abi, current.number);
        let mut before = Pieces::default();
        for (place, bytes) in &current.texts {
            before.insert(*place, 0, bytes);
        }
        let call = Call {
            pid: current.pid,
            tid: current.tid,
            signature,
            begun_ns: None,
            ended_ns: Some(time_ns),
            values: current.arguments.to_vec(),
            before,
            after: Pieces::default(),
            stacks: Vec::new(),
            end: End::InProgress,
            wanted: true,
            netlink: None,
        };
        if self.summary.is_none() && self.shown.has(&call.signature) {
            self.show(&call, None, out);
        }
        self.pairing.resume(call);
    }

    /// Records were lost: descriptors may have been opened and closed in what is missing.
    pub fn lose(&mut self) {
        self.files.clear();
    }

    /// Names of threads, for callers that know more of them.
    pub fn processes_mut(&mut self) -> &mut Processes {
        &mut self.processes
    }

    /// Whether a record says what is shown as a call: it is no event of its own.
    pub fn is_own(event: &EventClass) -> bool {
        let only = |field: &str| event.layout.shown().all(|it| it.name == field);
        match event.name.as_str() {
            RAW_ENTER | RAW_EXIT => true,
            FORK => only("child_pid"),
            EXIT | SIGNAL => ThreadEvent::is_of(event),
            _ => CallReader::is_of_calls(event),
        }
    }

    /// Takes a record; of calls that are over with it appends those of which a record is `wanted`.
    pub fn record(&mut self, record: &Record<'_>, wanted: bool, out: &mut Vec<u8>) {
        self.shown_with(record, wanted, None, out);
    }

    /// As [`Calls::record`], with the stacks of each call's entry as `others` has them.
    pub fn record_with_stacks(
        &mut self,
        record: &Record<'_>,
        wanted: bool,
        others: &dyn Export,
        out: &mut Vec<u8>,
    ) {
        self.shown_with(record, wanted, Some(others), out);
    }

    fn shown_with(
        &mut self,
        record: &Record<'_>,
        wanted: bool,
        others: Option<&dyn Export>,
        out: &mut Vec<u8>,
    ) {
        self.take(record, wanted, &mut |calls, call| calls.show(call, others, out));
        self.happens(record, wanted, out);
    }

    /// Takes what happens to a thread beside its calls, and shows it.
    fn happens(&mut self, record: &Record<'_>, wanted: bool, out: &mut Vec<u8>) {
        if !wanted || self.shown.before_exec == Some(record.pid) || self.summary.is_some() {
            return;
        }
        let Some(event) = ThreadEvent::of(record) else {
            return;
        };
        let is_shown = match &event {
            ThreadEvent::Signal { number, .. } => self.shown.signals.has(*number),
            ThreadEvent::Exited(_) | ThreadEvent::Killed { .. } => !self.shown.no_exits,
        };
        if !is_shown {
            return;
        }
        match self.layout {
            Layout::Lines => {
                let comm = self.processes.shown_name(record.tid, record.pid);
                self.clock.text(record.time_ns, self.nanoseconds, out);
                out.push(b' ');
                out.extend_from_slice(event.line(record.tid, comm.as_deref()).as_bytes());
            }
            Layout::Json => {
                let comm = self.processes.name(record.tid, record.pid);
                let time = self.clock.ns(record.time_ns);
                let line = event.json((record.pid, record.tid), time, comm);
                out.extend_from_slice(line.as_bytes());
            }
        }
        out.push(b'\n');
    }

    /// Takes a record, and gives those calls that are over with it of which a record is `wanted`, with the files behind their descriptors.
    pub fn each(&mut self, record: &Record<'_>, wanted: bool, done: &mut dyn FnMut(&Call, &Descriptors)) {
        self.take(record, wanted, &mut |calls, call| done(call, &calls.files));
    }

    fn take(&mut self, record: &Record<'_>, wanted: bool, done: &mut dyn FnMut(&mut Self, &Call)) {
        let number = |field: &str| record.get(field).and_then(|value| value.as_u64());
        match record.event.name.as_str() {
            FORK => {
                if let Some(child) = number("child_pid") {
                    self.files.fork(record.pid, child as u32);
                }
                return;
            }
            EXIT => {
                let mut pairing = std::mem::take(&mut self.pairing);
                pairing.end(record.tid, &mut |mut call| {
                    call.netlink = self.files.netlink(&call);
                    self.done(&call, done);
                });
                self.pairing = pairing;
                return self.files.remove(record.tid);
            }
            _ => {}
        }
        let Some(moment) = self.reader.read(record) else {
            return;
        };
        if self.shown.before_exec == Some(record.pid) && !is_exec(moment.signature()) {
            return;
        }
        let mut pairing = std::mem::take(&mut self.pairing);
        let thread = (record.pid, record.tid);
        pairing.add_wanted(thread, (record.time_ns, wanted), moment, &mut |mut call| {
            call.netlink = self.files.netlink(&call);
            self.done(&call, done);
        });
        self.pairing = pairing;
    }

    /// Appends the calls that have not returned, with the stacks of their entries as `others` has them; gives the counts, where they are counted.
    pub fn finish(&mut self, others: Option<&dyn Export>, out: &mut Vec<u8>) -> Option<Summary> {
        self.take_left(&mut |calls, call| calls.show(call, others, out));
        self.summary.take()
    }

    /// Gives the calls that have not returned.
    pub(crate) fn each_left(&mut self, done: &mut dyn FnMut(&Call, &Descriptors)) {
        self.take_left(&mut |calls, call| done(call, &calls.files));
    }

    fn take_left(&mut self, done: &mut dyn FnMut(&mut Self, &Call)) {
        let mut left = Vec::new();
        self.pairing.finish(&mut |call| left.push(call));
        for call in &left {
            debug_assert!(matches!(call.end, End::Unfinished | End::Never));
            self.done(call, done);
        }
    }

    /// The name of a thread of a process.
    pub fn name(&self, tid: u32, pid: u32) -> Option<&str> {
        self.processes.name(tid, pid)
    }

    /// A call is over. Its arguments are shown as they were before it.
    fn done(&mut self, call: &Call, done: &mut dyn FnMut(&mut Self, &Call)) {
        if self.shown.before_exec == Some(call.pid) {
            // Where it looks for the program along PATH, some fail.
            if call.end != End::Returned(0) {
                return;
            }
            self.shown.before_exec = None;
        }
        if call.wanted && self.shown.has(&call.signature) {
            match &mut self.summary {
                Some(summary) => summary.add(call),
                None => done(self, call),
            }
        }
        if self.names_files && self.summary.is_none() {
            self.files.follow(call);
        }
    }

    fn show(&mut self, call: &Call, others: Option<&dyn Export>, out: &mut Vec<u8>) {
        if self.shown.failed_only && call.error().is_none() {
            return;
        }
        if let Some(least) = self.shown.slower_than
            && call.duration().is_none_or(|duration| duration < least)
        {
            return;
        }
        self.lines += 1;
        let stacks = |out: &mut Vec<u8>| {
            if let Some(others) = others {
                others.stacks(&call.stacks, out);
            }
        };
        match self.layout {
            Layout::Lines => {
                let comm = self.processes.shown_name(call.tid, call.pid);
                self.clock.text(call.time_ns(), self.nanoseconds, out);
                out.push(b' ');
                out.extend_from_slice(line(call, comm.as_deref(), &self.files).as_bytes());
                out.push(b'\n');
                stacks(out);
            }
            Layout::Json => {
                let comm = self.processes.name(call.tid, call.pid);
                let time = self.clock.ns(call.time_ns());
                let object = json(call, time, comm, &self.files);
                out.extend_from_slice(object.strip_suffix('}').unwrap_or(&object).as_bytes());
                stacks(out);
                out.extend_from_slice(b"}\n");
            }
        }
    }
}

fn is_exec(signature: &Signature) -> bool {
    matches!(signature.own_name(), "execve" | "execveat")
}

/// Writes all that is left in `reader`: calls of which a record is wanted, and other records that are, in their `others` format. Gives the number of
/// records that are wanted. `name` stands for `out` in errors.
///
/// # Errors
/// Errors of reading and of writing.
pub fn as_calls<R: Source>(
    reader: &mut Reader<R>,
    wanted: &mut dyn FnMut(&Record<'_>) -> bool,
    (calls, others): (&mut Calls, &mut dyn Export),
    out: &mut dyn Write,
    name: &str,
) -> Result<u64> {
    let mut bytes = Vec::with_capacity(super::CHUNK * 2);
    let (mut records, mut lost) = (0, reader.lost());
    calls.processes_mut().clone_from(&others.names_mut().processes);
    while let Some(record) = reader.next()? {
        let is_wanted = wanted(&record);
        records += u64::from(is_wanted);
        calls.renames.learn(&record, &mut calls.processes);
        match Calls::is_own(record.event) {
            true => calls.record_with_stacks(&record, is_wanted, &*others, &mut bytes),
            false if is_wanted => others.record(&record, &mut bytes),
            false => others.learn(&record),
        }
        let now = reader.lost();
        if now != lost {
            calls.lose();
            lost = now;
        }
        if bytes.len() >= super::CHUNK {
            out.write_all(&bytes).map_err(Error::io("write to", name))?;
            bytes.clear();
        }
    }
    calls.finish(Some(&*others), &mut bytes);
    others.finish(&mut bytes);
    let written = out.write_all(&bytes).and_then(|()| out.flush());
    written.map_err(Error::io("write to", name))?;
    Ok(records)
}
