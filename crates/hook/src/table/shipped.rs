//! Table files that come with Kestrel, each a file of `tables/` and a row here; people start from them and write their own.

use super::TableFile;
use kestrel_catalog::bounded_read;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::nearest;
use std::path::Path;

/// A shipped table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Name under which it is asked for.
    pub name: &'static str,
    /// Purpose of the file: the first line of its text.
    pub about: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal: $about:literal,)*) => {
        /// All table files that come with Kestrel.
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

/// Whether what a user names is a file: a bare word is a table file that comes with Kestrel, whatever lies where the command runs.
fn is_path(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some()
}

/// Opens what a user names: a file where there is a `/` or an ending in the name, else a shipped table file.
///
/// # Errors
/// [`Error::NoSuchFile`] where nothing of that name is shipped; when the file cannot be read; [`Error::Table`] when it is wrong.
pub fn open(name: &str) -> Result<TableFile> {
    if let Some(shipped) = find(name) {
        return TableFile::parse(shipped.text, shipped.name);
    }
    if !is_path(name) {
        let near = nearest(name, SHIPPED.iter().map(|shipped| shipped.name));
        return Err(Error::NoSuchFile {
            wanted: name.to_owned(),
            near: near.into_iter().map(str::to_owned).collect(),
            here: Path::new(name).is_file(),
        });
    }
    let failed = |error| Error::TableFile {
        file: name.to_owned(),
        error,
    };
    let given = bounded_read::give(Path::new(name), LONGEST).map_err(failed)?;
    let text = String::from_utf8(given.bytes);
    let text = text.map_err(|_| failed(std::io::Error::other("it is not UTF-8 text")))?;
    let mut file = TableFile::parse(&text, name)?;
    file.objection = given.objection;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_begins_with_its_purpose_and_is_valid_by_itself() {
        for shipped in SHIPPED {
            let first = shipped.text.lines().next().unwrap();
            let message = first
                .trim_start_matches("//")
                .trim()
                .trim_end_matches('.')
                .to_lowercase();
            assert_eq!(message, shipped.about.to_lowercase(), "{}", shipped.name);
            TableFile::parse(shipped.text, shipped.name).unwrap();
        }
    }

    #[test]
    fn a_bare_word_is_a_shipped_file_and_similar_names_are_suggested() {
        let message = |name: &str| open(name).unwrap_err().to_string();
        assert!(
            message("fligt").ends_with("did you mean flight?"),
            "{}",
            message("fligt")
        );
        assert!(matches!(
            open("Cargo"),
            Err(Error::NoSuchFile { here: false, .. })
        ));
        // The test runs in the crate's folder.
        assert!(matches!(open("src"), Err(Error::NoSuchFile { here: false, .. })));
        assert!(matches!(open("Cargo.toml"), Err(Error::Table { .. })), "a file");
    }

    #[test]
    fn a_table_that_is_neither_file_nor_shipped_is_named() {
        let error = open("no/such/file.kst").unwrap_err().to_string();
        assert!(error.contains("no/such/file.kst"), "{error}");
    }
}
