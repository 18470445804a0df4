//! Table files: buffers, parameters and event mask tables as text, and what they mean on this kernel; nothing is attached here.
//!
//! ```text
//!   text ──read──► TableFile ──rows──► per table: event → handler ──resolve──► Plan (one hook per event, with a row per handler)
//!                  (diagnostics)                                 └─plan_load──► Plan (programs for the slots of hooks that run)
//! ```

mod read;
pub mod shipped;

pub use read::read;

use crate::buffer::layout::Mode;
use crate::buffer::name::MAIN;
use crate::hook::owner::Owner;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Parameter;
use kestrel_compiler::lang::ast::{Probe, Span, Spanned};
use kestrel_compiler::lang::diag::{Diagnostic, has_errors};
use kestrel_trace::files::Objection;
use std::sync::Arc;

/// Name of the table for probes that a file has outside of any table.
pub const IMPLICIT: &str = "main";

/// A table file that has been read and checked by itself. Whether this kernel has its events is checked elsewhere.
#[derive(Clone, Debug)]
pub struct TableFile {
    /// The name that messages show: a path, or the name of a shipped table file.
    pub name: String,
    /// The text, to which all source positions refer.
    pub text: Arc<str>,
    /// At least one: the first is the default.
    pub buffers: Vec<BufferSpec>,
    /// In source order.
    pub parameters: Vec<Parameter>,
    /// At least one, in source order.
    pub tables: Vec<TableSpec>,
    /// `config = { max_map_keys = N }`.
    pub max_map_keys: Option<u32>,
    /// Warnings, with which the file can be used.
    pub warnings: Vec<Diagnostic>,
    /// Objection to the file that it was read from: another user could change it; none where only root and the caller can, and of a text that the caller gives.
    pub objection: Option<Objection>,
}

/// `buffer NAME { size = 4M  mode = overwrite }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSpec {
    /// The buffer's name.
    pub name: String,
    /// Bytes per CPU.
    pub bytes: u64,
    /// Behaviour when it is full.
    pub mode: Mode,
    /// The process whose records go to it, if it belongs to one.
    pub process: Option<Owner>,
    /// Place of the buffer in the text; empty for the default buffer.
    pub span: Span,
}

/// `table NAME [: PARENT] { probe… }`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// The table's name.
    pub name: Spanned<String>,
    /// The table that it extends, which exists.
    pub parent: Option<String>,
    /// Rows of the table itself, without those of the table that it extends.
    pub probes: Vec<Probe>,
}

/// The buffer of a file that names none.
impl Default for BufferSpec {
    fn default() -> Self {
        Self {
            name: MAIN.to_owned(),
            bytes: 4 << 20,
            mode: Mode::Overwrite,
            process: None,
            span: Span::default(),
        }
    }
}

impl TableFile {
    /// Parses the text of a table file.
    ///
    /// # Errors
    /// [`Error::Table`] with all errors in the text.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let (file, diagnostics) = read(text, name);
        if has_errors(&diagnostics) {
            return Err(Error::Table {
                file: name.to_owned(),
                source_text: text.to_owned(),
                diagnostics,
            });
        }
        Ok(Self {
            warnings: diagnostics,
            ..file
        })
    }

    /// A table by its name.
    pub fn table(&self, name: &str) -> Option<&TableSpec> {
        self.tables.iter().find(|table| table.name.node == name)
    }

    /// Names of the tables, in source order.
    pub fn table_names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|table| table.name.node.as_str())
    }

    /// Chooses the table that is active at the start, by making it the first.
    ///
    /// # Errors
    /// When there is no such table.
    pub fn start_with(&mut self, name: &str) -> Result<()> {
        let place = self.table_names().position(|known| known == name);
        let place = place.ok_or_else(|| self.no_table(name))?;
        let table = self.tables.remove(place);
        self.tables.insert(0, table);
        Ok(())
    }

    /// Sets the value that a parameter has at the start.
    ///
    /// # Errors
    /// When there is no such parameter, or the text is no value of its type.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let known: Vec<String> = self.parameters.iter().map(|p| p.name.clone()).collect();
        let found = self.parameters.iter_mut().find(|p| p.name == name);
        let parameter = found.ok_or_else(|| Error::NoSuchParameter {
            wanted: name.to_owned(),
            place: self.name.clone(),
            known,
        })?;
        parameter.value = parameter.parse(value).map_err(|diagnostics| Error::Program {
            source_text: value.to_owned(),
            diagnostics,
        })?;
        Ok(())
    }

    /// The error for a table that the file does not have.
    pub fn no_table(&self, name: &str) -> Error {
        Error::NoSuchTable {
            wanted: name.to_owned(),
            place: self.name.clone(),
            known: self.table_names().map(str::to_owned).collect(),
        }
    }

    /// A table and those that it extends, directly or not; the one without a parent first.
    pub fn lineage(&self, name: &str) -> Vec<&TableSpec> {
        let mut chain = Vec::new();
        let mut next = self.table(name);
        while let Some(table) = next.filter(|_| chain.len() < self.tables.len()) {
            chain.push(table);
            next = table.parent.as_deref().and_then(|parent| self.table(parent));
        }
        chain.reverse();
        chain
    }
}
