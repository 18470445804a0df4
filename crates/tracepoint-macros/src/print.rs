//! Print formats, checked where they are written.

use crate::parse::{Class, text};
use syn::{Error, LitStr, Result};

/// Fails where the format names no field or has a style that there is not.
pub(crate) fn check(format: &LitStr, class: &Class) -> Result<()> {
    let value = format.value();
    let fail = |why: String| Err(Error::new(format.span(), why));
    let mut rest = value.as_str();
    while let Some(at) = rest.find(['{', '}']) {
        let (_, from) = rest.split_at(at);
        if from.starts_with("{{") || from.starts_with("}}") {
            rest = &from[2..];
            continue;
        }
        if from.starts_with('}') {
            return fail("a lone }: }} prints one".to_owned());
        }
        let Some((inner, behind)) = from[1..].split_once('}') else {
            return fail("{ without its }: {{ prints one".to_owned());
        };
        let (name, style) = inner.split_once(':').unwrap_or((inner, ""));
        if !class.fields.iter().any(|field| text(&field.name) == name) {
            let known: Vec<String> = class.fields.iter().map(|field| text(&field.name)).collect();
            let known = match known.is_empty() {
                true => "there are none".to_owned(),
                false => format!("there are {}", known.join(", ")),
            };
            return fail(format!("{{{name}}} is no field; {known}"));
        }
        let digits = style.trim_start_matches('#');
        let digits = digits.strip_suffix('x').unwrap_or(digits);
        let is_style = digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= 3;
        if !is_style || style.starts_with("##") {
            return fail(format!(
                "{{{name}:{style}}}: a style is [#][0][WIDTH][x], such as #x or 08x"
            ));
        }
        rest = behind;
    }
    Ok(())
}
