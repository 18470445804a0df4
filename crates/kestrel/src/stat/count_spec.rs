//! Event specifications (`-e`) taken apart: counters, groups of counters in braces, and events of tracers, which keep their predicate.

use kestrel_catalog::catalog::counter::counted::{self, Named};
use kestrel_catalog::catalog::counter::pmu;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::ast::Span;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_compiler::lang::parse_probes;
use kestrel_kernel::Host;

/// Counting request of a piece of a specification. Places are the pieces' numbers in all specifications: figures are shown in their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CountSpec {
    /// Counters; whether they are a group, which has counters of the processor all together or not at all; the place.
    Counters(Vec<Named>, bool, usize),
    /// Events of tracers with their predicate, if they have one; the place of each.
    Traced(String, Vec<usize>),
}

/// Takes specifications apart.
///
/// # Errors
/// A counter that does not exist, a specification with a block, braces that do not close.
pub(super) fn parse(specs: &[String], host: &Host) -> Result<Vec<CountSpec>> {
    let (mut all, mut place) = (Vec::new(), 0);
    for text in specs {
        let (mut traced, mut places) = (Vec::new(), Vec::new());
        for piece in pieces(text) {
            place += 1;
            match of_piece(piece, text, host)? {
                Some((counters, grouped)) => all.push(CountSpec::Counters(counters, grouped, place)),
                None => {
                    traced.push(piece);
                    places.push(place);
                }
            }
        }
        if !traced.is_empty() {
            let traced = traced.join(",");
            check(&traced)?;
            all.push(CountSpec::Traced(traced, places));
        }
    }
    Ok(all)
}

/// The counters of a piece and whether they are a group, or nothing where it is for tracers.
fn of_piece(piece: &str, text: &str, host: &Host) -> Result<Option<(Vec<Named>, bool)>> {
    if let Some(inside) = piece.strip_prefix('{') {
        let (inside, behind) = inside.rsplit_once('}').ok_or_else(|| shape(text))?;
        let mode = group_mode(behind).ok_or_else(|| shape(text))?;
        let group = pieces(inside).into_iter().map(|name| {
            let named = match name.contains(':') {
                true => name.to_owned(),
                false => format!("{name}{mode}"),
            };
            let counter = counter(&named, host)?;
            counter.ok_or_else(|| not_in_groups(name))
        });
        let group: Vec<Named> = group.collect::<Result<_>>()?;
        return match group.is_empty() {
            true => Err(shape(text)),
            false => Ok(Some((group, true))),
        };
    }
    if let Some(named) = pmu::find(piece, host)? {
        return Ok(Some((vec![named], false)));
    }
    if piece.contains(['/', '{']) {
        return match counted::find(head(piece)) {
            Ok(Some(named)) => Err(no_predicate(&named.name)),
            _ => Ok(None),
        };
    }
    let named = counted::find(piece)?;
    Ok(named.map(|named| (vec![named], false)))
}

/// The mode behind a group's brace, as each of its counters has it: nothing, `:u` or `:k`. `:S` is about samples and changes no count.
fn group_mode(behind: &str) -> Option<String> {
    let Some(letters) = behind.strip_prefix(':') else {
        return behind.is_empty().then(String::new);
    };
    let mode: String = letters.chars().filter(|letter| *letter != 'S').collect();
    let is_known = !letters.is_empty() && mode.chars().all(|letter| matches!(letter, 'u' | 'k'));
    match mode.as_str() {
        "" => is_known.then(String::new),
        _ => is_known.then(|| format!(":{mode}")),
    }
}

/// A counter by the name that a unit or perf has for it.
fn counter(name: &str, host: &Host) -> Result<Option<Named>> {
    match pmu::find(name, host)? {
        Some(named) => Ok(Some(named)),
        None => counted::find(name),
    }
}

fn head(piece: &str) -> &str {
    piece.split(['/', '{']).next().unwrap_or_default()
}

/// The pieces between a text's commas, those in braces, brackets, quotes, predicates and between the slashes of a unit's counter left alone.
fn pieces(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut behind_slash, mut in_unit) = (0usize, false, false, false);
    let mut start = 0;
    let mut pieces = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '/' if in_unit => in_unit = false,
            '/' if depth == 0 && pmu::is_unit(text[start..at].trim_start()) => in_unit = true,
            // A predicate ends the list of events.
            '/' if depth == 0 => behind_slash = true,
            ',' if depth == 0 && !behind_slash && !in_unit => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[start..]);
    let pieces = pieces.into_iter().map(str::trim);
    pieces.filter(|piece| !piece.is_empty()).collect()
}

/// Whether events of tracers are written as they must be: the language says what is wrong, but for blocks, which it knows.
fn check(text: &str) -> Result<()> {
    let (probes, mut found) = parse_probes(text);
    for block in probes.iter().filter_map(|probe| probe.block.as_ref()) {
        found.push(blocked(block.span));
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(Error::Program {
            source_text: text.to_owned(),
            diagnostics: found,
        }),
    }
}

fn blocked(span: Span) -> Diagnostic {
    Diagnostic::error(span, "a block has no place here: each event that the predicate lets through is counted")
        .hint("`kestrel record -e` and `kestrel trace -e` run blocks, and print their maps; --by EXPR counts by a value")
}

fn shape(text: &str) -> Error {
    Error::WrongShape {
        wanted: text.to_owned(),
        shape: "{COUNTER,COUNTER…} for a group, with :u (in user space only) or :k (in the kernel only) behind it or not".to_owned(),
    }
}

fn not_in_groups(name: &str) -> Error {
    Error::WrongShape {
        wanted: name.to_owned(),
        shape: "the name of a counter (`cycles`): events of tracers are always counted, and need no group"
            .to_owned(),
    }
}

fn no_predicate(name: &str) -> Error {
    Error::WrongShape {
        wanted: name.to_owned(),
        shape: format!(
            "{name} alone: a counter has no fields that a predicate could ask for; -p, -C and -G choose whose it counts"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<String> {
        let wanted = parse(&[text.to_owned()], &Host::new("/nowhere")).unwrap();
        let shown = wanted.into_iter().map(|one| match one {
            CountSpec::Traced(text, places) => format!("{places:?} {text}"),
            CountSpec::Counters(named, grouped, _) => {
                let names: Vec<String> = named.into_iter().map(|named| named.name).collect();
                format!("{}{}", if grouped { "group " } else { "" }, names.join(" "))
            }
        });
        shown.collect()
    }

    #[test]
    fn counters_groups_and_events_are_distinguished() {
        assert_eq!(parsed("cycles,cs"), ["cycles", "cs"]);
        assert_eq!(
            parsed("{cycles, instructions:u},sched:sched_switch, sched:sched_wakeup /args.prio == 3/"),
            [
                "group cycles instructions:u",
                "[2, 3] sched:sched_switch,sched:sched_wakeup /args.prio == 3/"
            ]
        );
        assert_eq!(
            parsed("kprobe:vfs_read /comm == \"a,b\"/"),
            ["[1] kprobe:vfs_read /comm == \"a,b\"/"]
        );
        assert_eq!(
            parsed("{cycles,cs:k}:u,{cycles}:S,{cycles}:Sk"),
            ["group cycles:u cs:k", "group cycles", "group cycles:k"]
        );
    }

    #[test]
    fn uncountable_events_are_refused_by_name() {
        for (text, why) in [
            ("sched:sched_switch { record() }", "a block has no place here"),
            ("cycles /pid == 3/", "cycles alone"),
            ("{cycles", "for a group"),
            ("{}", "for a group"),
            ("{cycles}:p", "for a group"),
            ("{cycles}:", "for a group"),
            ("{cycles}u", "for a group"),
            ("{sched:sched_switch}", "need no group"),
            ("cycless", "cycles"),
        ] {
            let error = parse(&[text.to_owned()], &Host::new("/nowhere")).unwrap_err();
            let reason = match &error {
                Error::Program { diagnostics, .. } => diagnostics[0].message.clone(),
                error => error.to_string(),
            };
            assert!(reason.contains(why), "{text}: {reason}");
        }
    }
}
