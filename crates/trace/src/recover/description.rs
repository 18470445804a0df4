//! Metadata of a recovered trace, put together from pages of one generation where several are about.

use super::index::Metadata;
use crate::ctf::metadata;
use crate::ctf::packet::Page;
use crate::ctf::pages::{Unjoinable, metadata_text};
use crate::info::{BufferInfo, BufferMode, TraceInfo, Uuid};

/// Ways to put the pages of a generation together that are tried.
const TRIES: usize = 256;

/// Why there is no description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unexplained {
    #[error(transparent)]
    Unjoinable(#[from] Unjoinable),
    #[error("its metadata does not make sense: {0}")]
    Senseless(String),
}

/// The newest description that the pages of a trace's metadata give.
///
/// A session to which events were added has written its metadata anew, and pages of what it wrote before may still be about; the newest may not
/// have been complete when all stood still.
pub(super) fn choose(uuid: Uuid, pages: &Metadata) -> Result<TraceInfo, Unexplained> {
    let mut newest = Err(Unjoinable::None(uuid).into());
    let mut end = (u64::MAX, u64::MAX, u64::MAX);
    while let Some((&(generation, total, _), _)) = pages.range(..=end).next_back() {
        let start = (generation, total, 0);
        let numbers: Vec<_> = pages.range(start..=end).map(|(_, contents)| contents).collect();
        match best(uuid, &numbers) {
            Ok(info) => return Ok(info),
            // The error of the newest is the one to report.
            Err(why) if end.0 == u64::MAX => newest = Err(why),
            Err(_) => {}
        }
        end = match (generation, total) {
            (0, 0) => break,
            (_, 0) => (generation - 1, u64::MAX, u64::MAX),
            _ => (generation, total - 1, u64::MAX),
        };
    }
    newest
}

/// Best of all ways to take one content of each page: the one that gives most events: where a page was written by halves, or twice, there are several.
fn best(uuid: Uuid, numbers: &[&Vec<Box<Page>>]) -> Result<TraceInfo, Unexplained> {
    let ways = numbers
        .iter()
        .fold(1, |ways: usize, contents| ways.saturating_mul(contents.len()));
    let mut best: Result<TraceInfo, Unexplained> = Err(Unjoinable::None(uuid).into());
    for attempt in 0..ways.min(TRIES) {
        let found = join(uuid, numbers, attempt);
        let better = match (&best, &found) {
            (Ok(best), Ok(found)) => found.events.len() > best.events.len(),
            (Err(_), _) => true,
            (Ok(_), Err(_)) => false,
        };
        if better {
            best = found;
        }
    }
    best
}

/// Joins the pages in the way numbered `attempt`: its digits, in a number system with a base for each place, choose among the copies of each page.
fn join(uuid: Uuid, numbers: &[&Vec<Box<Page>>], mut attempt: usize) -> Result<TraceInfo, Unexplained> {
    let chosen = numbers.iter().filter_map(|contents| {
        let digit = attempt.checked_rem(contents.len())?;
        attempt /= contents.len();
        contents.get(digit)
    });
    let text = metadata_text(chosen.map(|page| page.as_slice()), uuid)?;
    let info = metadata::parse(&text).map_err(|why| Unexplained::Senseless(why.to_string()))?;
    if info.uuid == uuid {
        Ok(info)
    } else {
        Err(Unexplained::Senseless("it is another trace's".to_owned()))
    }
}

/// For packets of a buffer that the metadata does not name.
pub(super) fn buffer_unheard_of(number: u32, info: &TraceInfo) -> BufferInfo {
    let mut unheard_of = BufferInfo {
        number,
        name: format!("buffer-{number}"),
        mode: BufferMode::Overwrite,
        bytes_per_cpu: 0,
    };
    let same = info
        .buffers
        .iter()
        .find(|known| known.place() == unheard_of.place());
    if let Some(same) = same {
        // The contents before it was resized, more than once ago.
        unheard_of.name.clone_from(&same.name);
        unheard_of.mode = same.mode;
    }
    unheard_of
}
