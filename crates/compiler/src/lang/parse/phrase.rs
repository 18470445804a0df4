//! bpftrace's messages for errors of syntax, and their places: people know them and search for them.

use super::Parser;
use crate::lang::ast::Span;
use crate::lang::diag::Label;
use crate::lang::lexer::{TokenKind, span};

/// What the parser expected, in its own words and in bpftrace's.
const WANTED: &[(&str, &str)] = &[
    ("an expression", "expected expression"),
    ("an operator or \")\"", "expected ')'"),
    (
        "an operator or the \"/\" that closes the predicate",
        "expected '/' to close predicate",
    ),
    ("an operator, \",\" or \")\"", "expected ')'"),
    ("an operator, \",\" or \"]\"", "expected ']'"),
    ("an operator, \";\" or \"}\"", "expected ';'"),
    ("\",\" or \")\"", "expected ')'"),
    ("\";\" or \"}\"", "expected ';'"),
    ("a setting's name or \"}\"", "expected config key"),
    ("a path in double quotes", "expected string after 'import'"),
    (
        "a parameter ($variable, @map or expression) or \")\"",
        "expected macro argument ($var, @map, or identifier)",
    ),
    (
        "the name of a record's next element (name = value)",
        "expected identifier",
    ),
    ("the name of a type", "expected type name"),
    ("the macro's name", "expected macro name"),
    ("the function's name", "expected function name"),
];

impl Parser<'_> {
    /// What bpftrace says where `wanted` should stand and another token does.
    pub(super) fn phrase_for(&self, wanted: &str) -> Option<Label> {
        let here = match self.token.kind {
            // bpftrace takes these for several tokens.
            TokenKind::String(_) | TokenKind::Bad | TokenKind::Sign("..") => self.characters(self.start(), 1),
            _ => self.token.span,
        };
        let sign = wanted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let before = self.source(Span {
            start: self.last_end.saturating_sub(4),
            end: self.last_end,
        });
        let said = match wanted {
            "\"{\"" if before == "else" => "expected '{' or 'if' after 'else'".to_owned(),
            "a variable ($name)" if before.ends_with("let") => "expected variable after 'let'".to_owned(),
            "a variable ($name)" => "expected variable in function argument".to_owned(),
            "a map (@name)" => {
                let message = "root-level let statements need to be map declarations, e.g. let @a = hash(2);";
                return Some(syntax(
                    self.characters(self.last_end.saturating_sub(3), 3),
                    message,
                ));
            }
            "the name of a member" if before.ends_with("->") => "expected field name after '->'".to_owned(),
            "the name of a member" if before.ends_with('.') => "expected field name after '.'".to_owned(),
            "the name of an event" if self.is(",") => "expected attach point".to_owned(),
            "the name of an event" => return Some(self.no_block(self.start())),
            "\",\", a /predicate/ or a { block }" => return Some(self.no_block(self.last_end)),
            _ => match (WANTED.iter().find(|row| row.0 == wanted), sign) {
                (Some((_, said)), _) => (*said).to_owned(),
                (None, Some(sign)) if sign.len() <= 2 => format!("expected '{sign}'"),
                _ => return None,
            },
        };
        Some(syntax(here, &said))
    }

    /// What bpftrace says of a probe without its block, whose last event begins, or goes on, at `at`: up to the next blank all is the event's name.
    fn no_block(&self, at: u32) -> Label {
        let mut lexer = self.lexer.clone();
        lexer.go_to(at as usize);
        let rest = lexer.rest();
        let name = rest.find(|c: char| c.is_whitespace() || "{/,".contains(c));
        lexer.go_to(at as usize + name.unwrap_or(rest.len()));
        let mut unheard = Vec::new();
        lexer.skip_blank(&mut unheard);
        let token = lexer.next(&mut unheard);
        syntax(token.span, "expected '{'")
    }

    /// What bpftrace says of a block that the end of the text leaves open.
    pub(super) fn left_open(&self) -> Label {
        let end = self.lexer.text().len();
        let closed = matches!(self.text_before().chars().next_back(), Some(';' | '{' | '}'));
        syntax(
            span(end, end),
            if closed { "expected '}'" } else { "expected ';'" },
        )
    }

    /// The text up to the end of the last token taken.
    fn text_before(&self) -> &str {
        self.source(Span {
            start: 0,
            end: self.last_end,
        })
    }

    /// The place of `count` characters from `start` on.
    fn characters(&self, start: u32, count: usize) -> Span {
        let rest = self.lexer.text().get(start as usize..).unwrap_or_default();
        let bytes: usize = rest.chars().take(count).map(char::len_utf8).sum();
        span(start as usize, start as usize + bytes)
    }
}

/// A message of bpftrace's about syntax.
pub(super) fn syntax(span: Span, message: &str) -> Label {
    Label {
        span,
        message: format!("syntax: {message}"),
    }
}
