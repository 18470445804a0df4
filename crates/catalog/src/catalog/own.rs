//! Events of the session itself: `begin` before any other event is let in, `end` when none is any more.

use super::glob::Glob;
use super::kind::{Description, EventKind, Instance, Resolved, Strategy, Via};
use super::lookup::Catalog;
use crate::attach::{Mechanism, OnRequest};
use crate::error::{Error, Result};
use kestrel_compiler::context::{Context, EventNumber, ProgramKind};
use kestrel_compiler::lang::ast::EventSpec;
use kestrel_trace::layout::Space;

/// `begin`.
pub(super) const BEGIN: OwnEvent = OwnEvent {
    name: "begin",
    aliases: &["BEGIN"],
};

/// `end`.
pub(super) const END: OwnEvent = OwnEvent {
    name: "end",
    aliases: &["END"],
};

/// A kind that is one event.
#[derive(Debug)]
pub(super) struct OwnEvent {
    name: &'static str,
    aliases: &'static [&'static str],
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

    fn parts(&self) -> usize {
        0
    }

    fn names(&self, _catalog: &Catalog, _patterns: &[Glob], _found: &mut dyn FnMut(&str)) -> Result<()> {
        Ok(())
    }

    fn describe(&self, _catalog: &Catalog, _name: &str) -> Result<Description> {
        Ok(Description::default())
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, _via: Via) -> Result<Vec<Resolved>> {
        if spec.parts.len() > 1 {
            return Err(Error::wrong_shape(spec, self.name));
        }
        let program = ProgramKind::RawTracepoint;
        let way = Strategy {
            mechanism: Mechanism::OnRequest(OnRequest {
                name: self.name.to_owned(),
            }),
            context: Context {
                name: self.name.to_owned(),
                function: None,
                program,
                number: EventNumber::Constant(0),
                selector: None,
                members: [].into(),
                fields: Vec::new(),
                arguments: Vec::new(),
                return_value: None,
                types: catalog.types().ok(),
                features: catalog.features(program),
                direct_loads: false,
                // Addresses of the language's texts are most often of the traced programs.
                space: Space::Kernel,
                preemptible: false,
                registers: Vec::new(),
                pair: None,
                remarks: Vec::new(),
            },
            guard: None,
            companions: None,
        };
        Ok(vec![Resolved {
            kind: self.name,
            instances: vec![Instance::named(self.name)],
            ways: vec![way],
            apart: Vec::new(),
        }])
    }
}
