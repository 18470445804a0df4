//! Table files that come with Kestrel, each a file of `tables/` and a row here; people start from them and write their own.

use super::TableFile;
use crate::error::{Error, Result};
use std::path::Path;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// What it is asked for by.
    pub name: &'static str,
    /// What it is for: the first line of its text.
    pub about: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal: $about:literal,)*) => {
        /// All of them.
        pub const SHIPPED: &[Shipped] = &[$(Shipped {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../../tables/", $name, ".kst")),
        }),*];
    };
}

shipped! {
    "flight": "the flight recorder: every class of events but locks, always on",
    "all": "every class of events, locks included",
    "sched": "scheduling, quiet and in detail",
    "io": "input and output, from system call to device",
    "oom": "memory pressure; what led to an out-of-memory kill is kept",
    "lkst": "the event classes of LKST: normal, detail, and each class alone",
    "before": "the last ten seconds before something went wrong, always on: each time a trace of its own",
    "trouble": "a cheap table that looks closely for a while after something went wrong, and goes back by itself",
    "process": "three buffers: before, during and after one process runs on a CPU",
}

/// The shipped table file of this name.
pub fn find(name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|shipped| shipped.name == name)
}

/// The longest table file that is read.
const LONGEST: u64 = 16 << 20;

/// Opens what a user names: a file where the name looks like one or there is one, else a shipped table file.
///
/// # Errors
/// When there is neither; when it cannot be read; [`Error::Table`] when it is wrong.
pub fn open(name: &str) -> Result<TableFile> {
    let path = Path::new(name);
    if let Some(shipped) = find(name).filter(|_| !path.is_file()) {
        return TableFile::parse(shipped.text, shipped.name);
    }
    let failed = |error| Error::Io {
        action: "read table file",
        subject: name.to_owned(),
        error,
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let read = std::io::Read::read_to_end(&mut std::io::Read::take(file, LONGEST + 1), &mut bytes);
    read.map_err(failed)?;
    if bytes.len() as u64 > LONGEST {
        let why = format!("it is longer than {} MiB", LONGEST >> 20);
        return Err(failed(std::io::Error::other(why)));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed(std::io::Error::other("it is not UTF-8 text")))?;
    TableFile::parse(&text, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_says_first_what_it_is_for_and_is_right_by_itself() {
        for shipped in SHIPPED {
            let first = shipped.text.lines().next().unwrap();
            let said = first
                .trim_start_matches("//")
                .trim()
                .trim_end_matches('.')
                .to_lowercase();
            assert_eq!(said, shipped.about.to_lowercase(), "{}", shipped.name);
            TableFile::parse(shipped.text, shipped.name).unwrap();
        }
    }

    #[test]
    fn what_is_neither_file_nor_shipped_is_said() {
        let error = open("no/such/file.kst").unwrap_err().to_string();
        assert!(error.contains("no/such/file.kst"), "{error}");
    }
}
