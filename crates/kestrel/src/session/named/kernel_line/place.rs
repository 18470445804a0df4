//! The place of a probe in a line of `kprobe_events`: `[MODULE:]SYMBOL[+OFFSET]`, `SYMBOL%return`, or an address.

use super::number;
use super::word::{Parsed, Wrong};

/// A place as a line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePlace<'l> {
    /// The module before the symbol.
    pub module: Option<&'l str>,
    /// The symbol; empty where there is an address.
    pub symbol: &'l str,
    /// Bytes from the symbol.
    pub offset: u64,
    /// The address, where the line has one.
    pub address: Option<u64>,
}

/// Reads a place, and whether `%return` follows it.
pub(super) fn read(text: &str, at: usize) -> Parsed<(LinePlace<'_>, bool)> {
    // The kernel tries a number first, and only then a symbol.
    if let Some(address) = number::unsigned(text) {
        let place = LinePlace {
            module: None,
            symbol: "",
            offset: 0,
            address: Some(address),
        };
        return Ok((place, false));
    }
    let (symbol, returns) = match text.find('%') {
        Some(suffix) if &text[suffix..] == "%return" => (&text[..suffix], true),
        Some(suffix) => {
            let why = format!("`{}` is no suffix of a place: only %return is", &text[suffix..]);
            return Err(Wrong::at(at + suffix, why));
        }
        None => (text, false),
    };
    let (symbol, offset) = match symbol.find(['+', '-']) {
        Some(sign) => {
            let offset = number::signed(&symbol[sign..]).and_then(|offset| u32::try_from(offset).ok());
            let offset = offset.ok_or_else(|| {
                let why = format!("`{}` is not an offset in bytes", &symbol[sign..]);
                Wrong::at(at + sign, why)
            })?;
            (&symbol[..sign], u64::from(offset))
        }
        None => (symbol, 0),
    };
    let (module, symbol) = match symbol.split_once(':') {
        Some((module, symbol)) => (Some(module), symbol),
        None => (None, symbol),
    };
    let fits = |name: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        !name.is_empty() && name.chars().all(letter)
    };
    if !fits(symbol) || module.is_some_and(|module| !fits(module)) {
        let why = format!("`{text}` is not [MODULE:]SYMBOL[+OFFSET], SYMBOL%return or an address");
        return Err(Wrong::at(at, why));
    }
    let place = LinePlace {
        module,
        symbol,
        offset,
        address: None,
    };
    Ok((place, returns))
}

impl LinePlace<'_> {
    /// The place as the event language has it.
    pub(super) fn text(&self) -> String {
        if let Some(address) = self.address {
            return format!("{address:#x}");
        }
        let offset = match self.offset {
            0 => String::new(),
            offset => format!("+{offset:#x}"),
        };
        format!("{}{offset}", self.name())
    }

    /// The symbol with its module.
    pub(super) fn name(&self) -> String {
        let module = self.module.map(|module| format!("{module}:"));
        format!("{}{}", module.unwrap_or_default(), self.symbol)
    }
}
