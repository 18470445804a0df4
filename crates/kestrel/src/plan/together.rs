//! Handlers of one event in one program, in source order: the kernel runs programs of one event in the order of its own lists, which differs from mechanism to
//! mechanism and from release to release, and each program costs a hit of its own.

use kestrel_catalog::catalog::{EventKind, find_kind};
use kestrel_compiler::lang::ast::{Block, EventSpec, Probe, Span, Statement, StatementKind};

/// Probes of which those that name the same events are one, each of whose handlers is a [`StatementKind::Handler`].
pub(super) fn joined(text: &str, probes: &[Probe]) -> Vec<Probe> {
    let mut all: Vec<Probe> = Vec::new();
    for probe in probes {
        let known = all
            .iter_mut()
            .find(|known| may_join(text, known) && may_join(text, probe) && same(known, probe));
        match known {
            None => all.push(probe.clone()),
            Some(known) => join(known, probe),
        }
    }
    all
}

/// Number of a probe's handlers.
pub(super) fn handlers(probe: &Probe) -> usize {
    let statements = probe.block.iter().flat_map(|block| &block.statements);
    let is_handler = |statement: &&Statement| matches!(statement.kind, StatementKind::Handler { .. });
    statements.filter(is_handler).count().max(1)
}

/// Whether the handler of a probe can be one of several. What it asks of the event before (`entry.NAME`) decides whether the whole program runs.
fn may_join(text: &str, probe: &Probe) -> bool {
    let kinds = probe.events.iter().map(|spec| {
        let kind = spec.parts.first()?;
        find_kind(&kind.text)
    });
    let joins = |kind: Option<&dyn EventKind>| kind.is_some_and(|kind| kind.row().joins_handlers);
    let written = text.get(probe.span.start as usize..probe.span.end as usize);
    probe.object.is_none()
        && probe.block.is_some()
        && kinds.into_iter().all(joins)
        && written.is_some_and(|written| !written.contains("entry."))
}

fn same(one: &Probe, other: &Probe) -> bool {
    let parts = |spec: &EventSpec| -> Vec<(String, Option<u64>)> {
        let part = |part: &kestrel_compiler::lang::ast::EventPart| (part.text.clone(), part.offset);
        spec.parts.iter().map(part).collect()
    };
    one.events.iter().map(parts).eq(other.events.iter().map(parts))
}

fn join(known: &mut Probe, probe: &Probe) {
    if handlers(known) == 1 {
        let first = handler(known);
        known.predicate = None;
        known.block = Some(Block {
            statements: vec![first],
            span: known.span,
        });
    }
    if let Some(block) = &mut known.block {
        block.statements.push(handler(probe));
    }
}

/// Statement of a probe, as one of several handlers.
fn handler(probe: &Probe) -> Statement {
    let nothing = Block {
        statements: Vec::new(),
        span: probe.span,
    };
    let kind = StatementKind::Handler {
        predicate: probe.predicate.clone(),
        body: probe.block.clone().unwrap_or(nothing),
    };
    let span: Span = probe.span;
    Statement { kind, span }
}
