//! Features of the language that may still change: refused or said where a script uses them, as its settings have it.

use super::ast::{Expr, ExprKind, MapDeclaration, Probe, Span};
use super::config::{Config, Unstable};
use super::diag::Diagnostic;
use super::walk::Node;
use std::cell::Cell;

/// A feature: its name, what it is in words, the setting that it has, where a script uses it first.
type Feature = (
    &'static str,
    &'static str,
    fn(&Config) -> Unstable,
    fn(&[Probe], &[MapDeclaration]) -> Option<Span>,
);

/// The features of the language that bpftrace calls unstable.
const FEATURES: &[Feature] = &[
    (
        "dw_ustack",
        "dw_ustack (DWARF stack unwinding)",
        |c| c.unstable_dw_ustack,
        |probes, _| named(probes, "dw_ustack"),
    ),
    (
        "tseries",
        "tseries",
        |c| c.unstable_tseries,
        |probes, _| named(probes, "tseries"),
    ),
    (
        "typeinfo",
        "typeinfo",
        |c| c.unstable_typeinfo,
        |probes, _| first(probes, &|expr| matches!(expr.kind, ExprKind::Typeinfo(_))),
    ),
];

/// Diagnostics about the unstable features that a script uses.
pub fn found(probes: &[Probe], maps: &[MapDeclaration], config: &Config) -> Vec<Diagnostic> {
    let used = FEATURES.iter().filter_map(|(name, title, setting, place)| {
        let setting = setting(config);
        let place = place(probes, maps).filter(|_| setting != Unstable::Enable)?;
        Some(match setting {
            Unstable::Error => {
                let message = format!(
                    "{name} feature is not enabled by default. To enable this unstable feature, set the config flag to enable. unstable_{name}=enable"
                );
                Diagnostic::error(place, message)
                    .hint(format!("config = {{ unstable_{name} = enable }} allows it"))
            }
            _ => {
                let message = format!(
                    "Script is using an unstable feature: {title}. To prevent this warning you must explicitly enable it in the config e.g. unstable_{name}=enable"
                );
                // It is about the whole script: its text is not repeated.
                Diagnostic::warning(Span::NOWHERE, message)
            }
        })
    });
    used.collect()
}

fn named(probes: &[Probe], wanted: &str) -> Option<Span> {
    first(probes, &|expr| match &expr.kind {
        ExprKind::Call { name, .. } => name.node == wanted,
        ExprKind::Identifier(name) => name == wanted,
        _ => false,
    })
}

/// Where the first expression is that is as wanted.
fn first(probes: &[Probe], wanted: &dyn Fn(&Expr) -> bool) -> Option<Span> {
    let place = Cell::new(None);
    let is_it = |node: Node<'_>| match node {
        Node::Expr(expr) if wanted(expr) => {
            place.set(Some(expr.span));
            true
        }
        _ => false,
    };
    probes.iter().find(|probe| probe.any(&is_it))?;
    place.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::parse_probes;

    #[test]
    fn an_unstable_feature_is_said_refused_or_allowed() {
        let diagnosed = |text: &str, setting: Unstable| {
            let config = Config {
                unstable_tseries: setting,
                ..Config::default()
            };
            let found = found(&parse_probes(text).0, &[], &config);
            found.into_iter().map(|one| one.message).collect::<Vec<_>>()
        };
        let series = "kprobe:a { if (pid) { @x = tseries(1, 1s, 3) } }";
        assert!(diagnosed(series, Unstable::Warn)[0].contains("unstable feature: tseries"));
        assert!(diagnosed(series, Unstable::Error)[0].contains("tseries feature is not enabled by default"));
        assert!(diagnosed(series, Unstable::Enable).is_empty());
        assert!(diagnosed("kprobe:a { @x = count() }", Unstable::Error).is_empty());
        assert!(diagnosed("kprobe:a { print(dw_ustack) }", Unstable::Enable)[0].contains("dw_ustack"));
    }
}
