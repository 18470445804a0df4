//! The session of named probes, which begins with the first of them.

use super::{Added, Request};
use crate::buffer::layout::{Geometry, Mode};
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::plan::{BUFFER, BufferPlan, Plan};
use crate::session::start::Origin;
use crate::session::store::Store;
use crate::session::target::Target;
use kestrel_compiler::check::globals::Globals;

/// Bytes of its buffer per CPU.
const BYTES: u64 = 4 << 20;
/// Kinds of record that it has room for.
const RECORDS: u32 = 1 << 14;

impl Store {
    /// Adds named probes to a session, which is made where it is not there yet; a session that was made for probes which could not be added
    /// does not stay.
    ///
    /// # Errors
    /// As [`Store::start`] and [`crate::session::stay::Change::add_probes`].
    pub fn add_probes(
        &self,
        session: &str,
        requests: &[Request],
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

/// A session without tables and hooks.
fn empty() -> Plan {
    let mut plan = Plan {
        tables: Vec::new(),
        hooks: Vec::new(),
        target: Target::All,
        buffers: vec![BufferPlan {
            name: BUFFER.to_owned(),
            geometry: Geometry::new(Mode::Overwrite, BYTES, RECORDS),
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
