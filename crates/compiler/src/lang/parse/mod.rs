//! Tokens to syntax tree: never panics, recovers after an error, and bounds the height of what it builds, so that code that
//! walks the tree may recurse.

mod definition;
mod event;
mod expression;
mod habit;
mod item;
mod phrase;
mod statement;
mod type_name;

pub use type_name::is_type_word;

use super::ast::{Expr, Probe, Script, Span, Spanned};
use super::diag::{Diagnostic, sort_by_place};
use super::lexer::{DefinedNames, Include, Lexer, Token, TokenKind, span};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

pub(crate) use statement::settled_kind;

/// Most levels of nesting in a text, and most height of an expression.
const HEIGHT: u32 = 128;

/// Most findings reported about one text.
pub(super) const FINDINGS: usize = 50;

/// Parses one probe: events, then optionally a predicate and a block.
///
/// The probe is whole where no diagnostic is an error.
///
/// ```
/// use kestrel_compiler::lang::{diag, parse_events};
/// let text = "kprobe:vfs_read /pid == 42/ { record(arg2) }";
/// let (probe, found) = parse_events(text);
/// assert!(found.is_empty());
/// assert_eq!(probe.events[0].parts[1].text, "vfs_read");
///
/// let text = "kprobe:vfs_read /pid = 42/";
/// let (_, found) = parse_events(text);
/// let shown = diag::render(&found, "<expression>", text, diag::Style::default());
/// assert!(shown.starts_with("<expression>:1:22: error: "), "{shown}");
/// ```
pub fn parse_events(text: &str) -> (Probe, Vec<Diagnostic>) {
    let mut parser = Parser::new(text);
    let mut probes = parser.probes(1);
    parser.expect_end();
    (probes.remove(0), parser.finish())
}

/// Parses what `-e` takes: one probe, whose block may be left out, or several, each with its block.
///
/// ```
/// use kestrel_compiler::lang::parse_probes;
/// let (probes, found) = parse_probes("kprobe:a { record() }\nkretprobe:a { record() }");
/// assert!(found.is_empty());
/// assert_eq!((probes.len(), probes[1].span.start), (2, 22));
/// ```
pub fn parse_probes(text: &str) -> (Vec<Probe>, Vec<Diagnostic>) {
    let mut parser = Parser::new(text);
    let probes = parser.probes(usize::MAX);
    parser.expect_end();
    (probes, parser.finish())
}

/// Parses a table file: items as in a script, without lines of the preprocessor, as a session keeps the texts of handlers one by one.
pub fn parse_table_file(text: &str) -> (Script, Vec<Diagnostic>) {
    let mut parser = Parser::new(text);
    let script = parser.script(false);
    (script, parser.finish())
}

/// Parses a script.
pub fn parse_script(text: &str) -> (Script, Vec<Diagnostic>) {
    let mut parser = Parser::at(Lexer::of_script(text, 0, BTreeMap::new()));
    let script = parser.script(false);
    (script, parser.finish())
}

/// One of several sources, parsed.
pub(super) struct ParsedFile<'a> {
    pub(super) script: Script,
    pub(super) found: Vec<Diagnostic>,
    pub(super) includes: Vec<Include>,
    /// The names that are defined at its end.
    pub(super) names: DefinedNames<'a>,
}

/// Parses the text that lies at `range` among others; `names` are defined before it. Of a header of C only types are read.
pub(super) fn parse_file<'a>(
    text: &'a str,
    range: Range<usize>,
    names: DefinedNames<'a>,
    header: bool,
) -> ParsedFile<'a> {
    let text = text.get(..range.end).unwrap_or_default();
    let mut parser = Parser::at(Lexer::of_script(text, range.start.min(text.len()), names));
    let script = match header {
        true => parser.header(),
        false => parser.script(true),
    };
    ParsedFile {
        script,
        includes: parser.lexer.includes(),
        names: parser.lexer.defined(),
        found: parser.finish(),
    }
}

/// Parses a script as it is written, and gives its comments and lines of the preprocessor, in source order.
pub(super) fn parse_unexpanded(text: &str) -> (Script, Vec<Span>, Vec<Diagnostic>) {
    let mut parser = Parser::at(Lexer::unexpanded(text));
    let script = parser.script(false);
    let remarks = parser.lexer.remarks();
    (script, remarks, parser.finish())
}

/// A text with a blank in the place of each comment.
///
/// ```
/// use kestrel_compiler::lang::without_comments;
/// let text = "a:b { notify(\"http://x\") /* y */ } // z";
/// assert_eq!(without_comments(text), "a:b { notify(\"http://x\")   }  ");
/// ```
pub fn without_comments(text: &str) -> String {
    let (_, comments, _) = parse_unexpanded(text);
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    for comment in comments {
        code.push_str(text.get(at..comment.start as usize).unwrap_or_default());
        code.push(' ');
        at = comment.end as usize;
    }
    code.push_str(text.get(at..).unwrap_or_default());
    code
}

/// Parses one expression: the text of a field rule.
pub fn parse_expression(text: &str) -> (Expr, Vec<Diagnostic>) {
    let mut parser = Parser::new(text);
    let everything = span(0, text.len());
    let expr = parser
        .expression()
        .unwrap_or_else(|Lost| Parser::broken(everything));
    if !parser.is_end() && parser.found.is_empty() {
        const WANTED: &str = "an operator or the end of the expression";
        let rest = Span {
            start: parser.start(),
            end: everything.end,
        };
        let hint = parser.hint_for(WANTED);
        parser.error(Diagnostic::error(rest, format!("expected {WANTED}")).maybe_hint(hint));
    }
    (expr, parser.finish())
}

/// A source text on its way to a tree.
struct Parser<'a> {
    /// Stands after `token`.
    lexer: Lexer<'a>,
    /// The token that is next.
    token: Token<'a>,
    /// Tokens behind it that have been looked at.
    ahead: VecDeque<Peeked<'a>>,
    /// One past the last byte of the token before `token`.
    last_end: u32,
    found: Vec<Diagnostic>,
    /// Levels of nesting open now.
    depth: u32,
    /// Height of the expression that was built last.
    height: u32,
    /// Greatest height of an expression in the block that is being read.
    tallest: u32,
    /// Whether a semicolon ended the last statement.
    ended: bool,
    /// Whether a division sign may close a predicate here.
    in_predicate: bool,
    /// Whether what is read now is the body of a macro.
    in_macro: bool,
    /// Whether it is a program of bpftrace's language, without what only tables take.
    of_program: bool,
}

/// A token that has been looked at before it is next.
struct Peeked<'a> {
    token: Token<'a>,
    /// Diagnostics of the lexer on its way to it.
    found: Vec<Diagnostic>,
    /// Stands after it.
    lexer: Lexer<'a>,
}

/// A construct could not be parsed; a diagnostic has been reported. The caller skips to a place where parsing goes on.
struct Lost;

type Parsed<T> = Result<T, Lost>;

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self::at(Lexer::new(text))
    }

    fn at(lexer: Lexer<'a>) -> Self {
        let mut parser = Self {
            lexer,
            token: Token {
                kind: TokenKind::End,
                span: Span::default(),
            },
            ahead: VecDeque::new(),
            last_end: 0,
            found: Vec::new(),
            depth: 0,
            height: 0,
            tallest: 0,
            ended: false,
            in_predicate: false,
            in_macro: false,
            of_program: false,
        };
        parser.load();
        parser
    }

    /// Parses one to `most` probes; another one follows only after a block.
    fn probes(&mut self, most: usize) -> Vec<Probe> {
        let refused = !self.found.is_empty() || self.refuse_top();
        let first = self.found.len();
        let mut probes = vec![self.probe(item::ItemPlace::Listed)];
        while probes.last().is_some_and(|probe| probe.block.is_some()) {
            while self.eat(";") {}
            if probes.len() == most
                || !matches!(self.token.kind, TokenKind::Word(_))
                || !self.found.is_empty()
            {
                break;
            }
            probes.push(self.probe(item::ItemPlace::Listed));
        }
        if refused {
            // Further findings would take what stands at the top for an event.
            self.found.truncate(first);
        }
        probes
    }

    fn finish(mut self) -> Vec<Diagnostic> {
        sort_by_place(&mut self.found);
        self.found.truncate(FINDINGS);
        self.found
    }

    /// Reads the token at the lexer's place.
    fn load(&mut self) {
        self.ahead.clear();
        self.token = self.lexer.next(&mut self.found);
    }

    /// Takes the next token.
    fn take(&mut self) -> Token<'a> {
        self.last_end = self.token.span.end;
        self.found.truncate(FINDINGS);
        let next = match self.ahead.pop_front() {
            Some(peeked) => {
                self.found.extend(peeked.found);
                self.lexer = peeked.lexer;
                peeked.token
            }
            None => self.lexer.next(&mut self.found),
        };
        std::mem::replace(&mut self.token, next)
    }

    /// The token `index` tokens behind the one that is next.
    fn peek(&mut self, index: usize) -> &TokenKind<'a> {
        while self.ahead.len() <= index {
            let last = self.ahead.back().map_or(&self.lexer, |peeked| &peeked.lexer);
            let (mut lexer, mut found) = (last.clone(), Vec::new());
            let token = lexer.next(&mut found);
            self.ahead.push_back(Peeked { token, found, lexer });
        }
        &self.ahead[index].token.kind
    }

    /// The byte where the next token begins.
    fn start(&self) -> u32 {
        self.token.span.start
    }

    /// From `start` to the end of the last token taken.
    fn span_from(&self, start: u32) -> Span {
        Span {
            start,
            end: self.last_end.max(start),
        }
    }

    fn is_end(&self) -> bool {
        self.token.kind == TokenKind::End
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.token.kind, TokenKind::Sign(s) if s == sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token.kind, TokenKind::Word(w) if w == word)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.is(sign);
        if found {
            self.take();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.take();
        }
        found
    }

    fn expect(&mut self, sign: &'static str) -> Parsed<()> {
        if self.eat(sign) {
            return Ok(());
        }
        Err(self.unexpected(&format!("\"{sign}\"")))
    }

    fn expect_name(&mut self, what: &str) -> Parsed<Spanned<String>> {
        let span = self.token.span;
        let TokenKind::Word(word) = self.token.kind else {
            return Err(self.unexpected(what));
        };
        self.take();
        Ok(Spanned {
            node: word.to_owned(),
            span,
        })
    }

    /// Says that `wanted` should stand here.
    fn unexpected(&mut self, wanted: &str) -> Lost {
        let known = self.phrase_for(wanted);
        if self.token.kind == TokenKind::Bad {
            // The lexer has reported this token. What the parser expected is added to its error.
            let start = self.start();
            if let Some(said) = self
                .found
                .iter_mut()
                .find(|d| d.span.start == start && d.phrase.is_none())
            {
                said.phrase = known;
            }
            return Lost;
        }
        let there = match &self.token.kind {
            TokenKind::End => "the end of the text".to_owned(),
            TokenKind::String(_) => "a string".to_owned(),
            _ => format!("\"{}\"", self.source(self.token.span)),
        };
        let message = format!("expected {wanted}, not {there}");
        let hint = self.hint_for(wanted);
        let mut wrong = Diagnostic::error(self.token.span, message).maybe_hint(hint);
        wrong.phrase = known;
        self.error(wrong)
    }

    /// Reports an error, once per place.
    fn error(&mut self, diagnostic: Diagnostic) -> Lost {
        let again = self.found.iter().any(|d| d.span.start == diagnostic.span.start);
        if !again && self.found.len() <= FINDINGS {
            self.found.push(diagnostic);
        }
        Lost
    }

    fn source(&self, range: Span) -> &'a str {
        self.lexer
            .text()
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default()
    }

    /// Runs `inner` one level deeper, or refuses to.
    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= HEIGHT {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&mut self) -> Lost {
        self.error(
            Diagnostic::error(self.token.span, "this is nested too deeply")
                .hint("keep parts of it in variables: $x = …"),
        )
    }

    /// Takes tokens up to the `closing` bracket of the bracket just taken, and that; stops at the end of the text.
    fn skip_past(&mut self, opening: &str, closing: &str) {
        let mut open = 1;
        while !self.is_end() && open > 0 {
            if self.is(opening) {
                open += 1;
            } else if self.is(closing) {
                open -= 1;
            }
            self.take();
        }
    }

    fn expect_end(&mut self) {
        if !self.is_end() {
            let everything = Span {
                start: self.start(),
                end: span(0, self.lexer.at() + self.lexer.rest().len()).end,
            };
            if self.found.is_empty() {
                let hint = match self.is(",") {
                    true => "the next events stand right behind a block, without a comma",
                    false => "events of one handler are separated by commas, handlers by their blocks",
                };
                self.error(Diagnostic::error(everything, "nothing may follow here").hint(hint));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_an_expression_is_told_by_what_it_means_elsewhere() {
        for (text, hint) in [
            ("pid = 4", Some("equality is \"==\"")),
            ("pid == 4 and cpu == 1", Some("\"and\" is written &&")),
            ("(pid == 4) or cpu == 1", Some("\"or\" is written ||")),
            ("pid == 4)", None),
        ] {
            let (_, found) = parse_expression(text);
            let [only] = found.as_slice() else {
                panic!("{text}: {found:?}");
            };
            assert_eq!(
                only.message, "expected an operator or the end of the expression",
                "{text}"
            );
            assert_eq!(only.hints.first().map(String::as_str), hint, "{text}");
        }
    }

    #[test]
    fn items_of_scripts_are_refused_in_a_list_of_events() {
        for (text, message, hint) in [
            (
                "struct x { int a; }; kprobe:f { }",
                "\"struct\" is none",
                "at the top of a script",
            ),
            (
                "macro m($a) { } kprobe:f { m(1) }",
                "\"macro\" is none",
                "at the top of a script",
            ),
            (
                "import \"x\"; kprobe:f { }",
                "\"import\" is none",
                "at the top of a script",
            ),
            (
                "let @m = hash(3); kprobe:f { }",
                "\"let\" is none",
                "at the top of a script",
            ),
            (
                "config = { max_map_keys = 3 } kprobe:f { }",
                "\"config\" is none",
                "kestrel record --table FILE",
            ),
            ("table t { kprobe:f { } }", "\"table\" is none", "table file"),
            ("buffer b { size = 1M }", "\"buffer\" is none", "table file"),
            ("param p = 3", "\"param\" is none", "table file"),
            (
                "#include <linux/sched.h>\nkprobe:f { }",
                "preprocessor lines",
                "known by their names",
            ),
            ("# a comment", "'#' means nothing", "comments begin"),
        ] {
            let (_, found) = parse_events(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].message.contains(message), "{text}: {found:?}");
            assert!(found[0].hints.concat().contains(hint), "{text}: {found:?}");
        }
    }

    #[test]
    fn names_that_double_and_double_are_refused() {
        let mut text = String::from("#define N0 f();\n");
        for level in 0..40 {
            text += &format!(
                "#define N{} N{level} N{level}\n#define F{level}(x) F{}(x x)\n",
                level + 1,
                level + 1
            );
        }
        for use_of in ["N40", "F0(f();)"] {
            let (_, found) = parse_script(&format!("{text}begin {{ {use_of} }}"));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].message.contains("stand for too much"), "{found:?}");
        }
    }

    #[test]
    fn semicolons_behind_the_only_block_are_harmless() {
        for text in ["kprobe:f { @++ };", "kprobe:f { @++ } ;; ", "kprobe:f /pid/ { };"] {
            let (probe, found) = parse_events(text);
            assert!(found.is_empty() && probe.block.is_some(), "{text}: {found:?}");
        }
        for text in ["kprobe:f;", "kprobe:f { } x", "kprobe:f { }; x"] {
            assert!(!parse_events(text).1.is_empty(), "{text}");
        }
    }
}
