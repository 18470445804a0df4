//! Instructions of programs and libraries at which a breakpoint may stand: those that begin at the place, in the function that is named.

use super::lookup::Catalog;
use crate::code::starts;
use crate::error::Error;
use crate::executable::{Executable, Site};
use std::fmt;

/// Why a place is none for a probe.
pub(super) enum Objection {
    /// Not even where the user forces it.
    Never(String),
    /// No instruction begins there: the function with the offset in it, and where some begin.
    InsideInstruction { place: String, near: String },
    /// Which instructions are there is not known.
    Unknown,
}

impl Objection {
    /// The warning about the place of an event of this kind and path where a script forces it.
    ///
    /// # Errors
    /// Where the script does not force it, or the kernel would refuse it all the same: why no probe can be there.
    pub(super) fn forced(
        &self,
        catalog: &Catalog,
        (kind, path): (&str, &str),
        file: &Executable,
        site: &Site,
    ) -> crate::error::Result<String> {
        let forces = catalog.script().is_some_and(|view| view.forces_places);
        let warning = match (self, site) {
            (_, _) if !forces => None,
            (Self::Never(_), _) => None,
            (Self::InsideInstruction { place, .. }, _) => Some(format!(
                "Unsafe uprobe in the middle of the instruction: {path}:{place}"
            )),
            (Self::Unknown, Site::Address(address)) => Some(misaligned(kind, path, &address.to_string())),
            (Self::Unknown, site) => Some(misaligned(kind, path, &site.to_string())),
        };
        warning.ok_or_else(|| Error::Object {
            object: format!("{kind}:{}:{site}", file.path().display()),
            why: self.to_string(),
        })
    }
}

/// The warning about a place of which it is not known whether an instruction begins there, in the words that scripts' tests know.
fn misaligned(kind: &str, path: &str, place: &str) -> String {
    format!(
        "Could not determine instruction boundary for {kind}:{path}:{place} (binary appears stripped). Misaligned probes can lead to tracee crashes!"
    )
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never(why) => f.write_str(why),
            Self::InsideInstruction { place, near } => {
                write!(
                    f,
                    "Could not add uprobe into middle of instruction: {place}; near it some begin at {near} of the function"
                )
            }
            Self::Unknown => {
                f.write_str("Could not determine instruction boundary; no function is known there, so that it is not known where its instructions begin")
            }
        }
    }
}

/// Refuses a place inside of an instruction: the breakpoint would make another one of it, and the program would do something else. Refuses one that lies
/// behind the function, too, where it is of another one.
///
/// # Errors
/// Why not.
pub(super) fn check(file: &Executable, site: &Site, offset: u64, at_return: bool) -> Result<(), Objection> {
    let never = |why: &str| Err(Objection::Never(why.to_owned()));
    if let Site::Function { offset: 0, .. } = site {
        return Ok(());
    }
    // The compiler says where statements begin.
    if matches!(site, Site::Line { .. }) && !at_return {
        return Ok(());
    }
    let named = match site {
        Site::Function {
            name, offset: behind, ..
        } => Some((name, *behind)),
        Site::Address(_) | Site::Line { .. } => None,
    };
    if at_return && (named.is_some() || matches!(site, Site::Line { .. })) {
        return never("a return is that of a whole function: name it without an offset");
    }
    if let Some((name, behind)) = named
        && let Some(size) = size_at(file, offset.wrapping_sub(behind))
        && behind >= size
    {
        return Err(Objection::Never(format!(
            "Offset outside the function bounds ('{name}' size is {size})"
        )));
    }
    if let Site::Address(address) = site
        && file.offset_of(*address).is_none()
    {
        return Err(Objection::Unknown);
    }
    let Some(function) = file.function_at(offset).filter(|f| f.size > 0) else {
        return Err(Objection::Unknown);
    };
    if at_return && function.offset != offset {
        let (name, behind) = (&function.name, offset - function.offset);
        return Err(Objection::Never(format!(
            "uretprobes cannot be attached at function offset. (address resolved to: {name}+{behind})"
        )));
    }
    let bytes = file
        .bytes(function.offset, function.size as usize)
        .map_err(|error: Error| Objection::Never(error.to_string()))?;
    let starts = starts(&bytes);
    let wanted = (offset - function.offset) as usize;
    match starts.binary_search(&wanted) {
        Ok(_) => Ok(()),
        Err(after) => {
            let near = starts[after.saturating_sub(2)..(after + 2).min(starts.len())].iter();
            let near: Vec<String> = near.map(|at| format!("+{at:#x}")).collect();
            let (name, behind) = named.unwrap_or((&function.name, wanted as u64));
            Err(Objection::InsideInstruction {
                place: format!("{name}+{behind}"),
                near: near.join(", "),
            })
        }
    }
}

/// Bytes of the functions that begin at an offset in a file, where that is known.
fn size_at(file: &Executable, offset: u64) -> Option<u64> {
    let here = file.functions().iter().filter(|f| f.offset == offset);
    here.map(|f| f.size).max().filter(|size| *size > 0)
}
