//! The syntax tree as S-expressions.

use kestrel_compiler::lang::ast::*;

pub(crate) fn script(script: &Script) -> String {
    script.items.iter().map(item).collect()
}

fn item(item: &Item) -> String {
    match item {
        Item::Probe(p) => probe(p, 0),
        Item::Config(all) => format!("config{}\n", settings(all)),
        Item::Buffer(b) => format!("buffer {}{}\n", b.name.node, settings(&b.settings)),
        Item::Table(t) => {
            let parent = t
                .parent
                .as_ref()
                .map_or(String::new(), |p| format!(" : {}", p.node));
            let rows: String = t.probes.iter().map(|p| probe(p, 1)).collect();
            format!("table {}{parent}\n{rows}", t.name.node)
        }
        Item::Param(name, value) => format!("param {} = {}\n", name.node, expr(value)),
    }
}

fn settings(all: &[(Spanned<String>, Expr)]) -> String {
    all.iter()
        .map(|(name, value)| format!(" {}={}", name.node, expr(value)))
        .collect()
}

pub(crate) fn probe(probe: &Probe, depth: usize) -> String {
    let pad = "  ".repeat(depth);
    let mut out = String::new();
    for event in &probe.events {
        let parts: Vec<String> = event
            .parts
            .iter()
            .map(|p| {
                format!(
                    "{:?}{}",
                    p.text,
                    p.offset.map_or(String::new(), |o| format!("+{o:#x}"))
                )
            })
            .collect();
        out += &format!("{pad}event {}\n", parts.join(" "));
    }
    if let Some(predicate) = &probe.predicate {
        out += &format!("{pad}when {}\n", expr(predicate));
    }
    if let Some(b) = &probe.block {
        out += &format!("{pad}do\n{}", block(b, depth + 1));
    }
    out
}

fn block(block: &Block, depth: usize) -> String {
    block.statements.iter().map(|s| statement(s, depth)).collect()
}

fn statement(statement: &Statement, depth: usize) -> String {
    let pad = "  ".repeat(depth);
    let inner = |b: &Block| block(b, depth + 1);
    let line = match &statement.kind {
        StatementKind::Expr(e) => expr(e),
        StatementKind::Assign { target, op, value } => {
            format!(
                "(set{} {} {})",
                op.map_or(String::new(), |op| format!("-{op:?}")),
                expr(target),
                expr(value)
            )
        }
        StatementKind::Let { name, ty, value } => {
            let ty = ty
                .as_ref()
                .map_or(String::new(), |t| format!(" : {}", type_name(t)));
            let value = value.as_ref().map_or(String::new(), |v| format!(" {}", expr(v)));
            format!("(let ${}{ty}{value})", name.node)
        }
        StatementKind::If {
            condition,
            then,
            otherwise,
        } => {
            let otherwise = otherwise
                .as_ref()
                .map_or(String::new(), |b| format!("{pad}else\n{}", inner(b)));
            return format!("{pad}if {}\n{}{otherwise}", expr(condition), inner(then));
        }
        StatementKind::While { condition, body } => {
            return format!("{pad}while {}\n{}", expr(condition), inner(body));
        }
        StatementKind::For { name, over, body } => {
            let over = match over {
                ForRange::Range(a, b) => format!("{} .. {}", expr(a), expr(b)),
                ForRange::Map(m) => expr(m),
            };
            return format!("{pad}for ${} : {over}\n{}", name.node, inner(body));
        }
        StatementKind::Unroll { count, body } => {
            return format!("{pad}unroll {}\n{}", expr(count), inner(body));
        }
        StatementKind::Block(b) => return format!("{pad}block\n{}", inner(b)),
        StatementKind::Return(value) => value
            .as_ref()
            .map_or("(return)".into(), |v| format!("(return {})", expr(v))),
        StatementKind::Break => "(break)".into(),
        StatementKind::Continue => "(continue)".into(),
    };
    format!("{pad}{line}\n")
}

fn list(all: &[Expr]) -> String {
    all.iter().map(|e| format!(" {}", expr(e))).collect()
}

pub(crate) fn expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Integer { value, unsigned } => format!("{value}{}", if *unsigned { "u" } else { "" }),
        ExprKind::String(text) => format!("{text:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Identifier(name) => name.clone(),
        ExprKind::Variable(name) => format!("${name}"),
        ExprKind::Map { name, keys } if keys.is_empty() => format!("@{name}"),
        ExprKind::Map { name, keys } => format!("@{name}[{}]", list(keys).trim_start()),
        ExprKind::Positional { index, count } => {
            if *count {
                "$#".into()
            } else {
                format!("${index}")
            }
        }
        ExprKind::Call { name, args } => {
            let args: String = args
                .iter()
                .map(|a| {
                    format!(
                        " {}{}",
                        a.name.as_ref().map_or(String::new(), |n| format!("{}=", n.node)),
                        expr(&a.value)
                    )
                })
                .collect();
            format!("(call {}{args})", name.node)
        }
        ExprKind::Member { base, name, arrow } => {
            format!(
                "({} {} {})",
                if *arrow { "->" } else { "." },
                expr(base),
                name.node
            )
        }
        ExprKind::Index { base, index } => format!("(index {} {})", expr(base), expr(index)),
        ExprKind::Cast { ty, value } => format!("(cast \"{}\" {})", type_name(ty), expr(value)),
        ExprKind::Unary { op, value } => format!("({op:?} {})", expr(value)),
        ExprKind::Binary { op, left, right } => format!("({op:?} {} {})", expr(left), expr(right)),
        ExprKind::Ternary {
            condition,
            then,
            otherwise,
        } => {
            let then = then.as_ref().map_or("_".into(), |t| expr(t));
            format!("(? {} {then} {})", expr(condition), expr(otherwise))
        }
        ExprKind::Step {
            target,
            increment,
            prefix,
        } => {
            format!(
                "({}{} {})",
                if *prefix { "pre" } else { "post" },
                if *increment { "++" } else { "--" },
                expr(target)
            )
        }
        ExprKind::Tuple(all) => format!("(tuple{})", list(all)),
        ExprKind::Sizeof(operand) => match operand.as_ref() {
            SizeofOperand::Type(t) => format!("(sizeof \"{}\")", type_name(t)),
            SizeofOperand::Expr(e) => format!("(sizeof {})", expr(e)),
        },
        ExprKind::Offsetof { ty, members } => {
            let members: Vec<&str> = members.iter().map(|m| m.node.as_str()).collect();
            format!("(offsetof \"{}\" {})", type_name(ty), members.join("."))
        }
        ExprKind::Error => "<error>".into(),
    }
}

fn type_name(t: &TypeName) -> String {
    let tag = t.tag.map_or(String::new(), |t| format!("{t:?} ").to_lowercase());
    let arrays: String = t
        .arrays
        .iter()
        .map(|a| a.map_or("[]".into(), |n| format!("[{n}]")))
        .collect();
    format!("{tag}{}{}{arrays}", t.name, "*".repeat(t.pointers as usize))
}
