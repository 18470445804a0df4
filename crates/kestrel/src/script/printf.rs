//! A format with values in it.

use super::perform::number;
use kestrel_trace::print;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value::Value;

/// The text.
pub(super) fn text(format: &str, values: &[Value<'_>], symbols: &Symbols) -> String {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut conversion = None;
        for c in rest.by_ref() {
            if c.is_ascii_alphabetic() && !"lhz".contains(c) || c == '%' {
                conversion = Some(c);
                break;
            }
        }
        let shown = match conversion {
            Some('%') => "%".to_owned(),
            Some(conversion) => values.next().map_or(String::new(), |value| match conversion {
                'd' | 'i' | 'u' => number(value).to_string(),
                'x' => format!("{:x}", number(value)),
                _ => {
                    let mut bytes = Vec::new();
                    print::value(*value, symbols, &mut bytes);
                    String::from_utf8_lossy(&bytes).into_owned()
                }
            }),
            None => String::new(),
        };
        out.push_str(&shown);
    }
    out
}
