//! The words of a filter of tracefs, with their places.

use kestrel_compiler::lang::ast::Span;
use kestrel_compiler::lang::diag::Diagnostic;

/// A word of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A field's name, a number: letters, digits, `_`, `.`, `-` before digits.
    Word(String),
    /// A text in quotes.
    Text(String),
    /// `CPUS{…}`: what stands in its braces.
    Cpus(String),
    /// An operator or parenthesis.
    Sign(&'static str),
}

/// The longer of two that begin alike comes first.
const SIGNS: [&str; 13] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "&", "~", "!", "(", ")",
];

/// The words of a filter.
///
/// # Errors
/// A character that begins no word, a quote that does not close.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Span)>, Diagnostic> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let (token, length) = token(&text[at..], first)
            .map_err(|(message, length)| Diagnostic::error(span(at, at + length), message))?;
        all.push((token, span(at, at + length)));
        at += length;
    }
    Ok(all)
}

/// The word at the begin of a text, and its bytes.
fn token(text: &str, first: char) -> Result<(Token, usize), (String, usize)> {
    if let Some(sign) = SIGNS.into_iter().find(|sign| text.starts_with(sign)) {
        return Ok((Token::Sign(sign), sign.len()));
    }
    if matches!(first, '"' | '\'') {
        let inside = &text[1..];
        return match inside.find(first) {
            Some(end) => Ok((Token::Text(inside[..end].to_owned()), end + 2)),
            None => Err(("this quote does not close".to_owned(), text.len())),
        };
    }
    if let Some(inside) = text.strip_prefix("CPUS{") {
        return match inside.find('}') {
            Some(end) => Ok((Token::Cpus(inside[..end].to_owned()), "CPUS{}".len() + end)),
            None => Err(("this brace does not close".to_owned(), text.len())),
        };
    }
    let ends = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.';
    let sign = usize::from(first == '-');
    let end = text[sign..].find(ends).map_or(text.len(), |end| sign + end);
    match end > sign {
        true => Ok((Token::Word(text[..end].to_owned()), end)),
        false => Err((format!("`{first}` has no place in a filter"), first.len_utf8())),
    }
}

/// Bytes of a text.
pub(super) fn span(start: usize, end: usize) -> Span {
    Span {
        start: start as u32,
        end: end as u32,
    }
}
