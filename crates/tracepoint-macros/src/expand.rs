//! Definitions as Rust.

use crate::parse::{Argument, Body, Class, Definitions, Event, Field, FieldType, text};
use crate::print;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::{Error, LitStr, Result};

/// Code whose variables are no others' of the same name: arguments and fields may be called as these are.
macro_rules! code {
    // An error in it is shown where the definition has this.
    (at $place:expr; $($token:tt)*) => { quote_spanned!(Span::mixed_site().located_at($place.span())=> $($token)*) };
    ($($token:tt)*) => { quote_spanned!(Span::mixed_site()=> $($token)*) };
}

/// The items of all events.
pub(crate) fn expand(definitions: &Definitions) -> Result<TokenStream> {
    unique(definitions.events.iter().map(|event| &event.name))?;
    unique(definitions.classes.iter().map(|(name, _)| name))?;
    for (_, class) in &definitions.classes {
        check(class, &class.print)?;
    }
    let each = definitions.events.iter().map(|event| item(definitions, event));
    each.collect()
}

/// Fails where two names are one.
fn unique<'n>(names: impl Iterator<Item = &'n Ident>) -> Result<()> {
    let mut before = HashSet::new();
    for name in names {
        if !before.insert(text(name)) {
            return Err(Error::new(
                name.span(),
                format!("{} is defined twice", text(name)),
            ));
        }
    }
    Ok(())
}

fn check(class: &Class, format: &LitStr) -> Result<()> {
    unique(class.fields.iter().map(|field| &field.name))?;
    print::check(format, class)
}

fn item(definitions: &Definitions, event: &Event) -> Result<TokenStream> {
    let (class, format) = match &event.body {
        Body::Own(class) => (class.as_ref(), &class.print),
        Body::OfClass { class: name, print } => {
            let found = definitions.classes.iter().find(|(other, _)| other == name);
            let Some((_, class)) = found else {
                return Err(Error::new(
                    name.span(),
                    format!("there is no class {name} in this macro"),
                ));
            };
            (class, print.as_ref().unwrap_or(&class.print))
        }
    };
    check(class, format)?;
    Ok(tokens(&definitions.group, event, class, format))
}

fn tokens(group: &Ident, event: &Event, class: &Class, format: &LitStr) -> TokenStream {
    let Event {
        attributes,
        visibility,
        name,
        condition,
        ..
    } = event;
    let trace = format_ident!("trace_{}", text(name), span = name.span());
    let inner = format_ident!("__kestrel_trace_{}", text(name));
    let names: Vec<&Ident> = class.arguments.iter().map(|argument| &argument.name).collect();
    let types: Vec<_> = class.arguments.iter().map(|argument| &argument.ty).collect();
    let callback = code!(dyn Fn(#(#types),*) + Send + Sync);
    let fields = class.fields.iter().map(described);
    let count = class.fields.len();
    // Hygienic, so that no argument of the program's has the same name; yet a wrong type is reported at the value.
    let place = |(at, field): (usize, &Field)| {
        format_ident!(
            "__field_{at}",
            span = Span::mixed_site().located_at(field.value.span())
        )
    };
    let places: Vec<Ident> = class.fields.iter().enumerate().map(place).collect();
    let assigned = class.fields.iter().zip(&places).map(assigned);
    let values = class.fields.iter().zip(&places).map(value);
    let again = class.fields.iter().zip(&places).map(self::assigned);
    let variable = class.fields.iter().zip(&places).filter_map(variable);
    let tails = class.fields.iter().zip(&places).filter_map(tail);
    let arguments = class.arguments.iter().map(is_argument);
    let kept = class.fields.iter().zip(&places).enumerate().map(kept);
    let unless = condition.iter();
    let (group_text, name_text) = (text(group), text(name));
    let about = format!("Emits the event {group_text}:{name_text}, if anybody listens.");
    let lazily = format!(
        "As the function of this name; the arguments are evaluated if anybody listens to {group_text}:{name_text}."
    );
    code! {
        #(#attributes)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #visibility enum #name {}

        const _: () = {
            #[allow(dead_code, reason = "checked as it is compiled")]
            fn __arguments() { #(#arguments)* }

            static __CALLBACKS: ::kestrel_tracepoint::Callbacks<#callback> = ::kestrel_tracepoint::Callbacks::new();
            const __FIELDS: &[::kestrel_tracepoint::Field] = &[#(#fields),*];
            static __EVENT: ::kestrel_tracepoint::Event =
                ::kestrel_tracepoint::Event::new((#group_text, #name_text), __FIELDS, #format, &__CALLBACKS, ::kestrel_tracepoint::hit::<#name>);

            impl ::kestrel_tracepoint::Definition for #name {
                const NAMES: (&'static str, &'static str) = (#group_text, #name_text);
                const FIELDS: &'static [::kestrel_tracepoint::Field] = __FIELDS;
                const PRINT: &'static str = #format;
            }

            impl ::kestrel_tracepoint::Tracepoint for #name {
                fn event() -> &'static ::kestrel_tracepoint::Event {
                    &__EVENT
                }
            }

            #[allow(dead_code, clippy::too_many_arguments, reason = "a program uses what it needs")]
            impl #name {
                /// The event that the function emits.
                #visibility fn event() -> &'static ::kestrel_tracepoint::Event {
                    &__EVENT
                }

                /// Whether anybody listens.
                #[inline(always)]
                #visibility fn enabled() -> bool {
                    ::kestrel_tracepoint::is_on::<Self>()
                }

                /// Registers a callback that takes the event's arguments. Higher priorities are called first, equal ones in the order of their registration.
                ///
                /// # Panics
                /// When the code of the places that emit the event cannot be changed; see `try_register`.
                #visibility fn register(
                    callback: impl Fn(#(#types),*) + Send + Sync + 'static,
                    priority: i32,
                ) -> ::kestrel_tracepoint::Registration {
                    match Self::try_register(callback, priority) {
                        ::core::result::Result::Ok(registration) => registration,
                        ::core::result::Result::Err(error) => ::core::panic!("cannot listen to {}: {error}", __EVENT),
                    }
                }

                /// As `register`, with data that each call is given.
                ///
                /// # Panics
                /// As `register`.
                #visibility fn register_with<D: Send + Sync + 'static>(
                    data: D,
                    callback: impl Fn(&D, #(#types),*) + Send + Sync + 'static,
                    priority: i32,
                ) -> ::kestrel_tracepoint::Registration {
                    Self::register(move |#(#names),*| callback(&data, #(#names),*), priority)
                }

                /// As `register`.
                ///
                /// # Errors
                /// When the code of the places that emit the event cannot be changed.
                #visibility fn try_register(
                    callback: impl Fn(#(#types),*) + Send + Sync + 'static,
                    priority: i32,
                ) -> ::kestrel_tracepoint::Result<::kestrel_tracepoint::Registration> {
                    __CALLBACKS.register(&__EVENT, ::kestrel_tracepoint::Arc::new(callback), priority)
                }

                /// Calls the event's callbacks and hits its USDT probe.
                #[cold]
                #[inline(never)]
                #[doc(hidden)]
                #visibility fn deliver(#(#names: #types),*) {
                    #(if !(#unless) { return; })*
                    __CALLBACKS.deliver(
                        &__EVENT,
                        |callback| callback(#(#names),*),
                        |record| {
                            #(#assigned)*
                            record(&[#(#values),*]);
                        },
                        || ::kestrel_tracepoint::recorded! {{
                            const __PLACES: ::kestrel_tracepoint::Places<#count> = ::kestrel_tracepoint::Places::of(__FIELDS);
                            #(#again)*
                            #(#variable)*
                            let size = __PLACES.size(0 #(+ #tails.len() as u32)*);
                            ::kestrel_tracepoint::keep(&__EVENT, (size, __PLACES.end), |slot| { #(#kept)* });
                        }},
                    );
                }
            }
        };

        #[doc = #about]
        #[inline(always)]
        #[allow(dead_code, clippy::too_many_arguments, reason = "a program uses what it needs")]
        #visibility fn #trace(#(#names: #types),*) {
            if #name::enabled() {
                #name::deliver(#(#names),*);
            }
        }

        #[doc = #lazily]
        #[allow(unused_macros, reason = "a program uses what it needs")]
        macro_rules! #inner {
            ($($argument:expr),* $(,)?) => {
                if #name::enabled() {
                    #name::deliver($($argument),*);
                }
            };
        }
        #[allow(unused_imports, reason = "a program uses what it needs")]
        pub(crate) use #inner as #trace;
    }
}

/// The field's description.
fn described(field: &Field) -> TokenStream {
    let name = text(&field.name);
    let (kind, c_type) = match &field.ty {
        FieldType::Str => (code!(::kestrel_tracepoint::FieldKind::String), code!("char")),
        FieldType::Bytes => (
            code!(::kestrel_tracepoint::FieldKind::Bytes),
            code!("unsigned char"),
        ),
        FieldType::CharArray(size) => (
            code!(::kestrel_tracepoint::FieldKind::Text { size: #size }),
            code!("char"),
        ),
        FieldType::Rust(ty) => (
            code!(<#ty as ::kestrel_tracepoint::FieldType>::KIND),
            code!(<#ty as ::kestrel_tracepoint::FieldType>::C_TYPE),
        ),
    };
    let c_type = match &field.c_type {
        Some(name) => {
            let name = text(name);
            code!(#name)
        }
        None => c_type,
    };
    code!(::kestrel_tracepoint::Field { name: #name, kind: #kind, c_type: #c_type })
}

/// The field's expression, kept for as long as its value is used.
fn assigned((field, place): (&Field, &Ident)) -> TokenStream {
    let expression = &field.value;
    match &field.ty {
        FieldType::Rust(ty) => code!(let #place: #ty = #expression;),
        _ => code!(let #place = &(#expression);),
    }
}

/// A field's text or bytes (`ty`), of what its expression gives.
fn as_field((field, place): (&Field, &Ident), ty: &TokenStream) -> TokenStream {
    code!(at field.value; ::kestrel_tracepoint::AsField::<#ty>::as_field(#place))
}

/// The elements of a variable field that are recorded.
fn variable((field, place): (&Field, &Ident)) -> Option<TokenStream> {
    let tail = tail((field, place))?;
    Some(match &field.ty {
        FieldType::Str => {
            let text = as_field((field, place), &code!(str));
            code!(let #tail = __PLACES.text(#text);)
        }
        _ => {
            let bytes = as_field((field, place), &code!([u8]));
            code!(let #tail = __PLACES.bytes(#bytes);)
        }
    })
}

/// Name for the elements of a variable field.
fn tail((field, place): (&Field, &Ident)) -> Option<Ident> {
    matches!(field.ty, FieldType::Str | FieldType::Bytes).then(|| format_ident!("{place}_tail"))
}

/// Writes a field into a record.
fn kept((at, (field, place)): (usize, (&Field, &Ident))) -> TokenStream {
    let offset = code!(__PLACES.offsets[#at]);
    match (&field.ty, tail((field, place))) {
        (_, Some(tail)) => code!(slot.tail(#offset, #tail);),
        (FieldType::CharArray(size), _) => {
            let text = as_field((field, place), &code!(str));
            code!(slot.text(#offset, #size, ::kestrel_tracepoint::cut(#text, #size));)
        }
        _ => code!(slot.put(#offset, ::kestrel_tracepoint::FieldType::bytes(&#place));),
    }
}

fn value((field, place): (&Field, &Ident)) -> TokenStream {
    match &field.ty {
        FieldType::Str => {
            let text = as_field((field, place), &code!(str));
            code!(::kestrel_tracepoint::Value::Text(#text))
        }
        FieldType::CharArray(size) => {
            let text = as_field((field, place), &code!(str));
            code!(::kestrel_tracepoint::Value::Text(::kestrel_tracepoint::cut(#text, #size)))
        }
        FieldType::Bytes => {
            let bytes = as_field((field, place), &code!([u8]));
            code!(::kestrel_tracepoint::Value::Bytes(#bytes))
        }
        FieldType::Rust(_) => code!(::kestrel_tracepoint::FieldType::value(&#place)),
    }
}

/// Code that asserts that an argument's type can be passed to several callbacks.
fn is_argument(argument: &Argument) -> TokenStream {
    let ty = &argument.ty;
    code!(at ty; ::kestrel_tracepoint::is_argument::<#ty>();)
}
