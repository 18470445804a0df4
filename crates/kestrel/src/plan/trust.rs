//! Trust in a table file, by the users that could have written it: one that another user could have written, or put where it is, may record, count and
//! switch tables; it may not have commands run or objects loaded. The file's own descriptor was looked at when it was opened.

use super::planned::Plan;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::tree::{CheckedProbe, Statement, StatementKind};
use kestrel_hook::table::TableFile;
use kestrel_trace::action::Action;

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
    let runs = |statement: &Statement| match &statement.kind {
        StatementKind::Record(record) => record.asks.as_ref().is_some_and(Action::runs_commands),
        _ => false,
    };
    let performs = |statement: &Statement| matches!(statement.kind, StatementKind::Perform { .. });
    let asks = if statements().any(runs) {
        "may not ask for commands to be run (exec)"
    } else if statements().any(performs) {
        "may not have handlers act on processes (signal)"
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
