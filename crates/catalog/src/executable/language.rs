//! Languages whose linkers know functions by mangled names, and those names as people write them: one row each.

use cpp_demangle::{DemangleOptions, Symbol};

/// A language that mangles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

struct Row {
    language: Language,
    /// The language's word in an event's name.
    word: &'static str,
    /// A mangled name as people write it, the whole one first.
    names: fn(&str) -> Vec<String>,
}

// A table: the languages.
const LANGUAGES: &[Row] = &[
    Row {
        language: Language::Cpp,
        word: "cpp",
        names: |mangled| {
            let Ok(symbol) = Symbol::new(mangled) else {
                return Vec::new();
            };
            let whole = symbol.demangle_with_options(&DemangleOptions::default());
            let bare = symbol.demangle_with_options(&DemangleOptions::default().no_params().no_return_type());
            whole.into_iter().chain(bare).collect()
        },
    },
    Row {
        language: Language::Rust,
        word: "rust",
        names: |mangled| {
            let demangled = rustc_demangle::try_demangle(mangled);
            // The alternative form leaves out the hash.
            demangled.map_or_else(|_| Vec::new(), |name| vec![format!("{name:#}")])
        },
    },
];

impl Language {
    /// The language with this word.
    pub fn of(word: &str) -> Option<Self> {
        let mut rows = LANGUAGES.iter();
        rows.find(|row| row.word == word).map(|row| row.language)
    }

    fn row(self) -> &'static Row {
        let mut rows = LANGUAGES.iter();
        rows.find(|row| row.language == self).unwrap_or(&LANGUAGES[0])
    }

    /// The word in an event's name.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// A mangled name as people write it: with its parameters first, then without; empty where the language has no such name.
    pub fn names(self, mangled: &str) -> Vec<String> {
        (self.row().names)(mangled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_people_write() {
        let names = Language::Cpp.names("_ZN3foo3barEiPKc");
        assert_eq!(names, ["foo::bar(int, char const*)", "foo::bar"]);
        let names = Language::Rust.names("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE");
        assert_eq!(names, ["core::fmt::Write::write_fmt"]);
        assert!(Language::Cpp.names("main").is_empty());
        assert!(Language::Rust.names("main").is_empty());
    }
}
