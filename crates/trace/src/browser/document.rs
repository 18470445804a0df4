//! The page as a file: the shipped markup, style and script around the columns.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write;

/// The markup, with marks where the rest belongs.
const MARKUP: &str = include_str!("page/view.html");
const STYLE: &str = include_str!("page/style.css");

/// The script, in the order in which its parts need each other.
const SCRIPT: &[&str] = &[
    include_str!("page/columns.js"),
    include_str!("page/words.js"),
    include_str!("page/recording.js"),
    include_str!("page/lanes.js"),
    include_str!("page/raster.js"),
    include_str!("page/timeline.js"),
    include_str!("page/tables.js"),
    include_str!("page/flame.js"),
    include_str!("page/panel.js"),
    include_str!("page/search.js"),
    include_str!("page/input.js"),
    include_str!("page/main.js"),
];

/// The page that is written: its markup, scripts and columns.
#[derive(Clone, Debug)]
pub struct Document {
    text: String,
}

impl Document {
    /// The page around these columns.
    pub(super) fn new(columns: &[u8]) -> Self {
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::new(6));
        // Writing to memory does not fail.
        _ = deflate.write_all(columns);
        let data = STANDARD.encode(deflate.finish().unwrap_or_default());
        let script: String = SCRIPT.concat();
        let mut text = String::with_capacity(MARKUP.len() + STYLE.len() + script.len() + data.len());
        let mut rest = MARKUP;
        for (mark, part) in [("/*STYLE*/", STYLE), ("/*DATA*/", &data), ("/*SCRIPT*/", &script)] {
            let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
            text.push_str(before);
            text.push_str(part);
            rest = after;
        }
        text.push_str(rest);
        Self { text }
    }

    /// Bytes of the page as they are written.
    pub fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }
}
