//! Formatting of blocks and statements in the language's standard layout.

use super::Printer;
use crate::lang::ast::{
    BinaryOp, Block, Expr, ExprKind, ForRange, Span, Statement, StatementKind, ValueBlock,
};

impl Printer<'_> {
    pub(super) fn block(&mut self, block: &Block) {
        self.braces(&block.statements, None, block.span);
    }

    pub(super) fn value_block(&mut self, block: &ValueBlock) {
        self.braces(&block.statements, block.value.as_deref(), block.span);
    }

    fn braces(&mut self, statements: &[Statement], value: Option<&Expr>, span: Span) {
        let inside = |remark: &&Span| remark.start > span.start && remark.end <= span.end;
        let remarks = self.remarks[self.next..].iter().find(inside).is_some();
        if statements.is_empty() && value.is_none() && !remarks {
            self.out.push_str("{}");
            return;
        }
        self.out.push('{');
        self.last = self.last.max(span.start as usize + 1);
        // A comment may stand behind the brace.
        self.end_line(span.start + 1);
        self.level += 1;
        for statement in statements {
            self.line(statement.span.start);
            self.statement(statement);
            self.end_line(statement.span.end);
        }
        if let Some(value) = value {
            self.line(value.span.start);
            match &value.kind {
                ExprKind::If {
                    condition,
                    then,
                    otherwise,
                } => self.condition(condition, then, otherwise.as_ref()),
                _ => {
                    let text = self.expr(value);
                    self.out.push_str(&text);
                }
            }
            self.end_line(value.span.end);
        }
        self.remarks_before(span.end as usize - 1);
        self.level -= 1;
        self.indent();
        self.out.push('}');
        self.last = self.last.max(span.end as usize);
    }

    pub(super) fn condition(&mut self, condition: &Expr, then: &ValueBlock, otherwise: Option<&ValueBlock>) {
        let head = format!("if {} ", self.enclosed(condition));
        self.out.push_str(&head);
        self.value_block(then);
        let Some(otherwise) = otherwise else { return };
        self.out.push_str(" else ");
        match otherwise.value.as_deref() {
            Some(Expr {
                kind:
                    ExprKind::If {
                        condition,
                        then,
                        otherwise: more,
                    },
                span,
            }) if *span == otherwise.span => self.condition(condition, then, more.as_ref()),
            _ => self.value_block(otherwise),
        }
    }

    /// The text of a condition. One with an operator is put in parentheses, unless it is in parentheses already; one of a single word or call has none.
    fn enclosed(&mut self, condition: &Expr) -> String {
        use ExprKind as Kind;
        let text = self.expr(condition);
        match condition.kind {
            Kind::Binary { .. } | Kind::Chain { .. } | Kind::Ternary { .. } if !Self::is_enclosed(&text) => {
                format!("({text})")
            }
            Kind::Integer { .. }
            | Kind::Bool(_)
            | Kind::Identifier(_)
            | Kind::Variable(_)
            | Kind::Map { .. }
            | Kind::Call { .. }
                if Self::is_enclosed(&text) =>
            {
                text[1..text.len() - 1].to_owned()
            }
            _ => text,
        }
    }

    /// Whether the first parenthesis of a text is closed by its last character.
    fn is_enclosed(text: &str) -> bool {
        let mut open = 0_usize;
        let mut quoted = false;
        let mut escaped = false;
        for (at, c) in text.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                '(' if !quoted => open += 1,
                ')' if !quoted => {
                    open = open.saturating_sub(1);
                    if open == 0 {
                        return text.starts_with('(') && at + 1 == text.len();
                    }
                }
                _ if open == 0 => return false,
                _ => {}
            }
        }
        false
    }

    fn statement(&mut self, statement: &Statement) {
        use StatementKind as Kind;
        let text = match &statement.kind {
            Kind::Expr(expr) => self.wrapped(expr),
            Kind::Discard(expr) => format!("_ = {}", self.expr(expr)),
            Kind::Assign { target, op, value } => {
                let op = op.map_or("=", assigning);
                format!("{} {op} {}", self.expr(target), self.expr(value))
            }
            Kind::Let { name, ty, value } => {
                let ty = ty
                    .as_ref()
                    .map_or_else(String::new, |ty| format!(" : {}", self.ty(ty)));
                let value = value
                    .as_ref()
                    .map_or_else(String::new, |value| format!(" = {}", self.expr(value)));
                format!("let {}{ty}{value}", self.source(name.span))
            }
            // A statement that ends in a block has no semicolon behind it.
            Kind::If {
                condition,
                then,
                otherwise,
            } => return self.if_statement(condition, then, otherwise.as_ref()),
            Kind::While { condition, body } => {
                let head = format!("while {} ", self.enclosed(condition));
                return self.headed(&head, body);
            }
            Kind::For { name, over, body } => {
                let over = match over {
                    ForRange::Range(start, end) => format!("{}..{}", self.expr(start), self.expr(end)),
                    ForRange::Map(map) => self.expr(map),
                };
                let head = format!("for {} : {over} ", self.source(name.span));
                return self.headed(&head, body);
            }
            Kind::Unroll { count, body } => {
                let count = self.expr(count);
                let head = match Self::is_enclosed(&count) {
                    true => format!("unroll {count} "),
                    false => format!("unroll ({count}) "),
                };
                return self.headed(&head, body);
            }
            Kind::Block(block) | Kind::Handler { body: block, .. } => return self.block(block),
            Kind::Return(value) => value.as_ref().map_or_else(
                || "return".to_owned(),
                |value| format!("return {}", self.expr(value)),
            ),
            Kind::Break => "break".to_owned(),
            Kind::Continue => "continue".to_owned(),
        };
        self.out.push_str(&text);
        self.out.push(';');
    }

    fn headed(&mut self, head: &str, body: &Block) {
        self.out.push_str(head);
        self.block(body);
    }

    fn if_statement(&mut self, condition: &Expr, then: &Block, otherwise: Option<&Block>) {
        let head = format!("if {} ", self.enclosed(condition));
        self.headed(&head, then);
        let Some(otherwise) = otherwise else { return };
        self.out.push_str(" else ");
        match otherwise.statements.as_slice() {
            [
                Statement {
                    kind:
                        StatementKind::If {
                            condition,
                            then,
                            otherwise: more,
                        },
                    span,
                },
            ] if *span == otherwise.span => self.if_statement(condition, then, more.as_ref()),
            _ => self.block(otherwise),
        }
    }
}

fn assigning(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+=",
        BinaryOp::Subtract => "-=",
        BinaryOp::Multiply => "*=",
        BinaryOp::Divide => "/=",
        BinaryOp::Modulo => "%=",
        BinaryOp::ShiftLeft => "<<=",
        BinaryOp::ShiftRight => ">>=",
        BinaryOp::BitAnd => "&=",
        BinaryOp::BitOr => "|=",
        BinaryOp::BitXor => "^=",
        BinaryOp::Equal
        | BinaryOp::NotEqual
        | BinaryOp::Less
        | BinaryOp::LessEqual
        | BinaryOp::Greater
        | BinaryOp::GreaterEqual
        | BinaryOp::And
        | BinaryOp::Or => "=",
    }
}
