//! Packs columns of numbers and strings for the script of the page in the browser.
//!
//! ```text
//!   length of the head (u32, little endian) │ head: JSON, with where each column lies │ planes of bytes, column after column
//! ```
//!
//! A column of numbers is its smallest value and, for each value, the difference to that in as few bytes as the greatest needs: first the lowest bytes of all
//! values, then the next ones, which compresses well. A constant takes no bytes. A rising column has its first value and the differences between neighbours instead.

use serde_json::{Map, Value as Json, json};

/// The columns packed so far.
#[derive(Debug, Default)]
pub(super) struct Columns {
    directory: Map<String, Json>,
    bytes: Vec<u8>,
}

impl Columns {
    /// Adds a column of numbers.
    pub(super) fn numbers(&mut self, name: impl Into<String>, values: impl Iterator<Item = i128> + Clone) {
        self.put(name.into(), values, None);
    }

    /// Adds a column of numbers in ascending order.
    pub(super) fn rising(&mut self, name: impl Into<String>, values: impl Iterator<Item = u64> + Clone) {
        let first = values.clone().next().unwrap_or(0);
        let before = std::iter::once(first).chain(values.clone());
        let steps = values
            .zip(before)
            .map(|(value, before)| i128::from(value) - i128::from(before));
        self.put(name.into(), steps, Some(first));
    }

    /// Adds a column of strings: their bytes as the column `name`, their lengths as the column `name#`.
    pub(super) fn strings<'t>(&mut self, name: &str, strings: impl Iterator<Item = &'t str> + Clone) {
        let at = self.bytes.len();
        strings
            .clone()
            .for_each(|text| self.bytes.extend_from_slice(text.as_bytes()));
        let entry = json!({ "at": at, "bytes": self.bytes.len() - at });
        self.directory.insert(name.to_owned(), entry);
        self.numbers(format!("{name}#"), strings.map(|text| text.len() as i128));
    }

    /// The packed columns with their head, which also has `about`.
    pub(super) fn finish(self, about: Json) -> Vec<u8> {
        let head = json!({ "about": about, "columns": self.directory }).to_string();
        let mut all = (head.len() as u32).to_le_bytes().to_vec();
        all.extend_from_slice(head.as_bytes());
        all.extend_from_slice(&self.bytes);
        all
    }

    fn put(&mut self, name: String, values: impl Iterator<Item = i128> + Clone, first: Option<u64>) {
        let least = values.clone().min().unwrap_or(0);
        let greatest = values.clone().max().unwrap_or(0);
        let width = (128 - (greatest - least).leading_zeros()).div_ceil(8);
        let at = self.bytes.len();
        let mut count = 0;
        for plane in 0..width {
            count = 0;
            for value in values.clone() {
                self.bytes.push(((value - least) >> (8 * plane)) as u8);
                count += 1;
            }
        }
        if width == 0 {
            count = values.count();
        }
        // The script reads JSON's numbers as floats, which would round a smallest value that is a pointer: it is written as text.
        let first = first.map(|first| first.to_string());
        let entry =
            json!({ "at": at, "count": count, "width": width, "least": least.to_string(), "first": first });
        self.directory.insert(name, entry);
    }
}
