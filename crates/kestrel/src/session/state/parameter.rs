//! Parameters, as the state spells them.

use kestrel_compiler::check::globals::Parameter;
use kestrel_compiler::check::tree::{Show, Type};
use kestrel_trace::layout::Base;
use serde::{Deserialize, Serialize};

/// A parameter: its value stands in the control page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterState {
    /// The parameter's name.
    pub name: String,
    /// The value that it started with.
    pub start: u64,
    /// The type: bytes, or 0 for a bool.
    pub size: u8,
    /// Whether it may be negative.
    pub signed: bool,
}

impl ParameterState {
    /// A value of it, as people read it.
    pub fn show(&self, value: u64) -> String {
        match (self.size, self.signed) {
            (0, _) => (value != 0).to_string(),
            (_, true) => value.cast_signed().to_string(),
            (_, false) => value.to_string(),
        }
    }

    /// The parameter as the compiler has it.
    pub fn parameter(&self) -> Parameter {
        let ty = match self.size {
            0 => Type::Bool,
            size => Type::Integer {
                size,
                signed: self.signed,
                show: Show::Number(Base::Decimal),
            },
        };
        Parameter {
            name: self.name.clone(),
            ty,
            value: self.start,
        }
    }
}
