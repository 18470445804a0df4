//! Lines of the kernel's own `kprobe_events` (Documentation/trace/kprobetrace.rst): read into the language's text, and named probes written as such.
//!
//! ```text
//! p[:[GRP/]EVENT] [MOD:]SYM[+OFFS]|ADDRESS [NAME=]FETCH[:TYPE] …
//! r[MAXACTIVE][:[GRP/]EVENT] [MOD:]SYM …
//! ```

mod fetch;
mod write;

pub use write::of;

use super::Request;
use crate::catalog::moment::Moment;
use crate::error::{Error, Result};

/// Whether a text is such a line: `p` or `r`, perhaps with a name, then a place.
pub fn is_one(text: &str) -> bool {
    let Some((head, rest)) = text.trim().split_once(char::is_whitespace) else {
        return false;
    };
    let kind = head.split(':').next().unwrap_or(head);
    let probe = kind == "p"
        || kind
            .strip_prefix('r')
            .is_some_and(|n| n.chars().all(|c| c.is_ascii_digit()));
    probe && !rest.trim().is_empty() && (head.contains(':') || !rest.contains(['{', ':']) || kind.len() > 1)
}

/// Reads a line; `address` knows where a symbol of the kernel lies.
///
/// # Errors
/// [`Error::KernelLine`] with the word that is wrong, or has no counterpart.
pub fn read(line: &str, address: &dyn Fn(&str) -> Option<u64>) -> Result<Request> {
    let line = line.trim();
    let wrong = |why: String| Error::KernelLine {
        line: line.to_owned(),
        why,
    };
    let request = located(line, address).and_then(|located| parse(&located));
    let request = request.map_err(wrong)?;
    Ok(Request {
        line: Some(line.to_owned()),
        ..request
    })
}

/// The line with the address for each `@SYMBOL`, `@SYMBOL+OFFSET` and `@SYMBOL-OFFSET`.
fn located(line: &str, address: &dyn Fn(&str) -> Option<u64>) -> std::result::Result<String, String> {
    let mut parts = line.split('@');
    let mut located = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        located.push('@');
        if !part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            located.push_str(part);
            continue;
        }
        let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
        let (symbol, rest) = part.split_at(end.unwrap_or(part.len()));
        let place = address(symbol).ok_or_else(|| format!("`@{symbol}`: the kernel has no such symbol"))?;
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '+' || c == '-'))
            .unwrap_or(rest.len());
        let (offset, rest) = rest.split_at(end);
        let unreadable = || format!("`@{symbol}{offset}`: `{offset}` is not an offset in bytes");
        let place = match (offset.strip_prefix('+'), offset.strip_prefix('-')) {
            (Some(more), _) => place.checked_add(number(more).ok_or_else(unreadable)?),
            (_, Some(less)) => place.checked_sub(number(less).ok_or_else(unreadable)?),
            (None, None) => Some(place).filter(|_| offset.is_empty()),
        };
        located.push_str(&format!("{:#x}{rest}", place.ok_or_else(unreadable)?));
    }
    Ok(located)
}

fn parse(line: &str) -> std::result::Result<Request, String> {
    let line = line.trim();
    let mut words = line.split_whitespace();
    let head = words.next().unwrap_or_default();
    let place = words.next().ok_or("it names no place")?;
    let (kind, name) = match head.split_once(':') {
        Some((kind, name)) => (kind, Some(name)),
        None => (head, None),
    };
    let (mut at_return, maxactive) = match kind.strip_prefix('r') {
        Some("") => (true, None),
        Some(number) => {
            let most: u32 = number
                .parse()
                .map_err(|_| format!("`{number}` is not a number of callers"))?;
            (true, (most > 0).then_some(most))
        }
        None if kind == "p" => (false, None),
        None => return Err(format!("`{kind}` is not p, r or rMAXACTIVE")),
    };
    let place = match place.strip_suffix("%return") {
        Some(place) => {
            at_return = true;
            place
        }
        None => place,
    };
    let place = Place::parse(place)?;
    if at_return && place.offset != 0 {
        return Err("a return probe sits at a function's entry: it has no offset".to_owned());
    }
    let name = match name {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => place.name(at_return),
    };
    let mut arguments = Vec::new();
    for (number, word) in (1..).zip(words) {
        arguments.extend(fetch::argument(word, number, at_return)?);
    }
    let event = match (at_return, maxactive) {
        (false, _) => format!("kprobe:{}", place.text()),
        (true, None) => format!("kretprobe:{}", place.text()),
        (true, Some(most)) => format!("kretprobe:{}{}", place.text(), Moment::Return(most).written()),
    };
    Ok(Request {
        name,
        source: format!("{event} {{ record({}) }}", arguments.join(", ")),
        ..Request::default()
    })
}

/// Where a probe sits.
#[derive(Debug)]
struct Place<'l> {
    module: Option<&'l str>,
    /// A symbol or an address.
    symbol: &'l str,
    offset: u64,
}

impl<'l> Place<'l> {
    fn parse(text: &'l str) -> std::result::Result<Self, String> {
        let (module, rest) = match text.split_once(':') {
            Some((module, rest)) => (Some(module), rest),
            None => (None, text),
        };
        let (symbol, offset) = match rest.split_once('+') {
            Some((symbol, offset)) => {
                let offset = number(offset).ok_or_else(|| format!("`{offset}` is not an offset in bytes"))?;
                (symbol, offset)
            }
            None => (rest, 0),
        };
        let address = symbol.starts_with("0x");
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        if symbol.is_empty() || !symbol.chars().all(fits) || address && number(symbol).is_none() {
            return Err(format!("`{text}` is not [MODULE:]SYMBOL[+OFFSET] or an address"));
        }
        Ok(Self {
            module,
            symbol,
            offset,
        })
    }

    fn text(&self) -> String {
        let module = self
            .module
            .map_or_else(String::new, |module| format!("{module}:"));
        match self.offset {
            0 => format!("{module}{}", self.symbol),
            offset => format!("{module}{}+{offset:#x}", self.symbol),
        }
    }

    /// The name that the kernel gives a probe without one.
    fn name(&self, at_return: bool) -> String {
        let letter = if at_return { 'r' } else { 'p' };
        let symbol: String = self
            .symbol
            .chars()
            .map(|c| if c == '.' { '_' } else { c })
            .collect();
        match self.symbol.starts_with("0x") {
            true => format!("{letter}_{symbol}"),
            false => format!("{letter}_{symbol}_{}", self.offset),
        }
    }
}

/// A number, decimal or hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(symbol: &str) -> Option<u64> {
        (symbol == "jiffies").then_some(0x1000)
    }

    #[test]
    fn lines_become_text() {
        for (line, name, source) in [
            (
                "p:grp/name vfs_read+0x12",
                "grp/name",
                "kprobe:vfs_read+0x12 { record() }",
            ),
            ("p vfs_read", "p_vfs_read_0", "kprobe:vfs_read { record() }"),
            (
                "r:back vfs_read $retval",
                "back",
                "kretprobe:vfs_read { record(arg1 = retval) }",
            ),
            (
                "r8:back vfs_read ret=$retval:s32",
                "back",
                "kretprobe:vfs_read:maxactive=8 { record(ret = (int32)(retval)) }",
            ),
            ("p:x vfs_read%return", "x", "kretprobe:vfs_read { record() }"),
            (
                "p:m ext4:ext4_sync_fs+4",
                "m",
                "kprobe:ext4:ext4_sync_fs+0x4 { record() }",
            ),
            (
                "p:a 0xffffffff81000010",
                "a",
                "kprobe:0xffffffff81000010 { record() }",
            ),
            (
                "p:o f fd=%di n=+8(%si) t=+0(+8(%si)):string c=$comm",
                "o",
                "kprobe:f { record(fd = reg(\"di\"), n = *(uint64 *)kptr(reg(\"si\") + 8), \
                 t = str(kptr(*(uint64 *)kptr(reg(\"si\") + 8))), c = comm) }",
            ),
            (
                "p:o f u=+0(%si):ustring v=+u4(%si):u32 s=$stack2 a=$arg2:u8 p=$stack",
                "o",
                "kprobe:f { record(u = str(uptr(reg(\"si\"))), v = *(uint32 *)uptr(reg(\"si\") + 4), \
                 s = *(uint64 *)kptr(reg(\"sp\") + 16), a = (uint8)(arg1), p = reg(\"sp\")) }",
            ),
            (
                "p:o f a=-8(%si):x16[2] b=%ax:b4@2/32 i=\\5",
                "o",
                "kprobe:f { record(a_0 = *(uint16 *)kptr(reg(\"si\") - 8), a_1 = *(uint16 *)kptr(reg(\"si\") - 6), \
                 b = ((uint32)(reg(\"ax\")) >> 2) & 0xf, i = 5) }",
            ),
            (
                "p:o f j=@jiffies:u32 k=@jiffies+0x10 l=+8(@jiffies-8):u8",
                "o",
                "kprobe:f { record(j = *(uint32 *)kptr(0x1000), k = *(uint64 *)kptr(0x1010), \
                 l = *(uint8 *)kptr(*(uint64 *)kptr(0xff8) + 8)) }",
            ),
        ] {
            assert!(is_one(line), "{line}");
            let read = read(line, &address).unwrap();
            assert_eq!(read.name, name, "{line}");
            assert_eq!(read.source, source, "{line}");
            assert_eq!(read.line.as_deref(), Some(line));
        }
    }

    #[test]
    fn what_has_no_counterpart_is_named() {
        for (line, part) in [
            ("p:x f %nope", "%nope"),
            ("p:x f a=@nowhere", "@nowhere"),
            ("p:x f a=@jiffies*2", "@0x1000*2"),
            ("p:x f a=@jiffies+x", "@jiffies+x"),
            ("p:x f a=@jiffies-0x1001", "@jiffies-0x1001"),
            ("p:x f a=%di:symbol", "symbol"),
            ("p:x f a=%di:string", "string"),
            ("p:x f a=%di:u128", "u128"),
            ("p:x f a=+8(%di", "+8(%di"),
            ("p:x f a=$retval", "$retval"),
            ("r:x f+4", "offset"),
            ("p:x f a=%di:u8[2]", "memory"),
            ("p:x f-4", "f-4"),
            ("p:x f a=$arg0", "$arg0"),
            ("p:x f 1a=%di", "1a"),
            ("rx:x f", "number of callers"),
        ] {
            let error = read(line, &address).unwrap_err().to_string();
            let why = error.split("`: ").nth(1).unwrap_or_default();
            assert!(why.contains(part), "{line}: {error}");
        }
        for other in [
            "reads",
            "kprobe:vfs_read",
            "p:x",
            "profile:hz:99 { count() }",
            "q x",
        ] {
            assert!(!is_one(other), "{other}");
        }
    }
}
