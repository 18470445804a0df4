//! Whether a table file may ask for commands to be run: only if nobody but root, or who starts the session, could have written it, or put it where it
//! is. Whoever may write one of the directories above it could exchange it between two looks at it.

use super::state::{Ask, State};
use crate::error::{Error, Result};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Write permission of the group and of others.
const OTHERS_MAY_WRITE: u32 = 0o022;
/// The sticky bit: in such a directory only its owner can replace a file.
const STICKY: u32 = 0o1000;

/// Refuses a state whose programs ask for commands, if others could have written the file that they come from.
///
/// # Errors
/// [`Error::Untrusted`], or when the file cannot be looked at.
pub(super) fn check(state: &State, file: Option<&str>) -> Result<()> {
    let programs = state.hooks.iter().flat_map(|hook| &hook.programs);
    let asks = programs.flat_map(|p| &p.messages).any(|m| m.ask == Ask::Exec);
    match file {
        Some(file) if asks && crate::table::shipped::find(file).is_none() => of_file(Path::new(file)),
        _ => Ok(()),
    }
}

fn of_file(file: &Path) -> Result<()> {
    let unreadable = |path: &Path, error| Error::Io {
        action: "look at",
        subject: path.display().to_string(),
        error,
    };
    let file = file.canonicalize().map_err(|error| unreadable(file, error))?;
    let own = kestrel_kernel::process::user();
    for path in file.ancestors() {
        let is_file = path == file;
        let found = path.metadata().map_err(|error| unreadable(path, error))?;
        let sticky = !is_file && found.mode() & STICKY != 0;
        let why = if found.mode() & OTHERS_MAY_WRITE != 0 && !sticky {
            "others than its owner may write it"
        } else if found.uid() != 0 && found.uid() != own {
            "it belongs to another user"
        } else {
            continue;
        };
        return Err(Error::Untrusted {
            file: path.display().to_string(),
            why: why.to_owned(),
        });
    }
    Ok(())
}
