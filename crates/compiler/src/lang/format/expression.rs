//! Formatting of expressions and types; parentheses are kept where they are written.

use super::{COLUMNS, Printer};
use crate::lang::ast::{
    Arg, BinaryOp, Expr, ExprKind, PathStep, SizeofOperand, Span, TypeName, TypeSuffix, TypeTag, UnaryOp,
};

impl Printer<'_> {
    /// An expression as a statement: a call that is too long for its line goes on in the next ones.
    pub(super) fn wrapped(&mut self, expr: &Expr) -> String {
        let text = self.expr(expr);
        let ExprKind::Call { name, args } = &expr.kind else {
            return text;
        };
        let indent = self.level * 2;
        if indent + text.chars().count() < COLUMNS || text.contains('\n') {
            return text;
        }
        // Each line has as many arguments as it holds, the next one begins below the first argument.
        let mut text = format!("{}(", name.node);
        let start = indent + text.len();
        let mut column = start;
        for (index, arg) in args.iter().enumerate() {
            let arg = self.argument(arg);
            let width = arg.chars().count();
            // Behind it stands a comma, or the parenthesis and the semicolon.
            let end = if index + 1 == args.len() { 2 } else { 1 };
            if index > 0 && column + 2 + width + end > COLUMNS {
                text.push_str(",\n");
                text.push_str(&" ".repeat(start));
                column = start;
            } else if index > 0 {
                text.push_str(", ");
                column += 2;
            }
            text.push_str(&arg);
            column += width;
        }
        text + ")"
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> String {
        let inner = self.bare(expr);
        match self.begins(expr) {
            Some(start) if start > expr.span.start => format!("({inner})"),
            _ => inner,
        }
    }

    /// Where an expression begins behind parentheses that stand around all of it; `None` where its text is the source's.
    fn begins(&self, expr: &Expr) -> Option<u32> {
        use ExprKind as Kind;
        let open = self.source(expr.span).starts_with('(');
        // Behind the parenthesis that is not part of the expression's own form.
        let behind = |own: bool| {
            Some(if open && !own {
                expr.span.start + 1
            } else {
                expr.span.start
            })
        };
        match &expr.kind {
            Kind::Integer { .. }
            | Kind::String(_)
            | Kind::Bool(_)
            | Kind::Identifier(_)
            | Kind::Variable(_)
            | Kind::Map { .. }
            | Kind::Positional { .. }
            | Kind::Error
            | Kind::Block(_)
            | Kind::If { .. }
            | Kind::Comptime(_)
            | Kind::Sizeof(_)
            | Kind::Typeof(_)
            | Kind::Typeinfo(_)
            | Kind::Offsetof { .. }
            | Kind::Unary { .. }
            | Kind::Step { prefix: true, .. }
            | Kind::Call { .. } => behind(false),
            Kind::Member { base, .. } | Kind::Index { base, .. } => Some(base.span.start),
            Kind::Step { target, .. } => Some(target.span.start),
            Kind::Binary { left, .. } => Some(left.span.start),
            Kind::Chain { first, .. } => Some(first.span.start),
            Kind::Ternary { condition, .. } => Some(condition.span.start),
            Kind::Cast { ty, .. } => {
                let before = self.text.get(expr.span.start as usize..ty.span.start as usize);
                behind(before.is_some_and(|before| before.matches('(').count() == 1))
            }
            Kind::Tuple(all) => self.first_behind(expr.span, all.first().map(|one| one.span)),
            Kind::Record(all) => self.first_behind(expr.span, all.first().map(|(name, _)| name.span)),
        }
    }

    /// Start of an expression that has parentheses of its own; one byte further where more stand around it.
    fn first_behind(&self, span: Span, first: Option<Span>) -> Option<u32> {
        let first = first?;
        let before = self.text.get(span.start as usize..first.start as usize)?;
        let more = before.matches('(').count() > 1;
        Some(if more { span.start + 1 } else { span.start })
    }

    fn bare(&mut self, expr: &Expr) -> String {
        use ExprKind as Kind;
        match &expr.kind {
            Kind::Integer { .. }
            | Kind::String(_)
            | Kind::Bool(_)
            | Kind::Positional { .. }
            | Kind::Error => {
                let text = self.source(expr.span).trim_start_matches(['(', ' ', '\t', '\n']);
                text.trim_end_matches([')', ' ', '\t', '\n']).to_owned()
            }
            Kind::Identifier(name) => name.clone(),
            Kind::Variable(name) => format!("${name}"),
            Kind::Map { name, keys } if keys.is_empty() => format!("@{name}"),
            Kind::Map { name, keys } => format!("@{name}[{}]", self.list(keys)),
            Kind::Call { name, args } => {
                let args: Vec<String> = args.iter().map(|arg| self.argument(arg)).collect();
                format!("{}({})", name.node, args.join(", "))
            }
            Kind::Member { base, name, .. } => {
                format!("{}.{}", self.expr(base), name.node)
            }
            Kind::Index { base, index } => format!("{}[{}]", self.expr(base), self.expr(index)),
            Kind::Cast { ty, value } => format!("({}){}", self.ty(ty), self.expr(value)),
            Kind::Unary { op, value } => {
                let op = match op {
                    UnaryOp::Not => "!",
                    UnaryOp::Negate => "-",
                    UnaryOp::BitNot => "~",
                    UnaryOp::Dereference => "*",
                    UnaryOp::AddressOf => "&",
                };
                let value = self.expr(value);
                // `- -x` must not become `--x`, nor `& &x` `&&x`.
                let space = if value.starts_with(op) && matches!(op, "-" | "&") {
                    " "
                } else {
                    ""
                };
                format!("{op}{space}{value}")
            }
            Kind::Binary { op, left, right } => {
                format!("{} {} {}", self.expr(left), operator(*op), self.expr(right))
            }
            Kind::Chain { first, rest } => {
                let mut text = self.expr(first);
                for (op, operand) in rest {
                    text += &format!(" {} {}", operator(*op), self.expr(operand));
                }
                text
            }
            Kind::Ternary {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.expr(condition);
                let then = then.as_ref().map(|then| format!(" {} ", self.expr(then)));
                format!(
                    "{condition} ?{}: {}",
                    then.unwrap_or_default(),
                    self.expr(otherwise)
                )
            }
            Kind::Step {
                target,
                increment,
                prefix,
            } => {
                let sign = if *increment { "++" } else { "--" };
                let target = self.expr(target);
                match prefix {
                    true => format!("{sign}{target}"),
                    false => format!("{target}{sign}"),
                }
            }
            Kind::Tuple(all) => {
                let more = if all.len() == 1 { "," } else { "" };
                format!("({}{more})", self.list(all))
            }
            Kind::Record(all) => {
                let all: Vec<String> = all
                    .iter()
                    .map(|(name, value)| format!("{}={}", name.node, self.expr(value)))
                    .collect();
                format!("({})", all.join(", "))
            }
            Kind::Block(block) => self.captured(|printer| printer.value_block(block)),
            Kind::If {
                condition,
                then,
                otherwise,
            } => self.captured(|printer| printer.condition(condition, then, otherwise.as_ref())),
            Kind::Comptime(value) => format!("comptime {}", self.expr(value)),
            Kind::Sizeof(of) => format!("sizeof({})", self.operand(of)),
            Kind::Typeof(of) => format!("typeof({})", self.operand(of)),
            Kind::Typeinfo(of) => format!("typeinfo({})", self.operand(of)),
            Kind::Offsetof { of, path } => {
                let of = self.operand(of);
                let mut text = String::new();
                for step in path {
                    match step {
                        PathStep::Member(name) if text.is_empty() => text.push_str(&name.node),
                        PathStep::Member(name) => text += &format!(".{}", name.node),
                        PathStep::Index(index) => text += &format!("[{}]", self.expr(index)),
                    }
                }
                format!("offsetof({of}, {text})")
            }
        }
    }

    /// Output of a block as a text of its own.
    fn captured(&mut self, write: impl FnOnce(&mut Self)) -> String {
        let before = std::mem::take(&mut self.out);
        write(self);
        std::mem::replace(&mut self.out, before)
    }

    fn argument(&mut self, arg: &Arg) -> String {
        let value = self.expr(&arg.value);
        match &arg.name {
            Some(name) => format!("{} = {value}", name.node),
            None => value,
        }
    }

    pub(super) fn list(&mut self, all: &[Expr]) -> String {
        let all: Vec<String> = all.iter().map(|one| self.expr(one)).collect();
        all.join(", ")
    }

    fn operand(&mut self, of: &SizeofOperand) -> String {
        match of {
            SizeofOperand::Type(ty) => self.ty(ty),
            SizeofOperand::Expr(expr) => self.expr(expr),
        }
    }

    pub(super) fn ty(&mut self, ty: &TypeName) -> String {
        let tag = match ty.tag {
            Some(TypeTag::Struct) => "struct ",
            Some(TypeTag::Union) => "union ",
            Some(TypeTag::Enum) => "enum ",
            None => "",
        };
        let base = match &ty.of {
            Some(of) => format!("typeof({})", self.expr(of)),
            None => format!("{tag}{}", ty.name),
        };
        let mut text = base;
        for suffix in &ty.suffixes {
            match suffix {
                TypeSuffix::Pointer => text.push('*'),
                TypeSuffix::Array(None) => text.push_str("[]"),
                TypeSuffix::Array(Some(count)) => text += &format!("[{}]", self.expr(count)),
            }
        }
        text
    }
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Subtract => "-",
        BinaryOp::Multiply => "*",
        BinaryOp::Divide => "/",
        BinaryOp::Modulo => "%",
        BinaryOp::ShiftLeft => "<<",
        BinaryOp::ShiftRight => ">>",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::Equal => "==",
        BinaryOp::NotEqual => "!=",
        BinaryOp::Less => "<",
        BinaryOp::LessEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterEqual => ">=",
        BinaryOp::And => "&&",
        BinaryOp::Or => "||",
    }
}
