//! The checked tree as S-expressions.

use kestrel_bpf::btf::Btf;
use kestrel_compiler::check::tree::*;

pub(crate) fn probe(probe: &CheckedProbe, btf: Option<&Btf>) -> String {
    let dump = Dump { btf };
    let mut out = String::new();
    for (i, v) in probe.variables.iter().enumerate() {
        out += &format!("var {i} ${} : {}\n", v.name, dump.ty(&v.ty));
    }
    if let Some(p) = &probe.predicate {
        out += &format!("when {} : {}\n", dump.expr(p), dump.ty(&p.ty));
    }
    out + &dump.statements(&probe.body, 0)
}

/// A type without names of the kernel.
pub(crate) fn ty(ty: &Type) -> String {
    Dump { btf: None }.ty(ty)
}

struct Dump<'a> {
    btf: Option<&'a Btf>,
}

impl Dump<'_> {
    fn statements(&self, all: &[Statement], depth: usize) -> String {
        all.iter().map(|s| self.statement(s, depth)).collect()
    }

    fn statement(&self, statement: &Statement, depth: usize) -> String {
        let pad = "  ".repeat(depth);
        match &statement.kind {
            StatementKind::Set { variable, value } => {
                format!("{pad}set {} {}\n", variable.0, self.expr(value))
            }
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                let then = self.statements(then, depth + 1);
                let otherwise = match otherwise.as_slice() {
                    [] => String::new(),
                    all => format!("{pad}else\n{}", self.statements(all, depth + 1)),
                };
                format!("{pad}if {}\n{then}{otherwise}", self.expr(condition))
            }
            StatementKind::Return => format!("{pad}return\n"),
            StatementKind::Break => format!("{pad}break\n"),
            StatementKind::Continue => format!("{pad}continue\n"),
            StatementKind::Block(all) => self.statements(all, depth),
            StatementKind::Handler(all) => format!("{pad}handler\n{}", self.statements(all, depth + 1)),
            StatementKind::While {
                condition,
                body,
                step,
            } => {
                let (body, step) = (self.statements(body, depth + 1), self.statements(step, depth + 1));
                format!("{pad}while {}\n{body}{pad}step\n{step}", self.expr(condition))
            }
            StatementKind::ForEach { over, body } => {
                let over = match over {
                    LoopRange::Map(map) => format!("@{}", map.name),
                    LoopRange::Times(count) => self.expr(count),
                    LoopRange::Endless => "time".to_owned(),
                };
                format!("{pad}for each {over}\n{}", self.statements(body, depth + 1))
            }
            StatementKind::Map(place, change) => {
                let change = match change {
                    MapChange::Set(value) => format!("= {}", self.expr(value)),
                    MapChange::Add(value) => format!("+= {}", self.expr(value)),
                    MapChange::Aggregate(Some(value)) => format!("<- {}", self.expr(value)),
                    MapChange::Aggregate(None) => "<-".to_owned(),
                    MapChange::Delete => "delete".to_owned(),
                    MapChange::Clear { zeroed: false } => "clear".to_owned(),
                    MapChange::Clear { zeroed: true } => "zero".to_owned(),
                };
                format!("{pad}{} : {:?} {change}\n", self.place(place), place.map.value)
            }
            StatementKind::Perform { verb, operands, .. } => {
                let operands: String = operands.iter().map(|o| format!(" {}", self.expr(o))).collect();
                format!("{pad}{verb}{operands}\n")
            }
            StatementKind::Act(action) => format!("{pad}{action:?}\n"),
            StatementKind::Record(record) => {
                assert_eq!(record.layout.fields().len(), record.values.len());
                let fields: String = record
                    .layout
                    .fields()
                    .iter()
                    .zip(&record.values)
                    .map(|(f, v)| {
                        format!(
                            "{pad}  {} {:?} @{}\n{pad}    = {}\n",
                            f.name,
                            f.ty,
                            f.offset(),
                            self.expr(v)
                        )
                    })
                    .collect();
                let to = match (&record.to, &record.asks) {
                    (Destination::Current, None) => String::new(),
                    (Destination::Buffer(name), None) => format!(" to {name:?}"),
                    (Destination::Current, Some(action)) => format!(" as {} {:?}", action.verb, action.text),
                    (Destination::Messages, Some(action)) => {
                        format!(" to messages as {} {:?}", action.verb, action.text)
                    }
                    other => panic!("{other:?}"),
                };
                format!(
                    "{pad}record{to} up to {} bytes\n{fields}",
                    record.layout.max_size()
                )
            }
        }
    }

    fn expr(&self, e: &Expr) -> String {
        let sign = |signed: &bool| if *signed { "s" } else { "u" };
        match &e.kind {
            ExprKind::Constant(value) => format!("{}", *value as i64),
            ExprKind::ConstantBytes(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
            ExprKind::ContextPointer => "ctx".into(),
            ExprKind::ElementKey => "key".into(),
            ExprKind::ElementValue => "value".into(),
            ExprKind::HelperCall { helper, operands } => {
                let operands: String = operands.iter().map(|o| format!(" {}", self.expr(o))).collect();
                format!("(call {}{operands})", helper.name().unwrap_or("?"))
            }
            ExprKind::BytesOrder { left, right, bytes } => {
                format!("(order {bytes} {} {})", self.expr(left), self.expr(right))
            }
            ExprKind::BytesEqual {
                left,
                right,
                bytes,
                negated,
            } => {
                let op = if *negated { "bytes!=" } else { "bytes==" };
                format!("({op} {} {} {bytes})", self.expr(left), self.expr(right))
            }
            ExprKind::Parameter(name) => format!("param {name}"),
            ExprKind::IsTarget(thread) => format!("(target {})", self.expr(thread)),
            ExprKind::Load {
                address,
                offset,
                size,
                signed,
                access,
            } => {
                format!(
                    "({access:?}.{}{} {} {offset})",
                    sign(signed),
                    u32::from(*size) * 8,
                    self.expr(address)
                )
            }
            ExprKind::BitField {
                value,
                shift,
                bits,
                signed,
            } => {
                format!("(bits.{} {} {shift}+{bits})", sign(signed), self.expr(value))
            }
            ExprKind::Intrinsic(which) => format!("{which:?}"),
            ExprKind::Unary { op, value } => format!("({op:?} {})", self.expr(value)),
            ExprKind::Binary {
                op,
                signed,
                left,
                right,
            } => {
                format!(
                    "({op:?}.{} {} {})",
                    sign(signed),
                    self.expr(left),
                    self.expr(right)
                )
            }
            ExprKind::Compare {
                op,
                signed,
                left,
                right,
            } => {
                format!(
                    "({op:?}.{} {} {})",
                    sign(signed),
                    self.expr(left),
                    self.expr(right)
                )
            }
            ExprKind::Logic { and, left, right } => {
                format!(
                    "({} {} {})",
                    if *and { "and" } else { "or" },
                    self.expr(left),
                    self.expr(right)
                )
            }
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => {
                let then = then.as_ref().map_or("_".into(), |t| self.expr(t));
                format!("(? {} {then} {})", self.expr(condition), self.expr(otherwise))
            }
            ExprKind::Convert { value, size, signed } => {
                format!(
                    "(to.{}{} {})",
                    sign(signed),
                    u32::from(*size) * 8,
                    self.expr(value)
                )
            }
            ExprKind::Variable(id) => format!("(var {})", id.0),
            ExprKind::StringEqual {
                left,
                right,
                bytes,
                negated,
            } => {
                let op = if *negated { "text!=" } else { "text==" };
                format!("({op} {} {} {bytes})", self.expr(left), self.expr(right))
            }
            ExprKind::StringGlob { text, glob, bytes } => {
                format!("(glob {} {glob:?} {bytes})", self.expr(text))
            }
            ExprKind::Bytes {
                address,
                offset,
                size,
                access,
            } => {
                format!("({access:?}.bytes {} {offset} {size})", self.expr(address))
            }
            ExprKind::Elements(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| self.expr(p)).collect();
                format!("[{}]", parts.join(" "))
            }
            ExprKind::FrameWords(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| self.expr(p)).collect();
                format!("frame_words({})", parts.join(" "))
            }
            ExprKind::Comm => "Comm".into(),
            ExprKind::MapValue(place) => self.place(place),
            ExprKind::HasKey(place) => format!("(has {})", self.place(place)),
            ExprKind::MapCopy(place, size) => format!("(copy {} {size})", self.place(place)),
            ExprKind::Aggregate(place, _) => format!("(aggregation {})", self.place(place)),
            ExprKind::Generation(map) => format!("(generation @{})", map.name),
            ExprKind::MapAddress(map) => format!("(map @{})", map.name),
            ExprKind::VariableAddress(id) => format!("(address ${})", id.0),
            ExprKind::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.expr(part)).collect();
                format!("(tuple {})", parts.join(" "))
            }
            ExprKind::Sequence { statements, value } => {
                format!(
                    "(after {:?} {})",
                    self.statements(statements, 0),
                    self.expr(value)
                )
            }
            ExprKind::StringFind {
                text,
                needle,
                bytes,
                prefix,
            } => {
                let needle = String::from_utf8_lossy(needle);
                format!("(find {} {needle:?} {bytes} {prefix})", self.expr(text))
            }
            ExprKind::StringBegins { text, with, bytes } => {
                format!("(begins {} {} {bytes})", self.expr(text), self.expr(with))
            }
            ExprKind::SwapBytes { value, size } => format!("(swap{size} {})", self.expr(value)),
            ExprKind::EventNumber => "EventNumber".into(),
            ExprKind::DividedByZero => "divided-by-zero".to_owned(),
            ExprKind::OutsideOfArray => "outside-of-array".to_owned(),
            ExprKind::EventIs { what, text } => format!("EventIs {what:?} {text:?}"),
            ExprKind::ReadString {
                address,
                space,
                max,
                length,
            } => {
                let space = space.map_or("Either".to_owned(), |space| format!("{space:?}"));
                let length = length.as_ref().map(|length| format!(" of {}", self.expr(length)));
                let length = length.unwrap_or_default();
                format!("({space}.string {} {max}{length})", self.expr(address))
            }
            ExprKind::ReadMemory {
                address,
                space,
                max,
                length,
            } => {
                let space = space.map_or("Either".to_owned(), |space| format!("{space:?}"));
                let (address, length) = (self.expr(address), self.expr(length));
                format!("({space}.memory {address} {max} of {length})")
            }
            ExprKind::StackCopy { .. } => "(stack-copy)".to_owned(),
            ExprKind::Unwound { max } => format!("(unwound {max})"),
            ExprKind::Stack { space, max } => format!("({space:?}.stack {max})"),
        }
    }

    fn place(&self, place: &MapPlace) -> String {
        let keys = place.keys.iter().zip(&place.map.keys);
        let keys: Vec<String> = keys
            .map(|(key, ty)| format!("{} : {ty:?}", self.expr(key)))
            .collect();
        format!("@{}[{}]", place.map.name, keys.join(", "))
    }

    fn ty(&self, ty: &Type) -> String {
        match ty {
            Type::Integer { size, signed, show } => {
                let show = match show {
                    Show::Number(_) => "",
                    Show::Names(_) => " names",
                    Show::Flags(_) => " flags",
                    Show::Natural => " natural",
                };
                format!(
                    "{}{}{show}",
                    if *signed { "s" } else { "u" },
                    u32::from(*size) * 8
                )
            }
            Type::Pointer(p) => {
                let to = match (p.to, self.btf) {
                    (Pointee::Btf(id), Some(btf)) => btf.render(id),
                    (to, _) => format!("{to:?}"),
                };
                format!(
                    "{to} {}{}",
                    "*".repeat(usize::from(p.levels) + 1),
                    if p.trusted { " trusted" } else { "" }
                )
            }
            other => format!("{other:?}"),
        }
    }
}
