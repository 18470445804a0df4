//! What says how to read a trace's packets: its metadata, put together from pages of one generation where several are about.

use super::index::Metadata;
use crate::ctf::metadata;
use crate::ctf::packet::Page;
use crate::ctf::pages::{Unjoinable, metadata_text};
use crate::info::{BufferInfo, BufferMode, TraceInfo, Uuid};

/// Ways to put pages of several generations together that are tried.
const TRIES: usize = 256;

/// Why there is no description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unexplained {
    #[error(transparent)]
    Unjoinable(#[from] Unjoinable),
    #[error("its metadata does not make sense: {0}")]
    Senseless(String),
}

/// The description with the most events that the pages of a trace's metadata give.
///
/// A session to which events were added has written its metadata anew, and pages of what it wrote before may still be about. A newer
/// generation knows more events than an older one; one that was put together from two does not parse, or knows fewer.
pub(super) fn choose(uuid: Uuid, pages: &Metadata) -> Result<TraceInfo, Unexplained> {
    let mut totals: Vec<u64> = pages.keys().map(|(total, _)| *total).collect();
    totals.dedup();
    let mut best: Result<TraceInfo, Unexplained> = Err(Unjoinable::None(uuid).into());
    for total in totals.into_iter().rev() {
        let numbers: Vec<&Vec<Box<Page>>> = pages
            .range((total, 0)..=(total, u64::MAX))
            .map(|(_, contents)| contents)
            .collect();
        for attempt in 0..ways(&numbers).min(TRIES) {
            let found = join(uuid, &numbers, attempt);
            let better = match (&best, &found) {
                (Ok(best), Ok(found)) => found.events.len() > best.events.len(),
                (Err(_), _) => true,
                (Ok(_), Err(_)) => false,
            };
            if better {
                best = found;
            }
        }
    }
    best
}

/// How many ways there are to take one content of each page.
fn ways(numbers: &[&Vec<Box<Page>>]) -> usize {
    numbers
        .iter()
        .fold(1, |ways, contents| ways.saturating_mul(contents.len()))
}

/// One of them: the digits of `attempt`, in a system in which each place has its own base, choose the contents.
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
pub(super) fn buffer_unheard_of(number: u32) -> BufferInfo {
    BufferInfo {
        number,
        name: format!("buffer-{number}"),
        mode: BufferMode::Overwrite,
        bytes_per_cpu: 0,
    }
}
