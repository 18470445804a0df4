//! Places as people write them: `vfs_read`, `vfs_read+0x12`, `ext4:ext4_sync_fs`, `0xffffffff81234560`.

use super::Code;
use super::function::{Function, Instruction};
use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A place in the kernel's code as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocationSpec {
    /// An address, which is exact whatever names there are.
    Address(u64),
    /// A symbol of the kernel or of a module, and perhaps an offset.
    Symbol {
        /// The module; `vmlinux` for the kernel itself.
        module: Option<String>,
        /// Name of the function or symbol.
        symbol: String,
        /// Bytes from its beginning.
        offset: Option<u64>,
    },
}

impl fmt::Display for LocationSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address:#x}"),
            Self::Symbol {
                module,
                symbol,
                offset,
            } => {
                if let Some(module) = module {
                    write!(f, "{module}:")?;
                }
                f.write_str(symbol)?;
                offset.map_or(Ok(()), |offset| write!(f, "+{offset:#x}"))
            }
        }
    }
}

/// `0x12` or `18`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl FromStr for LocationSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::WrongShape {
            wanted: text.to_owned(),
            shape: "FUNCTION, FUNCTION+OFFSET, MODULE:FUNCTION or 0xADDRESS".to_owned(),
        };
        let (module, rest) = match text.split_once(':') {
            Some((module, rest)) => (Some(module), rest),
            None => (None, text),
        };
        let (symbol, offset) = match rest.split_once('+') {
            Some((symbol, offset)) => (symbol, Some(number(offset).ok_or_else(wrong)?)),
            None => (rest, None),
        };
        let named = |name: &str| !name.is_empty() && !name.contains([':', '+', ' ', '*', '?']);
        if !named(symbol) || module.is_some_and(|module| !named(module)) {
            return Err(wrong());
        }
        Self::new(module, symbol, offset).ok_or_else(wrong)
    }
}

impl LocationSpec {
    fn refused(&self, why: String) -> Error {
        Error::NoPlace {
            wanted: self.to_string(),
            why,
        }
    }

    /// From the parts of an event's name. `None` for a number that is no address.
    pub fn new(module: Option<&str>, symbol: &str, offset: Option<u64>) -> Option<Self> {
        let digits = symbol.starts_with(|first: char| first.is_ascii_digit());
        if digits {
            let address = number(symbol).filter(|_| module.is_none() && symbol.starts_with("0x"))?;
            return address.checked_add(offset.unwrap_or(0)).map(Self::Address);
        }
        Some(Self::Symbol {
            module: module.map(str::to_owned),
            symbol: symbol.to_owned(),
            offset,
        })
    }
}

impl Code<'_> {
    /// The function that a place lies in, and its instruction there: the first where no offset was typed.
    ///
    /// # Errors
    /// As [`Code::function`]; [`Error::NoPlace`] where no instruction begins.
    pub fn locate(&self, wanted: &LocationSpec) -> Result<(Function, Instruction)> {
        let (function, offset) = self.lookup(wanted)?;
        let instruction = function.at(offset).cloned().map_err(|why| wanted.refused(why))?;
        Ok((function, instruction))
    }

    /// The function and instruction of a place that is to be probed.
    ///
    /// # Errors
    /// [`Error::NoPlace`] also where the kernel allows no probe.
    pub fn probeable(&self, wanted: &LocationSpec) -> Result<(Function, Instruction)> {
        let (function, offset) = self.lookup(wanted)?;
        if let Some(why) = function.barred() {
            return Err(wanted.refused(why.to_string()));
        }
        let instruction = function.at(offset).cloned().map_err(|why| wanted.refused(why))?;
        match &instruction.probeable {
            Ok(()) => Ok((function, instruction)),
            Err(why) => Err(wanted.refused(format!("{why}{}", function.others(&instruction)))),
        }
    }

    fn lookup(&self, wanted: &LocationSpec) -> Result<(Function, u64)> {
        Ok(match wanted {
            LocationSpec::Address(address) => {
                let function = self.known(&self.at(*address)?)?;
                let offset = *address - function.address;
                (Function::clone(&function), offset)
            }
            LocationSpec::Symbol {
                module,
                symbol,
                offset,
            } => {
                let function = self.known(&self.find(module.as_deref(), symbol)?)?;
                (Function::clone(&function), offset.unwrap_or(0))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_written() {
        for text in [
            "vfs_read",
            "vfs_read+0x12",
            "ext4:ext4_sync_fs",
            "ext4:f+0x4",
            "0xffffffff81000000",
        ] {
            assert_eq!(text.parse::<LocationSpec>().unwrap().to_string(), text);
        }
        assert_eq!(
            "vfs_read+18".parse::<LocationSpec>().unwrap().to_string(),
            "vfs_read+0x12"
        );
        for text in [
            "",
            "a b",
            "vfs_*",
            "vfs_read+",
            "vfs_read+x",
            "a:b:c",
            ":f",
            "f:",
            "12345",
            "m:0x12",
            "0xzz",
            "+4",
        ] {
            assert!(text.parse::<LocationSpec>().is_err(), "{text}");
        }
    }
}
