//! `cargo xtask tidy`: the rules of the house that no compiler checks, as tests too. Each rule is a function that returns
//! what breaks it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

mod attaching;
mod crates;
mod files;
mod floors;
mod hosts;
mod links;
mod losses;
mod map;
mod names;
mod scatter;
mod unsafe_code;

/// Check the rules of the house.
#[derive(Debug, Args)]
pub(crate) struct Options {}

/// A rule: its name, and the sentences about what breaks it.
type Rule = (&'static str, fn() -> Result<Vec<String>>);

/// Every rule.
const RULES: &[Rule] = &[
    ("arrows", crates::arrows),
    ("first lines", files::first_lines),
    ("drawers", files::drawers),
    ("sizes", files::sizes),
    ("unsafe", unsafe_code::unsafe_code),
    ("hosts", hosts::hosts),
    ("licences", crates::licences),
    ("reasons", crates::reasons),
    ("floors", floors::floors),
    ("map", map::map),
    ("links", links::links),
    ("losses", losses::losses),
    ("names", names::names),
    ("scatter", scatter::scatter),
    ("attaching", attaching::attaching),
];

/// Checks every rule and tells what breaks it.
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

    /// A rule of the house holds.
    fn holds(name: &str) {
        let (_, rule) = RULES.iter().find(|(rule, _)| *rule == name).unwrap();
        let broken = rule().unwrap();
        assert!(broken.is_empty(), "{}", broken.join("\n"));
    }

    #[test]
    fn arrows_go_one_way() {
        holds("arrows");
    }

    #[test]
    fn limits_are_called_max_and_min() {
        holds("names");
    }

    #[test]
    fn programs_are_attached_in_one_place() {
        holds("attaching");
    }

    #[test]
    fn losses_have_one_word_each() {
        holds("losses");
    }

    #[test]
    fn imports_go_down() {
        holds("floors");
    }

    #[test]
    fn every_module_opens_with_a_sentence() {
        holds("first lines");
    }

    #[test]
    fn there_are_no_drawers() {
        holds("drawers");
    }

    #[test]
    fn files_are_small() {
        holds("sizes");
    }

    #[test]
    fn unsafe_code_stays_in_its_place() {
        holds("unsafe");
    }

    #[test]
    fn nothing_names_the_place_where_it_was_written() {
        holds("hosts");
    }

    #[test]
    fn licences_are_permissive() {
        holds("licences");
    }

    #[test]
    fn the_map_names_every_room() {
        holds("map");
    }

    #[test]
    fn links_lead_somewhere() {
        holds("links");
    }

    #[test]
    fn names_have_one_place() {
        holds("scatter");
    }

    #[test]
    fn dependencies_have_reasons() {
        holds("reasons");
    }
}
