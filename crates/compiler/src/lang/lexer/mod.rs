//! Lexer: makes tokens of the source text, one at a time, for expressions and statements; event names have rules of their own in
//! [`super::parse`].

mod condition;
mod number;
mod pragma;
mod preprocess;
mod quoted;

use super::ast::Span;
use super::diag::Diagnostic;
use kestrel_trace::print::raw;
pub use number::number_of;
pub(in crate::lang) use number::parameter_number;
use number::{NumberTrouble, read_number};
pub(super) use preprocess::{DefinedNames, Include};
use preprocess::{Frame, Preprocessor};
pub(super) use quoted::{QuoteTrouble, read_quoted};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind<'a> {
    /// A bare word.
    Word(&'a str),
    /// `$name`, without the dollar.
    Variable(&'a str),
    /// `@name`, without the at sign.
    Map(&'a str),
    /// `$1`.
    Positional(u32),
    /// `$#`.
    PositionalCount,
    /// A number, its suffix applied.
    Integer { value: u64, unsigned: bool },
    /// A string, its escapes resolved.
    String(String),
    /// An operator or bracket.
    Sign(&'static str),
    /// Something that is no token, for which a diagnostic has been reported.
    Bad,
    /// The end of the text.
    End,
}

/// A token and its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: TokenKind<'a>,
    pub(super) span: Span,
}

/// Operators and brackets; a longer one comes before those that it begins with.
const SIGNS: &[&str] = &[
    "<<=", ">>=", "->", "..", "++", "--", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "?", ":", ";", ",", ".", "(", ")", "[", "]", "{", "}", "=", "<", ">", "+",
    "-", "*", "/", "%", "&", "|", "^", "!", "~",
];

/// The reader of a source text: the current place, and the state of the preprocessor.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Where its file begins in the text.
    start: usize,
    at: usize,
    /// Definitions by lines for the C preprocessor; `None` where such lines are not interpreted.
    preprocessor: Option<Preprocessor<'a>>,
    /// Expansions that are read before the text goes on, the innermost last.
    frames: Vec<Frame<'a>>,
    /// Whether a backslash at the end of a line joins it with the next one.
    continued: bool,
    /// Comments and lines of the preprocessor, which mean nothing then, by their first byte: start and end.
    remarks: Option<Rc<RefCell<BTreeMap<usize, usize>>>>,
}

impl<'a> Lexer<'a> {
    /// At the start of `text`, of which at most `u32::MAX` bytes are read.
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            start: 0,
            at: 0,
            preprocessor: None,
            frames: Vec::new(),
            continued: false,
            remarks: None,
        }
    }

    /// For a script as it is written: names stand for themselves, and comments are kept.
    pub(super) fn unexpanded(text: &'a str) -> Self {
        Self {
            remarks: Some(Rc::default()),
            ..Self::new(text)
        }
    }

    /// Offset of the current place in the text, in bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Goes to a byte that begins a character.
    pub(super) fn go_to(&mut self, at: usize) {
        self.frames.clear();
        self.at = at.min(self.text.len());
    }

    /// The whole text that is read.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The text from the current place on.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn span_from(&self, start: usize) -> Span {
        span(start, self.at)
    }

    /// Skips white space and comments.
    pub(super) fn skip_blank(&mut self, found: &mut Vec<Diagnostic>) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            let start = self.at;
            if rest.starts_with("//") || (self.at == self.start && rest.starts_with("#!")) {
                self.at += rest.find('\n').unwrap_or(rest.len());
                self.remark(start);
            } else if self.remarks.is_some() && self.begins_line() && is_preprocessor(rest) {
                self.at += preprocess::line(rest);
                self.remark(start);
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => {
                        self.at += end + 2;
                        self.remark(start);
                    }
                    // One error for the rest of the text, instead of one for each word that the comment has swallowed.
                    None => {
                        let end = self.text.len();
                        found.push(
                            Diagnostic::unclosed(
                                span(self.at, self.at + 2),
                                "this comment is not closed by \"*/\"",
                            )
                            .known_as(span(end, end), "syntax: expected '}'")
                            .hint("write \"*/\" at its end"),
                        );
                        self.at = self.text.len();
                    }
                }
            } else if self.continued && rest.starts_with("\\\n") {
                self.at += 2;
            } else if self.continued && rest.starts_with("\\\r\n") {
                self.at += 3;
            } else if rest.starts_with('#') && !self.directive(found) {
                let start = self.at;
                let preprocessor = self.begins_line() && is_preprocessor(rest);
                self.at += rest.find('\n').unwrap_or(rest.len());
                let place = self.span_from(start);
                found.push(if preprocessor {
                    Diagnostic::error(place, "not yet supported here: preprocessor lines")
                        .hint("the kernel's types and enumerators are known by their names")
                } else {
                    Diagnostic::error(place, "the character '#' means nothing here")
                        .hint("comments begin with \"//\"")
                });
            } else if !rest.starts_with('#') {
                return;
            }
        }
    }

    /// Notes the text between `start` and here as a comment, for [`Self::remarks`].
    fn remark(&self, start: usize) {
        if let Some(remarks) = &self.remarks {
            remarks.borrow_mut().insert(start, self.at);
        }
    }

    /// The comments and lines of the preprocessor that have been passed.
    pub(super) fn remarks(&self) -> Vec<Span> {
        let remarks = self.remarks.as_ref().map(|remarks| remarks.borrow());
        let all = remarks.iter().flat_map(|remarks| remarks.iter());
        all.map(|(start, end)| span(*start, *end)).collect()
    }

    /// Whether only blanks stand before this place on its line.
    fn begins_line(&self) -> bool {
        let before = &self.text[self.start..self.at];
        let blanks = before.trim_end_matches([' ', '\t']);
        blanks.is_empty() || blanks.ends_with('\n')
    }

    /// Reads the next token; names defined for the preprocessor are replaced.
    pub(super) fn next(&mut self, found: &mut Vec<Diagnostic>) -> Token<'a> {
        loop {
            let token = self.raw(found);
            if self.preprocessor.is_none() {
                return token;
            }
            if token.kind == TokenKind::End {
                self.open_conditions(found);
            }
            if let Some(token) = self.unless_defined(token, found) {
                return token;
            }
        }
    }

    /// Reads the next token of the text, without replacing names.
    fn raw(&mut self, found: &mut Vec<Diagnostic>) -> Token<'a> {
        while let Some(frame) = self.frames.last_mut() {
            if let Some(token) = frame.take() {
                return token;
            }
            self.frames.pop();
        }
        self.skip_blank(found);
        let start = self.at;
        let kind = self.kind(found);
        Token {
            kind,
            span: self.span_from(start),
        }
    }

    fn kind(&mut self, found: &mut Vec<Diagnostic>) -> TokenKind<'a> {
        let Some(first) = self.rest().chars().next() else {
            return TokenKind::End;
        };
        match first {
            'a'..='z' | 'A'..='Z' | '_' => TokenKind::Word(self.word()),
            '0'..='9' => self.number(found),
            '"' => self.quoted(found),
            '@' => {
                let start = self.at;
                self.at += 1;
                let name = self.word();
                if name.starts_with(|c: char| c.is_ascii_digit()) {
                    let message = format!(
                        "a map's name begins with a letter or \"_\", not with \"{}\"",
                        &name[..1]
                    );
                    let hint = format!("name it @_{name}, or give it a key: @[{name}]");
                    found.push(Diagnostic::error(self.span_from(start), message).hint(hint));
                }
                TokenKind::Map(name)
            }
            '$' => self.dollar(found),
            _ => {
                let rest = self.rest();
                let begun = SIGNS.iter().filter(|sign| sign.starts_with(first));
                if let Some(sign) = begun.copied().find(|sign| rest.starts_with(sign)) {
                    self.at += sign.len();
                    return TokenKind::Sign(sign);
                }
                self.stray(first, found);
                TokenKind::Bad
            }
        }
    }

    /// Skips a character that begins no token, or a text in the wrong quotes, and reports it.
    fn stray(&mut self, first: char, found: &mut Vec<Diagnostic>) {
        let start = self.at;
        self.at += first.len_utf8();
        if let Some(byte) = raw::byte(first) {
            let message = format!("the byte 0x{byte:x}, which is not UTF-8, means nothing here");
            let hint = "it may stand in strings and comments";
            found.push(Diagnostic::error(self.span_from(start), message).hint(hint));
            return;
        }
        if first != '\'' {
            let shown = match first {
                '\\' => "\\".to_owned(),
                other => other.escape_debug().to_string(),
            };
            let message = format!("the character '{shown}' means nothing here");
            let quote = matches!(
                first,
                '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{2018}' | '\u{2019}'
            );
            let hint = match first {
                '\\' => Some("escapes stand in strings, and strings in double quotes: \"text\\n\""),
                _ => quote.then_some("strings stand in straight double quotes: \"text\""),
            };
            let hint = hint.map(str::to_owned);
            found.push(Diagnostic::error(self.span_from(start), message).maybe_hint(hint));
            return;
        }
        let line = self.rest().split('\n').next().unwrap_or_default();
        self.at += line.find('\'').map_or(0, |end| end + 1);
        found.push(
            Diagnostic::error(self.span_from(start), "single quotes mean nothing here")
                .hint("strings stand in double quotes: \"text\""),
        );
    }

    /// Letters, digits and underscores from here on; may be empty.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn dollar(&mut self, found: &mut Vec<Diagnostic>) -> TokenKind<'a> {
        let start = self.at;
        self.at += 1;
        if self.rest().starts_with('#') {
            self.at += 1;
            return TokenKind::PositionalCount;
        }
        let name = self.word();
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return match name.parse() {
                Ok(index) => TokenKind::Positional(index),
                Err(_) => {
                    found.push(Diagnostic::error(
                        self.span_from(start),
                        "a positional parameter is \"$\" and a number",
                    ));
                    TokenKind::Bad
                }
            };
        }
        if name.is_empty() {
            found.push(
                Diagnostic::error(self.span_from(start), "a name is missing after \"$\"")
                    .known_as(self.span_from(start), "syntax: expected identifier after '$'")
                    .hint("variables are written $name, positional parameters $1"),
            );
            return TokenKind::Bad;
        }
        TokenKind::Variable(name)
    }

    fn number(&mut self, found: &mut Vec<Diagnostic>) -> TokenKind<'a> {
        let start = self.at;
        let word = self.word();
        match read_number(word) {
            Ok((value, unsigned)) => TokenKind::Integer { value, unsigned },
            Err(trouble) => {
                let span = self.span_from(start);
                found.push(match trouble {
                    NumberTrouble::TooLarge => {
                        Diagnostic::error(span, format!("the number {word} does not fit in 64 bits"))
                            .known_as(
                                span,
                                format!(
                                    "syntax: overflow error, maximum value is 18446744073709551615: {word}"
                                ),
                            )
                            .hint("the largest is 18446744073709551615, which is 0xffffffffffffffff")
                    }
                    NumberTrouble::Digits => {
                        let hint = word
                            .ends_with('_')
                            .then(|| "an underscore stands between digits: 1_000".to_owned());
                        let known = match word.starts_with("0x") {
                            true => "syntax: invalid integer: ".to_owned(),
                            false => format!("syntax: invalid trailing bytes: {word}"),
                        };
                        Diagnostic::error(span, format!("\"{word}\" is not a number"))
                            .known_as(span, known)
                            .maybe_hint(hint)
                    }
                    NumberTrouble::Suffix(suffix) => {
                        let behind = Span {
                            start: span.end - suffix.len() as u32,
                            end: span.end,
                        };
                        Diagnostic::error(span, format!("\"{suffix}\" is not a suffix of numbers"))
                            .known_as(behind, format!("syntax: invalid integer suffix '{suffix}'"))
                            .hint("times: ns us ms s m h d; sizes: k M G; unsigned: u")
                    }
                });
                TokenKind::Bad
            }
        }
    }

    fn quoted(&mut self, found: &mut Vec<Diagnostic>) -> TokenKind<'a> {
        let start = self.at;
        match read_quoted(self.rest()) {
            Ok((text, bytes)) => {
                self.at += bytes;
                TokenKind::String(text)
            }
            Err(QuoteTrouble::Open) => {
                let rest = self.rest();
                self.at += rest.find('\n').unwrap_or(rest.len());
                let end = span(self.at, self.at);
                found.push(
                    Diagnostic::unclosed(
                        self.span_from(start),
                        "this string is not closed by a double quote",
                    )
                    .known_as(end, "syntax: unterminated string")
                    .hint("write \" at its end; a quote inside a string is written \\\""),
                );
                TokenKind::Bad
            }
            Err(QuoteTrouble::Escape { at, bytes, end }) => {
                let escape = &self.text[start + at + 1..start + at + bytes];
                let after = span(start + at + 1, start + at + bytes);
                let (place, known) = match escape {
                    "x" => (
                        span(after.end as usize, after.end as usize + 1),
                        "invalid hex escape sequence".to_owned(),
                    ),
                    other => (after, format!("invalid escape character '\\{other}'")),
                };
                found.push(
                    Diagnostic::error(span(start + at, start + at + bytes), "this escape means nothing")
                        .known_as(place, format!("syntax: {known}"))
                        .hint("escapes: \\n \\t \\r \\\\ \\\" \\0 \\x41 \\101"),
                );
                self.at += end;
                TokenKind::Bad
            }
        }
    }
}

/// Whether a line that begins with `#` is one for the C preprocessor.
fn is_preprocessor(line: &str) -> bool {
    if !line.starts_with('#') {
        return false;
    }
    let word = line.trim_start_matches(['#', ' ', '\t']);
    let word = word.split(|c: char| !c.is_ascii_alphabetic()).next();
    let known = [
        "include", "define", "undef", "if", "ifdef", "ifndef", "else", "elif", "endif", "pragma", "error",
    ];
    word.is_some_and(|word| known.contains(&word))
}

/// The bytes `start..end`.
pub(super) fn span(start: usize, end: usize) -> Span {
    let narrow = |i: usize| u32::try_from(i).unwrap_or(u32::MAX);
    Span {
        start: narrow(start),
        end: narrow(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> (Vec<TokenKind<'_>>, usize) {
        let (mut lexer, mut found) = (Lexer::new(text), Vec::new());
        let mut kinds = Vec::new();
        loop {
            match lexer.next(&mut found).kind {
                TokenKind::End => return (kinds, found.len()),
                kind => kinds.push(kind),
            }
        }
    }

    fn value(text: &str) -> Option<u64> {
        match kinds(text) {
            (kinds, 0) => match kinds.as_slice() {
                [TokenKind::Integer { value, .. }] => Some(*value),
                _ => None,
            },
            _ => None,
        }
    }

    #[test]
    fn numbers_take_bases_suffixes_and_underscores() {
        for (text, expected) in [
            ("42", 42),
            ("0x2A", 42),
            ("052", 42),
            ("0b101010", 42),
            ("1_000", 1000),
            ("3ms", 3_000_000),
            ("2m", 120_000_000_000),
            ("4M", 4 << 20),
            ("8k", 8192),
            ("1e6", 1_000_000),
            ("18446744073709551615", u64::MAX),
            ("7ull", 7),
            ("0", 0),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        for text in ["18446744073709551616", "5x", "09", "0x", "1e99", "99999999999d"] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn strings_resolve_escapes() {
        assert_eq!(
            kinds(r#""a\n\x41\101\"\\""#).0,
            [TokenKind::String("a\nAA\"\\".to_owned())]
        );
        assert_eq!(kinds("\"open\nx").1, 1);
        assert_eq!(kinds(r#""\q" 1"#).0.len(), 2);
    }

    #[test]
    fn longest_signs_win_and_comments_vanish() {
        assert_eq!(
            kinds("a<<=1..2/* x */->b // rest").0,
            [
                TokenKind::Word("a"),
                TokenKind::Sign("<<="),
                TokenKind::Integer {
                    value: 1,
                    unsigned: false
                },
                TokenKind::Sign(".."),
                TokenKind::Integer {
                    value: 2,
                    unsigned: false
                },
                TokenKind::Sign("->"),
                TokenKind::Word("b"),
            ]
        );
    }

    #[test]
    fn dollars_and_maps() {
        assert_eq!(
            kinds("$x $1 $# @m @").0,
            [
                TokenKind::Variable("x"),
                TokenKind::Positional(1),
                TokenKind::PositionalCount,
                TokenKind::Map("m"),
                TokenKind::Map("")
            ]
        );
    }
}
