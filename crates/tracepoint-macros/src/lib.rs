//! The macro of kestrel-tracepoint: definitions of events to the types and functions that emit them.
#![forbid(unsafe_code)]

mod expand;
mod parse;
mod print;

/// Defines events.
///
/// ```text
/// events! {
///     group GROUP;
///
///     event NAME(ARGUMENT: TYPE, …) { FIELD: FIELD TYPE [as C TYPE] = EXPRESSION, … } [if CONDITION] print "FORMAT";
///
///     class CLASS(ARGUMENT: TYPE, …) { … } print "FORMAT";
///     event NAME: CLASS [if CONDITION] [print "FORMAT"];
/// }
/// ```
///
/// Each event is a type `NAME` with `enabled()`, `register(callback, priority)`, `register_with(data, callback, priority)`, `event()`, and a function
/// `trace_NAME(ARGUMENTS)`. A macro `trace_NAME!(ARGUMENTS)`, for the crate that defines the event, does not evaluate its arguments while nobody listens; a function's are
/// evaluated by its caller.
///
/// Types of arguments are those of a function without lifetimes' names; they are `Copy`, since every callback is given them. Types of fields: integers, `bool`, `f32`, `f64`, arrays of
/// integers, `str`, `bytes`, `char[N]`. Expressions see the arguments and are evaluated for records only, not for callbacks that take the arguments. The print format has fields in braces, `{id}`, `{flags:#x}`, `{code:04x}`.
#[proc_macro]
pub fn events(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    match syn::parse::<parse::Definitions>(input).and_then(|definitions| expand::expand(&definitions)) {
        Ok(tokens) => tokens.into(),
        Err(error) => error.to_compile_error().into(),
    }
}
