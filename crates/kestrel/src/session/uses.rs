//! Which tables a handler may switch to; what else it does is not asked here.

use kestrel_compiler::check::tree::{Action, CheckedProbe, Statement, StatementKind};

/// Adds the names of the tables that a handler may switch to.
pub(super) fn tables(handler: &CheckedProbe, names: &mut Vec<String>) {
    collect(&handler.body, names);
}

fn collect(statements: &[Statement], names: &mut Vec<String>) {
    for statement in statements {
        match &statement.kind {
            StatementKind::If { then, otherwise, .. } => {
                collect(then, names);
                collect(otherwise, names);
            }
            StatementKind::Act(Action::UseTable(name)) => names.push(name.clone()),
            _ => {}
        }
    }
}
