//! Mutations of a recording's files, the same for the same number: bits flipped, files cut, bytes and numbers exchanged for extremes, parts spliced in, pages
//! exchanged.

use kestrel_trace::packet::{PAGE, offset};
use std::fs;
use std::path::{Path, PathBuf};

/// Random numbers, the same for the same seed (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap() % n.max(1)
    }
}

/// A recording whose files are kept in memory, so that a mutation writes the files that it changes and puts those back alone.
pub(super) struct Recording {
    pub(super) path: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
    /// Files with records, of those.
    streams: Vec<usize>,
}

impl Recording {
    /// Copies a recording to a path, and reads its files.
    pub(super) fn copied(from: &Path, path: PathBuf) -> Self {
        let mut files = Vec::new();
        copy(from, &path, &mut files);
        files.sort();
        let holds_records = |file: &Path| {
            let inside = file.strip_prefix(&path).unwrap();
            !inside.starts_with(".kestrel") && !inside.ends_with("metadata")
        };
        let streams = (0..files.len())
            .filter(|&index| holds_records(&files[index].0))
            .collect();
        Self { path, files, streams }
    }

    pub(super) fn bytes(&self) -> usize {
        self.files.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Changes one or two of its files; what it returns puts them back when it is dropped.
    pub(super) fn mutate(&self, random: &mut Random) -> PutBack<'_> {
        let mut changed = Vec::new();
        for _ in 0..=random.below(2) {
            let index = match random.below(10) {
                0..6 if !self.streams.is_empty() => self.streams[random.below(self.streams.len())],
                _ => random.below(self.files.len()),
            };
            let (file, original) = &self.files[index];
            let mut bytes = match changed.contains(&index) {
                true => fs::read(file).unwrap(),
                false => original.clone(),
            };
            for _ in 0..=random.below(3) / 2 {
                mutate(random, &mut bytes);
            }
            fs::write(file, bytes).unwrap();
            changed.push(index);
        }
        PutBack {
            recording: self,
            changed,
        }
    }
}

/// Files to be as they were.
pub(super) struct PutBack<'r> {
    recording: &'r Recording,
    changed: Vec<usize>,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        for index in &self.changed {
            let (file, bytes) = &self.recording.files[*index];
            fs::write(file, bytes).unwrap();
        }
    }
}

fn copy(from: &Path, to: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    if !from.is_dir() {
        let bytes = fs::read(from).unwrap();
        fs::write(to, &bytes).unwrap();
        files.push((to.to_owned(), bytes));
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()), files);
    }
}

/// Numbers at which sums, products and signs turn over.
const EXTREMES: [u64; 12] = [
    0,
    1,
    u64::MAX,
    1 << 63,
    (1 << 63) - 1,
    u32::MAX as u64,
    1 << 32,
    1 << 31,
    (1 << 31) - 1,
    0xffff,
    4096,
    64,
];

/// The same in descriptions that are text.
const WRITTEN: [&str; 9] = [
    "0",
    "1",
    "-1",
    "64",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "99999999999999999999",
];

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    let n = bytes.len();
    if n == 0 {
        return;
    }
    let at = random.below(n);
    match random.below(10) {
        0 => bytes.truncate(at),
        1 => fill(bytes, at, random.below(64) + 1, 0xff),
        2 => fill(bytes, at, random.below(200) + 1, 0),
        3 => {
            let (from, len) = (random.below(n), random.below(300));
            let part: Vec<u8> = bytes.iter().skip(from).take(len).copied().collect();
            bytes.splice(at..(at + random.below(300)).min(n), part);
        }
        // A number of a page's or a file's head.
        4 => {
            let at = at / 4096 * 4096 + random.below(32) * 4;
            number(random, bytes, at);
        }
        5 => number(random, bytes, at),
        6 => written(random, bytes, at),
        7 => exchange_pages(random, bytes),
        _ => {
            for _ in 0..=random.below(8) {
                let at = random.below(n);
                bytes[at] ^= 1 << random.below(8);
            }
        }
    }
}

/// Exchanges two pages, whose sequence numbers stay where they were: times run backwards in a stream that is whole otherwise.
fn exchange_pages(random: &mut Random, bytes: &mut [u8]) {
    let page = PAGE as usize;
    let pages = bytes.len() / page;
    let (one, other) = (random.below(pages), random.below(pages));
    if pages < 2 || one == other {
        return;
    }
    let numbers = [one, other].map(|at| at * page + offset::SEQUENCE as usize);
    let (low, high) = bytes.split_at_mut(one.max(other) * page);
    low[one.min(other) * page..][..page].swap_with_slice(&mut high[..page]);
    for place in 0..8 {
        bytes.swap(numbers[0] + place, numbers[1] + place);
    }
}

fn fill(bytes: &mut [u8], at: usize, len: usize, byte: u8) {
    bytes.iter_mut().skip(at).take(len).for_each(|it| *it = byte);
}

/// Stores an extreme of one, two, four or eight bytes.
fn number(random: &mut Random, bytes: &mut [u8], at: usize) {
    let size = 1 << random.below(4);
    let value = EXTREMES[random.below(EXTREMES.len())].wrapping_sub(random.next() >> 62);
    let at = at / size * size;
    for (byte, new) in bytes.iter_mut().skip(at).zip(&value.to_le_bytes()[..size]) {
        *byte = *new;
    }
}

/// Exchanges the next number that is written in digits.
fn written(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit) else {
        return number(random, bytes, at);
    };
    let from = at + from;
    let digits = bytes[from..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let new = WRITTEN[random.below(WRITTEN.len())];
    bytes.splice(from..from + digits, new.bytes());
}
