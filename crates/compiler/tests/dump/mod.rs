//! Trees as short text, for golden files: the syntax tree here, the checked tree in `checked`.

pub(crate) mod checked;
pub(crate) mod syntax;
