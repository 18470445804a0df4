//! Fields that a record of a function's entry must have for a handler: the arguments by number, and the memory behind them, as `record(…)` has it.
//!
//! A pointer within recorded memory is recorded as an argument that the handler does not use: `arg5` with `mem5` is memory behind a second pointer.

use crate::call::ARGUMENTS;
use crate::refusal::read;
use kestrel_compiler::check::tree::{
    BinaryOp, CheckedProbe, Expr, ExprKind, MapChange, Pointee, Pointer, Statement, StatementKind, Type,
    VariableId,
};
use kestrel_trace::calls::{MEMORY, REGISTER, TEXT};
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::{Field, FieldPlace, FieldType, Layout};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Most bytes of memory in a field, as of the language's `buf`.
const MAX: i64 = 1023;
/// Bytes of a string within memory that holds other things, too.
const TEXT_BYTES: i64 = 64;

/// The class with all arguments by number: what a handler makes of them is found by checking it for this one.
#[must_use]
pub fn with_arguments(event: &EventClass) -> EventClass {
    let has = |name: &String| event.layout.fields().iter().any(|field| field.name == *name);
    let own = event.layout.fields().iter();
    let own = own.map(|field| (field.name.clone(), field.ty.clone()));
    let arguments = (0..ARGUMENTS).map(|place| format!("{REGISTER}{place}"));
    let arguments = arguments.filter(|name| !has(name));
    let arguments = arguments.map(|name| (name, FieldType::Pointer { symbolic: false }));
    EventClass {
        layout: Layout::new(own.chain(arguments)),
        ..event.clone()
    }
}

/// An address: of an argument, through pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Address {
    base: Base,
    /// Bytes behind what the base points to.
    offset: i64,
}

/// An argument, and the offsets of the pointers that are followed from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Base {
    argument: usize,
    pointers: Vec<i64>,
}

/// Memory behind a base.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    bytes: i64,
    /// Whether a string begins there.
    is_text: bool,
}

/// The values that `record(args, …)` must have beside a class with [all arguments](with_arguments) for what the handler, which was checked for that class, reads;
/// none where an address is computed otherwise, or there are too many.
#[must_use]
pub fn needed(handler: &CheckedProbe, event: &EventClass) -> Option<String> {
    let needs = Needs::of(handler, event)?;
    let mut free = (0..ARGUMENTS)
        .rev()
        .filter(|place| !needs.arguments.contains(place));
    // Bases with fewer pointers come first: what is behind them is written with theirs.
    let mut memory: Vec<(&Base, &Extent)> = needs.memory.iter().collect();
    memory.sort_by_key(|(base, _)| (base.pointers.len(), *base));
    let mut text = String::new();
    let mut behind = String::new();
    for place in &needs.arguments {
        _ = write!(text, ", {REGISTER}{place}");
    }
    for (base, extent) in memory {
        let (place, value) = match base.pointers.as_slice() {
            [] => (base.argument, format!("{REGISTER}{}", base.argument)),
            pointers => {
                let place = free.next()?;
                let first = format!("{REGISTER}{}", base.argument);
                let value = pointers.iter().fold(first, |inner, offset| match offset {
                    0 => format!("*(uint64 *){inner}"),
                    offset => format!("*(uint64 *)({inner} + {offset})"),
                });
                _ = write!(behind, ", {REGISTER}{place} = {value}");
                (place, value)
            }
        };
        match extent {
            Extent { bytes: 0, .. } => _ = write!(behind, ", {TEXT}{place} = str({value})"),
            Extent { bytes, is_text } => {
                let bytes = if *is_text {
                    (*bytes).max(TEXT_BYTES)
                } else {
                    *bytes
                };
                _ = write!(behind, ", {MEMORY}{place} = buf({value}, {bytes})");
            }
        }
    }
    text.push_str(&behind);
    text.strip_prefix(", ").map(str::to_owned)
}

/// Whether a pointer leads to a string, as the kernel types them: `char *`, `unsigned char *`.
fn is_text(pointer: &Pointer) -> bool {
    let is_char = matches!(pointer.to, Pointee::Char | Pointee::Integer { size: 1, .. });
    is_char && pointer.levels == 0
}

struct Needs<'h> {
    event: &'h EventClass,
    /// The only value of a variable; none where it has several.
    variables: BTreeMap<VariableId, Option<&'h Expr>>,
    arguments: BTreeSet<usize>,
    memory: BTreeMap<Base, Extent>,
}

impl<'h> Needs<'h> {
    fn of(handler: &'h CheckedProbe, event: &'h EventClass) -> Option<Self> {
        let mut needs = Self {
            event,
            variables: BTreeMap::new(),
            arguments: BTreeSet::new(),
            memory: BTreeMap::new(),
        };
        for Statement { kind, .. } in handler.statements() {
            if let StatementKind::Set { variable, value } = kind {
                let only = needs.variables.entry(*variable);
                only.and_modify(|known| *known = None).or_insert(Some(value));
            }
        }
        for expr in handler.expressions() {
            needs.expression(expr)?;
        }
        for Statement { kind, .. } in handler.statements() {
            // Another handler, of the return, reads the string behind a pointer that is kept for it.
            if let StatementKind::Map(_, MapChange::Set(value)) = kind
                && let Type::Pointer(pointer) = &value.ty
                && is_text(pointer)
                && let Some(address) = needs.address(value, 0)
            {
                needs.read(address, 0, true)?;
            }
        }
        Some(needs)
    }

    fn expression(&mut self, expr: &Expr) -> Option<()> {
        match &expr.kind {
            ExprKind::Load { address, .. } if address.kind == ExprKind::ContextPointer => {
                if let Some(place) = self.argument(expr) {
                    self.arguments.insert(place);
                }
                Some(())
            }
            _ => {
                let Some(read) = read(expr) else {
                    return Some(());
                };
                let mut address = self.address(read.address, 0)?;
                let (bytes, is_text) = match &expr.kind {
                    ExprKind::Load { offset, size, .. } => {
                        address.offset += i64::from(*offset);
                        (i64::from(*size), false)
                    }
                    ExprKind::Bytes { offset, size, .. } => {
                        address.offset += i64::from(*offset);
                        (i64::from(*size), false)
                    }
                    ExprKind::ReadMemory { max, .. } => (i64::from(*max), false),
                    _ => (0, true),
                };
                self.read(address, bytes, is_text)
            }
        }
    }

    /// Takes a read of so many bytes, or of a string.
    fn read(&mut self, address: Address, bytes: i64, is_text: bool) -> Option<()> {
        let Address { base, offset } = address;
        let end = match (is_text, offset) {
            (true, 0) => 0,
            (true, offset) => offset + TEXT_BYTES,
            (false, offset) => offset + bytes,
        };
        self.arguments.insert(base.argument);
        let extent = self.memory.entry(base).or_default();
        extent.bytes = extent.bytes.max(end);
        extent.is_text |= is_text;
        (offset >= 0 && extent.bytes <= MAX).then_some(())
    }

    /// The number of the argument that a value is.
    fn argument(&self, value: &Expr) -> Option<usize> {
        let ExprKind::Load { address, offset, .. } = &value.kind else {
            return None;
        };
        let is_there = |field: &&Field| match field.place {
            FieldPlace::Fixed { offset: own } => i64::from(own) == i64::from(*offset),
            FieldPlace::Tail { .. } => false,
        };
        let field = self.event.layout.fields().iter().find(is_there)?;
        let number = field.name.strip_prefix(REGISTER)?.parse().ok()?;
        (address.kind == ExprKind::ContextPointer && number < ARGUMENTS).then_some(number)
    }

    /// The address that a value is; `depth` variables were looked up for it.
    fn address(&self, value: &Expr, depth: usize) -> Option<Address> {
        match &value.kind {
            ExprKind::Load { address, .. } if address.kind == ExprKind::ContextPointer => Some(Address {
                base: Base {
                    argument: self.argument(value)?,
                    pointers: Vec::new(),
                },
                offset: 0,
            }),
            ExprKind::Load {
                address,
                offset,
                size: 8,
                ..
            } => {
                let mut from = self.address(address, depth)?;
                from.base.pointers.push(from.offset + i64::from(*offset));
                from.offset = 0;
                Some(from)
            }
            ExprKind::Binary {
                op: BinaryOp::Add,
                left,
                right,
                ..
            } => {
                let (value, offset) = match (&left.kind, &right.kind) {
                    (_, ExprKind::Constant(offset)) => (left, offset),
                    (ExprKind::Constant(offset), _) => (right, offset),
                    _ => return None,
                };
                let mut from = self.address(value, depth)?;
                from.offset = from.offset.checked_add(i64::try_from(*offset).ok()?)?;
                Some(from)
            }
            ExprKind::Variable(id) if depth < self.variables.len() => {
                self.address((*self.variables.get(id)?)?, depth + 1)
            }
            ExprKind::Sequence { value, .. } => self.address(value, depth),
            _ => None,
        }
    }
}
