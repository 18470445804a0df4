//! Instructions of programs and libraries at which a breakpoint may stand: those that begin at the place, in the function that is named.

use crate::code::starts;
use crate::error::Error;
use crate::executable::{Executable, Site};

/// Refuses a place inside of an instruction: the breakpoint would make another one of it, and the program would do something else. Refuses one that lies
/// behind the function, too, where it is of another one.
///
/// # Errors
/// Why not, as text.
pub(super) fn check(file: &Executable, site: &Site, offset: u64, at_return: bool) -> Result<(), String> {
    if let Site::Function { offset: 0, .. } = site {
        return Ok(());
    }
    // The compiler says where statements begin.
    if matches!(site, Site::Line { .. }) && !at_return {
        return Ok(());
    }
    if at_return {
        return Err("a return is that of a whole function: name it without an offset".to_owned());
    }
    if let Site::Function {
        name, offset: behind, ..
    } = site
        && let Some(size) = size_at(file, offset.wrapping_sub(*behind))
        && *behind >= size
    {
        return Err(format!(
            "Offset outside the function bounds ('{name}' size is {size})"
        ));
    }
    let Some(function) = file.function_at(offset).filter(|f| f.size > 0) else {
        return Err(
            "no function is known there, so that it is not known where its instructions begin".to_owned(),
        );
    };
    let bytes = file
        .bytes(function.offset, function.size as usize)
        .map_err(|error: Error| error.to_string())?;
    let starts = starts(&bytes);
    let wanted = (offset - function.offset) as usize;
    match starts.binary_search(&wanted) {
        Ok(_) => Ok(()),
        Err(after) => {
            let near = starts[after.saturating_sub(2)..(after + 2).min(starts.len())].iter();
            let near: Vec<String> = near.map(|at| format!("+{at:#x}")).collect();
            Err(format!(
                "Could not add uprobe into middle of instruction; near it some begin at {} of the function",
                near.join(", ")
            ))
        }
    }
}

/// Bytes of the functions that begin at an offset in a file, where that is known.
fn size_at(file: &Executable, offset: u64) -> Option<u64> {
    let here = file.functions().iter().filter(|f| f.offset == offset);
    here.map(|f| f.size).max().filter(|size| *size > 0)
}
