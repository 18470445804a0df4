//! Metadata text in pages of the ring's own kind, so that a memory image explains itself; their shape says `crate::packet::METADATA_STREAM`.

use super::packet::{Page, is_metadata, long, uuid_of};
use crate::info::Uuid;
use crate::packet::{self, CAPACITY, HEADER, offset};
use std::collections::BTreeMap;

/// Why pages of metadata could not be joined to a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each case and field is")]
pub enum Unjoinable {
    #[error("no page of metadata for trace {0}")]
    None(Uuid),
    #[error("page {number} of the {pages} pages of metadata is missing")]
    Gap { number: u64, pages: u64 },
    #[error("page {0} of the metadata says that it holds more than a page")]
    ContentSize(u64),
    #[error("the metadata is not UTF-8")]
    NotText,
}

/// Cuts metadata text into pages. Of several descriptions of one trace the one with the highest `generation` describes the most events.
pub fn metadata_pages(text: &str, uuid: Uuid, generation: u64) -> Vec<Page> {
    let parts: Vec<&[u8]> = text.as_bytes().chunks(CAPACITY as usize).collect();
    let pages = parts.len() as u64;
    let page_of = |(number, part): (usize, &&[u8])| {
        packet::metadata_page(&uuid.0, generation, (number as u64, pages), part)
    };
    parts.iter().enumerate().map(page_of).collect()
}

/// Joins the metadata of trace `uuid` from pages in any order, among which others may stand and any may stand twice: of the newest generation
/// that is there whole.
pub fn metadata_text<'a>(
    pages: impl IntoIterator<Item = &'a [u8]>,
    uuid: Uuid,
) -> Result<String, Unjoinable> {
    let mut generations: BTreeMap<u64, Vec<&[u8]>> = BTreeMap::new();
    for page in pages {
        if is_metadata(page)
            && uuid_of(page) == Some(uuid)
            && let Some(generation) = long(page, offset::GENERATION)
        {
            generations.entry(generation).or_default().push(page);
        }
    }
    let mut newest = Err(Unjoinable::None(uuid));
    for pages in generations.into_values() {
        let text = join(&pages, uuid);
        if text.is_ok() || newest.is_err() {
            newest = text;
        }
    }
    newest
}

/// Joins the pages of one generation.
fn join(pages: &[&[u8]], uuid: Uuid) -> Result<String, Unjoinable> {
    let mut parts = BTreeMap::new();
    let mut total = 0;
    for &page in pages {
        let (Some(number), Some(pages), Some(bits)) = (
            long(page, offset::SEQUENCE),
            long(page, offset::METADATA_PAGES),
            long(page, offset::CONTENT_SIZE),
        ) else {
            continue;
        };
        let end = usize::try_from(bits / 8).unwrap_or(usize::MAX);
        let Some(part) = page.get(HEADER as usize..end) else {
            return Err(Unjoinable::ContentSize(number));
        };
        total = total.max(pages);
        parts.insert(number, part);
    }
    if parts.is_empty() {
        return Err(Unjoinable::None(uuid));
    }
    let mut bytes = Vec::new();
    for ((number, part), expected) in parts.iter().zip(0..) {
        if *number != expected {
            return Err(Unjoinable::Gap {
                number: expected,
                pages: total,
            });
        }
        bytes.extend_from_slice(part);
    }
    if (parts.len() as u64) < total {
        return Err(Unjoinable::Gap {
            number: parts.len() as u64,
            pages: total,
        });
    }
    String::from_utf8(bytes).map_err(|_| Unjoinable::NotText)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_from_shuffled_pages() {
        let text: String = (0..3000).map(|n| format!("line {n};\n")).collect();
        let uuid = Uuid(*b"0123456789abcdef");
        let mut pages = metadata_pages(&text, uuid, 3);
        assert!(pages.len() > 3);
        pages.swap(0, 2);
        pages.push(pages[1]);
        pages.extend(metadata_pages("another trace's", Uuid([7; 16]), 9));
        pages.extend(metadata_pages("an older description", uuid, 2));
        let found = metadata_text(pages.iter().map(|page| page.as_slice()), uuid);
        assert_eq!(found.as_deref(), Ok(text.as_str()));
        let gap = metadata_text(pages[1..2].iter().map(|page| page.as_slice()), uuid);
        assert!(matches!(gap, Err(Unjoinable::Gap { number: 0, .. })), "{gap:?}");
    }
}
