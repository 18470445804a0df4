//! From bpftrace-language text to BPF and record layouts: pure, so that every program can be made and run without a kernel.
//!
//! ```text
//!   text ──lang──► syntax tree ──check──► checked tree ──codegen::lower──► intermediate code
//!                  (diagnostics)  (Context)               (Sink)                │ pass
//!                          Program ◄──────── codegen: registers, frame, instructions
//! ```
#![forbid(unsafe_code)]

pub mod builtin;
pub mod check;
pub mod codegen;
pub mod context;
pub mod definition;
pub mod error;
pub mod failures;
pub mod ir;
pub mod lang;
pub mod map;
pub mod packets;
pub mod pass;
pub mod program;
pub mod sink;
pub mod unwind;

pub use error::Error;
pub use program::Program;

use check::tree::CheckedProbe;
use context::Context;
use sink::Sink;

/// Compiles a checked probe for one event.
///
/// # Errors
/// When the sink cannot keep its records, or the program does not fit what BPF allows.
pub fn compile(checked: &CheckedProbe, context: &Context, sink: &dyn Sink) -> Result<Program, Error> {
    compile_hook(&[checked], context, sink)
}

/// Compiles the handlers that one event may meet into one program; which of them runs, the sink decides ([`Sink::choose`]). Their records are
/// numbered one after the other.
///
/// # Errors
/// As [`compile`].
pub fn compile_hook(
    handlers: &[&CheckedProbe],
    context: &Context,
    sink: &dyn Sink,
) -> Result<Program, Error> {
    let lowered = codegen::lower::lower(handlers, context, sink)?;
    let generated = codegen::generate_all(&lowered.function, &lowered.callbacks)?;
    Ok(Program {
        name: context.name.clone(),
        kind: context.program,
        code: generated.code,
        maps: generated.maps,
        layouts: lowered.layouts,
        uses: program::Uses::of(std::iter::once(&generated.function).chain(&generated.others)),
        function: generated.function,
    })
}
