//! What a table file may ask for, by who could have written it: one that another user could have written, or put where it is, may record, count and
//! switch tables; it may not have commands run or objects loaded. The file's own descriptor was looked at when it was opened.

use super::Plan;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::tree::{CheckedProbe, Message, Record};
use kestrel_hook::table::TableFile;

/// Passes a file's plan on, unless it asks for more than the file may.
///
/// # Errors
/// [`Error::Untrusted`].
pub(super) fn check(file: &TableFile, plan: Plan) -> Result<Plan> {
    let Some(objection) = &file.objection else {
        return Ok(plan);
    };
    let handlers = plan
        .hooks
        .iter()
        .flat_map(|hook| &hook.ways)
        .flat_map(|way| &way.handlers);
    let is_exec = |record: &Record| matches!(record.message, Some(Message::Exec(_)));
    let runs = handlers.flat_map(CheckedProbe::records).any(is_exec);
    let asks = if runs {
        "may not ask for commands to be run (exec)"
    } else if !plan.objects.is_empty() {
        "may not have objects loaded (handler \"….o\")"
    } else {
        return Ok(plan);
    };
    Err(Error::Untrusted {
        file: file.name.clone(),
        refused: asks,
        objection: objection.clone(),
    })
}
