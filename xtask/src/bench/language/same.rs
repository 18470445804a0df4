//! Comparison of two tracers' output for the same events, line by line.

use std::collections::BTreeMap;

/// Most lines that are shown of those that only one tracer has.
const SHOWN: usize = 12;

/// The lines that only one tracer has. What processors see at the same time comes in any order, so lines are compared as a set that counts.
fn compared<'w>(lines: &BTreeMap<&'w str, Vec<String>>) -> BTreeMap<&'w str, Vec<String>> {
    let mut alone = BTreeMap::new();
    for (tracer, own) in lines {
        let others = lines.iter().filter(|(other, _)| *other != tracer);
        let mut left: Vec<&String> = others.flat_map(|(_, lines)| lines).collect();
        let mut only = Vec::new();
        for line in own {
            match left.iter().position(|other| *other == line) {
                Some(place) => _ = left.swap_remove(place),
                None => only.push(line.clone()),
            }
        }
        alone.insert(*tracer, only);
    }
    alone
}

/// Prints how many lines of each tool are the same and which are not; whether all are.
pub(super) fn print(words: &[Vec<&str>]) -> bool {
    let mut tools: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for row in words {
        if let ["said", tool, tracer, line @ ..] = row.as_slice() {
            let lines = tools.entry(tool).or_default().entry(tracer).or_default();
            lines.push(line.join(" "));
        }
    }
    let mut all_same = true;
    for (tool, lines) in &tools {
        let alone = compared(lines);
        let counts: Vec<String> = lines
            .iter()
            .map(|(tracer, lines)| format!("{} of {tracer}", lines.len()))
            .collect();
        let differ: usize = alone.values().map(Vec::len).sum();
        // Values that only one tracer prints are no comparison.
        let same = differ == 0 && lines.len() > 1;
        all_same &= same;
        println!(
            "{tool}: lines {}: {}",
            counts.join(", "),
            if same { "the same" } else { "NOT the same" }
        );
        for (tracer, lines) in alone {
            for line in lines.iter().take(SHOWN) {
                println!("    only {tracer}: {line}");
            }
        }
    }
    all_same
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_compared_as_often_as_they_come() {
        let lines = |all: &[&str]| all.iter().map(|line| (*line).to_owned()).collect();
        let printed = BTreeMap::from([
            ("kestrel", lines(&["a", "b", "b"])),
            ("bpftrace", lines(&["b", "a", "c"])),
        ]);
        let alone = compared(&printed);
        assert_eq!(alone["kestrel"], ["b"]);
        assert_eq!(alone["bpftrace"], ["c"]);
    }

    #[test]
    fn a_tool_of_one_tracer_is_not_the_same() {
        assert!(!print(&[vec!["said", "a", "kestrel", "x"]]));
        assert!(print(&[
            vec!["said", "a", "kestrel", "x"],
            vec!["said", "a", "bpftrace", "x"]
        ]));
        assert!(print(&[vec!["exact", "kestrel"]]));
    }
}
