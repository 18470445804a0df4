//! Lines for the preprocessor of C: `#define`, `#if`, `#include` and their kin; and what defined names stand for.

use super::{Lexer, Token, TokenKind, condition, span};
use crate::lang::ast::{Span, Spanned};
use crate::lang::diag::Diagnostic;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Most tokens that the defined names of one text may turn into.
const MAX_TOKENS: u32 = 100_000;
/// Most levels of calls in the arguments of calls.
const MAX_LEVELS: u32 = 32;
/// Most conditions that are open at once.
const MAX_CONDITIONS: usize = 64;

/// Replacement of a defined name.
#[derive(Debug)]
struct Defined<'a> {
    /// Parameters of a call; `None` for a name that is not called.
    parameters: Option<Vec<&'a str>>,
    body: Vec<Token<'a>>,
}

/// Names and what they stand for.
pub(in crate::lang) type DefinedNames<'a> = BTreeMap<&'a str, Rc<Definition<'a>>>;

/// A `#define`.
#[derive(Debug)]
pub(in crate::lang) struct Definition<'a>(Defined<'a>);

/// `#include <path>`, `#include "path"`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::lang) struct Include {
    /// The path as written.
    pub(in crate::lang) path: Spanned<String>,
    /// In quotes: a file of the user's own.
    pub(in crate::lang) own: bool,
}

/// An `#if` that is open.
#[derive(Clone, Debug)]
struct Condition {
    place: Span,
    /// Whether one of its branches has been read.
    taken: bool,
    /// Whether its `#else` has been met.
    otherwise: bool,
}

/// State of the preprocessor after the lines so far; a clone costs nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Preprocessor<'a> {
    names: Rc<DefinedNames<'a>>,
    includes: Rc<Vec<Include>>,
    conditions: Rc<Vec<Condition>>,
    /// `#pragma pack`: most bytes that members are aligned by, 0 for no limit, and those of `push`.
    pub(super) pack: u64,
    pub(super) packs: Rc<Vec<u64>>,
    /// Tokens that names have turned into.
    expanded: u32,
    /// Levels of calls in arguments of calls.
    level: u32,
}

/// Tokens that are read before the text goes on.
#[derive(Clone, Debug)]
pub(super) struct Frame<'a> {
    /// The name that they stand for, which stands for itself among them.
    name: &'a str,
    tokens: Rc<[Token<'a>]>,
    next: usize,
}

impl<'a> Frame<'a> {
    pub(super) fn take(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.next)?.clone();
        self.next += 1;
        Some(token)
    }
}

impl<'a> Lexer<'a> {
    /// For a script, in which names are known that files before it have defined.
    pub(in crate::lang) fn of_script(text: &'a str, start: usize, names: DefinedNames<'a>) -> Self {
        let mut lexer = Self::new(text);
        lexer.start = start;
        lexer.at = start;
        lexer.preprocessor = Some(Preprocessor {
            names: Rc::new(names),
            ..Preprocessor::default()
        });
        lexer
    }

    /// The names that are defined now.
    pub(in crate::lang) fn defined(&self) -> DefinedNames<'a> {
        let names = self.preprocessor.as_ref().map(|p| &*p.names);
        names.cloned().unwrap_or_default()
    }

    /// The files that have been included so far.
    pub(in crate::lang) fn includes(&self) -> Vec<Include> {
        let includes = self.preprocessor.as_ref().map(|p| &*p.includes);
        includes.cloned().unwrap_or_default()
    }

    /// Says that conditions are open at the end of the text; a second time it says nothing.
    pub(super) fn open_conditions(&mut self, found: &mut Vec<Diagnostic>) {
        let Some(preprocessor) = &mut self.preprocessor else {
            return;
        };
        if let Some(open) = preprocessor.conditions.last() {
            found.push(Diagnostic::unclosed(
                open.place,
                "this condition is not closed by #endif",
            ));
            preprocessor.conditions = Rc::default();
        }
    }

    /// Reads the line of the preprocessor that begins here; `false` where none does.
    pub(super) fn directive(&mut self, found: &mut Vec<Diagnostic>) -> bool {
        if self.preprocessor.is_none() || !self.begins_line() {
            return false;
        }
        let (start, end) = (self.at, self.at + line(self.rest()));
        let inside = &self.text[start..end];
        let after = inside.trim_start_matches(['#', ' ', '\t']);
        let word_end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (word, rest) = after.split_at(word_end);
        let place = span(start, start + inside.len() - rest.len());
        let mut inner = self.part(end - rest.len(), end);
        self.at = end;
        match word {
            "define" => self.define(&mut inner, found),
            "undef" => {
                let name = inner.name();
                self.names(|names| names.remove(name));
            }
            "include" => self.include(rest, end, place, found),
            "if" | "ifdef" | "ifndef" => {
                let holds = match word {
                    "if" => self.holds(&mut inner, place, found),
                    _ => self.is_defined(inner.name()) == (word == "ifdef"),
                };
                self.open(place, holds, found);
            }
            "elif" | "else" => self.other_branch(word == "else", &mut inner, place, found),
            "endif" => {
                if self.conditions().pop().is_none() {
                    found.push(Diagnostic::error(place, "no #if is open here"));
                }
            }
            "error" => {
                let message = format!("#error {}", rest.trim());
                found.push(Diagnostic::error(span(start, end), message));
            }
            "warning" => {
                let message = format!("#warning {}", rest.trim());
                found.push(Diagnostic::warning(span(start, end), message));
            }
            "pragma" => self.pragma(rest),
            // It speaks to a C compiler.
            "line" => {}
            _ => {
                self.at = start;
                return false;
            }
        }
        true
    }

    /// A lexer for a part of the text, in which no lines of the preprocessor begin.
    fn part(&self, start: usize, end: usize) -> Lexer<'a> {
        let mut inner = Lexer::new(&self.text[..end]);
        inner.start = start;
        inner.at = start;
        inner.continued = true;
        inner
    }

    /// The name that comes next, of which a blank is no part; empty if none does.
    fn name(&mut self) -> &'a str {
        self.skip_blank(&mut Vec::new());
        match self.rest().chars().next() {
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.word(),
            _ => "",
        }
    }

    fn names<R>(&mut self, change: impl FnOnce(&mut DefinedNames<'a>) -> R) -> Option<R> {
        let preprocessor = self.preprocessor.as_mut()?;
        Some(change(Rc::make_mut(&mut preprocessor.names)))
    }

    fn is_defined(&self, name: &str) -> bool {
        self.preprocessor
            .as_ref()
            .is_some_and(|p| p.names.contains_key(name))
    }

    fn conditions(&mut self) -> &mut Vec<Condition> {
        let preprocessor = self.preprocessor.get_or_insert_default();
        Rc::make_mut(&mut preprocessor.conditions)
    }

    /// `NAME body`, `NAME(a, b) body`.
    fn define(&mut self, inner: &mut Lexer<'a>, found: &mut Vec<Diagnostic>) {
        let name = inner.name();
        if name.is_empty() {
            let place = span(inner.at, inner.at);
            found.push(Diagnostic::error(place, "a name is missing after #define"));
            return;
        }
        let mut parameters = None;
        if inner.rest().starts_with('(') {
            inner.next(found);
            let mut names = Vec::new();
            loop {
                let token = inner.next(found);
                match token.kind {
                    TokenKind::Word(name) => names.push(name),
                    TokenKind::Sign(",") => {}
                    TokenKind::Sign(")") => break,
                    _ => {
                        found.push(Diagnostic::error(
                            token.span,
                            "expected the name of a parameter or \")\"",
                        ));
                        return;
                    }
                }
            }
            parameters = Some(names);
        }
        let mut body = Vec::new();
        loop {
            match inner.next(found) {
                token if token.kind == TokenKind::End => break,
                token => body.push(token),
            }
        }
        let defined = Rc::new(Definition(Defined { parameters, body }));
        self.names(|names| names.insert(name, defined));
    }

    fn include(&mut self, rest: &str, end: usize, place: Span, found: &mut Vec<Diagnostic>) {
        let written = rest.trim();
        let closing = match written.chars().next() {
            Some('<') => '>',
            Some('"') => '"',
            _ => {
                let message = "expected a header: #include <linux/sched.h>, #include \"own.h\"";
                found.push(Diagnostic::error(place, message));
                return;
            }
        };
        let Some(length) = written[1..].find(closing) else {
            let message = format!("the name of this header is not closed by '{closing}'");
            found.push(Diagnostic::unclosed(place, message));
            return;
        };
        let start = end - rest.trim_start().len();
        let include = Include {
            path: Spanned {
                node: written[1..=length].to_owned(),
                span: span(start, start + length + 2),
            },
            own: closing == '"',
        };
        if let Some(preprocessor) = &mut self.preprocessor {
            Rc::make_mut(&mut preprocessor.includes).push(include);
        }
    }

    /// Opens a condition and goes to the branch that is read.
    fn open(&mut self, place: Span, holds: bool, found: &mut Vec<Diagnostic>) {
        let conditions = self.conditions();
        if conditions.len() >= MAX_CONDITIONS {
            found.push(Diagnostic::error(place, "conditions are nested too deeply"));
            return;
        }
        conditions.push(Condition {
            place,
            taken: holds,
            otherwise: false,
        });
        if !holds {
            self.skip_branch();
        }
    }

    /// `#else` or `#elif` behind a branch that has been read, or that has been skipped.
    fn other_branch(&mut self, last: bool, inner: &mut Lexer<'a>, place: Span, found: &mut Vec<Diagnostic>) {
        let Some(mut open) = self.conditions().pop() else {
            let word = if last { "else" } else { "elif" };
            found.push(Diagnostic::error(
                place,
                format!("no #if is open here that #{word} could belong to"),
            ));
            return;
        };
        if open.otherwise {
            let message = "nothing but #endif follows #else";
            found.push(Diagnostic::error(place, message).label(open.place, "of this condition"));
        }
        let holds = !open.taken && (last || self.holds(inner, place, found));
        open.taken |= holds;
        open.otherwise |= last;
        self.conditions().push(open);
        if !holds {
            self.skip_branch();
        }
    }

    /// Goes to the line that ends this branch.
    fn skip_branch(&mut self) {
        let mut open = 0_u32;
        while self.at < self.text.len() {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            if rest.starts_with("/*") {
                self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
                continue;
            }
            if let Some(line) = rest.strip_prefix('#').filter(|_| self.begins_line()) {
                let word = line.trim_start_matches([' ', '\t']);
                if word.starts_with("if") {
                    open += 1;
                } else if word.starts_with("endif") && open > 0 {
                    open -= 1;
                } else if open == 0 && (word.starts_with("el") || word.starts_with("endif")) {
                    return;
                }
            }
            self.at += line(rest);
        }
    }

    /// Whether the condition of `#if` and `#elif` is not 0; names that are not defined are.
    fn holds(&mut self, inner: &mut Lexer<'a>, place: Span, found: &mut Vec<Diagnostic>) -> bool {
        let mut tokens = Vec::new();
        loop {
            let token = inner.next(found);
            match token.kind {
                TokenKind::End => break,
                TokenKind::Word("defined") => {
                    let enclosed = inner.rest().trim_start().starts_with('(');
                    if enclosed {
                        inner.next(found);
                    }
                    let known = self.is_defined(inner.name());
                    if enclosed {
                        inner.next(found);
                    }
                    tokens.push(number(u64::from(known), token.span));
                }
                _ => tokens.push(token),
            }
        }
        let tokens = self.all_expanded(tokens, found);
        match condition::value(&tokens) {
            Some(value) => value != 0,
            None => {
                found.push(Diagnostic::error(
                    place,
                    "this condition cannot be read as a number",
                ));
                false
            }
        }
    }

    /// Tokens with what the defined names among them stand for.
    fn all_expanded(&mut self, tokens: Vec<Token<'a>>, found: &mut Vec<Diagnostic>) -> Vec<Token<'a>> {
        let mut inner = Lexer::new("");
        inner.frames = self.frames.iter().map(Frame::ended).collect();
        inner.frames.push(Frame {
            name: "",
            tokens: tokens.into(),
            next: 0,
        });
        inner.preprocessor.clone_from(&self.preprocessor);
        if let Some(preprocessor) = &mut inner.preprocessor {
            preprocessor.level += 1;
        }
        let mut all = Vec::new();
        // The frames of names that are being expanded are kept below: such a name inside its own expansion stands for itself.
        let below = inner.frames.len() - 1;
        while inner.frames.len() > below {
            match inner.frame_token(below) {
                Some(token) => all.extend(inner.unless_defined(token, found)),
                None => break,
            }
        }
        if let (Some(outer), Some(inner)) = (&mut self.preprocessor, inner.preprocessor) {
            outer.expanded = inner.expanded;
        }
        all
    }

    /// The token of the innermost frame above `below` that has one.
    fn frame_token(&mut self, below: usize) -> Option<Token<'a>> {
        while self.frames.len() > below {
            let token = self.frames.last_mut().and_then(Frame::take);
            if token.is_some() {
                return token;
            }
            self.frames.pop();
        }
        None
    }

    /// The token, or nothing if it is a name that stands for others, which come next then.
    pub(super) fn unless_defined(
        &mut self,
        token: Token<'a>,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Token<'a>> {
        let TokenKind::Word(name) = token.kind else {
            return Some(token);
        };
        let Some(defined) = self
            .preprocessor
            .as_ref()
            .and_then(|p| p.names.get(name))
            .cloned()
        else {
            return Some(token);
        };
        let defined = &defined.0;
        // Inside its own expansion a name stands for itself (C11 6.10.3.4), so that expansions end.
        if self.frames.iter().any(|frame| frame.name == name) {
            return Some(token);
        }
        let mut place = token.span;
        let tokens: Rc<[Token<'a>]> = match &defined.parameters {
            None => defined.body.iter().map(|token| placed(token, place)).collect(),
            Some(parameters) => {
                let Some(arguments) = self.arguments(&mut place, found) else {
                    return Some(token);
                };
                // `f()` is a call without arguments and one with an empty argument alike.
                if arguments.len() != parameters.len() && !(parameters.is_empty() && arguments.len() == 1) {
                    let message = format!(
                        "\"{name}\" takes {} argument{}, and {} are given",
                        parameters.len(),
                        if parameters.len() == 1 { "" } else { "s" },
                        arguments.len()
                    );
                    found.push(Diagnostic::error(place, message));
                    return Some(bad(place));
                }
                let arguments: Vec<Vec<Token<'a>>> = arguments
                    .into_iter()
                    .map(|argument| self.all_expanded(argument, found))
                    .collect();
                let mut all = Vec::new();
                for token in &defined.body {
                    let given = match token.kind {
                        TokenKind::Word(word) => parameters.iter().position(|p| *p == word),
                        _ => None,
                    };
                    match given.and_then(|index| arguments.get(index)) {
                        Some(argument) => all.extend(argument.iter().cloned()),
                        None => all.push(placed(token, place)),
                    }
                    if all.len() > MAX_TOKENS as usize {
                        break;
                    }
                }
                all.into()
            }
        };
        if let Some(preprocessor) = &mut self.preprocessor {
            let more = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
            preprocessor.expanded = preprocessor.expanded.saturating_add(more);
            if preprocessor.expanded > MAX_TOKENS || preprocessor.level > MAX_LEVELS {
                let message = format!("\"{name}\" and the names before it stand for too much");
                found.push(Diagnostic::error(place, message));
                // From here on nothing is expanded: the same error at each further name would bury the first.
                preprocessor.names = Rc::default();
                return Some(bad(place));
            }
        }
        self.frames.push(Frame {
            name,
            tokens,
            next: 0,
        });
        None
    }

    /// The arguments of a call, if one begins here, and its whole place.
    fn arguments(&mut self, place: &mut Span, found: &mut Vec<Diagnostic>) -> Option<Vec<Vec<Token<'a>>>> {
        let mut ahead = self.clone();
        if ahead.raw(&mut Vec::new()).kind != TokenKind::Sign("(") {
            return None;
        }
        self.raw(found);
        let (mut all, mut open) = (vec![Vec::new()], 0_u32);
        loop {
            let token = self.raw(found);
            match token.kind {
                TokenKind::Sign("(" | "[" | "{") => open += 1,
                TokenKind::Sign(")") if open == 0 => {
                    if token.span.start >= place.end {
                        place.end = token.span.end;
                    }
                    return Some(all);
                }
                TokenKind::Sign(")" | "]" | "}") => open = open.saturating_sub(1),
                TokenKind::Sign(",") if open == 0 => {
                    all.push(Vec::new());
                    continue;
                }
                TokenKind::End => {
                    found.push(Diagnostic::error(
                        *place,
                        "the arguments of this name are not closed by \")\"",
                    ));
                    return Some(all);
                }
                _ => {}
            }
            if let Some(argument) = all.last_mut() {
                argument.push(token);
            }
        }
    }
}

impl Frame<'_> {
    /// The macro with no tokens left.
    fn ended(&self) -> Self {
        Self {
            name: self.name,
            tokens: Rc::default(),
            next: 0,
        }
    }
}

fn placed<'a>(token: &Token<'a>, span: Span) -> Token<'a> {
    Token {
        kind: token.kind.clone(),
        span,
    }
}

fn bad<'a>(span: Span) -> Token<'a> {
    Token {
        kind: TokenKind::Bad,
        span,
    }
}

fn number<'a>(value: u64, span: Span) -> Token<'a> {
    Token {
        kind: TokenKind::Integer {
            value,
            unsigned: false,
        },
        span,
    }
}

/// The bytes up to the end of a line that a backslash at its end carries on.
pub(super) fn line(text: &str) -> usize {
    let mut end = 0;
    loop {
        let Some(length) = text[end..].find('\n') else {
            return text.len();
        };
        let whole = &text[end..end + length];
        if !whole.trim_end_matches('\r').ends_with('\\') {
            return end + length;
        }
        end += length + 1;
    }
}
