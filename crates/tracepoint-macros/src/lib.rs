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
/// `trace_NAME(ARGUMENTS)`. A macro `trace_NAME!(ARGUMENTS)`, for the crate that defines the event, where `NAME` is in scope, does not evaluate its arguments while there is no listener; a function's are
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

#[cfg(test)]
mod tests {
    use super::{expand, parse};

    /// Message about a wrong definition.
    fn printed(definition: &str) -> String {
        let expanded = syn::parse_str(definition)
            .and_then(|definitions: parse::Definitions| expand::expand(&definitions));
        match expanded {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn wrong_definitions_are_explained() {
        for (definition, expected) in [
            ("event a() {} print \"\";", "expected `group`"),
            ("group g", "expected `;`"),
            ("group g; evnt a() {} print \"\";", "expected `event`"),
            ("group g; event a() {};", "an event needs its print format"),
            ("group g; class a() {};", "a class needs its print format"),
            (
                "group g; event a() {} print \"\" if true;",
                "a condition stands before the print format",
            ),
            ("group größe; event a() {} print \"\";", "ASCII's letters"),
            ("group g; event größe() {} print \"\";", "ASCII's letters"),
            (
                "group g; event a() { größe: u8 = 1 } print \"\";",
                "ASCII's letters",
            ),
            ("group g; event a: b;", "there is no class b in this macro"),
            (
                "group g; event a<T>(t: T) {} print \"\";",
                "an event has no generic parameters",
            ),
            (
                "group g; event a(t: &impl Copy) {} print \"\";",
                "an argument has one type",
            ),
            ("group g; event a() {} print \"\"", "expected `;`"),
            (
                "group g; event a() {} print \"\"; event a() {} print \"\";",
                "a is defined twice",
            ),
            (
                "group g; event a() { x: u8 = 1, x: u8 = 2 } print \"\";",
                "x is defined twice",
            ),
            (
                "group g; class a() {} print \"\"; class a() {} print \"\";",
                "a is defined twice",
            ),
            ("group g; event a() { x: u8 } print \"\";", "expected `=`"),
            (
                "group g; event a() { x: char[70000] = \"\" } print \"\";",
                "number too large",
            ),
            (
                "group g; event a() { x: char[0] = \"\" } print \"\";",
                "char[1] at least",
            ),
            (
                "group g; event a() { x: u8 = 1, y: u8 = 2 } print \"{z}\";",
                "{z} is no field; there are x, y",
            ),
            (
                "group g; event a() {} print \"{z}\";",
                "{z} is no field; there are none",
            ),
            ("group g; event a() { x: u8 = 1 } print \"{x:?}\";", "a style is"),
            (
                "group g; event a() { x: u8 = 1 } print \"{x\";",
                "{ without its }",
            ),
            ("group g; event a() { x: u8 = 1 } print \"x}\";", "a lone }"),
        ] {
            let printed = printed(definition);
            assert!(printed.contains(expected), "{definition}: {printed}");
        }
    }

    #[test]
    fn words_of_rust_are_names_without_their_mark() {
        let definition = "group r#type; event r#match(r#in: u8) { r#fn: u8 = r#in } print \"{fn}\";";
        assert_eq!(printed(definition), "");
    }
}
