//! Source texts one behind the other: a position in the whole belongs to one of them.

use super::ast::Span;
use super::diag::{self, Diagnostic, Style};

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

    /// The text that a place lies in.
    fn file_of(&self, span: Span) -> Option<&Source> {
        let start = span.start as usize;
        self.files.iter().rev().find(|file| file.start <= start)
    }

    /// The text of one of the files.
    pub fn text_of(&self, file: &Source) -> &str {
        self.text.get(file.start..file.end).unwrap_or_default()
    }

    /// Shows diagnostics, each in the text that it is about; other places that matter are shown if they lie in the same text.
    pub fn render(&self, diagnostics: &[Diagnostic], style: Style) -> String {
        let mut out = String::new();
        for diagnostic in diagnostics {
            let Some(file) = self.file_of(diagnostic.span) else {
                continue;
            };
            let mut own = diagnostic.clone();
            own.labels.retain(|label| self.file_of(label.span) == Some(file));
            for span in own
                .labels
                .iter_mut()
                .map(|label| &mut label.span)
                .chain([&mut own.span])
            {
                let base = u32::try_from(file.start).unwrap_or(u32::MAX);
                span.start = span.start.saturating_sub(base);
                span.end = span.end.saturating_sub(base);
            }
            out += &diag::render(&[own], &file.name, self.text_of(file), style);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_in_its_own_text() {
        let mut all = Sources::new("main.bt", "import \"more\"");
        all.add("more.bt", "first\nsecond");
        let start = all.text().find("second").unwrap() as u32;
        let span = Span {
            start,
            end: start + 6,
        };
        assert_eq!(all.file_of(span).map(|file| file.name.as_str()), Some("more.bt"));
        let other = Span { start: 0, end: 6 };
        let found = Diagnostic::error(span, "wrong").label(other, "in another text");
        let shown = all.render(&[found], Style::default());
        assert_eq!(shown, "more.bt:2:1: error: wrong\n    second\n    ^^^^^^\n");
        let found = [Diagnostic::error(span, "wrong"), Diagnostic::error(other, "here")];
        let shown = diag::render(&found, "main.bt", all.text(), Style::default());
        let expected = "more.bt:2:1: error: wrong\n    second\n    ^^^^^^\nmain.bt:1:1: error: here\n    import \"more\"\n    ^^^^^^\n";
        assert_eq!(shown, expected);
        assert_eq!(diag::place("main.bt", all.text(), span), "more.bt:2:1-7");
    }
}
