//! `cargo xtask tidy`: the rules of the house that no compiler checks, as tests too. Each rule is a function that returns
//! what breaks it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

mod attaching;
mod changelog;
mod crates;
mod files;
mod floors;
mod hosts;
mod links;
mod losses;
mod map;
mod mechanisms;
mod names;
mod scatter;
mod unsafe_code;
mod variants;

/// Check the rules for the source tree
#[derive(Debug, Args)]
pub(crate) struct Options {}

/// A rule: its name, and the sentences about what breaks it.
type Rule = (&'static str, fn() -> Result<Vec<String>>);

/// Every rule.
const RULES: &[Rule] = &[
    ("crate dependencies", crates::arrows),
    ("first lines", files::first_lines),
    ("vague file names", files::drawers),
    ("file sizes", files::sizes),
    ("unsafe code", unsafe_code::unsafe_code),
    ("host names and paths", hosts::hosts),
    ("licences", crates::licences),
    ("reasons of dependencies", crates::reasons),
    ("module order", floors::floors),
    ("ARCHITECTURE.md", map::map),
    ("CHANGELOG.md", changelog::changelog),
    ("links", links::links),
    ("words of loss", losses::losses),
    ("max and min", names::names),
    ("one declaration per name", scatter::scatter),
    ("attach call sites", attaching::attaching),
    ("mechanisms", mechanisms::mechanisms),
    ("variants", variants::known_variants),
];

/// Checks every rule and prints what breaks it.
pub(crate) fn run(_: &Options) -> Result<ExitCode> {
    let mut broken = 0;
    for (name, rule) in RULES {
        for sentence in rule()? {
            println!("{name}: {sentence}");
            broken += 1;
        }
    }
    Ok(if broken == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_holds() {
        let broken = RULES.iter().flat_map(|(name, rule)| {
            let sentences = rule().unwrap().into_iter();
            sentences.map(move |sentence| format!("{name}: {sentence}"))
        });
        let broken: Vec<String> = broken.collect();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }
}
