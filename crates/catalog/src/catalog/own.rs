//! Events of the session itself: `begin` before any other event is let in, `end` when none is any more.

use super::glob::Glob;
use super::kind::{Description, EventKind, Instance, Resolved, Strategy, Via};
use super::lookup::Catalog;
use crate::attach::{Mechanism, OnRequest};
use crate::error::{Error, Result};
use kestrel_compiler::context::{Context, ProgramKind};
use kestrel_compiler::lang::ast::EventSpec;

/// Events of the session itself, in the order in which they are listed.
pub(super) const OWN: &[OwnEvent] = &[BEGIN, END, SELF, TEST, BENCH];

/// `begin`.
pub(super) const BEGIN: OwnEvent = OwnEvent {
    name: "begin",
    aliases: &["BEGIN"],
    shape: "begin",
    parts: 0,
};

/// `end`.
pub(super) const END: OwnEvent = OwnEvent {
    name: kestrel_compiler::context::END,
    aliases: &["END"],
    shape: kestrel_compiler::context::END,
    parts: 0,
};

/// `self:signal:SIGUSR1`: the process that runs the program got a signal.
pub(super) const SELF: OwnEvent = OwnEvent {
    name: "self",
    aliases: &[],
    shape: "self:signal:SIGUSR1",
    parts: 2,
};

/// `test:NAME`: run once where tests are asked for.
pub(super) const TEST: OwnEvent = OwnEvent {
    name: "test",
    aliases: &[],
    shape: "test:NAME",
    parts: 1,
};

/// `bench:NAME`: run again and again where its time is asked for.
pub(super) const BENCH: OwnEvent = OwnEvent {
    name: "bench",
    aliases: &[],
    shape: "bench:NAME",
    parts: 1,
};

/// A kind whose events the session fires.
#[derive(Debug)]
pub(super) struct OwnEvent {
    name: &'static str,
    aliases: &'static [&'static str],
    shape: &'static str,
    parts: usize,
}

impl EventKind for OwnEvent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn listed(&self) -> bool {
        false
    }

    fn joins_handlers(&self) -> bool {
        false
    }

    fn parts(&self) -> usize {
        self.parts
    }

    fn names(&self, _catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        // No pattern is all of them.
        let matches = |parts: &[&str]| {
            patterns.len() == parts.len() && patterns.iter().zip(parts).all(|(glob, part)| glob.matches(part))
        };
        if self.name == SELF.name && (matches(&[]) || matches(&["signal", "SIGUSR1"])) {
            found("signal:SIGUSR1");
        }
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(Description::default())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        let parts: Vec<&str> = spec.parts[1..].iter().map(|part| part.text.as_str()).collect();
        let known = match (self.name, parts.as_slice()) {
            ("self", ["signal", "SIGUSR1"]) => true,
            ("self", _) => false,
            (_, parts) => parts.len() == self.parts,
        };
        if !known {
            return Err(Error::wrong_shape(spec, self.shape));
        }
        let name = [&[self.name], parts.as_slice()].concat().join(":");
        let program = ProgramKind::RawTracepoint;
        let way = Strategy::new(
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
            kind: self.name,
            instances: vec![Instance::named(&name)],
            ways: vec![way],
            apart: Vec::new(),
        }])
    }
}
