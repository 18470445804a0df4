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
            let Some(symbol) = cpp_symbol(mangled) else {
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

/// A mangled name of C++. Other names are none, though the demangler takes types, too: to it `f` is `float`.
fn cpp_symbol(mangled: &str) -> Option<Symbol<&str>> {
    let is_mangled = mangled.trim_start_matches('_').starts_with('Z') && mangled.starts_with('_');
    is_mangled.then(|| Symbol::new(mangled).ok()).flatten()
}

/// A function's name as people write it, whatever language it is of; names that no language mangled stay as they are.
pub fn demangled(name: &str) -> String {
    let languages = [Language::Rust, Language::Cpp];
    let found = languages
        .into_iter()
        .find_map(|language| language.names(name).into_iter().next());
    found.unwrap_or_else(|| name.to_owned())
}

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

    #[test]
    fn names_without_mangling_stay_as_they_are() {
        // `f`, `g` and `Pc` are types where mangled names have types: float, __float128, char*.
        for name in ["f", "g", "Pc", "_", "main", "_start", "Z3foov"] {
            assert!(Language::Cpp.names(name).is_empty(), "{name}");
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_Z3foov"), "foo()");
        assert_eq!(
            demangled("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
    }
}
