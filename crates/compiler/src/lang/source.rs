//! Source texts one behind the other: a position in the whole belongs to one of them.

use super::ast::Span;
use super::diag::{self, Diagnostic, Style};
use super::expansion;

/// The words of a source at a place: in the body of a macro, those that call it. None where they are of several lines.
pub fn words(text: &str, span: Span) -> Option<&str> {
    let span = expansion::outermost(text, span);
    let words = text.get(span.start as usize..span.end as usize)?.trim();
    (!words.is_empty() && !words.contains('\n')).then_some(words)
}

/// A script and the sources that it takes in, as one text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sources {
    text: String,
    files: Vec<Source>,
}

/// A source text with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Name shown to people: a path, `<expression>`.
    pub name: String,
    /// Offset of the source in the text of all.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

impl Sources {
    /// Sources with one text, whose positions are those of the whole.
    pub fn new(name: &str, text: &str) -> Self {
        let mut all = Self::default();
        all.add(name, text);
        all
    }

    /// Adds a text behind the others.
    pub fn add(&mut self, name: &str, text: &str) {
        if !self.files.is_empty() {
            // Messages find the file of a place by the last such line before it.
            let name = name.replace('\n', " ");
            self.text.push_str(&format!("\n{}{name}\n", diag::FILE));
        }
        let start = self.text.len();
        self.text.push_str(text);
        self.files.push(Source {
            name: name.to_owned(),
            start,
            end: self.text.len(),
        });
    }

    /// All sources, one behind the other.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The sources, the script first.
    pub fn files(&self) -> &[Source] {
        &self.files
    }

    /// The text of one of the files.
    pub fn text_of(&self, file: &Source) -> &str {
        self.text.get(file.start..file.end).unwrap_or_default()
    }

    /// Adds the texts of macros, one for each call, behind the sources.
    pub(super) fn add_copies(&mut self, copies: &str) {
        self.text.push_str(copies);
    }

    /// Shows diagnostics, each in the text that it is about.
    pub fn render(&self, diagnostics: &[Diagnostic], style: Style) -> String {
        let name = self.files.first().map_or("", |file| &file.name);
        diag::render(diagnostics, name, &self.text, style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::ast::Span;

    #[test]
    fn a_place_is_shown_in_its_own_text() {
        let mut all = Sources::new("main.bt", "import \"more\"");
        all.add("more.bt", "first\nsecond");
        let start = all.text().find("second").unwrap() as u32;
        let span = Span {
            start,
            end: start + 6,
        };
        let other = Span { start: 0, end: 6 };
        let found = Diagnostic::error(span, "wrong").label(other, "in another text");
        let shown = all.render(&[found], Style::default());
        assert_eq!(
            shown,
            "more.bt:2:1: error: wrong\n    second\n    ^^^^^^\n    import \"more\"\n    ^^^^^^ in another text\n"
        );
        let found = [Diagnostic::error(span, "wrong"), Diagnostic::error(other, "here")];
        let shown = diag::render(&found, "main.bt", all.text(), Style::default());
        let expected = "more.bt:2:1: error: wrong\n    second\n    ^^^^^^\nmain.bt:1:1: error: here\n    import \"more\"\n    ^^^^^^\n";
        assert_eq!(shown, expected);
        assert_eq!(diag::place("main.bt", all.text(), span), "more.bt:2:1-7");
    }
}
