//! Definitions of events as syntax.

use proc_macro2::Ident;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, Expr, LitInt, LitStr, Result, Token, Type, Visibility, braced, bracketed, parenthesized,
};

mod word {
    syn::custom_keyword!(group);
    syn::custom_keyword!(class);
    syn::custom_keyword!(event);
    syn::custom_keyword!(print);
    syn::custom_keyword!(bytes);
    syn::custom_keyword!(char);
}

/// Definitions of one macro call.
pub(crate) struct Definitions {
    pub(crate) group: Ident,
    pub(crate) classes: Vec<(Ident, Class)>,
    pub(crate) events: Vec<Event>,
}

/// Event class: what events share: prototype, fields, print format.
pub(crate) struct Class {
    pub(crate) arguments: Vec<Argument>,
    pub(crate) fields: Vec<Field>,
    pub(crate) print: LitStr,
}

/// A defined event.
pub(crate) struct Event {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
    pub(crate) body: Body,
    pub(crate) condition: Option<Expr>,
}

/// Place of an event's prototype and fields.
pub(crate) enum Body {
    Own(Box<Class>),
    OfClass { class: Ident, print: Option<LitStr> },
}

/// An argument of the prototype.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
}

/// A field of an event's definition.
pub(crate) struct Field {
    pub(crate) name: Ident,
    pub(crate) ty: FieldType,
    pub(crate) c_type: Option<Ident>,
    pub(crate) value: Expr,
}

/// The type of a field.
pub(crate) enum FieldType {
    Str,
    Bytes,
    CharArray(LitInt),
    Rust(Box<Type>),
}

/// A name of a group, an event or a field, as tools that read C know names.
fn name(input: ParseStream<'_>) -> Result<Ident> {
    let name: Ident = input.parse()?;
    match name.to_string().is_ascii() {
        true => Ok(name),
        false => Err(Error::new(
            name.span(),
            format!("{name}: tracers know names of ASCII's letters alone"),
        )),
    }
}

/// A name as it is shown: `type`, which Rust writes `r#type`.
pub(crate) fn text(name: &Ident) -> String {
    name.unraw().to_string()
}

impl Parse for Definitions {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        input.parse::<word::group>()?;
        let group = name(input)?;
        input.parse::<Token![;]>()?;
        let (mut classes, mut events) = (Vec::new(), Vec::new());
        while !input.is_empty() {
            let attributes = input.call(Attribute::parse_outer)?;
            let visibility = input.parse()?;
            if input.peek(word::class) {
                input.parse::<word::class>()?;
                let name = input.parse()?;
                let (arguments, fields) = prototype(input)?;
                let print = print(input)?
                    .ok_or_else(|| input.error("a class needs its print format: print \"…\""))?;
                classes.push((
                    name,
                    Class {
                        arguments,
                        fields,
                        print,
                    },
                ));
            } else {
                events.push(event(input, attributes, visibility)?);
            }
            input.parse::<Token![;]>()?;
        }
        Ok(Self {
            group,
            classes,
            events,
        })
    }
}

fn event(input: ParseStream<'_>, attributes: Vec<Attribute>, visibility: Visibility) -> Result<Event> {
    input.parse::<word::event>()?;
    let name = name(input)?;
    if input.peek(Token![<]) {
        return Err(
            input.error("an event has no generic parameters: one field has one type in all of its records")
        );
    }
    let class = match input.parse::<Option<Token![:]>>()? {
        Some(_) => Some(input.parse::<Ident>()?),
        None => None,
    };
    let own = match class {
        Some(_) => None,
        None => Some(prototype(input)?),
    };
    let condition = match input.parse::<Option<Token![if]>>()? {
        Some(_) => Some(input.parse()?),
        None => None,
    };
    let print = print(input)?;
    // It would be called an unexpected token, though only its place is wrong.
    if input.peek(Token![if]) {
        return Err(input.error("a condition stands before the print format: if … print \"…\""));
    }
    let body = match (own, class) {
        (Some((arguments, fields)), _) => Body::Own(Box::new(Class {
            arguments,
            fields,
            print: print.ok_or_else(|| input.error("an event needs its print format: print \"…\""))?,
        })),
        (None, Some(class)) => Body::OfClass { class, print },
        (None, None) => return Err(input.error("an event has arguments or a class")),
    };
    Ok(Event {
        attributes,
        visibility,
        name,
        body,
        condition,
    })
}

fn print(input: ParseStream<'_>) -> Result<Option<LitStr>> {
    if !input.peek(word::print) {
        return Ok(None);
    }
    input.parse::<word::print>()?;
    input.parse().map(Some)
}

fn prototype(input: ParseStream<'_>) -> Result<(Vec<Argument>, Vec<Field>)> {
    let arguments;
    parenthesized!(arguments in input);
    let arguments = Punctuated::<Argument, Token![,]>::parse_terminated(&arguments)?;
    let fields;
    braced!(fields in input);
    let fields = Punctuated::<Field, Token![,]>::parse_terminated(&fields)?;
    Ok((arguments.into_iter().collect(), fields.into_iter().collect()))
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        let ty = input.parse()?;
        let referenced = match &ty {
            Type::Reference(reference) => &*reference.elem,
            other => other,
        };
        if matches!(referenced, Type::ImplTrait(_)) {
            let why = "an argument has one type, that callbacks can name: a reference to dyn, if it is one of several";
            return Err(Error::new_spanned(ty, why));
        }
        Ok(Self { name, ty })
    }
}

impl Parse for Field {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = name(input)?;
        input.parse::<Token![:]>()?;
        let ty = input.parse()?;
        let c_type = match input.parse::<Option<Token![as]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        Ok(Self {
            name,
            ty,
            c_type,
            value,
        })
    }
}

impl Parse for FieldType {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(word::bytes) {
            input.parse::<word::bytes>()?;
            return Ok(Self::Bytes);
        }
        if input.peek(word::char) && input.peek2(syn::token::Bracket) {
            input.parse::<word::char>()?;
            let size;
            bracketed!(size in input);
            let size: LitInt = size.parse()?;
            if size.base10_parse::<u16>()? == 0 {
                return Err(Error::new(
                    size.span(),
                    "a text has a NUL at its end: char[1] at least",
                ));
            }
            return Ok(Self::CharArray(size));
        }
        let ty: Type = input.parse()?;
        match &ty {
            Type::Path(path) if path.path.is_ident("str") => Ok(Self::Str),
            _ => Ok(Self::Rust(Box::new(ty))),
        }
    }
}
