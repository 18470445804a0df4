//! One file of a log: a trace directory that appears under its name when it is whole; how it is begun, ended, and ended by another agent.
//!
//! ```text
//! DIR/SESSION/                        mode 0700, files 0600
//!   00000007-20261121T223830Z/        a trace, whole
//!   .00000008-20261121T233830Z.new/   a trace being written: whole packets after a metadata file, to be read at any time
//!   .00000008.json                    what is needed to end it
//!   .counts.json                      what the session's buffers had lost when the last one ended
//! ```
//!
//! A packet's number says which page of which ring it is. So an agent that finds what another one left knows from the last packet of each stream
//! how far the ring was written, whether or not the other one came to say so in the ring. Only what is taken out of a page in use does not say
//! how far it goes: that is the last packet of its stream, and what is about to be written is noted beforehand ([`Closing`]).

use crate::postprocess::{Review, Tally, counts, postprocess};
use crate::user_symbols::{UserCode, holds_user_stacks};
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::{Buffer, numbered};
use kestrel_kernel::Host;
use kestrel_trace::ctf::directory::{self, Directory, Tail};
use kestrel_trace::ctf::write::Writer;
use kestrel_trace::event::EventClass;
use kestrel_trace::files::{Entry, Folder};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::packet::{HEADER, PAGE};
use kestrel_trace::process::Processes;
use kestrel_trace::summary::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Lost records of buffers so far, by place, event number and CPU; zeros are left out.
pub(super) type LostRecords = BTreeMap<(u32, u16, u32), u64>;

/// Losses of the session's buffers up to the end of a segment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Ledger {
    uuid: String,
    lost: Vec<(u32, u16, u32, u64)>,
}

/// The journal: what another agent needs to end a segment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Journal {
    /// The identity of the session's trace.
    pub(super) uuid: String,
    /// Losses of the buffers when the segment before it ended.
    before: Vec<(u32, u16, u32, u64)>,
    /// Set while the segment is ended.
    pub(super) closing: Option<Closing>,
}

/// Reason for which a segment ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Closing {
    /// Losses of the buffers.
    lost: Vec<(u32, u16, u32, u64)>,
    /// Records of pages in use that are its last packets.
    pub(super) parts: Vec<PartEntry>,
}

/// Records of a page in use that are the last packet of a stream, if they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartEntry {
    pub(super) buffer: u32,
    pub(super) cpu: u32,
    /// Packets in the stream before it.
    pub(super) packets: u64,
    /// Position in the ring after its last record.
    pub(super) end: u64,
}

/// User code of processes, shared between threads: followed while a log is written, asked when one of its files ends.
pub(super) type SharedCode = Arc<Mutex<UserCode>>;

/// Code of the processes, to be shared with the files that end.
pub(super) fn share(code: UserCode) -> SharedCode {
    Arc::new(Mutex::new(code))
}

/// A trace being written.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) writer: Writer<Directory>,
    pub(super) place: SegmentPlace,
    journal: Journal,
}

/// Paths of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentPlace {
    folder: PathBuf,
    number: u64,
    name: String,
}

/// A segment that is whole and has its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Where it lies; `None` if there was nothing in it.
    pub path: Option<PathBuf>,
    /// Records in it.
    pub records: u64,
    /// Records lost by its buffers since the one before it.
    pub lost: u64,
    /// Bytes of packets.
    pub bytes: u64,
    /// Older segments that were removed.
    pub removed: usize,
    /// Files that should have been removed with it and are still there, and why.
    pub not_removed: Vec<(PathBuf, String)>,
}

impl SegmentPlace {
    /// The trace until it is whole.
    pub(super) fn beside(&self) -> PathBuf {
        directory::staging_path(&self.path())
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn journal(&self) -> String {
        format!(".{:08}.json", self.number)
    }

    /// The place of the next segment in a folder: its number is higher than all there are, so that names sort by time whatever the clock does.
    fn next(folder: &Path) -> Result<Self> {
        let last = names(folder)?.into_iter().map(|(number, ..)| number).max();
        let number = last.unwrap_or(0) + 1;
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let now: String = now.chars().filter(|c| !matches!(c, '-' | ':')).collect();
        Ok(Self {
            folder: folder.to_owned(),
            number,
            name: format!("{number:08}-{now}"),
        })
    }
}

/// Numbers and names of the segments in a folder, oldest first, and whether each is whole.
fn names(folder: &Path) -> Result<Vec<(u64, String, bool)>> {
    let mut all = Vec::new();
    for entry in entries(folder)? {
        let Ok(name) = entry.name.into_string() else {
            continue;
        };
        let passing = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
        let plain = passing.unwrap_or(&name);
        let Some((number, _)) = plain.split_once('-') else {
            continue;
        };
        if number.len() >= 8
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(number) = number.parse()
        {
            all.push((number, plain.to_owned(), passing.is_none()));
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Segments that were not ended, oldest first. Journals without one, whose agent was killed just before or after there was one, are removed.
pub(super) fn unfinished(folder: &Path) -> Result<Vec<SegmentPlace>> {
    let all = names(folder)?.into_iter().filter(|(.., whole)| !whole);
    let place = |(number, name, _)| SegmentPlace {
        folder: folder.to_owned(),
        number,
        name,
    };
    let places: Vec<SegmentPlace> = all.map(place).collect();
    for entry in entries(folder)? {
        let name = entry.name.to_string_lossy();
        let number = name.strip_suffix(".new").unwrap_or(&name);
        let number = number.trim_start_matches('.').strip_suffix(".json");
        let is_journal = number.is_some_and(|n| n.len() >= 8 && n.bytes().all(|byte| byte.is_ascii_digit()));
        if is_journal && places.iter().all(|place| entry.name != *place.journal()) {
            remove_file(folder, &name)?;
        }
    }
    Ok(places)
}

/// Losses of a session's buffers when its last segment ended.
pub(super) fn counted(folder: &Path, uuid: &str) -> LostRecords {
    let ledger: Option<Ledger> = read_json(folder, COUNTS);
    let known = ledger.filter(|ledger| ledger.uuid == uuid);
    known.map_or_else(LostRecords::new, |ledger| unpack(&ledger.lost))
}

const COUNTS: &str = ".counts.json";

impl Segment {
    /// Begins a segment.
    pub(super) fn begin(folder: &Path, info: TraceInfo, before: &LostRecords) -> Result<Self> {
        let place = SegmentPlace::next(folder)?;
        let journal = Journal {
            uuid: info.uuid.to_string(),
            before: pack(before),
            closing: None,
        };
        write_json(folder, &place.journal(), &journal)?;
        let writer = directory::create(&place.beside(), info, true);
        if writer.is_err() {
            // The disk may be full: leave nothing behind that stands for nothing.
            let _ = own(folder).map(|folder| folder.remove_folder(leaf(&place.beside())));
            let _ = remove_file(folder, &place.journal());
        }
        Ok(Self {
            writer: writer?,
            place,
            journal,
        })
    }

    /// Notes how it is about to end.
    pub(super) fn close(&mut self, lost: &LostRecords, parts: Vec<PartEntry>) -> Result<()> {
        let closing = Closing {
            lost: pack(lost),
            parts,
        };
        let journal = Journal {
            closing: Some(closing),
            ..self.journal.clone()
        };
        write_json(&self.place.folder, &self.place.journal(), &journal)?;
        let ledger = Ledger {
            uuid: journal.uuid.clone(),
            lost: pack(lost),
        };
        self.journal = journal;
        write_json(&self.place.folder, COUNTS, &ledger)
    }

    /// The remaining work of ending a segment, which takes a while and needs no buffers.
    pub(super) fn ending(self, threads: Processes, code: Option<SharedCode>, host: &Host) -> Ending {
        Ending {
            info: self.writer.info().clone(),
            journal: self.journal,
            place: self.place,
            threads,
            code,
            host: host.clone(),
            is_retry: false,
        }
    }
}

/// A segment to which nothing is written any more.
#[derive(Debug)]
pub(super) struct Ending {
    info: TraceInfo,
    journal: Journal,
    place: SegmentPlace,
    threads: Processes,
    /// Symbols of the processes' code, where its records have their stacks.
    code: Option<SharedCode>,
    host: Host,
    is_retry: bool,
}

impl Ending {
    /// State after a failure to end the segment, to be tried again.
    pub(super) fn failed(mut self) -> Self {
        self.is_retry = true;
        self
    }

    /// Whether this is a retry: it has failed before.
    pub(super) fn is_retry(&self) -> bool {
        self.is_retry
    }

    /// Takes what another agent left; `live` is the session's buffers if it is still there: their readers go on behind what is on file.
    /// `None` when nothing can be made of it, and it is removed: no packet was written.
    pub(super) fn recover(
        place: SegmentPlace,
        live: Option<(&str, &mut [Buffer])>,
        threads: Processes,
        host: &Host,
    ) -> Result<Option<Self>> {
        let beside = place.beside();
        let mut journal: Journal = read_json(&place.folder, &place.journal()).unwrap_or_default();
        let opened = directory::open(&beside).map(|trace| trace.reader.info().clone());
        // The other agent may have been killed in the middle of a packet.
        let tails = directory::mend(&beside)?;
        let info = match opened {
            Ok(info) => info,
            Err(_) if tails.is_empty() => {
                remove(&place)?;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        if let Some((uuid, buffers)) = live
            && uuid == info.uuid.to_string()
        {
            for tail in &tails {
                // Killed between file and ring it had written what the ring still holds: without this it would be written twice.
                catch_up(tail, journal.closing.as_ref(), buffers);
            }
            if journal.closing.is_none() {
                journal.closing = Some(Closing {
                    lost: pack(&lost(&info, buffers)),
                    parts: Vec::new(),
                });
            }
        }
        if let Some(closing) = &journal.closing {
            let ledger = Ledger {
                uuid: info.uuid.to_string(),
                lost: closing.lost.clone(),
            };
            write_json(&place.folder, COUNTS, &ledger)?;
        }
        let code = match holds_user_stacks(&info.events) {
            true => Some(UserCode::at_present(host)?),
            false => None,
        };
        Ok(Some(Self {
            info,
            journal,
            place,
            threads,
            code: code.map(share),
            host: host.clone(),
            is_retry: false,
        }))
    }

    /// Counts, names, and gives it its name; keeps no more than `keep` of them.
    pub(super) fn finish(&mut self, keep: Option<usize>) -> Result<Finished> {
        let beside = self.place.beside();
        let code = self.code.as_ref();
        let mut code = code.map(|code| code.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(code) = &mut code {
            // While the file before this one was ended, changes had to wait.
            code.poll()?;
        }
        let seen = postprocess(
            &beside,
            &self.info.events,
            self.threads.clone(),
            &self.host,
            code.as_deref_mut(),
            None,
        )?;
        drop(code);
        let records: u64 = seen.recorded.values().sum();
        let before = unpack(&self.journal.before);
        let closing = self.journal.closing.as_ref();
        let after = closing.map_or_else(LostRecords::new, |closing| unpack(&closing.lost));
        let lost = difference(&before, &after);
        let mut finished = Finished {
            path: None,
            records,
            lost: lost.values().sum(),
            bytes: directory::mend(&beside)?
                .iter()
                .map(|tail| tail.packets)
                .sum::<u64>()
                * u64::from(PAGE),
            removed: 0,
            not_removed: Vec::new(),
        };
        if records == 0 {
            remove(&self.place)?;
            return Ok(finished);
        }
        let summary = summary(&self.info, &seen, &lost);
        directory::complete(
            &beside,
            &summary,
            &seen.symbols,
            &seen.processes,
            &seen.tasks,
            &seen.unwound,
        )?;
        directory::sync(&beside)?;
        let path = self.place.path();
        let named = own(&self.place.folder)?.rename(leaf(&beside), leaf(&path));
        named.map_err(Error::io("give its name to", path.display()))?;
        finished.path = Some(path);
        // The segment has its name: an error from here on would have it ended a second time, in vain.
        let journal = self.place.journal();
        if let Err(error) = remove_file(&self.place.folder, &journal) {
            let path = self.place.folder.join(journal);
            finished.not_removed.push((path, error.to_string()));
        }
        if let Some(keep) = keep {
            prune(&self.place.folder, keep, &mut finished);
        }
        Ok(finished)
    }
}

/// Says in the ring what is on file.
fn catch_up(tail: &Tail, closing: Option<&Closing>, buffers: &mut [Buffer]) {
    // A ring that is gone was read to its end before.
    let Some(buffer) = numbered(buffers, tail.buffer) else {
        return;
    };
    let page = tail.sequence * u64::from(PAGE);
    let parts = closing.map_or(&[][..], |closing| &closing.parts);
    let part = parts
        .iter()
        .find(|part| (part.buffer, part.cpu) == (tail.buffer, tail.cpu) && part.packets < tail.packets);
    let end = part.map_or(page + u64::from(PAGE) + u64::from(HEADER), |part| part.end);
    let ring = buffer.ring();
    if end > ring.consumed(tail.cpu) {
        ring.acknowledge(tail.cpu, end);
    }
}

/// Losses of buffers so far, those of a trace alone.
pub(super) fn lost(info: &TraceInfo, buffers: &[Buffer]) -> LostRecords {
    let mut all = LostRecords::new();
    for (place, buffer) in (0..).zip(buffers) {
        if buffer.lost() == 0 || info.buffers.iter().all(|of| of.place() != place) {
            continue;
        }
        for cpu in buffer.ring().cpus() {
            for class in &info.events {
                let lost = buffer.counts(cpu, class.id.0).lost;
                if lost > 0 {
                    all.insert((place, class.id.0, cpu), lost);
                }
            }
        }
    }
    all
}

fn difference(before: &LostRecords, after: &LostRecords) -> LostRecords {
    let of = |(key, count): (&(u32, u16, u32), &u64)| {
        let earlier = before.get(key).copied().unwrap_or(0);
        let more = count.saturating_sub(earlier);
        (more > 0).then_some((*key, more))
    };
    after.iter().filter_map(of).collect()
}

fn summary(info: &TraceInfo, seen: &Review, lost: &LostRecords) -> Summary {
    let mut tally = Tally::new();
    for key in seen.recorded.keys().chain(lost.keys()) {
        let counts = tally.entry(*key).or_default();
        counts.lost = lost.get(key).copied().unwrap_or(0);
    }
    let (first, last) = seen.span.unwrap_or_default();
    let offset = Duration::new(info.clock.seconds, info.clock.nanoseconds);
    let classes: &[EventClass] = &info.events;
    Summary {
        version: info.tracer_version.clone(),
        command: info.command.clone(),
        started_ns: offset.as_nanos() as u64 + first,
        duration_ns: last.saturating_sub(first),
        events: counts(classes, &tally, &seen.recorded),
        frozen: None,
        missed: None,
        notes: seen.notes.clone(),
        limits: Vec::new(),
        cut_short: None,
    }
}

/// Removes all whole segments but the newest; one that cannot be removed does not hold up the others.
fn prune(folder: &Path, keep: usize, finished: &mut Finished) {
    let mut whole = match names(folder) {
        Ok(names) => names,
        Err(error) => return finished.not_removed.push((folder.to_owned(), error.to_string())),
    };
    whole.retain(|(.., whole)| *whole);
    let old = whole.len().saturating_sub(keep.max(1));
    for (_, name, _) in whole.iter().take(old) {
        let path = folder.join(name);
        match directory::discard(&path) {
            Ok(()) => finished.removed += 1,
            Err(error) => finished.not_removed.push((path, error.to_string())),
        }
    }
}

/// Removes a segment without records.
fn remove(place: &SegmentPlace) -> Result<()> {
    let beside = place.beside();
    let gone = match directory::discard(&beside) {
        // It has no metadata yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            own(&place.folder)?.remove_folder(leaf(&beside))
        }
        other => other,
    };
    gone.map_err(Error::io("remove the empty trace", beside.display()))?;
    remove_file(&place.folder, &place.journal())
}

fn remove_file(folder: &Path, name: &str) -> Result<()> {
    match own(folder)?.remove_file(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", folder.join(name).display())(error))
        }
        _ => Ok(()),
    }
}

/// The folder of a session, which others could not have exchanged.
fn own(folder: &Path) -> Result<Folder> {
    let found = Folder::find(folder).and_then(|found| found.ok_or(io::ErrorKind::NotFound.into()));
    let checked = found.and_then(|folder| folder.check().map(|()| folder));
    checked.map_err(Error::io("use the directory", folder.display()))
}

fn entries(folder: &Path) -> Result<Vec<Entry>> {
    let listed = own(folder)?.entries();
    listed.map_err(Error::io("read the directory", folder.display()))
}

/// The last name of a path of ours.
fn leaf(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

fn pack(lost: &LostRecords) -> Vec<(u32, u16, u32, u64)> {
    let row = |(&(buffer, event, cpu), &count): (&(u32, u16, u32), &u64)| (buffer, event, cpu, count);
    lost.iter().map(row).collect()
}

fn unpack(rows: &[(u32, u16, u32, u64)]) -> LostRecords {
    rows.iter()
        .map(|&(buffer, event, cpu, count)| ((buffer, event, cpu), count))
        .collect()
}

fn read_json<T: for<'a> Deserialize<'a>>(folder: &Path, name: &str) -> Option<T> {
    let mut text = String::new();
    let file = own(folder).ok()?.read(name).ok()?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// The greatest length of a note, in bytes.
const LONGEST: u64 = 64 << 20;

/// Writes beside, then renames.
fn write_json<T: Serialize>(folder: &Path, name: &str, value: &T) -> Result<()> {
    let text = serde_json::to_vec(value).map_err(io::Error::other);
    let open = own(folder)?;
    let written = text.and_then(|text| directory::replace_file(&open, name, &text));
    written.map_err(Error::io("write", folder.join(name).display()))
}

#[cfg(test)]
mod tests;
