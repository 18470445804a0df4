//! Events of the session itself: `begin` before any other event is let in, `end` when none is any more.

use super::glob::Glob;
use super::kind::{Description, EventKind, Instance, KindRow, Resolved, Strategy, Via};
use super::lookup::Catalog;
use crate::attach::{Mechanism, OnRequest};
use crate::error::{Error, Result};
use kestrel_compiler::context::{Context, ProgramKind};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::event_kind::{self, EventKindNames};

/// Events of the session itself, in the order in which they are listed.
pub(super) const OWN: &[OwnEvent] = &[BEGIN, END, SELF, TEST, BENCH];

/// `begin`.
pub(super) const BEGIN: OwnEvent = OwnEvent {
    row: row(event_kind::BEGIN, 0),
    shape: "begin",
    fixed: None,
};

/// `end`.
pub(super) const END: OwnEvent = OwnEvent {
    row: row(event_kind::END, 0),
    shape: kestrel_compiler::context::END,
    fixed: None,
};

/// `self:signal:SIGUSR1`: the process that runs the program got a signal.
pub(super) const SELF: OwnEvent = OwnEvent {
    row: row(event_kind::SELF, 2),
    shape: "self:signal:SIGUSR1",
    fixed: Some(&["signal", "SIGUSR1"]),
};

/// `test:NAME`: run once where tests are asked for.
pub(super) const TEST: OwnEvent = OwnEvent {
    row: row(event_kind::TEST, 1),
    shape: "test:NAME",
    fixed: None,
};

/// `bench:NAME`: run again and again where its time is asked for.
pub(super) const BENCH: OwnEvent = OwnEvent {
    row: row(event_kind::BENCH, 1),
    shape: "bench:NAME",
    fixed: None,
};

/// The row of such a kind.
const fn row(names: EventKindNames, parts: usize) -> KindRow {
    KindRow {
        listed: false,
        joins_handlers: false,
        ..KindRow::new(names, parts)
    }
}

/// A kind whose events the session fires.
#[derive(Debug)]
pub(super) struct OwnEvent {
    row: KindRow,
    shape: &'static str,
    /// The parts behind the kind, where its events have one name alone.
    fixed: Option<&'static [&'static str]>,
}

impl EventKind for OwnEvent {
    fn row(&self) -> &KindRow {
        &self.row
    }

    fn names(&self, _catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        // No pattern is all of them.
        let matches = |parts: &[&str]| {
            patterns.len() == parts.len() && patterns.iter().zip(parts).all(|(glob, part)| glob.matches(part))
        };
        if let Some(parts) = self.fixed
            && (matches(&[]) || matches(parts))
        {
            found(&parts.join(":"));
        }
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(Description::default())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let parts: Vec<&str> = spec.parts[1..].iter().map(|part| part.text.as_str()).collect();
        let known = match self.fixed {
            Some(fixed) => parts == fixed,
            None => parts.len() == self.row.parts,
        };
        if !known {
            return Err(Error::wrong_shape(spec, self.shape));
        }
        let name = [&[self.name()], parts.as_slice()].concat().join(":");
        let program = ProgramKind::RawTracepoint;
        let strategy = Strategy::new(
            Mechanism::OnRequest(OnRequest {
                name: name.clone(),
                every: None,
            }),
            Context {
                types: catalog.types().ok(),
                features: catalog.features(program),
                ..Context::new(name.clone(), program)
            },
        );
        Ok(vec![Resolved {
            kind: self.name(),
            instances: vec![Instance::named(&name)],
            strategies: vec![strategy],
            members: Vec::new(),
        }])
    }
}
