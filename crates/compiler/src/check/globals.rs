//! What the probes of one text share: the names of tables and buffers, parameters, maps; no probes, no code.

pub use super::parameter::parameters;

use super::tree::Type;

/// What the probes of one table file or script share. Checking a probe may add to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Globals {
    /// Names that `use_table` may say.
    pub tables: Vec<String>,
    /// Names that `to`, `use_buffer`, `freeze`, `thaw` and `reset` may say; the first is the default buffer.
    pub buffers: Vec<String>,
    /// `param NAME = VALUE`, in source order.
    pub parameters: Vec<Parameter>,
    /// Whether an agent may be addressed (`notify`, `exec`): the program belongs to a session that stays.
    pub messages: bool,
}

/// A value that is changed while the programs run.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// A scalar.
    pub ty: Type,
    /// The value it starts with.
    pub value: u64,
}

impl Globals {
    /// A parameter by its name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|p| p.name == name)
    }
}
