//! Event specifications as text: as they were typed, with the kind that was left out, and what is wrong with their shape.

use crate::error::Error;
use kestrel_compiler::lang::ast::{EventPart, EventSpec};

/// A specification as typed.
pub fn text_of(spec: &EventSpec) -> String {
    let part = |part: &EventPart| match part.offset {
        Some(offset) => format!("{}+{offset:#x}", part.text),
        None => part.text.clone(),
    };
    spec.parts.iter().map(part).collect::<Vec<_>>().join(":")
}

/// An event's name as bpftrace's `probe` says it: offsets, and addresses in files, in decimal; no offset of 0.
pub(super) fn as_in_scripts(name: &str) -> Option<String> {
    if name.starts_with("uprobe:")
        && let Some((before, address)) = name.rsplit_once(":0x")
        && let Ok(address) = u64::from_str_radix(address, 16)
    {
        return Some(format!("{before}:{address}"));
    }
    let (before, offset) = name.rsplit_once("+0x")?;
    Some(match u64::from_str_radix(offset, 16).ok()? {
        0 => before.to_owned(),
        offset => format!("{before}+{offset}"),
    })
}

pub(super) fn with_kind(spec: &EventSpec, kind: &str) -> EventSpec {
    let mut parts = vec![EventPart {
        text: kind.to_owned(),
        offset: None,
        span: spec.span,
    }];
    parts.extend(spec.parts.iter().cloned());
    EventSpec {
        name: None,
        parts,
        span: spec.span,
    }
}

impl Error {
    /// An event specification with the wrong number of parts.
    pub(crate) fn wrong_shape(spec: &EventSpec, shape: &str) -> Self {
        Self::WrongShape {
            wanted: text_of(spec),
            shape: shape.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_decimal_in_scripts() {
        for (name, shown) in [
            ("kprobe:vfs_read+0x0", Some("kprobe:vfs_read")),
            ("uprobe:/bin/a:main+0x1c", Some("uprobe:/bin/a:main+28")),
            ("uprobe:./a:0x1169", Some("uprobe:./a:4457")),
            ("kprobe:0xffffffff81000000", None),
            ("kprobe:vfs_read", None),
            ("uprobe:/bin/a:cpp:operator+0xyz", None),
        ] {
            assert_eq!(as_in_scripts(name).as_deref(), shown, "{name}");
        }
    }
}
