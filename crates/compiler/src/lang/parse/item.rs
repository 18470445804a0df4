//! Top-level items of a text: probes, and the buffers, tables, parameters and settings of scripts.

use super::{Lost, Parsed, Parser};
use crate::lang::ast::{
    Block, Buffer, Expr, ExprKind, Item, Probe, Script, Span, Spanned, Statement, StatementKind, Table,
};
use crate::lang::diag::Diagnostic;
use crate::lang::lexer::TokenKind;

/// Where a probe stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemPlace {
    /// In a text of probes (`-e`): the block of the last one may be left out.
    Listed,
    /// In a table or script: without a block it ends with a semicolon, or with what it stands in.
    Among,
}

/// Settings of a buffer or a config: `name = value` pairs.
type Settings = Vec<(Spanned<String>, Expr)>;

impl Parser<'_> {
    pub(super) fn script(&mut self) -> Script {
        let mut items = Vec::new();
        while !self.is_end() {
            let start = self.start();
            match self.item() {
                Ok(item) => items.push(item),
                Err(_) => self.skip_item(),
            }
            while self.eat(";") {}
            if self.start() == start && !self.is_end() {
                self.take();
            }
        }
        Script { items }
    }

    fn item(&mut self) -> Parsed<Item> {
        let after = self.after_word();
        match self.token.kind {
            TokenKind::Word("config") if after == Some('=') => self.config(),
            // Without a name they are nothing else, either.
            TokenKind::Word("buffer") if after.is_some_and(|c| is_name(c) || c == '{') => {
                self.buffer().map(Item::Buffer)
            }
            TokenKind::Word("table") if after.is_some_and(|c| is_name(c) || c == '{') => {
                self.table().map(Item::Table)
            }
            TokenKind::Word("param") if after.is_some_and(|c| is_name(c) || c == '=') => self.param(),
            _ if self.is_of_other_scripts() => Err(self.of_other_scripts()),
            _ => Ok(Item::Probe(self.probe(ItemPlace::Among))),
        }
    }

    /// Whether a declaration begins here that scripts of bpftrace may have and that is not there yet.
    fn is_of_other_scripts(&self) -> bool {
        const WORDS: [&str; 7] = ["struct", "union", "enum", "import", "macro", "fn", "subprog"];
        let TokenKind::Word(word) = self.token.kind else {
            return false;
        };
        WORDS.contains(&word) && (self.after_word().is_some_and(is_name) || word == "import")
    }

    fn of_other_scripts(&mut self) -> Lost {
        let word = self.source(self.token.span);
        let message = format!("not yet supported: \"{word}\" at the top of a text");
        let hint = match word {
            "struct" | "union" | "enum" => {
                "the kernel's own types are known: ((struct NAME *)address)->member"
            }
            _ => "write what it stands for where it is used",
        };
        self.error(Diagnostic::error(self.token.span, message).hint(hint))
    }

    /// Says what stands at the start of a text of handlers and belongs into a file, or nowhere; whether anything did.
    pub(super) fn refuse_top(&mut self) -> bool {
        if self.is_of_other_scripts() {
            self.of_other_scripts();
            return true;
        }
        let after = self.after_word();
        let hint = match self.token.kind {
            TokenKind::Word("config") if after == Some('=') => {
                "config = { … } stands at the top of a table file"
            }
            TokenKind::Word("buffer") if after.is_some_and(is_name) => {
                "buffer NAME { … } stands in a table file"
            }
            TokenKind::Word("table") if after.is_some_and(is_name) => {
                "table NAME { … } stands in a table file"
            }
            TokenKind::Word("param") if after.is_some_and(is_name) => {
                "param NAME = VALUE stands in a table file"
            }
            _ => return false,
        };
        let word = self.source(self.token.span);
        let message = format!("events and their handlers stand here, and \"{word}\" is none");
        let hint = format!("{hint}: kestrel record --table FILE, kestrel start FILE");
        self.error(Diagnostic::error(self.token.span, message).hint(hint));
        true
    }

    /// The first character after the next token and blanks, if that token is a word with blanks or `=` after it.
    fn after_word(&self) -> Option<char> {
        let mut rest = self.lexer.clone();
        let adjacent = rest.rest().chars().next()?;
        rest.skip_blank(&mut Vec::new());
        let next = rest.rest().chars().next()?;
        (adjacent.is_whitespace() || adjacent == '=').then_some(next)
    }

    /// Whether what stands here can only stand at the top of a text.
    fn begins_item(&self) -> bool {
        matches!(self.token.kind, TokenKind::Word("table" | "buffer" | "param"))
            && self.after_word().is_some_and(is_name)
    }

    /// Goes on after the block that follows, or after the line.
    fn skip_item(&mut self) {
        loop {
            if self.is_end() || self.is("}") || self.is(";") {
                break;
            }
            if self.eat("{") {
                self.skip_past("{", "}");
                return;
            }
            self.take();
            let between = Span {
                start: self.last_end,
                end: self.start(),
            };
            if self.source(between).contains('\n') {
                break;
            }
        }
        if !self.eat("}") {
            self.eat(";");
        }
    }

    fn config(&mut self) -> Parsed<Item> {
        self.take();
        self.expect("=")?;
        self.settings().map(Item::Config)
    }

    fn buffer(&mut self) -> Parsed<Buffer> {
        self.take();
        let name = self.expect_name("the buffer's name")?;
        let settings = self.settings()?;
        Ok(Buffer { name, settings })
    }

    fn param(&mut self) -> Parsed<Item> {
        self.take();
        let name = self.expect_name("the parameter's name")?;
        self.expect("=")?;
        let value = self.expression()?;
        Ok(Item::Param(name, value))
    }

    /// `{ name = value … }`, optionally separated by semicolons or commas.
    fn settings(&mut self) -> Parsed<Settings> {
        self.expect("{")?;
        let mut settings = Vec::new();
        while !self.eat("}") {
            let name = self.expect_name("a setting's name or \"}\"")?;
            self.expect("=")?;
            settings.push((name, self.expression()?));
            while self.eat(";") || self.eat(",") {}
        }
        Ok(settings)
    }

    fn table(&mut self) -> Parsed<Table> {
        self.take();
        let name = self.expect_name("the table's name")?;
        let parent = match self.eat(":") {
            true => Some(self.expect_name("the name of the table it starts from")?),
            false => None,
        };
        let opening = self.token.span;
        self.expect("{")?;
        let mut probes = Vec::new();
        loop {
            while self.eat(";") {}
            if self.is_end() {
                self.error(Diagnostic::error(opening, "this block is not closed by \"}\""));
                break;
            }
            if self.eat("}") {
                break;
            }
            if self.begins_item() {
                let next = self.token.span;
                let message = "this table is not closed by \"}\"";
                self.error(Diagnostic::error(opening, message).label(next, "before this begins"));
                break;
            }
            let start = self.start();
            probes.push(self.probe(ItemPlace::Among));
            if self.start() == start {
                self.take();
            }
        }
        Ok(Table { name, parent, probes })
    }

    /// Events, an optional predicate, an optional block.
    pub(super) fn probe(&mut self, place: ItemPlace) -> Probe {
        let start = self.start();
        let mut events = Vec::new();
        loop {
            events.extend(self.event());
            if !self.eat(",") {
                break;
            }
            if self.is_end() || self.is("{") {
                break; // a comma after the last event is harmless
            }
        }
        let events_end = self.last_end;
        let predicate = self.is("/").then(|| self.predicate());
        let mut object = None;
        let block = if self.is("{") {
            self.block().ok()
        } else if self.is_word("handler") {
            object = self.object_handler();
            object.as_ref().map(|object| counted(object.span))
        } else {
            self.expect_no_block(
                place,
                Span {
                    start,
                    end: events_end,
                },
            );
            None
        };
        Probe {
            events,
            predicate,
            block,
            object,
            span: self.span_from(start),
        }
    }

    /// `handler "path.o"`: a program of a compiled object handles the event.
    fn object_handler(&mut self) -> Option<Spanned<String>> {
        let start = self.start();
        self.take();
        let TokenKind::Text(path) = &self.token.kind else {
            self.unexpected("the path of a compiled BPF object in quotes");
            self.skip_item();
            return None;
        };
        let (node, span) = (path.clone(), self.token.span);
        self.take();
        if self.is("{") || self.is("/") {
            let message = "nothing follows the object that handles the event";
            self.error(Diagnostic::error(self.span_from(start), message));
        }
        self.eat(";");
        Some(Spanned { node, span })
    }

    /// Complains where a probe ends neither with a block nor where it may.
    fn expect_no_block(&mut self, place: ItemPlace, events: Span) {
        let allowed = match place {
            ItemPlace::Listed => self.is_end(),
            ItemPlace::Among => self.is_end() || self.is("}") || self.eat(";"),
        };
        if allowed {
            return;
        }
        let known = self.found.iter().any(|d| d.span.start >= events.start);
        if !known {
            self.unexpected("\",\", a /predicate/ or a { block }");
        }
        self.skip_item();
    }

    /// `/ expression /`.
    fn predicate(&mut self) -> Expr {
        let opening = self.token.span;
        self.take();
        self.in_predicate = true;
        let parsed = self.expression();
        self.in_predicate = false;
        let start = opening.end;
        let value = match parsed {
            Ok(value) if self.eat("/") => return value,
            Ok(value) => {
                if self.is_end() || self.is("{") {
                    self.error(
                        Diagnostic::error(opening, "this predicate is not closed by a second \"/\"")
                            .hint("a predicate is written /pid == 42/, between the events and the block"),
                    );
                } else {
                    self.unexpected("an operator or the \"/\" that closes the predicate");
                }
                value
            }
            Err(_) => Parser::broken(self.span_from(start)),
        };
        // Go on at the block; a slash that ends the predicate stands right before it.
        while !self.is_end() && !self.is("{") && !self.is("}") {
            self.take();
        }
        value
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// What stands before the call of an object's program: how often that is made.
fn counted(span: Span) -> Block {
    let kind = ExprKind::Call {
        name: Spanned {
            node: "count".to_owned(),
            span,
        },
        args: Vec::new(),
    };
    let kind = StatementKind::Expr(Expr { kind, span });
    Block {
        statements: vec![Statement { kind, span }],
        span,
    }
}
