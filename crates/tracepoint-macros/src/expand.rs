//! Definitions as Rust.

use crate::parse::{Body, Class, Definitions, Event, Field, FieldType};
use crate::print;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::collections::HashSet;
use syn::{Error, LitStr, Result};

/// The items of all events.
pub(crate) fn expand(definitions: &Definitions) -> Result<TokenStream> {
    let mut names = HashSet::new();
    for event in &definitions.events {
        if !names.insert(event.name.to_string()) {
            return Err(Error::new(
                event.name.span(),
                format!("{} is defined twice", event.name),
            ));
        }
    }
    for (_, class) in &definitions.classes {
        print::check(&class.print, class)?;
    }
    let each = definitions.events.iter().map(|event| item(definitions, event));
    each.collect()
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
    print::check(format, class)?;
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
    let trace = format_ident!("trace_{name}");
    let inner = format_ident!("__kestrel_trace_{name}");
    let names: Vec<&Ident> = class.arguments.iter().map(|argument| &argument.name).collect();
    let types: Vec<_> = class.arguments.iter().map(|argument| &argument.ty).collect();
    let callback = quote!(dyn Fn(#(#types),*) + Send + Sync);
    let fields = class.fields.iter().map(described);
    let count = class.fields.len();
    let places: Vec<Ident> = (0..count).map(|at| format_ident!("__field_{at}")).collect();
    let assigned = class.fields.iter().zip(&places).map(assigned);
    let values = class.fields.iter().zip(&places).map(value);
    let again = class.fields.iter().zip(&places).map(self::assigned);
    let variable = class.fields.iter().zip(&places).filter_map(variable);
    let tails = class.fields.iter().zip(&places).filter_map(tail);
    let kept = class.fields.iter().zip(&places).enumerate().map(kept);
    let unless = condition.iter();
    let (group_text, name_text) = (group.to_string(), name.to_string());
    let about = format!("Emits the event {group}:{name}, if anybody listens.");
    let lazily = format!(
        "As the function of this name; the arguments are evaluated if anybody listens to {group}:{name}."
    );
    quote! {
        #(#attributes)*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug)]
        #visibility enum #name {}

        const _: () = {
            static CALLBACKS: ::kestrel_tracepoint::Callbacks<#callback> = ::kestrel_tracepoint::Callbacks::new();
            const FIELDS: &[::kestrel_tracepoint::Field] = &[#(#fields),*];
            static EVENT: ::kestrel_tracepoint::Event =
                ::kestrel_tracepoint::Event::new((#group_text, #name_text), FIELDS, #format, &CALLBACKS, ::kestrel_tracepoint::hit::<#name>);

            impl ::kestrel_tracepoint::Marked for #name {
                const NAMES: (&'static str, &'static str) = (#group_text, #name_text);
                const FIELDS: &'static [::kestrel_tracepoint::Field] = FIELDS;
                const PRINT: &'static str = #format;
            }

            impl ::kestrel_tracepoint::Tracepoint for #name {
                fn event() -> &'static ::kestrel_tracepoint::Event {
                    &EVENT
                }
            }

            #[allow(dead_code, clippy::too_many_arguments, reason = "a program uses what it needs")]
            impl #name {
                /// The event.
                #visibility fn event() -> &'static ::kestrel_tracepoint::Event {
                    &EVENT
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
                        Ok(registration) => registration,
                        Err(error) => ::core::panic!("cannot listen to {}: {error}", EVENT),
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
                    CALLBACKS.register(&EVENT, ::kestrel_tracepoint::Arc::new(callback), priority)
                }

                /// Calls the event's callbacks and hits its mark.
                #[cold]
                #[inline(never)]
                #[doc(hidden)]
                #visibility fn deliver(#(#names: #types),*) {
                    #(if !(#unless) { return; })*
                    CALLBACKS.deliver(
                        &EVENT,
                        |callback| callback(#(#names),*),
                        |record| {
                            #(#assigned)*
                            record(&[#(#values),*]);
                        },
                        || ::kestrel_tracepoint::recorded! {{
                            const PLACES: ::kestrel_tracepoint::Places<#count> = ::kestrel_tracepoint::Places::of(FIELDS);
                            #(#again)*
                            #(#variable)*
                            let size = PLACES.size(0 #(+ #tails.len() as u32)*);
                            ::kestrel_tracepoint::keep(&EVENT, (size, PLACES.end), |slot| { #(#kept)* });
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
    let name = field.name.to_string();
    let (kind, c_type) = match &field.ty {
        FieldType::Str => (quote!(::kestrel_tracepoint::Kind::String), quote!("char")),
        FieldType::Bytes => (quote!(::kestrel_tracepoint::Kind::Bytes), quote!("unsigned char")),
        FieldType::Text(size) => (
            quote!(::kestrel_tracepoint::Kind::Text { size: #size }),
            quote!("char"),
        ),
        FieldType::Rust(ty) => (
            quote!(<#ty as ::kestrel_tracepoint::FieldType>::KIND),
            quote!(<#ty as ::kestrel_tracepoint::FieldType>::C_TYPE),
        ),
    };
    let c_type = match &field.c_type {
        Some(name) => {
            let name = name.to_string();
            quote!(#name)
        }
        None => c_type,
    };
    quote!(::kestrel_tracepoint::Field { name: #name, kind: #kind, c_type: #c_type })
}

/// The field's expression, kept for as long as its value is used.
fn assigned((field, place): (&Field, &Ident)) -> TokenStream {
    let expression = &field.value;
    match &field.ty {
        FieldType::Rust(ty) => quote!(let #place: #ty = #expression;),
        _ => quote!(let #place = &(#expression);),
    }
}

/// The elements of a variable field that are recorded.
fn variable((field, place): (&Field, &Ident)) -> Option<TokenStream> {
    let tail = tail((field, place))?;
    match &field.ty {
        FieldType::Str => {
            Some(quote!(let #tail = PLACES.text(::kestrel_tracepoint::AsField::<str>::as_field(#place));))
        }
        _ => Some(quote!(let #tail = PLACES.bytes(::kestrel_tracepoint::AsField::<[u8]>::as_field(#place));)),
    }
}

/// Name for the elements of a variable field.
fn tail((field, place): (&Field, &Ident)) -> Option<Ident> {
    matches!(field.ty, FieldType::Str | FieldType::Bytes).then(|| format_ident!("{place}_tail"))
}

/// Writes a field into a record.
fn kept((at, (field, place)): (usize, (&Field, &Ident))) -> TokenStream {
    let offset = quote!(PLACES.offsets[#at]);
    match (&field.ty, tail((field, place))) {
        (_, Some(tail)) => quote!(slot.tail(#offset, #tail);),
        (FieldType::Text(size), _) => {
            let text = quote!(::kestrel_tracepoint::AsField::<str>::as_field(#place));
            quote!(slot.text(#offset, #size, ::kestrel_tracepoint::cut(#text, #size));)
        }
        _ => quote!(slot.put(#offset, ::kestrel_tracepoint::FieldType::bytes(&#place));),
    }
}

fn value((field, place): (&Field, &Ident)) -> TokenStream {
    let text = quote!(::kestrel_tracepoint::AsField::<str>::as_field(#place));
    match &field.ty {
        FieldType::Str => quote!(::kestrel_tracepoint::Value::Text(#text)),
        FieldType::Text(size) => {
            quote!(::kestrel_tracepoint::Value::Text(::kestrel_tracepoint::cut(#text, #size)))
        }
        FieldType::Bytes => {
            quote!(::kestrel_tracepoint::Value::Bytes(::kestrel_tracepoint::AsField::<[u8]>::as_field(#place)))
        }
        FieldType::Rust(_) => quote!(::kestrel_tracepoint::FieldType::value(&#place)),
    }
}
