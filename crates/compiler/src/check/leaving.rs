//! Statements that leave their block, so that nothing behind them is reached.

use crate::builtin;
use crate::lang::ast::{Block, ExprKind as Kind, Statement, StatementKind as Written};

/// The first statement that is never reached: it follows one that leaves the block.
pub(super) fn unreachable(statements: &[Statement]) -> Option<&Statement> {
    let place = statements.iter().position(leaves)?;
    statements.get(place + 1)
}

/// Whether a statement leaves the block that it stands in: of `if`, both branches do. What loops do is not looked at, since they may have no turn.
pub(super) fn leaves(statement: &Statement) -> bool {
    match &statement.kind {
        Written::Return(_) | Written::Break | Written::Continue => true,
        Written::Expr(expr) => {
            matches!(&expr.kind, Kind::Call { name, .. } if name.node == builtin::EXIT.name)
        }
        Written::Block(block) => ends_early(block),
        // Only the branch that `comptime` chooses is there at all.
        Written::If { condition, .. } if matches!(condition.kind, Kind::Comptime(_)) => false,
        Written::If {
            then,
            otherwise: Some(otherwise),
            ..
        } => ends_early(then) && ends_early(otherwise),
        _ => false,
    }
}

fn ends_early(block: &Block) -> bool {
    block.statements.iter().any(leaves)
}
