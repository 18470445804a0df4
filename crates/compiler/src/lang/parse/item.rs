//! Top-level items of a text: probes, and the buffers, tables, parameters and settings of scripts.

use super::{Lost, Parsed, Parser};
use crate::lang::ast::{
    BinaryOp, Block, Buffer, EventSpec, Expr, ExprKind, Item, Macro, MacroParameter, MacroParameterKind,
    MapDeclaration, Probe, Script, Span, Spanned, Statement, StatementKind, Subprogram, Table, ValueBlock,
};
use crate::lang::diag::Diagnostic;
use crate::lang::lexer::TokenKind;

/// Place of a probe in its file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemPlace {
    /// In a text of probes (`-e`): the block of the last one may be left out.
    Listed,
    /// In a table or script: without a block it ends with a semicolon, or with what it stands in.
    Among,
}

/// Place of items of table files, in words.
const TABLE: &str = "in a table file: kestrel record --table FILE, kestrel start FILE";
/// Place of items of scripts, in words.
const SCRIPT: &str = "at the top of a script: kestrel run FILE";

/// Settings of a buffer or a config: `name = value` pairs.
type Settings = Vec<(Spanned<String>, Expr)>;

impl Parser<'_> {
    /// A script, or a table file where its settings need not stand first.
    pub(super) fn script(&mut self, config_first: bool) -> Script {
        let mut items = Vec::new();
        self.of_program = config_first;
        while !self.is_end() {
            let start = self.start();
            if config_first {
                self.refuse_late(&items);
            }
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

    /// Refuses settings behind other settings; settings, imports and types of C behind what they are for.
    fn refuse_late(&mut self, items: &[Item]) {
        let after = self.after_word();
        let (what, verb, known) = match self.token.kind {
            TokenKind::Word("config") if after == Some('=') => ("config = { … }", "stands", "config"),
            TokenKind::Word("import") if after == Some('"') => ("imports", "stand", "root imports"),
            TokenKind::Word("struct" | "union" | "enum" | "typedef")
                if after.is_some_and(|c| is_name(c) || c == '{') =>
            {
                ("definitions of C", "stand", "C definitions")
            }
            _ => return,
        };
        let is_config = self.is_word("config");
        if is_config && items.iter().any(|item| matches!(item, Item::Config(_))) {
            let message = "duplicate config block";
            let hint = "write all settings in the first one";
            let wrong = Diagnostic::error(self.token.span, message).hint(hint);
            self.error(wrong.known_as(self.token.span, "syntax: duplicate config block"));
        }
        let is_used = |item: &Item| match item {
            Item::Probe(_) | Item::Subprogram(_) => true,
            Item::Macro(_) | Item::Map(_) => is_config,
            _ => false,
        };
        if items.iter().any(is_used) {
            let others = if is_config {
                ", macros and declarations of maps"
            } else {
                ""
            };
            let message = format!("{what} {verb} before all probes and functions{others}");
            let it = if is_config { "it" } else { "this" };
            let hint = format!("move {it} to the top of the script");
            let known = format!("syntax: {known} must appear before probes and functions");
            let wrong = Diagnostic::error(self.token.span, message).hint(hint);
            self.error(wrong.known_as(self.token.span, known));
        }
    }

    /// The types of a header of C; functions and variables are passed over.
    pub(super) fn header(&mut self) -> Script {
        let mut items = Vec::new();
        while !self.is_end() {
            let (start, found) = (self.start(), self.found.len());
            let begins_type = matches!(
                self.token.kind,
                TokenKind::Word("struct" | "union" | "enum" | "typedef")
            );
            match begins_type.then(|| self.definition()) {
                Some(Ok(definition)) => items.push(Item::Definition(definition)),
                Some(Err(Lost)) => {
                    // A function that gives a struct back begins like one.
                    self.found.truncate(found);
                    self.skip_item_of_c();
                }
                None => self.skip_item_of_c(),
            }
            while self.eat(";") {}
            if self.start() == start && !self.is_end() {
                self.take();
            }
        }
        Script { items }
    }

    /// Goes on behind the semicolon or the body that ends what begins here.
    fn skip_item_of_c(&mut self) {
        while !self.is_end() && !self.eat(";") {
            if self.eat("{") {
                self.skip_past("{", "}");
                return;
            }
            self.take();
        }
    }

    fn item(&mut self) -> Parsed<Item> {
        let after = self.after_word();
        match self.token.kind {
            TokenKind::Word("config") if after == Some('=') || self.of_program && after.is_some() => {
                self.config()
            }
            // Without a name they are nothing else, either.
            TokenKind::Word("buffer") if after.is_some_and(|c| is_name(c) || c == '{') => {
                self.buffer().map(Item::Buffer)
            }
            TokenKind::Word("table") if after.is_some_and(|c| is_name(c) || c == '{') => {
                self.table().map(Item::Table)
            }
            TokenKind::Word("param") if after.is_some_and(|c| is_name(c) || c == '=') => self.param(),
            TokenKind::Word("import") if after == Some('"') || self.of_program && after.is_some() => {
                self.import().map(Item::Import)
            }
            TokenKind::Word("macro") if after.is_some_and(is_name) || self.of_program && after.is_some() => {
                self.macro_item().map(Item::Macro)
            }
            TokenKind::Word("fn" | "subprog")
                if after.is_some_and(is_name) || self.of_program && after.is_some() =>
            {
                self.subprogram().map(Item::Subprogram)
            }
            TokenKind::Word("let") if after == Some('@') || self.of_program && after.is_some() => {
                self.map_declaration().map(Item::Map)
            }
            TokenKind::Word("struct" | "union" | "enum" | "typedef")
                if after.is_some_and(|c| is_name(c) || c == '{') =>
            {
                self.definition().map(Item::Definition)
            }
            _ => Ok(Item::Probe(self.probe(ItemPlace::Among))),
        }
    }

    /// `import "path"`.
    fn import(&mut self) -> Parsed<Spanned<String>> {
        self.take();
        let span = self.token.span;
        let TokenKind::String(path) = &self.token.kind else {
            return Err(self.unexpected("a path in double quotes"));
        };
        let node = path.clone();
        self.take();
        Ok(Spanned { node, span })
    }

    /// `let @name = kind(most)`.
    fn map_declaration(&mut self) -> Parsed<MapDeclaration> {
        let start = self.start();
        self.take();
        let span = self.token.span;
        let TokenKind::Map(name) = self.token.kind else {
            return Err(self.unexpected("a map (@name)"));
        };
        let node = name.to_owned();
        self.take();
        self.expect("=")?;
        let kind = self.expect_name("the kind of the map: hash, lruhash, percpuhash, percpulruhash")?;
        self.expect("(")?;
        let args = self.list(")")?;
        Ok(MapDeclaration {
            name: Spanned { node, span },
            kind,
            args,
            span: self.span_from(start),
        })
    }

    /// `macro name($x, @y, z) { … }`.
    fn macro_item(&mut self) -> Parsed<Macro> {
        let start = self.start();
        self.take();
        let name = self.expect_name("the macro's name")?;
        let mut parameters = Vec::new();
        if self.eat("(") {
            while !self.eat(")") {
                let span = self.token.span;
                let (kind, name) = match self.token.kind {
                    TokenKind::Variable(name) => (MacroParameterKind::Variable, name),
                    TokenKind::Map(name) => (MacroParameterKind::Map, name),
                    TokenKind::Word(name) => (MacroParameterKind::Expression, name),
                    _ => return Err(self.unexpected("a parameter ($variable, @map or expression) or \")\"")),
                };
                let name = name.to_owned();
                self.take();
                parameters.push(MacroParameter { kind, name, span });
                if !self.eat(",") && !self.is(")") {
                    return Err(self.unexpected("\",\" or \")\""));
                }
            }
        }
        self.in_macro = true;
        let body = self.value_block();
        self.in_macro = false;
        let body: ValueBlock = body?;
        Ok(Macro {
            name,
            parameters,
            body,
            span: self.span_from(start),
        })
    }

    /// `fn name($x : type) : type { … }`.
    fn subprogram(&mut self) -> Parsed<Subprogram> {
        let start = self.start();
        self.take();
        let name = self.expect_name("the function's name")?;
        self.expect("(")?;
        let mut parameters = Vec::new();
        while !self.eat(")") {
            let name = self.variable_name()?;
            self.expect(":")?;
            parameters.push((name, self.type_name()?));
            if !self.eat(",") && !self.is(")") {
                return Err(self.unexpected("\",\" or \")\""));
            }
        }
        self.expect(":")?;
        let result = self.type_name()?;
        let body = self.block()?;
        Ok(Subprogram {
            name,
            parameters,
            result,
            body,
            span: self.span_from(start),
        })
    }

    /// Says what stands at the start of a text of handlers and belongs into a script, or nowhere; whether anything did.
    pub(super) fn refuse_top(&mut self) -> bool {
        let after = self.after_word();
        let named = after.is_some_and(is_name);
        let (spelling, place) = match self.token.kind {
            TokenKind::Word("config") if after == Some('=') => ("config = { … }", TABLE),
            TokenKind::Word("buffer") if named => ("buffer NAME { … }", TABLE),
            TokenKind::Word("table") if named => ("table NAME { … }", TABLE),
            TokenKind::Word("param") if named => ("param NAME = VALUE", TABLE),
            TokenKind::Word("struct" | "union" | "enum" | "typedef") if named => ("a type of C", SCRIPT),
            TokenKind::Word("macro") if named => ("macro NAME(…) { … }", SCRIPT),
            TokenKind::Word("fn" | "subprog") if named => ("fn NAME(…) : TYPE { … }", SCRIPT),
            TokenKind::Word("import") if after == Some('"') => ("import \"PATH\"", SCRIPT),
            TokenKind::Word("let") if after == Some('@') => ("let @NAME = KIND(MOST)", SCRIPT),
            _ => return false,
        };
        let word = self.source(self.token.span);
        let message = format!("events and their handlers stand here, and \"{word}\" is none");
        let hint = format!("{spelling} stands {place}");
        self.error(Diagnostic::error(self.token.span, message).hint(hint));
        true
    }

    /// The first character after the next token and blanks, if that token is a word with blanks or `=` after it.
    fn after_word(&self) -> Option<char> {
        let mut rest = self.lexer.clone();
        let adjacent = rest.rest().chars().next()?;
        rest.skip_blank(&mut Vec::new());
        let next = rest.rest().chars().next()?;
        (adjacent.is_whitespace() || matches!(adjacent, '=' | '"' | '@' | '{' | '/')).then_some(next)
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
        self.settings(self.of_program).map(Item::Config)
    }

    fn buffer(&mut self) -> Parsed<Buffer> {
        self.take();
        let name = self.expect_name("the buffer's name")?;
        let settings = self.settings(false)?;
        Ok(Buffer { name, settings })
    }

    fn param(&mut self) -> Parsed<Item> {
        self.take();
        let name = self.expect_name("the parameter's name")?;
        self.expect("=")?;
        let value = self.expression()?;
        Ok(Item::Param(name, value))
    }

    /// `{ name = value … }`; between them stand semicolons or commas, or nothing, but always semicolons where they are `separated`.
    fn settings(&mut self, separated: bool) -> Parsed<Settings> {
        self.expect("{")?;
        let mut settings = Vec::new();
        while !self.eat("}") {
            let name = self.expect_name("a setting's name or \"}\"")?;
            self.expect("=")?;
            settings.push((name, self.expression()?));
            if separated && !self.is(";") && !self.is("}") {
                return Err(self.unexpected("\";\" or \"}\""));
            }
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
                self.error(Diagnostic::unclosed(opening, "this block is not closed by \"}\""));
                break;
            }
            if self.eat("}") {
                break;
            }
            if self.begins_item() {
                let next = self.token.span;
                let message = "this table is not closed by \"}\"";
                self.error(Diagnostic::unclosed(opening, message).label(next, "before this begins"));
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
            let name = self.argument_name();
            events.extend(self.event().map(|event| EventSpec { name, ..event }));
            if !self.eat(",") {
                break;
            }
            if self.is_end() || self.is("{") || self.is("/") {
                break; // a comma after the last event is harmless
            }
        }
        let events_end = self.last_end;
        let predicate = self.predicates();
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
        let TokenKind::String(path) = &self.token.kind else {
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

    /// `/ expression /`; all of several must be true.
    fn predicates(&mut self) -> Option<Expr> {
        let mut all: Option<Expr> = None;
        while self.is("/") {
            let start = self.start();
            if all.is_some() && self.of_program {
                let message = "a probe has one predicate";
                let wrong = Diagnostic::error(self.token.span, message)
                    .known_as(self.token.span, "syntax: expected '{'");
                self.error(wrong.hint("write both conditions in it: /first && second/"));
            }
            let next = self.predicate();
            all = Some(match all {
                None => next,
                Some(left) => {
                    let kind = ExprKind::Binary {
                        op: BinaryOp::And,
                        left: Box::new(left),
                        right: Box::new(next),
                    };
                    self.build(self.height, start, kind)
                        .unwrap_or_else(|Lost| Parser::broken(self.span_from(start)))
                }
            });
        }
        all
    }

    /// `/ expression /`.
    fn predicate(&mut self) -> Expr {
        let opening = self.token.span;
        self.take();
        self.in_predicate = true;
        let parsed = self.condition();
        self.in_predicate = false;
        let start = opening.end;
        let value = match parsed {
            Ok(value) if self.eat("/") => return value,
            Ok(value) => {
                if self.is_end() || self.is("{") {
                    self.error(
                        Diagnostic::unclosed(opening, "this predicate is not closed by a second \"/\"")
                            .known_as(self.token.span, "syntax: expected '/' to close predicate")
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

/// Block that counts the call of an object's program: how often that is made.
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
