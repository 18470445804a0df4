//! `mark`: what programs of user space say, with `kestrel mark` or by a write to a device node that the kernel takes for the null device.
//!
//! ```text
//!   echo deployed > /dev/kestrel-mark ──► write(2) ──► write_null(file, buf, count, ppos) ──► hook: is it that inode? ──► text, values
//! ```
//!
//! The kernel has such files of its own (`trace_marker` of tracefs, user_events), but of the one no function can be probed (kernel/trace is
//! built without a place for ftrace) and few kernels have the other.

use super::function::KPROBE;
use super::kind::{Attachment, DescribedField, Description, EventKind, Instance, Resolved, Via, Way};
use super::trampoline::FENTRY;
use super::{Catalog, Glob};
use crate::error::{Error, Result};
use kestrel_compiler::context::{EventField, Source, ValueType};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_kernel::mark::{self, Node};

/// What it is called.
pub(super) const NAME: &str = "mark";

/// What writes to the null device come to (`drivers/char/mem.c`).
const FUNCTION: &str = "write_null";

/// The fields, and how they are computed from the function's parameters. Writers end what they write with a line's end or not at all, never
/// with a NUL. Values begin where a pwrite(2) says, behind the text and its NUL; other writes are at position 0, which the null device never leaves.
const FIELDS: &[(&str, &str)] = &[
    (
        "text",
        "str(uptr(buf), count - (count > 0 && *(uint8 *)uptr(buf + count - 1) == 10))",
    ),
    (
        "values",
        "str(uptr(buf + *ppos), *ppos > 0 && (uint64)*ppos < count ? count - *ppos : 0)",
    ),
];

/// The kind.
#[derive(Debug)]
pub(super) struct Mark;

impl EventKind for Mark {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    fn parts(&self) -> usize {
        0
    }

    fn names(&self, catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        if patterns.is_empty() && catalog.is_function(FUNCTION) {
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
        match spec.parts.as_slice() {
            [only] if only.offset.is_none() => {}
            _ => return Err(Error::wrong_shape(spec, NAME)),
        }
        let node = mark::make(catalog.host()).map_err(Error::Mark)?;
        let ways = ways(catalog, node)?;
        Ok(vec![Resolved {
            kind: NAME,
            instances: vec![Instance {
                symbol: Some(FUNCTION.to_owned()),
                ..Instance::named(NAME)
            }],
            ways,
            apart: Vec::new(),
        }])
    }
}

/// Trampolines cost other writes the least. Where the kernel preempts threads inside their programs they miss what other threads do meanwhile;
/// a kprobe never does: no thread is preempted in its program, and no interrupt writes to a device.
fn ways(catalog: &Catalog, node: Node) -> Result<Vec<Way>> {
    catalog.types()?;
    let mut ways = match FENTRY.resolve_one(catalog, None, FUNCTION) {
        Ok(trampoline) => trampoline.ways,
        Err(_) => Vec::new(),
    };
    if catalog.has_kprobes() {
        let kprobe = Way {
            attachment: Attachment::Functions {
                at_return: false,
                alone: true,
                maxactive: None,
            },
            context: KPROBE.context(catalog, Some(FUNCTION)),
            guard: None,
            companions: None,
        };
        match catalog.preemption().trampolines {
            true => ways.insert(0, kprobe),
            false => ways.push(kprobe),
        }
    }
    let known = |way: &Way| !way.context.fields.is_empty();
    if !ways.iter().any(known) {
        return Err(Error::Unsupported {
            what: NAME.to_owned(),
            why: format!("this kernel lets no program see its function {FUNCTION} with typed arguments (kprobes or trampolines, and BTF)"),
        });
    }
    ways.retain(known);
    // Other writes to the null device end here, most of them at the first number.
    let guard = format!(
        "args.file->f_inode->i_ino == {} && args.file->f_inode->i_sb->s_dev == {}",
        node.inode, node.device
    );
    for way in &mut ways {
        NAME.clone_into(&mut way.context.name);
        way.context.fields.iter_mut().for_each(|field| field.recorded = false);
        way.context.fields.extend(FIELDS.iter().map(field));
        way.guard = Some(guard.clone());
    }
    Ok(ways)
}

fn field((name, rule): &(&str, &str)) -> EventField {
    EventField {
        name: (*name).to_owned(),
        ty: ValueType::String,
        source: Source::Expression((*rule).to_owned()),
        recorded: true,
    }
}
