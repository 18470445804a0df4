//! The session of named probes, which begins with the first of them.

use super::change::nothing_to_do;
use super::text::{check_name, file, rooted};
use super::{Added, ProbeRequest};
use crate::plan::{BUFFER, BufferPlan, Plan};
use crate::plan::{Existing, plan_named};
use crate::session::start::Origin;
use crate::session::store::Store;
use kestrel_catalog::catalog::{Catalog, Via};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_hook::buffer::bell::Bell;
use kestrel_hook::buffer::layout::{Geometry, Mode};
use kestrel_hook::hook::process_filter::ProcessFilter;

/// Bytes of its buffer per CPU.
const BYTES: u64 = 4 << 20;
/// Kinds of record that it has room for.
const RECORDS: u32 = 1 << 14;

impl Store {
    /// Adds named probes to a session, which is made where it is not there yet; a session that was made for probes which could not be added
    /// does not stay.
    ///
    /// # Errors
    /// As [`Store::start`] and [`crate::session::pinned::Change::add_probes`].
    pub fn add_probes(
        &self,
        session: &str,
        requests: &[ProbeRequest],
        replace: bool,
        catalog: &Catalog,
        command: &str,
    ) -> Result<Added> {
        let mut made = false;
        let mut change = loop {
            match self.change(Some(session)) {
                Err(Error::NoSession { .. }) => {}
                other => break other?,
            }
            let origin = Origin { command, file: None };
            match self.start(session, empty(), catalog, None, origin) {
                Ok(_) => made = true,
                // Another command was faster.
                Err(Error::SessionExists { .. }) => {}
                Err(error) => return Err(error),
            }
        };
        let added = change.add_probes(requests, replace, catalog);
        drop(change);
        if made && added.is_err() {
            self.stop_if(session, |session| session.state().probes.each.is_empty())?;
        }
        added
    }
}

/// Checks a probe as it would be added to a session without others: nothing is loaded or attached. Gives remarks about its text.
///
/// # Errors
/// Errors of its name, its text or its events, as far as they are known beforehand: the kernel may refuse it still.
pub fn check(request: &ProbeRequest, catalog: &Catalog) -> Result<Vec<(String, Diagnostic)>> {
    check_name(&request.name)?;
    let source = rooted(file(&request.name, &request.source)?, &request.beside)?;
    let plan = empty();
    let existing = Existing {
        globals: plan.globals,
        tables: Vec::new(),
        buffers: plan.buffers,
        target: plan.target,
        hooks: Vec::new(),
        next_number: 1,
    };
    let plan = plan_named(&existing, &file(&request.name, &source)?, 1, catalog, Via::Auto)?;
    match plan.hooks.is_empty() {
        true => Err(nothing_to_do(request)),
        false => Ok(plan.warnings),
    }
}

/// A session without tables and hooks.
fn empty() -> Plan {
    let mut plan = Plan {
        tables: Vec::new(),
        hooks: Vec::new(),
        target: ProcessFilter::All,
        buffers: vec![BufferPlan {
            name: BUFFER.to_owned(),
            geometry: Geometry::new(Mode::Overwrite, BYTES, RECORDS),
            process: None,
            bell: Bell::Silent,
        }],
        globals: Globals {
            buffers: vec![BUFFER.to_owned()],
            messages: true,
            ..Globals::default()
        },
        slots: true,
        objects: Vec::new(),
        warnings: Vec::new(),
    };
    plan.give_messages_a_buffer();
    plan
}
