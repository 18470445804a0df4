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
        Item::Import(path) => format!("import {:?}\n", path.node),
        Item::Map(map) => format!("map @{} {}{}\n", map.name.node, map.kind.node, list(&map.args)),
        Item::Macro(m) => {
            let parameters: String = m
                .parameters
                .iter()
                .map(|p| match p.kind {
                    MacroParameterKind::Variable => format!(" ${}", p.name),
                    MacroParameterKind::Map => format!(" @{}", p.name),
                    MacroParameterKind::Expression => format!(" {}", p.name),
                })
                .collect();
            format!("macro {}{parameters} {}\n", m.name.node, value_block(&m.body))
        }
        Item::Subprogram(f) => {
            let parameters: String = f
                .parameters
                .iter()
                .map(|(name, ty)| format!(" ${}:{}", name.node, type_name(ty)))
                .collect();
            let head = format!("fn {}{parameters} : {}\n", f.name.node, type_name(&f.result));
            head + &block(&f.body, 1)
        }
        Item::Definition(d) => definition(d),
    }
}

pub(crate) fn definition(definition: &Definition) -> String {
    let mut out = String::new();
    for ty in &definition.types {
        out += &format!("{:?} {}", ty.tag, ty.name.node).to_lowercase();
        match &ty.body {
            CBody::Members {
                members,
                packed,
                pack,
                align,
            } => {
                out += if *packed { " packed" } else { "" };
                out += &match pack {
                    0 => String::new(),
                    most => format!(" pack {most}"),
                };
                out += &align
                    .as_ref()
                    .map_or(String::new(), |e| format!(" aligned {}", expr(e)));
                out += "\n";
                out += &members
                    .iter()
                    .map(|m| format!("  {}\n", declarator(m)))
                    .collect::<String>();
            }
            CBody::Values(values) => {
                for (name, value) in values {
                    let value = value.as_ref().map_or(String::new(), |v| format!("={}", expr(v)));
                    out += &format!(" {}{value}", name.node);
                }
                out += "\n";
            }
        }
    }
    for name in &definition.names {
        out += &format!("typedef {}\n", declarator(name));
    }
    out
}

fn declarator(d: &Declarator) -> String {
    let tag =
        d.ty.tag
            .map_or(String::new(), |t| format!("{t:?} ").to_lowercase());
    let shape: String =
        d.ty.shape
            .iter()
            .map(|shape| match shape {
                CShape::Pointer => "*".to_owned(),
                CShape::Array(None) => "[]".to_owned(),
                CShape::Array(Some(n)) => format!("[{}]", expr(n)),
                CShape::Function => "()".to_owned(),
            })
            .collect();
    let bits = d
        .bits
        .as_ref()
        .map_or(String::new(), |b| format!(" : {}", expr(b)));
    format!("{:?} {tag}{}{shape}{bits}", d.name.node, d.ty.name)
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
        if let Some(name) = &event.name {
            out += &format!("{pad}name {}\n", name.node);
        }
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
        StatementKind::Discard(e) => format!("(discard {})", expr(e)),
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
        StatementKind::Handler { predicate, body } => {
            let predicate = predicate
                .as_ref()
                .map_or(String::new(), |p| format!(" {}", expr(p)));
            return format!("{pad}handler{predicate}\n{}", inner(body));
        }
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
        ExprKind::Chain { first, rest } => {
            let rest: String = rest
                .iter()
                .map(|(op, operand)| format!(" {op:?} {}", expr(operand)))
                .collect();
            format!("(chain {}{rest})", expr(first))
        }
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
        ExprKind::Record(all) => {
            let all: String = all
                .iter()
                .map(|(n, e)| format!(" {}={}", n.node, expr(e)))
                .collect();
            format!("(record{all})")
        }
        ExprKind::Block(block) => value_block(block),
        ExprKind::If {
            condition,
            then,
            otherwise,
        } => {
            let otherwise = otherwise
                .as_ref()
                .map_or(String::new(), |b| format!(" {}", value_block(b)));
            format!("(if {} {}{otherwise})", expr(condition), value_block(then))
        }
        ExprKind::Comptime(e) => format!("(comptime {})", expr(e)),
        ExprKind::Typeof(of) => format!("(typeof {})", operand(of)),
        ExprKind::Typeinfo(of) => format!("(typeinfo {})", operand(of)),
        ExprKind::Sizeof(of) => format!("(sizeof {})", operand(of)),
        ExprKind::Offsetof { of, path } => {
            let path: String = path
                .iter()
                .map(|step| match step {
                    PathStep::Member(name) => format!(".{}", name.node),
                    PathStep::Index(index) => format!("[{}]", expr(index)),
                })
                .collect();
            format!("(offsetof {} {})", operand(of), path.trim_start_matches('.'))
        }
        ExprKind::Error => "<error>".into(),
    }
}

fn operand(of: &SizeofOperand) -> String {
    match of {
        SizeofOperand::Type(t) => format!("\"{}\"", type_name(t)),
        SizeofOperand::Expr(e) => expr(e),
    }
}

fn value_block(block: &ValueBlock) -> String {
    let mut all: Vec<String> = block
        .statements
        .iter()
        .map(|s| statement(s, 0).trim_end().replace('\n', "; "))
        .collect();
    all.push(block.value.as_ref().map_or("none".into(), |v| expr(v)));
    format!("{{{}}}", all.join("; "))
}

fn type_name(t: &TypeName) -> String {
    let tag = t.tag.map_or(String::new(), |t| format!("{t:?} ").to_lowercase());
    let of =
        t.of.as_ref()
            .map_or(String::new(), |e| format!("typeof({})", expr(e)));
    let suffixes: String = t
        .suffixes
        .iter()
        .map(|suffix| match suffix {
            TypeSuffix::Pointer => "*".to_owned(),
            TypeSuffix::Array(None) => "[]".to_owned(),
            TypeSuffix::Array(Some(n)) => format!("[{}]", expr(n)),
        })
        .collect();
    format!("{tag}{}{of}{suffixes}", t.name)
}
