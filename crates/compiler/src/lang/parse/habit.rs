//! Hints for syntax of C, Python or a shell: how the language spells the same.

use super::Parser;
use crate::lang::lexer::TokenKind;

/// A table: words of other languages, and what to write in their place.
const WORDS: &[(&str, &str)] = &[
    ("and", "\"and\" is written &&"),
    ("elif", "it is written else if (condition) { … }"),
    (
        "else",
        "\"else\" stands right behind the closing brace of an \"if\"",
    ),
    ("not", "\"not\" is written !"),
    ("or", "\"or\" is written ||"),
    (
        "then",
        "the branches of an \"if\" stand in braces: if (condition) { … }",
    ),
];

/// Words that begin a declaration in C.
const C_TYPES: &[&str] = &[
    "char", "const", "double", "float", "int", "int16", "int32", "int64", "int8", "long", "short", "signed",
    "size_t", "string", "u16", "u32", "u64", "u8", "uint16", "uint32", "uint64", "uint8", "unsigned", "var",
];

pub(super) const LOOP: &str =
    "a loop is written for ($i : 0..10) { … }, for ($entry : @map) { … } or while (condition) { … }";
const VARIABLE: &str = "a variable has a dollar sign: $x = 5; or with a type, let $x : int32 = 5;";
const DECLARATION: &str = "a variable is declared with its name: let $x = 5; or let $x : int32 = 5;";
const HANDLER: &str = "a handler is written EVENT /predicate/ { statements }";

impl Parser<'_> {
    /// Hint for an error where `wanted` was expected and another token stands.
    pub(super) fn hint_for(&self, wanted: &str) -> Option<String> {
        let before = self.word_before();
        if before == "else" {
            return habit("else");
        }
        if C_TYPES.contains(&before) && matches!(self.token.kind, TokenKind::Word(_)) {
            return Some(VARIABLE.to_owned());
        }
        if let TokenKind::Word(word) = self.token.kind
            && let Some(hint) = habit(word)
        {
            return Some(hint);
        }
        let closes = |sign: &str| wanted.ends_with(&format!("\"{sign}\""));
        match () {
            () if wanted == "the name of an event" && self.is("}") => {
                Some("there is one \"}\" too many: each closes a \"{\"".to_owned())
            }
            () if wanted == "the name of an event" => Some(HANDLER.to_owned()),
            () if wanted.contains("{ block }") => Some(HANDLER.to_owned()),
            () if closes(")") => Some("close the parenthesis with \")\" before this".to_owned()),
            () if closes("]") => Some("close the key with \"]\" before this".to_owned()),
            () if wanted.contains("\";\"") => Some("a statement ends with \";\"".to_owned()),
            () if closes("{") && !wanted.contains(',') => {
                Some("the statements of a loop or a condition stand in braces: { … }".to_owned())
            }
            () if wanted.contains("($name)") && self.word_before() == "let" => Some(DECLARATION.to_owned()),
            () if wanted == "an expression" && self.is_swapped_assignment() => {
                let sign = self.source(self.token.span);
                Some(format!("did you mean \"{sign}=\"?"))
            }
            () if self.is("=") && !wanted.starts_with("\":\"") => Some("equality is \"==\"".to_owned()),
            () => None,
        }
    }

    /// Whether the next token follows a `=` at once, and is one that may stand before it: `=+` for `+=`. The `=` of `==` or `<=` is none.
    fn is_swapped_assignment(&self) -> bool {
        let before = self.lexer.text().get(..self.token.span.start as usize);
        let swapped = ["+", "*", "/", "%", "|", "^"].iter().any(|sign| self.is(sign));
        let assigned = before.and_then(|text| text.strip_suffix('='));
        swapped && assigned.is_some_and(|text| !text.ends_with(|c| "=!<>+-*/%&|^".contains(c)))
    }

    /// The word that ends right before the next token; empty where none does.
    fn word_before(&self) -> &str {
        let before = self
            .lexer
            .text()
            .get(..self.last_end as usize)
            .unwrap_or_default();
        let start = before
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .map_or(0, |at| at + 1);
        before.get(start..).unwrap_or_default()
    }
}

fn habit(word: &str) -> Option<String> {
    let row = WORDS.iter().find(|(known, _)| *known == word);
    row.map(|(_, hint)| (*hint).to_owned())
}
