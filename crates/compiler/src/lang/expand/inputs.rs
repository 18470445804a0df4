//! Inputs that the caller of the expander gives.

/// Inputs with which a script is expanded.
pub struct Inputs<'a> {
    /// Where imports and headers come from.
    pub files: &'a dyn Files,
    /// Names that are defined before the text begins, and what they stand for: `BPFTRACE_HAVE_BTF`.
    pub defined: &'a [(&'a str, &'a str)],
    /// `$1`, `$2`, ….
    pub positional: &'a [String],
    /// `--name=value` and `--name` behind `--`, without the dashes.
    pub named: &'a [(String, Option<String>)],
    /// Macros that every script has: file names and sources.
    pub library: &'a [(&'a str, &'a str)],
}

impl Default for Inputs<'_> {
    fn default() -> Self {
        Self {
            files: &NoFiles,
            defined: &[],
            positional: &[],
            named: &[],
            library: crate::lang::library::TEXTS,
        }
    }
}

/// A file that a script imports.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportedText {
    /// Name shown to people; a file that is imported twice has the same name both times.
    pub name: String,
    /// The text that is imported.
    pub text: String,
}

/// Access to the files of a script.
pub trait Files {
    /// The file, or the files of the folder, that `import "path"` in the file `from` means.
    ///
    /// # Errors
    /// Why it cannot be imported.
    fn import(&self, path: &str, from: &str) -> Result<Vec<ImportedText>, String>;

    /// The header that `#include "path"` (`own`) or `#include <path>` in the file `from` means; `None` for a header that is
    /// not there, whose types BTF may know.
    ///
    /// # Errors
    /// Why the header cannot be read.
    fn header(&self, path: &str, own: bool, from: &str) -> Result<Option<ImportedText>, String>;
}

/// No files at all.
pub struct NoFiles;

impl Files for NoFiles {
    fn import(&self, _: &str, _: &str) -> Result<Vec<ImportedText>, String> {
        Err("no files can be imported here".to_owned())
    }

    fn header(&self, _: &str, _: bool, _: &str) -> Result<Option<ImportedText>, String> {
        Ok(None)
    }
}
