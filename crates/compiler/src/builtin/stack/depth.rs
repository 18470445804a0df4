//! Mode and depth of `kstack` and `ustack`.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{Expr, ExprKind, Type};
use crate::lang::ast;
use crate::lang::diag::{Diagnostic, nearest};
use kestrel_trace::layout::{Space, StackMode};

/// Frames of a stack whose depth is not given: the default of `kernel.perf_event_max_stack`.
const DEFAULT_DEPTH: u32 = 127;
/// The deepest that a program may ask for, as in bpftrace: frames beyond the kernel's limit are not there to be kept.
const MAX_DEPTH: u32 = 1024;

/// Modes in which stacks are shown, by their words in the language.
const MODES: &[(&str, StackMode)] = &[
    ("bpftrace", StackMode::Bpftrace),
    ("perf", StackMode::Perf),
    ("raw", StackMode::Raw),
    ("build_id", StackMode::BuildId),
];

/// Mode and depth of a stack: `kstack`, `kstack(depth)`, `kstack(mode)`, `kstack(mode, depth)`.
pub(super) fn mode_and_depth(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<(StackMode, u32)> {
    let args = usage.positional(checker, 0, 2)?;
    let named = args.first().and_then(|first| mode_of(first));
    // A depth may be a parameter or another known word: a word that is neither, or is close to a mode, is a mode misspelt.
    if let (
        None,
        Some(ast::Expr {
            kind: ast::ExprKind::Identifier(word),
            span,
        }),
    ) = (named, args.first())
        && checker.globals.parameter(word).is_none()
        && let near = nearest(word, MODES.iter().map(|(name, _)| *name))
            .first()
            .copied()
        && (near.is_some() || !checker.is_known_word(word))
    {
        let modes: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
        let modes = modes.join(", ");
        let hint = match near {
            Some(near) => format!("did you mean {near}? There are {modes}"),
            None => format!("there are {modes}; a depth is a number"),
        };
        let message = format!("unknown stack mode \"{word}\"");
        let known = format!(
            "Error parsing stack mode: {}: Invalid value for stack_mode: valid values are bpftrace, raw, perf, and build_id.",
            usage.name
        );
        let wrong = Diagnostic::error(*span, message).hint(hint);
        return Err(checker.report(wrong.known_as(*span, known)));
    }
    let depth = match (named, args.as_slice()) {
        (Some(_), [_, depth]) | (None, [depth]) => Some(depth),
        (_, [_, second]) => {
            let message = "Expected stack mode as first argument";
            let hint = "the mode of a stack stands before its depth: kstack(perf, 5)";
            return Err(checker.report(Diagnostic::error(second.span, message).hint(hint)));
        }
        _ => None,
    };
    let max = match depth {
        Some(depth) => {
            let name = usage.name;
            let given = match depth.kind {
                ast::ExprKind::Integer { value, .. } => value,
                _ => 0,
            };
            let known = checker.phrased(
                depth.span,
                usage.span,
                |checker| known_depth(checker, depth),
                |_| match given {
                    1.. => {
                        format!("{name}([int limit]): limit shouldn't exceed {MAX_DEPTH}, {given} given")
                    }
                    _ => format!("{name}: invalid limit value"),
                },
            )?;
            known.min(DEFAULT_DEPTH)
        }
        None => DEFAULT_DEPTH,
    };
    Ok((named.unwrap_or(checker.globals.stack_mode), max))
}

/// The most frames that a program asks for; 0 gives an empty stack.
fn known_depth(checker: &mut Checker<'_>, depth: &ast::Expr) -> Checked<u32> {
    let value = checker.scalar(depth)?;
    let message = match value.constant().map(u32::try_from) {
        Some(Ok(known @ 0..=MAX_DEPTH)) => return Ok(known),
        Some(_) => format!("the depth of a stack is 0 to {MAX_DEPTH}"),
        None => "the depth of a stack must be known before the program runs".to_owned(),
    };
    Err(checker.error(depth.span, message))
}

/// Checks `kstack` or `ustack` (frames found by frame pointers).
pub(super) fn stack(checker: &mut Checker<'_>, usage: &Use<'_>, space: Space) -> Checked<Expr> {
    let (mode, max) = mode_and_depth(checker, usage)?;
    if mode == StackMode::BuildId && space == Space::Kernel {
        let message = "build_id is for stacks of processes: ustack(build_id)";
        let known = "'build_id' stack mode can only be used for ustack";
        return Err(checker.report(Diagnostic::error(usage.span, message).known_as(usage.span, known)));
    }
    Ok(Expr::new(
        ExprKind::Stack { space, max },
        Type::Stack { space, max, mode },
        usage.span,
    ))
}

fn mode_of(word: &ast::Expr) -> Option<StackMode> {
    let ast::ExprKind::Identifier(word) = &word.kind else {
        return None;
    };
    MODES.iter().find(|(name, _)| name == word).map(|(_, mode)| *mode)
}
