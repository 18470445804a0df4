//! The kind `mark`: texts of programs of user space, written with `kestrel mark` or by a write to a device node that the kernel takes for the null device.
//!
//! ```text
//!   echo deployed > /dev/kestrel-mark ──► write(2) ──► write_null(file, buf, count, ppos) ──► hook: is it that inode? ──► text, values
//! ```
//!
//! The kernel has such files of its own (`trace_marker` of tracefs, user_events), but of the former no function can be probed (kernel/trace is
//! built without a place for ftrace) and few kernels have the latter.

use super::function::KPROBE;
use super::glob::Glob;
use super::kind::{DescribedField, Description, EventKind, Instance, KindRow, Resolved, Strategy, Via};
use super::lookup::Catalog;
use super::trampoline::FENTRY;
use crate::attach::{self, Mechanism};
use crate::error::{Error, Result};
use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_compiler::context::{EventField, Source, ValueType};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::mark::{self, Node};
use kestrel_trace::event_kind;
use kestrel_trace::layout::Base;

/// The name of the kind.
pub(super) const NAME: &str = event_kind::MARK.name;

/// A path by which writes reach the null device (`drivers/char/mem.c`). The fields of all are made of the same three: `bytes` (where they are in
/// the writer's memory), `length` (how many) and `position` (in the file).
struct Entry {
    /// The event that sees the writes.
    event: &'static str,
    /// The kernel's function that is traced.
    function: &'static str,
    /// The file that is written, in the words of the function's parameters.
    file: &'static str,
    /// `bytes`, `length` and `position`, each with the expression that gives it.
    operands: &'static [(&'static str, &'static str)],
    /// Whether the operands are those of a vector.
    vector: bool,
}

/// write(2) and pwrite(2), the usual calls.
const WRITE: Entry = Entry {
    event: NAME,
    function: "write_null",
    file: "args.file",
    operands: &[
        ("bytes", "(uint64)buf"),
        ("length", "count"),
        ("position", "(uint64)*ppos"),
    ],
    vector: false,
};
/// writev(2), by which some C libraries write what a program prints, and io_uring. The first part that is not empty is the text: those
/// libraries give what they had kept, then what came last, and one of them is mostly nothing.
const WRITEV: Entry = Entry {
    event: "mark:writev",
    function: "write_iter_null",
    file: "args.iocb->ki_filp",
    operands: &[
        (
            "second",
            "from->iter_type != ITER_UBUF && from->PARTS[0].iov_len == 0 && from->nr_segs > 1",
        ),
        (
            "bytes",
            "from->iter_type == ITER_UBUF ? (uint64)from->ubuf : (uint64)from->PARTS[second].iov_base",
        ),
        (
            "length",
            "from->iter_type == ITER_UBUF ? from->count : from->iter_type == ITER_IOVEC ? from->PARTS[second].iov_len : 0",
        ),
        ("position", "(uint64)iocb->ki_pos"),
    ],
    vector: true,
};

/// The structure that holds a vector (include/linux/uio.h), of which these members are read.
const VECTOR: &str = "iov_iter";
const MEMBERS: [&str; 4] = ["iter_type", "ubuf", "count", "nr_segs"];
const ENUMERATORS: [&str; 2] = ["ITER_UBUF", "ITER_IOVEC"];
/// Member with the parts of a vector: renamed in Linux 6.4.
const PARTS: [&str; 2] = ["__iov", "iov"];

/// The fields. Writers end what they write with a line's end or not at all, never with a NUL. Values begin where a pwrite(2) says, behind the
/// text and its NUL; other writes are at position 0, which the null device never leaves.
const FIELDS: &[(&str, &str)] = &[
    (
        "text",
        "str(uptr(bytes), length - (length > 0 && *(uint8 *)uptr(bytes + length - 1) == 10))",
    ),
    (
        "values",
        "str(uptr(bytes + position), position > 0 && position < length ? length - position : 0)",
    ),
];

/// The kind `mark`: events that user space writes.
#[derive(Debug)]
pub(super) struct Mark;

const ROW: KindRow = KindRow {
    joins_handlers: false,
    ..KindRow::new(event_kind::MARK, 0)
};

impl EventKind for Mark {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        if patterns.is_empty() && catalog.is_function(WRITE.function) {
            found("");
        }
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        let field = |(name, _): &(&str, &str)| DescribedField {
            name: (*name).to_owned(),
            ty: "string".to_owned(),
        };
        Ok(Description {
            fields: FIELDS.iter().map(field).collect(),
            returns: None,
        })
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let wanted = match spec.parts.as_slice() {
            [kind] if kind.offset.is_none() => &[WRITE, WRITEV][..],
            [_, last] if last.offset.is_none() && last.text == "writev" => &[WRITEV],
            _ => return Err(Error::wrong_shape(spec, NAME)),
        };
        let types = catalog.types()?;
        let node = mark::make(catalog.host()).map_err(Error::Mark)?;
        let vector = parts(&types);
        let known = |entry: &&Entry| !entry.vector || vector.is_some();
        let all = wanted.iter().filter(known).map(|entry| {
            Ok(Resolved {
                kind: NAME,
                instances: vec![Instance {
                    symbol: Some(entry.function.to_owned()),
                    ..Instance::named(entry.event)
                }],
                strategies: strategies(catalog, entry, vector.unwrap_or_default(), node)?,
                members: Vec::new(),
            })
        });
        all.collect()
    }
}

/// Trampolines cost other writes the least. Where the kernel preempts threads inside their programs they miss hits of other threads meanwhile;
/// a kprobe never does: no thread is preempted in its program, and no interrupt writes to a device.
fn strategies(catalog: &Catalog, entry: &Entry, parts: &str, node: Node) -> Result<Vec<Strategy>> {
    let function = entry.function;
    let mut strategies = match FENTRY.resolve_one(catalog, None, function) {
        Ok(trampoline) => trampoline.strategies,
        Err(_) => Vec::new(),
    };
    if catalog.has_kprobes() {
        let kprobe = Strategy::new(
            Mechanism::Functions(attach::Functions {
                at_return: false,
                alone: true,
                maxactive: None,
            }),
            KPROBE.context(catalog, Some(function)),
        );
        match catalog.preemption().trampolines {
            true => strategies.insert(0, kprobe),
            false => strategies.push(kprobe),
        }
    }
    strategies.retain(|strategy| !strategy.context.fields.is_empty());
    if strategies.is_empty() {
        return Err(Error::Unsupported {
            what: entry.event.to_owned(),
            why: format!(
                "this kernel lets no program see its function {function} with typed arguments (kprobes or trampolines, and BTF)"
            ),
        });
    }
    // The guard rejects other writes to the null device, most of them by the first number.
    let guard = format!(
        "{0}->f_inode->i_ino == {1} && {0}->f_inode->i_sb->s_dev == {2}",
        entry.file, node.inode, node.device
    );
    let operands = entry.operands.iter().map(|(name, rule)| EventField {
        ty: WORD,
        recorded: false,
        ..field(name, &rule.replace("PARTS", parts))
    });
    let strings = FIELDS.iter().map(|(name, rule)| field(name, rule));
    let fields: Vec<EventField> = operands.chain(strings).collect();
    for strategy in &mut strategies {
        entry.event.clone_into(&mut strategy.context.name);
        strategy
            .context
            .fields
            .iter_mut()
            .for_each(|field| field.recorded = false);
        strategy.context.fields.extend_from_slice(&fields);
        strategy.guard = Some(guard.clone());
    }
    Ok(strategies)
}

/// Name of the member with a vector's parts on this kernel, where its vectors have a known form.
fn parts(types: &Btf) -> Option<&'static str> {
    let vector = types.find(BtfKind::Struct, VECTOR)?;
    let has = |member: &&str| types.find_member(vector, member).is_some();
    let known = MEMBERS.iter().all(has) && ENUMERATORS.iter().all(|name| types.enumerator(name).is_some());
    PARTS.into_iter().find(has).filter(|_| known)
}

/// Type of addresses and lengths.
const WORD: ValueType = ValueType::Integer {
    size: 8,
    signed: false,
    base: Base::Decimal,
};

fn field(name: &str, rule: &str) -> EventField {
    EventField {
        name: name.to_owned(),
        ty: ValueType::String,
        source: Source::Expression(rule.to_owned()),
        recorded: true,
    }
}
