//! Named probes as lines of the kernel's `kprobe_events`, where such a line can express them.

use super::Kernel;
use crate::session::named::{Probe, Site};
use kestrel_catalog::catalog::phase::Phase;
use kestrel_compiler::lang::ast::{
    Arg, BinaryOp, Expr, ExprKind, Probe as Parsed, StatementKind, TypeName, UnaryOp,
};
use kestrel_compiler::lang::parse_events;

type Result<T> = std::result::Result<T, String>;

/// The group of a probe whose name has none.
const GROUP: &str = "kestrel";

/// Longest name of a group or an event.
const LONGEST: usize = 63;

/// A line for each of a probe's places.
///
/// # Errors
/// Why no line expresses the probe, or the kernel would refuse it, in words to put behind the probe's name.
pub fn of(probe: &Probe, kernel: &dyn Kernel) -> Result<Vec<String>> {
    let lines = lines(probe)?;
    for line in &lines {
        if let Err(wrong) = super::parse(line, kernel) {
            return Err(format!("the kernel would refuse `{line}`: {}", wrong.why));
        }
    }
    Ok(lines)
}

fn lines(probe: &Probe) -> Result<Vec<String>> {
    if let Some(line) = &probe.line {
        return Ok(vec![named(line, &probe.name)]);
    }
    let (parsed, _) = parse_events(&probe.source);
    if parsed.predicate.is_some() {
        return Err("it has a predicate".to_owned());
    }
    let arguments = arguments(&parsed)?;
    let line = |(index, site): (usize, &Site)| {
        let kind = match site.letter {
            'k' => "p".to_owned(),
            'r' => format!("r{}", maxactive(&site.event).unwrap_or_default()),
            _ => return Err(format!("{} is not a kprobe", site.event)),
        };
        if site.event.split(':').any(Phase::is_behind) {
            return Err(format!("{} is more than a kprobe", site.event));
        }
        // The place as it was typed: the kernel moves an entry behind its `endbr64` by itself.
        let place: Vec<&str> = site
            .event
            .split(':')
            .skip(1)
            .filter(|part| !part.contains('='))
            .collect();
        let place = place.join(":");
        let name = match probe.sites.len() {
            1 => probe.name.clone(),
            _ => format!("{}_{index}", probe.name),
        };
        let words: Vec<String> = std::iter::once(format!("{kind}:{} {place}", event_name(&name)))
            .chain(arguments.iter().cloned())
            .collect();
        Ok(words.join(" "))
    };
    probe.sites.iter().enumerate().map(line).collect()
}

/// A line of the kernel's under the name of the probe.
fn named(line: &str, name: &str) -> String {
    let (head, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let kind = head.split(':').next().unwrap_or(head);
    let rest: Vec<&str> = rest.split_whitespace().collect();
    format!("{kind}:{} {}", event_name(name), rest.join(" "))
}

/// The name as `GROUP/EVENT`, in the letters that the kernel allows.
fn event_name(name: &str) -> String {
    let (group, event) = name.split_once('/').unwrap_or((GROUP, name));
    let clean = |text: &str| -> String {
        let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let clean: String = text.chars().map(fits).take(LONGEST).collect();
        match clean.starts_with(|c: char| c.is_ascii_digit()) {
            true => format!("_{clean}"),
            false => clean,
        }
    };
    format!("{}/{}", clean(group), clean(event))
}

fn maxactive(event: &str) -> Option<&str> {
    event.split(':').find_map(Phase::calls_of)
}

/// The arguments of the only thing that the handler does: write a record.
fn arguments(parsed: &Parsed) -> Result<Vec<String>> {
    let Some(block) = &parsed.block else {
        return Ok(Vec::new());
    };
    let [statement] = block.statements.as_slice() else {
        return Err("its handler does more than write a record".to_owned());
    };
    let args = match &statement.kind {
        StatementKind::Expr(Expr {
            kind: ExprKind::Call { name, args },
            ..
        }) if name.node == "record" => args,
        _ => return Err("its handler does something else than write a record".to_owned()),
    };
    let argument = |arg: &Arg| {
        let fetch = fetch(&arg.value)?;
        let name = match (&arg.name, &arg.value.kind) {
            (Some(name), _) => format!("{}=", name.node),
            (None, ExprKind::Identifier(name)) => format!("{name}="),
            (None, _) => String::new(),
        };
        Ok(format!("{name}{fetch}"))
    };
    args.iter().map(argument).collect()
}

fn fetch(expression: &Expr) -> Result<String> {
    let not_fetchable = || Err("it records what the kernel cannot fetch".to_owned());
    match &expression.kind {
        ExprKind::Identifier(name) => match (name.as_str(), name.strip_prefix("arg")) {
            ("retval", _) => Ok("$retval".to_owned()),
            ("comm", _) => Ok("$comm".to_owned()),
            // The kernel counts arguments from 1.
            (_, Some(number)) => match number.parse::<u32>() {
                Ok(number) => Ok(format!("$arg{}", number + 1)),
                Err(_) => Err(format!("the kernel cannot fetch {name}")),
            },
            _ => Err(format!("the kernel cannot fetch {name}")),
        },
        ExprKind::Integer { value, .. } => Ok(format!("\\{value}")),
        ExprKind::Unary {
            op: UnaryOp::Negate,
            value,
        } => match &value.kind {
            ExprKind::Integer { value, .. } => Ok(format!("\\-{value}")),
            _ => not_fetchable(),
        },
        ExprKind::Call { name, args } => match (name.node.as_str(), args.as_slice()) {
            ("reg", [Arg { value, .. }]) => match &value.kind {
                ExprKind::String(register) => Ok(format!("%{register}")),
                _ => not_fetchable(),
            },
            ("str", [Arg { value, .. }]) => {
                let (address, user) = address(value)?;
                Ok(format!("{address}:{}string", if user { "u" } else { "" }))
            }
            _ => Err(format!("the kernel cannot call {}", name.node)),
        },
        ExprKind::Cast { ty, value } => match (&value.kind, pointers(ty), kernel_type(&ty.name)) {
            (_, Some(0), Some(ty)) => Ok(format!("{}:{ty}", plain(&fetch(value)?)?)),
            _ => not_fetchable(),
        },
        ExprKind::Unary {
            op: UnaryOp::Dereference,
            value,
        } => match &value.kind {
            ExprKind::Cast { ty, value } if pointers(ty) == Some(1) => {
                let ty =
                    kernel_type(&ty.name).ok_or_else(|| format!("the kernel cannot fetch a {}", ty.name))?;
                Ok(format!("{}:{ty}", address(value)?.0))
            }
            _ => not_fetchable(),
        },
        ExprKind::Member { base, name, .. } => match &base.kind {
            ExprKind::Identifier(args) if args == "args" => Err(format!(
                "the kernel's lines know arguments by number: say args.{0} as argN, as in {0} = arg0 for the first",
                name.node
            )),
            _ => not_fetchable(),
        },
        _ => not_fetchable(),
    }
}

/// A fetch argument without a type so far.
fn plain(fetch: &str) -> Result<&str> {
    match fetch.contains(':') {
        true => Err("it records what the kernel cannot fetch".to_owned()),
        false => Ok(fetch),
    }
}

/// Memory at an address, and whether it is the process's.
fn address(expression: &Expr) -> Result<(String, bool)> {
    let at = |expression: &Expr| match &expression.kind {
        ExprKind::Binary { op, left, right } => match (op, &right.kind) {
            (BinaryOp::Add, ExprKind::Integer { value, .. }) => Ok((format!("+{value}"), base(left)?)),
            (BinaryOp::Subtract, ExprKind::Integer { value, .. }) => Ok((format!("-{value}"), base(left)?)),
            _ => Err("it records what the kernel cannot fetch".to_owned()),
        },
        _ => Ok(("+0".to_owned(), base(expression)?)),
    };
    match &expression.kind {
        ExprKind::Call { name, args } if matches!(name.node.as_str(), "kptr" | "uptr") && args.len() == 1 => {
            let user = name.node == "uptr";
            let (offset, base) = at(&args[0].value)?;
            let offset = if user {
                format!("{}u{}", &offset[..1], &offset[1..])
            } else {
                offset
            };
            Ok((format!("{offset}({base})"), user))
        }
        _ => {
            let (offset, base) = at(expression)?;
            Ok((format!("{offset}({base})"), false))
        }
    }
}

/// Base expression of an address: eight bytes in memory need no type.
fn base(expression: &Expr) -> Result<String> {
    let base = fetch(expression)?;
    let base = base.strip_suffix(":u64").unwrap_or(&base);
    plain(base).map(str::to_owned)
}

fn kernel_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "uint8" | "uint8_t" | "u8" | "char" => "u8",
        "uint16" | "uint16_t" | "u16" => "u16",
        "uint32" | "uint32_t" | "u32" => "u32",
        "uint64" | "uint64_t" | "u64" => "u64",
        "int8" | "int8_t" | "s8" => "s8",
        "int16" | "int16_t" | "s16" => "s16",
        "int32" | "int32_t" | "s32" => "s32",
        "int64" | "int64_t" | "s64" => "s64",
        _ => return None,
    })
}

/// The number of `*` of a type that consists of a name and pointers.
fn pointers(ty: &TypeName) -> Option<u32> {
    match ty.plain()? {
        (pointers, arrays) if arrays.is_empty() => Some(pointers),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::named::kernel_line::{Dialect, LinePlace, Resolution};
    use kestrel_bpf::btf::{Btf, TypeId};
    use std::sync::Arc;

    fn probe(name: &str, event: &str, block: &str) -> Probe {
        let kind = if event.starts_with("kretprobe") { 'r' } else { 'k' };
        let symbol = event.split(':').nth(1).unwrap_or_default().split('+').next();
        Probe {
            name: name.to_owned(),
            source: format!("{event} {block}"),
            sites: vec![Site {
                event: event.to_owned(),
                letter: kind,
                symbol: symbol.map(str::to_owned),
                ..Site::default()
            }],
            ..Probe::default()
        }
    }

    /// Any kernel: its functions have the names that are asked for, and no types.
    struct Any;

    impl Kernel for Any {
        fn address(&self, _symbol: &str) -> Option<u64> {
            Some(0xffff_ffff_8100_0000)
        }

        fn resolve(&self, place: &LinePlace<'_>) -> Resolution {
            if place.offset == 0 {
                Resolution::Entry
            } else {
                Resolution::Inside
            }
        }

        fn address_past_symbol(&self, _place: &LinePlace<'_>) -> Option<u64> {
            None
        }

        fn prototype(&self, _function: &str) -> Option<(Arc<Btf>, TypeId)> {
            None
        }

        fn types(&self) -> Option<Arc<Btf>> {
            None
        }

        fn dialect(&self) -> Dialect {
            Dialect::NEWEST
        }
    }

    fn of(probe: &Probe) -> Result<Vec<String>> {
        super::of(probe, &Any)
    }

    #[test]
    fn a_typed_kernel_line_is_written_under_the_probes_name() {
        let line = "r8:grp/name f ret=$retval:s32  x=\\\"a\"";
        let as_typed = Probe {
            line: Some(line.to_owned()),
            name: "else".to_owned(),
            ..Probe::default()
        };
        assert_eq!(
            of(&as_typed).unwrap(),
            ["r8:kestrel/else f ret=$retval:s32 x=\\\"a\""]
        );
    }

    #[test]
    fn record_arguments_are_written_as_fetch_arguments() {
        for (event, block, line) in [
            (
                "kprobe:f",
                "{ record(fd = reg(\"di\"), n = *(uint64 *)kptr(reg(\"si\") + 8), c = comm, arg1) }",
                "p:kestrel/x f fd=%di n=+8(%si):u64 c=$comm arg1=$arg2",
            ),
            (
                "kprobe:f+0x12",
                "{ record(t = str(kptr(*(uint64 *)kptr(reg(\"si\") + 8))), i = -5) }",
                "p:kestrel/x f+0x12 t=+0(+8(%si)):string i=\\-5",
            ),
            (
                "kretprobe:f:maxactive=7",
                "{ record(ret = (int32)retval) }",
                "r7:kestrel/x f ret=$retval:s32",
            ),
        ] {
            assert_eq!(of(&probe("x", event, block)).unwrap(), [line]);
        }
    }

    #[test]
    fn probes_that_the_kernel_would_refuse_have_no_line() {
        for (event, block, part) in [
            ("kprobe:f+0x12", "{ record(arg1) }", "entry"),
            ("kprobe:f", "{ record(comm, comm) }", "another"),
        ] {
            let why = of(&probe("x", event, block)).unwrap_err();
            assert!(why.contains("would refuse") && why.contains(part), "{why}");
        }
        let long = of(&probe(&"x".repeat(80), "kprobe:f", "")).unwrap();
        assert_eq!(long, [format!("p:kestrel/{} f", "x".repeat(63))]);
    }

    #[test]
    fn inexpressible_probes_are_refused_by_reason() {
        for (event, block, part) in [
            ("kprobe:f", "/pid == 1/ { record() }", "predicate"),
            ("kprobe:f", "{ count() }", "something else"),
            ("kprobe:f", "{ record(kstack) }", "kstack"),
            ("kprobe:f", "{ record(args.count) }", "say args.count as argN"),
            ("kprobe:f", "{ record(); count() }", "more"),
            ("kprobe:f:post", "{ record() }", "more than a kprobe"),
        ] {
            let why = of(&probe("x", event, block)).unwrap_err();
            assert!(why.contains(part), "{event} {block}: {why}");
        }
        assert_eq!(of(&probe("1-x", "kprobe:f", "")).unwrap(), ["p:kestrel/_1_x f"]);
    }
}
