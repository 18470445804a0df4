//! A place in a program or library, parsed from what follows the path in an event's name: `malloc`, `malloc+0x10`, `0x1234`, `cpp:ns::f(int)`.

use super::Executable;
use super::language::Language;
use crate::debuginfo::Line;
use crate::error::{Error, Result};
use std::fmt;

/// A place in an executable file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// An address, as `nm` and `objdump` show it.
    Address(u64),
    /// A function, or an instruction so many bytes behind its beginning.
    Function {
        /// The language whose names are meant; those of the linker without one.
        language: Option<Language>,
        /// The function's name.
        name: String,
        /// Bytes behind its beginning.
        offset: u64,
    },
    /// Statements of a line of source.
    Line {
        /// The source file.
        file: String,
        /// The number of the line.
        line: u64,
        /// The column, if the event names one.
        column: Option<u64>,
    },
}

impl Site {
    /// Reads what stands behind the path; every text means something.
    pub fn read(text: &str) -> Self {
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        if text.starts_with(|c: char| c.is_ascii_digit())
            && let Some(address) = number(text)
        {
            return Self::Address(address);
        }
        if let Some(line) = Self::line(text) {
            return line;
        }
        let worded = text.split_once(':');
        let worded = worded.and_then(|(word, rest)| Some((Language::of(word)?, rest)));
        let (language, rest) = worded.map_or((None, text), |(language, rest)| (Some(language), rest));
        // The name of an operator may have a plus in it.
        let behind = rest.rsplit_once('+');
        let (name, offset) = behind
            .and_then(|(name, digits)| Some((name, number(digits)?)))
            .unwrap_or((rest, 0));
        Self::Function {
            language,
            name: name.to_owned(),
            offset,
        }
    }

    /// `FILE:LINE` or `FILE:LINE:COLUMN`.
    fn line(text: &str) -> Option<Self> {
        let digits = |text: &str| text.parse::<u64>().ok();
        let (before, last) = text.rsplit_once(':')?;
        let last = digits(last)?;
        let (file, line, column) = match before.rsplit_once(':') {
            Some((file, line)) if digits(line).is_some() => (file, digits(line)?, Some(last)),
            _ => (before, last, None),
        };
        // Names of C++ have double colons, and no numbers behind them.
        let is_file = !file.is_empty() && !file.ends_with(':');
        is_file.then(|| Self::Line {
            file: file.to_owned(),
            line,
            column,
        })
    }

    /// Where it lies in the file: several places where several functions have the name.
    ///
    /// # Errors
    /// When the file has no such place.
    pub fn offsets(&self, file: &Executable) -> Result<Vec<u64>> {
        match self {
            Self::Address(address) => {
                // An address that no part of the program has is one of the file's bytes, as in bpftrace; `uprobe` lets it through only where it is forced.
                Ok(vec![file.offset_of(*address).unwrap_or(*address)])
            }
            Self::Line {
                file: source,
                line,
                column,
            } => self.statements(file, source, *line, *column),
            Self::Function {
                language,
                name,
                offset,
            } => {
                let found = file.named(*language, &|known| known == name);
                let mut all: Vec<u64> = found
                    .iter()
                    .map(|(f, _)| f.offset.saturating_add(*offset))
                    .collect();
                all.sort_unstable();
                all.dedup();
                match all.is_empty() {
                    true => Err(file.no_function(name, *language)),
                    false => Ok(all),
                }
            }
        }
    }

    /// Where the statements of a line begin.
    fn statements(
        &self,
        file: &Executable,
        source: &str,
        line: u64,
        column: Option<u64>,
    ) -> Result<Vec<u64>> {
        let no_place = |why: String| Error::Object {
            object: format!("{}:{self}", file.path().display()),
            why,
        };
        let info = file.debug_info().ok_or_else(|| {
            no_place(
                "lines of source are known from debug information (DWARF), and there is none: in the program, beside it, in /usr/lib/debug or the folders of --debuginfo".to_owned(),
            )
        })?;
        let wanted = Line {
            file: source,
            line,
            column,
        };
        let found = info.lines(wanted);
        // A line has a place in each copy of its code: inlined, unrolled, instantiated.
        let mut all: Vec<u64> = found
            .addresses
            .iter()
            .filter_map(|address| file.offset_of(*address))
            .collect();
        all.sort_unstable();
        all.dedup();
        match all.is_empty() {
            false => Ok(all),
            true if !found.has_file => Err(no_place(format!("no code was made of a file {source}"))),
            true => {
                let near: Vec<String> = found.near.iter().map(u64::to_string).collect();
                Err(no_place(format!(
                    "no statement begins there; near it some do at lines {}",
                    near.join(", ")
                )))
            }
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address:#x}"),
            Self::Line { file, line, column } => {
                write!(f, "{file}:{line}")?;
                column.map_or(Ok(()), |column| write!(f, ":{column}"))
            }
            Self::Function {
                language,
                name,
                offset,
            } => {
                if let Some(language) = language {
                    write!(f, "{}:", language.word())?;
                }
                match offset {
                    0 => f.write_str(name),
                    offset => write!(f, "{name}+{offset:#x}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_site_is_printed_as_it_is_parsed() {
        for text in [
            "malloc",
            "malloc+0x10",
            "0x1234",
            "cpp:ns::f(int)",
            "cpp:ns::operator+(A, B)",
            "rust:core::fmt::write+0x4",
            "a.c:22",
            "/src/a.c:22:7",
        ] {
            assert_eq!(Site::read(text).to_string(), text);
        }
        assert_eq!(Site::read("4660"), Site::Address(0x1234));
        assert_eq!(Site::read("malloc+16").to_string(), "malloc+0x10");
        assert_eq!(
            Site::read("cpp:ns::operator+(A, B)"),
            Site::Function {
                language: Some(Language::Cpp),
                name: "ns::operator+(A, B)".to_owned(),
                offset: 0
            }
        );
    }
}
