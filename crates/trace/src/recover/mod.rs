//! Traces out of an image of memory: every page says whose packet it is, pages of metadata say how to read the others; no symbols, no page tables.
//!
//! ```text
//! image ─► index: pages by trace ─┬─► description: of several generations of metadata, the one that knows most
//!                                 └─► order: per ring, newest first; copies and remains of earlier use set aside
//!                                         └─► repair: whole packets as they are, cut ones closed ─► save: a trace directory
//! ```
//!
//! Nothing distinguishes a page of a ring from a copy of it (in a trace file's page cache, in a recorder's memory): both say the same, so the fullest of
//! each is taken, and the number of the others is reported.

mod description;
mod index;
mod order;
mod repair;
mod save;

use crate::image::bytes::ReadAt;
use crate::image::{Format, Image, Progress, Scanned, Unreadable};
use crate::info::{TraceInfo, Uuid};
use crate::packet::PAGE;
use index::Index;
use order::Ring;
use serde::Serialize;

pub use save::{Recovered, RingCounts};

/// Findings in an image.
#[derive(Debug)]
pub struct Findings {
    /// The format of the file.
    pub format: Format,
    /// The part that was scanned.
    pub scanned: Scanned,
    /// Traces that can be read, the one with the newest packet first.
    pub sessions: Vec<Session>,
    /// Traces of which there are packets, but not (or not all of) what says how to read them.
    pub unexplained: Vec<Unexplained>,
}

/// Packets that nothing explains: most often the remains of a session that ended before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unexplained {
    /// The trace's identity.
    pub uuid: String,
    /// Number of packets with events.
    pub packets: u64,
    /// Why they cannot be read.
    pub why: String,
}

/// A trace found in an image.
#[derive(Debug)]
pub struct Session {
    info: TraceInfo,
    /// The trace whose metadata it is read with, where its own is not in the image.
    explained_by: Option<Uuid>,
    rings: Vec<Ring>,
}

impl Session {
    /// Description of the trace.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Packets to be read.
    pub fn packets(&self) -> u64 {
        self.rings.iter().map(|ring| ring.slots.len() as u64).sum()
    }

    /// Time at which its newest packet began, ns of its clock.
    fn newest_ns(&self) -> u64 {
        let begins = self.rings.iter().filter_map(|ring| ring.slots.last());
        begins.map(|slot| slot.begin_ns).max().unwrap_or(0)
    }
}

/// Looks through an image for traces. Packets that nothing in the image explains are read with the metadata of another trace, if one is
/// given: of their own session, or of one of the same tables.
pub fn search<R: ReadAt>(
    image: &Image<R>,
    metadata: Option<&TraceInfo>,
    progress: Progress<'_>,
) -> Result<Findings, Unreadable> {
    let mut index = Index::default();
    let scanned = image.scan(&mut |place, page| index.take(place, page), progress)?;
    let mut findings = Findings {
        format: image.format(),
        scanned,
        sessions: Vec::new(),
        unexplained: Vec::new(),
    };
    for (uuid, trace) in index.traces() {
        match description::choose(uuid, &trace.metadata) {
            Ok(info) => findings.sessions.push(session(info, None, trace.packets)),
            Err(_) if trace.packets.is_empty() => {}
            Err(_) if let Some(given) = metadata => {
                let info = TraceInfo {
                    uuid,
                    ..given.clone()
                };
                let session = session(info, Some(given.uuid), trace.packets);
                findings.sessions.push(session);
            }
            Err(why) => findings.unexplained.push(Unexplained {
                uuid: uuid.to_string(),
                packets: trace.packets.len() as u64,
                why: why.to_string(),
            }),
        }
    }
    findings
        .sessions
        .sort_by_key(|session| std::cmp::Reverse(session.newest_ns()));
    findings.unexplained.sort_by(|a, b| a.uuid.cmp(&b.uuid));
    Ok(findings)
}

fn session(mut info: TraceInfo, explained_by: Option<Uuid>, packets: Vec<index::FoundPacket>) -> Session {
    let mut rings = Vec::new();
    for ((buffer, cpu), found) in index::by_ring(packets) {
        let pages = match info.buffer(buffer) {
            Some(buffer) => buffer.bytes_per_cpu / u64::from(PAGE),
            None => {
                let unheard_of = description::buffer_unheard_of(buffer, &info);
                info.buffers.push(unheard_of);
                0
            }
        };
        rings.push(order::order((buffer, cpu), found, pages));
    }
    Session {
        info,
        explained_by,
        rings,
    }
}

/// The directories of traces among others: the sessions' names, or what identifies those that have none, or one that another has, too.
pub fn folder_names(sessions: &[Session]) -> Vec<String> {
    let name = |session: &Session| session.info.session.clone();
    let ours = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    let alone = |name: &str| sessions.iter().filter(|other| other.info.session == name).count() == 1;
    let of = |session: &Session| match name(session) {
        name if ours(&name) && alone(&name) => name,
        _ => session.info.uuid.to_string(),
    };
    sessions.iter().map(of).collect()
}
