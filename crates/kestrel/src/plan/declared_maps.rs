//! Maps that a program declares before its probes: `let @m = hash(100)`.

use super::source::ProgramText;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::{DeclaredMap, Globals};
use kestrel_compiler::lang::ast::{Expr, ExprKind, MapDeclaration, Span};
use kestrel_compiler::lang::diag::Diagnostic;
use std::collections::BTreeMap;

/// A kind of map that a program may declare.
struct Kind {
    name: &'static str,
    /// Whether new keys take the place of old ones.
    evicts: bool,
    /// Whether each CPU has its own values, as aggregations have.
    per_cpu: bool,
}

const KINDS: &[Kind] = &[
    kind("hash", false, false),
    kind("lruhash", true, false),
    kind("percpuhash", false, true),
    kind("percpulruhash", true, true),
];

const fn kind(name: &'static str, evicts: bool, per_cpu: bool) -> Kind {
    Kind {
        name,
        evicts,
        per_cpu,
    }
}

fn kind_of(map: &MapDeclaration) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == map.kind.node)
}

/// Warnings of declared maps that no handler uses, and of maps that are declared again in another way.
pub(crate) fn warnings(program: &ProgramText, globals: &Globals) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for (number, map) in program.maps.iter().enumerate() {
        let name = &map.name.node;
        let first = program.maps[..number]
            .iter()
            .find(|first| first.name.node == *name);
        if let Some(first) = first {
            if (kind_of(first).map(|kind| kind.name), entries(first))
                != (kind_of(map).map(|kind| kind.name), entries(map))
            {
                let message =
                    format!("@{name} is declared twice: the first declaration is the one that counts");
                warnings.push(Diagnostic::warning(map.span, message));
            }
        } else if globals.map(name).is_none() {
            let message = format!("Unused map: @{name} is in no handler");
            warnings.push(Diagnostic::warning(map.span, message));
        }
    }
    warnings
}

/// Errors of declared maps whose kind cannot hold what handlers keep in them: known when all uses are.
pub(crate) fn unfit(program: &ProgramText, globals: &Globals) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (number, map) in program.maps.iter().enumerate() {
        let name = &map.name.node;
        let again = program.maps[..number]
            .iter()
            .any(|first| first.name.node == *name);
        let (Some(declared), Some(held), false) = (kind_of(map), globals.map(name), again) else {
            continue;
        };
        let per_cpu = held.value.is_per_cpu();
        let fitting = KINDS
            .iter()
            .find(|kind| kind.per_cpu == per_cpu && kind.evicts == declared.evicts);
        let Some(fitting) = fitting.filter(|_| declared.per_cpu != per_cpu) else {
            continue;
        };
        // bpftrace's words, which its users know.
        let message = format!(
            "Incompatible map types. Type from declaration: {}. Type from value/key type: {}",
            declared.name, fitting.name
        );
        let why = match per_cpu {
            true => "aggregations are kept for each CPU",
            false => "only aggregations are kept for each CPU",
        };
        let entries = entries(map).unwrap_or(1);
        let hint = format!("{why}: let @{name} = {}({entries});", fitting.name);
        found.push(Diagnostic::error(map.kind.span, message).hint(hint));
    }
    found
}

/// How many keys a declaration says, where it says so.
fn entries(map: &MapDeclaration) -> Option<u32> {
    match map.args.as_slice() {
        [
            Expr {
                kind: ExprKind::Integer { value, .. },
                ..
            },
        ] => u32::try_from(*value).ok().filter(|n| *n > 0),
        _ => None,
    }
}

/// Declarations of a program's maps.
///
/// # Errors
/// [`Error::Program`] with the declarations that are wrong.
pub(super) fn sizes(program: &ProgramText) -> Result<BTreeMap<String, DeclaredMap>> {
    let mut declared = BTreeMap::new();
    let mut found = Vec::new();
    for map in &program.maps {
        let (kind, entries) = (kind_of(map), entries(map));
        match (kind, entries) {
            (None, _) => {
                let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
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
                let mut wrong = Diagnostic::error(map.span, message).hint(hint);
                let first = map.args.first().map(|arg| &arg.kind);
                if !matches!(first, Some(ExprKind::Integer { .. })) {
                    let start = map.kind.span.end + 1;
                    let known = "syntax: expected positive integer for map declaration max entries";
                    wrong = wrong.known_as(
                        Span {
                            start,
                            end: start + 1,
                        },
                        known,
                    );
                }
                found.push(wrong);
            }
            (Some(kind), Some(entries)) => {
                let evicts = kind.evicts;
                let kept = DeclaredMap { entries, evicts };
                // The first declaration counts, as in bpftrace.
                declared.entry(map.name.node.clone()).or_insert(kept);
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
