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
pub(super) fn may_join(text: &str, probe: &Probe) -> bool {
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
    *known = with_handlers_of(known, [&*known, probe].into_iter());
}

/// The probe with the handlers of several, in source order.
pub(super) fn with_handlers_of<'p>(probe: &Probe, all: impl Iterator<Item = &'p Probe>) -> Probe {
    let mut handlers: Vec<Statement> = all.flat_map(handlers_of).collect();
    handlers.sort_by_key(|handler| handler.span.start);
    if let [one] = handlers.as_mut_slice()
        && let StatementKind::Handler { predicate, body } = &mut one.kind
    {
        let (predicate, block) = (predicate.take(), Some(body.clone()));
        return Probe {
            predicate,
            block,
            ..probe.clone()
        };
    }
    let block = Block {
        statements: handlers,
        span: probe.span,
    };
    Probe {
        predicate: None,
        block: Some(block),
        ..probe.clone()
    }
}

/// The handlers of a probe, joined or not.
fn handlers_of(probe: &Probe) -> Vec<Statement> {
    match handlers(probe) {
        1 => vec![handler(probe)],
        _ => probe
            .block
            .iter()
            .flat_map(|block| block.statements.clone())
            .collect(),
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
