//! Maps that a program declares before its probes: `let @m = hash(100)`.

use super::source::ProgramText;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::{DeclaredMap, Globals};
use kestrel_compiler::lang::ast::{Expr, ExprKind, MapDeclaration};
use kestrel_compiler::lang::diag::Diagnostic;
use std::collections::BTreeMap;

/// Kinds of maps that a program may declare: their names, and whether new keys take the place of old ones.
const MAP_KINDS: &[(&str, bool)] = &[
    ("hash", false),
    ("lruhash", true),
    ("percpuhash", false),
    ("percpulruhash", true),
];

/// Warnings of declared maps that no handler uses.
pub(crate) fn unused(program: &ProgramText, globals: &Globals) -> Vec<Diagnostic> {
    let maps = program.maps.iter();
    let unused = maps.filter(|map| globals.map(&map.name.node).is_none());
    let warning = |map: &MapDeclaration| {
        let message = format!("Unused map: @{} is in no handler", map.name.node);
        Diagnostic::warning(map.span, message)
    };
    unused.map(warning).collect()
}

/// Declarations of a program's maps.
///
/// # Errors
/// [`Error::Program`] with the declarations that are wrong.
pub(super) fn sizes(program: &ProgramText) -> Result<BTreeMap<String, DeclaredMap>> {
    let mut declared = BTreeMap::new();
    let mut found = Vec::new();
    for map in &program.maps {
        let kind = MAP_KINDS.iter().find(|(name, _)| *name == map.kind.node);
        let entries = match map.args.as_slice() {
            [
                Expr {
                    kind: ExprKind::Integer { value, .. },
                    ..
                },
            ] => u32::try_from(*value).ok().filter(|n| *n > 0),
            _ => None,
        };
        match (kind, entries) {
            (None, _) => {
                let names: Vec<&str> = MAP_KINDS.iter().map(|(name, _)| *name).collect();
                // bpftrace's words, which its users know.
                let message = format!("Invalid bpf map type: {}", map.kind.node);
                let hint = format!("map types are {}", names.join(", "));
                found.push(Diagnostic::error(map.kind.span, message).hint(hint));
            }
            (Some(_), None) => {
                let message = format!(
                    "Expected a single integer literal, the number of entries, for {}",
                    map.kind.node
                );
                let hint = format!("at least 1: let @{} = {}(1000);", map.name.node, map.kind.node);
                found.push(Diagnostic::error(map.span, message).hint(hint));
            }
            (Some((_, evicts)), Some(entries)) => {
                let kept = DeclaredMap {
                    entries,
                    evicts: *evicts,
                };
                // The same declaration twice is no mistake.
                let before = declared.insert(map.name.node.clone(), kept);
                if before.is_some_and(|before| before != kept) {
                    let message = format!("@{} is declared twice", map.name.node);
                    found.push(Diagnostic::error(map.name.span, message));
                }
            }
        }
    }
    match found.is_empty() {
        true => Ok(declared),
        false => Err(Error::Program {
            source_text: program.text.to_string(),
            diagnostics: found,
        }),
    }
}
