//! A script in the house's own form: one statement a line, two blanks a level, comments where they stood.

mod expression;
mod statement;

use super::ast::{EventSpec, Expr, Item, Probe, Script, Span};
use super::diag::{Diagnostic, has_errors};
use super::parse::parse_unexpanded;

/// Most columns of a line that can be broken.
const COLUMNS: usize = 80;

/// A script in our standard form. Lines of the preprocessor stay as they are, and the names that they define stand for
/// themselves.
///
/// ```
/// use kestrel_compiler::lang::format::format;
/// let tidy = format("kprobe:f/pid==1/{@[comm]=count();// how often\n}").unwrap_or_default();
/// assert_eq!(tidy, "kprobe:f\n/pid == 1/\n{\n  @[comm] = count(); // how often\n}\n");
/// ```
///
/// # Errors
/// Diagnostics of the script, with places in it.
pub fn format(text: &str) -> Result<String, Vec<Diagnostic>> {
    let (script, remarks, found) = parse_unexpanded(text);
    if has_errors(&found) {
        return Err(found);
    }
    let mut printer = Printer {
        text,
        remarks,
        next: 0,
        out: String::new(),
        level: 0,
        last: 0,
    };
    printer.script(&script);
    Ok(printer.out)
}

struct Printer<'a> {
    text: &'a str,
    /// Comments and lines of the preprocessor, in source order.
    remarks: Vec<Span>,
    /// The first of them that has not been written.
    next: usize,
    out: String,
    level: usize,
    /// Where in the source ends what has been written.
    last: usize,
}

impl<'a> Printer<'a> {
    fn source(&self, span: Span) -> &'a str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    /// Begins a line for what stands at `at` in the source: comments before it come first, and one empty line stays.
    fn line(&mut self, at: u32) {
        self.remarks_before(at as usize);
        self.gap(at as usize);
        self.indent();
    }

    /// Begins a line for the item whose word is the last one before `at`.
    fn word(&mut self, at: u32, word: &str) {
        let before = self.text.get(..at as usize).unwrap_or_default();
        let start = before.rfind(word).unwrap_or(at as usize);
        self.line(u32::try_from(start).unwrap_or(at));
    }

    fn indent(&mut self) {
        for _ in 0..self.level {
            self.out.push_str("  ");
        }
    }

    /// An empty line where the source has one or more between the last thing written and `at`.
    fn gap(&mut self, at: usize) {
        let between = self.text.get(self.last..at).unwrap_or_default();
        let lines = between.matches('\n').count();
        if lines > 1 && !self.out.is_empty() && !self.out.ends_with("{\n") {
            self.out.push('\n');
        }
    }

    /// Ends a line; a comment that stands on the same line in the source stays there.
    fn end_line(&mut self, end: u32) {
        self.last = self.last.max(end as usize);
        if let Some(remark) = self.remarks.get(self.next).copied() {
            let between = self.text.get(self.last..remark.start as usize);
            let beside =
                between.is_some_and(|between| between.trim_matches([' ', '\t', ';', ',']).is_empty());
            if beside && !self.source(remark).contains('\n') && !self.source(remark).starts_with('#') {
                let remark_text = self.source(remark).trim_end();
                self.out.push(' ');
                self.out.push_str(remark_text);
                self.next += 1;
                self.last = remark.end as usize;
            }
        }
        self.out.push('\n');
    }

    fn remarks_before(&mut self, at: usize) {
        while let Some(remark) = self.remarks.get(self.next).copied() {
            if remark.start as usize >= at {
                return;
            }
            self.gap(remark.start as usize);
            let text = self.source(remark);
            if !text.starts_with('#') {
                self.indent();
            }
            self.out.push_str(text.trim_end());
            self.out.push('\n');
            self.next += 1;
            self.last = self.last.max(remark.end as usize);
        }
    }

    fn script(&mut self, script: &Script) {
        for item in &script.items {
            self.item(item);
        }
        self.remarks_before(self.text.len() + 1);
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Probe(probe) => self.probe(probe),
            Item::Config(settings) => {
                let Some((first, _)) = settings.first() else {
                    self.out.push_str("config = {}\n");
                    return;
                };
                self.word(first.span.start, "config");
                self.last = self.last.max(first.span.start as usize);
                self.out.push_str("config = {\n");
                self.settings(settings, ";");
            }
            Item::Import(path) => {
                self.word(path.span.start, "import");
                let line = format!("import {};", self.source(path.span));
                self.out.push_str(&line);
                self.end_line(path.span.end);
            }
            // Definitions of C stay as they are written: this formats the language, not C.
            Item::Definition(definition) => self.as_it_is(definition.span),
            Item::Map(map) => {
                self.line(map.span.start);
                let args = self.list(&map.args);
                let line = format!("let @{} = {}({args});", map.name.node, map.kind.node);
                self.out.push_str(&line);
                self.skip_separators(map.span.end);
                self.end_line(map.span.end);
            }
            Item::Macro(one) => {
                self.line(one.span.start);
                let parameters: Vec<&str> = one.parameters.iter().map(|p| self.source(p.span)).collect();
                let head = format!("macro {}({})\n", one.name.node, parameters.join(", "));
                self.out.push_str(&head);
                self.value_block(&one.body);
                self.end_line(one.span.end);
            }
            Item::Subprogram(one) => {
                self.line(one.span.start);
                let parameters: Vec<String> = one
                    .parameters
                    .iter()
                    .map(|(name, ty)| format!("{} : {}", self.source(name.span), self.ty(ty)))
                    .collect();
                let head = format!(
                    "fn {}({}) : {}\n",
                    one.name.node,
                    parameters.join(", "),
                    self.ty(&one.result)
                );
                self.out.push_str(&head);
                self.block(&one.body);
                self.end_line(one.span.end);
            }
            Item::Buffer(buffer) => {
                self.word(buffer.name.span.start, "buffer");
                let head = format!("buffer {} {{\n", buffer.name.node);
                self.out.push_str(&head);
                self.settings(&buffer.settings, "");
            }
            Item::Table(table) => {
                self.word(table.name.span.start, "table");
                let parent = table.parent.as_ref();
                let parent = parent.map_or_else(String::new, |parent| format!(" : {}", parent.node));
                let head = format!("table {}{parent} {{\n", table.name.node);
                self.out.push_str(&head);
                self.level += 1;
                self.last = self.last.max(table.name.span.end as usize);
                for probe in &table.probes {
                    self.probe(probe);
                }
                self.close();
            }
            Item::Param(name, value) => {
                self.word(name.span.start, "param");
                let line = format!("param {} = {}", name.node, self.expr(value));
                self.out.push_str(&line);
                self.end_line(value.span.end);
            }
        }
    }

    fn settings(&mut self, settings: &[(super::ast::Spanned<String>, Expr)], end: &str) {
        self.level += 1;
        for (name, value) in settings {
            self.line(name.span.start);
            let line = format!("{} = {}{end}", name.node, self.expr(value));
            self.out.push_str(&line);
            self.skip_separators(value.span.end);
            self.end_line(value.span.end);
        }
        self.close();
    }

    /// Skips separators between settings, which are no lines of their own: a comment behind it is beside the setting.
    fn skip_separators(&mut self, end: u32) {
        let rest = self.text.get(end as usize..).unwrap_or_default();
        let separators = rest.len() - rest.trim_start_matches([' ', '\t', ';', ',']).len();
        self.last = self.last.max(end as usize + separators);
    }

    /// Writes the brace that closes what has no place of its own in the tree, and the comments before it.
    fn close(&mut self) {
        let mut at = self.last;
        while let Some(found) = self.text.get(at..).and_then(|rest| rest.find('}')) {
            let place = at + found;
            let inside = |remark: &&Span| (remark.start as usize..remark.end as usize).contains(&place);
            match self.remarks.iter().find(inside) {
                Some(remark) => at = remark.end as usize,
                None => {
                    self.remarks_before(place);
                    self.last = place + 1;
                    break;
                }
            }
        }
        self.level -= 1;
        self.indent();
        self.out.push('}');
        self.end_line(0);
    }

    /// Copies the source as it stands, with a semicolon where there is none.
    fn as_it_is(&mut self, span: Span) {
        self.line(span.start);
        let text = self.source(span);
        // Comments within it are part of it.
        while self
            .remarks
            .get(self.next)
            .is_some_and(|remark| remark.start < span.end)
        {
            self.next += 1;
        }
        self.out.push_str(text.trim_end());
        if !text.trim_end().ends_with(';') {
            self.out.push(';');
        }
        self.end_line(span.end);
    }

    /// A predicate and a block have lines of their own, but for those in a table.
    fn next_part(&mut self) {
        match self.level {
            0 => self.out.push('\n'),
            _ => self.out.push(' '),
        }
    }

    fn event(&self, event: &EventSpec) -> &'a str {
        self.source(event.span)
    }

    fn probe(&mut self, probe: &Probe) {
        self.line(probe.span.start);
        for (index, event) in probe.events.iter().enumerate() {
            if index > 0 {
                self.out.push_str(",\n");
                self.indent();
            }
            if let Some(name) = &event.name {
                let name = format!("{} = ", name.node);
                self.out.push_str(&name);
            }
            let text = self.event(event);
            self.out.push_str(text);
        }
        if let Some(predicate) = &probe.predicate {
            self.next_part();
            let text = format!("/{}/", self.expr(predicate));
            self.out.push_str(&text);
        }
        if let Some(object) = &probe.object {
            let text = format!(" handler {}", self.source(object.span));
            self.out.push_str(&text);
        } else if let Some(block) = &probe.block {
            self.next_part();
            self.block(block);
        } else {
            self.out.push(';');
        }
        self.end_line(probe.span.end);
    }
}
