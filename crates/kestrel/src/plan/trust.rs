//! Trust in a table file, by the users that could have written it: one that another user could have written, or put where it is, may record, count and
//! switch tables; it may not have commands run, files printed or objects loaded. The file's own descriptor was looked at when it was opened.

use super::planned::Plan;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::tree::{CheckedProbe, Statement, StatementKind};
use kestrel_hook::table::TableFile;
use kestrel_trace::output;

/// Passes a file's plan on, unless it asks for more than the file may.
///
/// # Errors
/// [`Error::Untrusted`].
pub(super) fn check(file: &TableFile, plan: Plan) -> Result<Plan> {
    let Some(objection) = &file.objection else {
        return Ok(plan);
    };
    let strategies = plan.hooks.iter().flat_map(|hook| &hook.strategies);
    let statements = || {
        let handlers = strategies.clone().flat_map(|strategy| &strategy.checked);
        handlers.flat_map(CheckedProbe::statements)
    };
    let asks = if let Some(asks) = statements().find_map(objectionable) {
        asks
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

/// The request of a statement that an untrusted file may not make; its parts are statements of their own.
fn objectionable(statement: &Statement) -> Option<&'static str> {
    match &statement.kind {
        StatementKind::Record(record) => {
            let asks = record.asks.as_ref()?;
            if asks.runs_commands() {
                Some("may not ask for commands to be run (exec)")
            } else if output::needs_trust(&asks.verb) {
                Some("may not have files read or commands run by who reads its records (cat, system)")
            } else {
                None
            }
        }
        StatementKind::Perform { .. } => Some("may not have handlers act on processes (signal)"),
        StatementKind::Set { .. }
        | StatementKind::If { .. }
        | StatementKind::Map(..)
        | StatementKind::Act(_)
        | StatementKind::Block(_)
        | StatementKind::Handler(_)
        | StatementKind::While { .. }
        | StatementKind::ForEach { .. }
        | StatementKind::Break
        | StatementKind::Continue
        | StatementKind::Return => None,
    }
}
