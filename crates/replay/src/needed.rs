//! Fields that a record of a function's entry must have for a handler: the arguments by number, and the memory behind them, as `record(…)` has it.
//!
//! A pointer within recorded memory is recorded as an argument that the handler does not use: `arg5` with `mem5` is memory behind a second pointer, or far behind
//! the first. Of a tracepoint, whose fields are no arguments, all addresses are recorded so. Memory that another handler reads by an address kept in a map is recorded
//! where the address is kept.

use crate::call::ARGUMENTS;
use crate::reads::read;
use kestrel_compiler::check::tree::{
    BinaryOp, CheckedProbe, Expr, ExprKind, MapChange, MapPlace, Pointee, Pointer, Statement, StatementKind,
    Type, VariableId,
};
use kestrel_trace::calls::{MEMORY, REGISTER, TEXT};
use kestrel_trace::event::EventClass;
use kestrel_trace::event_kind;
use kestrel_trace::layout::{Field, FieldPlace, FieldType, Layout};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The word for the task that runs.
const TASK: &str = "curtask";
/// Most bytes of memory in a field, as of the language's `buf`.
const MAX: i64 = 1023;
/// Bytes of a string within memory that holds other things, too.
const TEXT_BYTES: i64 = 64;

/// The class with all arguments by number: what a handler makes of them is found by checking it for this one.
#[must_use]
pub fn with_arguments(event: &EventClass) -> EventClass {
    if !event_kind::is_function_entry(&event.kind) {
        return event.clone();
    }
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

/// The value of a record that an address comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Root {
    /// An argument by its number.
    Argument(usize),
    /// A field by its name.
    Field(String),
    /// The task that runs, whose address is recorded beside.
    Task,
    /// A value kept in the map of this name: memory behind it is recorded with the event that kept it.
    Map(String),
}

impl Root {
    fn text(&self) -> String {
        match self {
            Self::Argument(place) => format!("{REGISTER}{place}"),
            Self::Field(name) => format!("(uint64)args.{name}"),
            Self::Task => format!("(uint64){TASK}"),
            Self::Map(name) => format!("@{name}"),
        }
    }
}

/// A value of the record, and the offsets of the pointers that are followed from it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Base {
    root: Root,
    pointers: Vec<i64>,
}

impl Base {
    /// The address as `record(…)` computes it.
    fn text(&self) -> String {
        let follow = |inner: String, offset: &i64| match offset {
            0 => format!("*(uint64 *){inner}"),
            offset => format!("*(uint64 *)({inner} + {offset})"),
        };
        self.pointers.iter().fold(self.root.text(), follow)
    }
}

/// A read of memory by an address that a map keeps.
#[derive(Clone, Debug)]
pub struct KeptRead {
    map: String,
    pointers: Vec<i64>,
    extent: Extent,
}

/// What a handler reads by addresses that maps keep.
#[must_use]
pub fn kept_reads(handler: &CheckedProbe, event: &EventClass) -> Vec<KeptRead> {
    let memory = Needs::of(handler, event).map_or_else(BTreeMap::new, |needs| needs.memory);
    let mut kept = Vec::new();
    for (base, extents) in memory {
        let Root::Map(map) = base.root else {
            continue;
        };
        kept.extend(extents.into_iter().map(|extent| KeptRead {
            map: map.clone(),
            pointers: base.pointers.clone(),
            extent,
        }));
    }
    kept
}

/// Memory behind a base.
#[derive(Clone, Copy, Debug)]
struct Extent {
    from: i64,
    to: i64,
    /// Whether a string begins there.
    is_text: bool,
}

/// Extents in as few pieces as fit a field each; of one piece alone also what lies before it, where that fits.
fn pieces(mut extents: Vec<Extent>) -> Vec<Extent> {
    extents.sort_by_key(|extent| extent.from);
    let mut pieces: Vec<Extent> = Vec::new();
    for mut extent in extents {
        match pieces.last_mut() {
            Some(last) if extent.to.max(last.to) - last.from <= MAX => {
                last.to = last.to.max(extent.to);
                last.is_text |= extent.is_text;
            }
            last => {
                if last.is_none() && extent.to <= MAX {
                    extent.from = 0;
                }
                pieces.push(extent);
            }
        }
    }
    pieces
}

/// The values that `record(args, …)` must have beside a class with [all arguments](with_arguments) for what the handler, which was checked for that class, reads,
/// and what others read by addresses that it keeps; none where an address is computed otherwise, or there are too many.
#[must_use]
pub fn needed(handler: &CheckedProbe, event: &EventClass, kept: &[KeptRead]) -> Option<String> {
    let mut needs = Needs::of(handler, event)?;
    needs.add_kept(handler, kept)?;
    let mut free = (0..ARGUMENTS)
        .rev()
        .filter(|place| !needs.arguments.contains(place));
    // Bases with fewer pointers come first: what is behind them is written with theirs.
    let own = |base: &Base| !matches!(base.root, Root::Map(_));
    let memory = needs.memory.iter().filter(|(base, _)| own(base));
    let mut memory: Vec<(&Base, &Vec<Extent>)> = memory.collect();
    memory.sort_by_key(|(base, _)| (base.pointers.len(), *base));
    let mut text = String::new();
    let mut behind = String::new();
    for place in &needs.arguments {
        _ = write!(text, ", {REGISTER}{place}");
    }
    for (base, extents) in memory {
        for extent in pieces(extents.clone()) {
            let value = match extent.from {
                0 => base.text(),
                from => format!("{} + {from}", base.text()),
            };
            let place = match (&base.root, base.pointers.as_slice(), extent.from) {
                (Root::Argument(place), [], 0) => *place,
                _ => {
                    let place = free.next()?;
                    _ = write!(behind, ", {REGISTER}{place} = {value}");
                    place
                }
            };
            let bytes = extent.to - extent.from;
            match (bytes, extent.is_text) {
                (0, _) => _ = write!(behind, ", {TEXT}{place} = str({value})"),
                (bytes, true) => {
                    _ = write!(
                        behind,
                        ", {MEMORY}{place} = buf({value}, {})",
                        bytes.max(TEXT_BYTES)
                    );
                }
                (bytes, false) => _ = write!(behind, ", {MEMORY}{place} = buf({value}, {bytes})"),
            }
        }
    }
    text.push_str(&behind);
    if needs.memory.keys().any(|base| base.root == Root::Task) {
        _ = write!(text, ", {TASK}");
    }
    text.strip_prefix(", ").map(str::to_owned)
}

/// Which addresses of a handler come from the event's own record.
pub(crate) struct Roots<'h>(Needs<'h>);

impl<'h> Roots<'h> {
    pub(crate) fn of(handler: &'h CheckedProbe, event: &'h EventClass) -> Self {
        Self(Needs::new(handler, event))
    }

    pub(crate) fn is_own(&self, address: &Expr) -> bool {
        let found = self.0.address(address, 0);
        found.is_some_and(|found| matches!(found.base.root, Root::Argument(_) | Root::Field(_)))
    }
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
    memory: BTreeMap<Base, Vec<Extent>>,
}

impl<'h> Needs<'h> {
    fn new(handler: &'h CheckedProbe, event: &'h EventClass) -> Self {
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
        needs
    }

    fn of(handler: &'h CheckedProbe, event: &'h EventClass) -> Option<Self> {
        let mut needs = Self::new(handler, event);
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

    /// Takes what others read by the addresses that the handler keeps in maps.
    fn add_kept(&mut self, handler: &'h CheckedProbe, kept: &[KeptRead]) -> Option<()> {
        for Statement { kind, .. } in handler.statements() {
            let StatementKind::Map(MapPlace { map, .. }, MapChange::Set(value)) = kind else {
                continue;
            };
            let Some(Address { base, offset }) = self.address(value, 0) else {
                continue;
            };
            for KeptRead { pointers, extent, .. } in kept.iter().filter(|read| read.map == map.name) {
                let mut address = Address {
                    base: base.clone(),
                    offset: offset + extent.from,
                };
                if let Some((first, others)) = pointers.split_first() {
                    address.base.pointers.push(offset + first);
                    address.base.pointers.extend(others);
                    address.offset = extent.from;
                }
                self.read(address, extent.to - extent.from, extent.is_text)?;
            }
        }
        Some(())
    }

    fn expression(&mut self, expr: &Expr) -> Option<()> {
        match &expr.kind {
            ExprKind::Load { address, .. } if address.kind == ExprKind::ContextPointer => {
                if let Some(Root::Argument(place)) = self.root(expr) {
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
                    ExprKind::ReadMemory { max, .. } => (i64::from(*max).min(MAX), false),
                    _ => (0, true),
                };
                self.read(address, bytes, is_text)
            }
        }
    }

    /// Takes a read of so many bytes, or of a string.
    fn read(&mut self, address: Address, bytes: i64, is_text: bool) -> Option<()> {
        let Address { base, offset } = address;
        let to = match (is_text, offset) {
            (true, 0) => 0,
            (true, offset) => offset + TEXT_BYTES,
            (false, offset) => offset + bytes,
        };
        if let Root::Argument(place) = base.root {
            self.arguments.insert(place);
        }
        self.memory.entry(base).or_default().push(Extent {
            from: offset,
            to,
            is_text,
        });
        (offset >= 0 && to - offset <= MAX).then_some(())
    }

    /// The value of the record that an expression is.
    fn root(&self, value: &Expr) -> Option<Root> {
        let ExprKind::Load { address, offset, .. } = &value.kind else {
            return None;
        };
        let is_there = |field: &&Field| match field.place {
            FieldPlace::Fixed { offset: own } => i64::from(own) == i64::from(*offset),
            FieldPlace::Tail { .. } => false,
        };
        let field = self.event.layout.fields().iter().find(is_there)?;
        if address.kind != ExprKind::ContextPointer {
            return None;
        }
        match event_kind::is_function_entry(&self.event.kind) {
            true => {
                let number = field.name.strip_prefix(REGISTER)?.parse().ok()?;
                (number < ARGUMENTS).then_some(Root::Argument(number))
            }
            false => Some(Root::Field(field.name.clone())),
        }
    }

    /// The address that a value is; `depth` variables were looked up for it.
    fn address(&self, value: &Expr, depth: usize) -> Option<Address> {
        match &value.kind {
            ExprKind::Load { address, .. } if address.kind == ExprKind::ContextPointer => Some(Address {
                base: Base {
                    root: self.root(value)?,
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
            ExprKind::Intrinsic(intrinsic) if intrinsic.is_current_task() => Some(Address {
                base: Base {
                    root: Root::Task,
                    pointers: Vec::new(),
                },
                offset: 0,
            }),
            ExprKind::MapValue(place) => Some(Address {
                base: Base {
                    root: Root::Map(place.map.name.clone()),
                    pointers: Vec::new(),
                },
                offset: 0,
            }),
            _ => None,
        }
    }
}
