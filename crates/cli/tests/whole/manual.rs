//! Manual pages and completions: each command has its page, and what formats or reads them has nothing to complain of.

use crate::command::WorkFolder;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands as help shows them, each with the words that lead to it.
fn commands(place: &WorkFolder, words: &[&str], all: &mut Vec<String>) {
    all.push([&["kestrel"], words].concat().join("-"));
    let help = place.run(&[words, &["--help"]].concat()).succeeds().out;
    let list = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    for line in list.lines().take_while(|line| !line.is_empty()) {
        // Lines that are indented further continue the line before them.
        if let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) {
            let name = name.split(' ').next().unwrap();
            commands(place, &[words, &[name]].concat(), all);
        }
    }
}

fn pages(place: &WorkFolder) -> Vec<(String, String)> {
    place.run(&["man", "pages"]).succeeds();
    let entries = fs::read_dir(place.path().join("pages")).unwrap();
    let mut pages: Vec<_> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    pages.sort();
    pages
}

/// Output of a program about a page, where there is such a program.
fn printed(program: &str, arguments: &[&str], page: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).arg(page).stdin(Stdio::null());
    match command.output() {
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(_) => {
            eprintln!("skipped: there is no {program}");
            None
        }
    }
}

#[test]
fn pages_list_commands_in_the_order_of_help() {
    let place = WorkFolder::new();
    let mut all = Vec::new();
    commands(&place, &[], &mut all);
    let first = |name: &&String| name.matches('-').count() == 1;
    let helped: Vec<&String> = all.iter().filter(first).collect();
    let pages = pages(&place);
    let (_, page) = pages.iter().find(|(name, _)| name == "kestrel").unwrap();
    let list = page
        .split(".SH COMMANDS")
        .nth(1)
        .unwrap()
        .split(".SH")
        .next()
        .unwrap();
    let list = list.replace('\\', "").replace("fB", "").replace("fR", "");
    let places: Vec<usize> = helped
        .iter()
        .map(|name| list.find(&format!("\n{name}(1)")).expect(name))
        .collect();
    assert!(places.is_sorted(), "{helped:?}: {list}");
}

#[test]
fn every_command_has_a_page() {
    let place = WorkFolder::new();
    let mut commands_of_help = Vec::new();
    commands(&place, &[], &mut commands_of_help);
    assert!(commands_of_help.len() > 40, "{commands_of_help:?}");
    commands_of_help.sort();
    let pages = pages(&place);
    let names: Vec<&String> = pages.iter().map(|(name, _)| name).collect();
    assert_eq!(names, commands_of_help.iter().collect::<Vec<_>>());
    for (name, text) in &pages {
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "OPTIONS",
            "\"EXIT STATUS\"",
            "\"SEE ALSO\"",
        ] {
            assert!(
                text.contains(&format!("\n.SH {section}\n")),
                "{name}: {section}\n{text}"
            );
        }
        assert!(text.is_ascii(), "{name}");
    }
    let record = &pages.iter().find(|(name, _)| name == "kestrel-record").unwrap().1;
    for words in [
        ".SH EXAMPLES\n",
        "kestrel record \\-e sched:sched_switch \\-\\- make",
        "events in interrupts",
    ] {
        assert!(record.contains(words), "{words}\n{record}");
    }
}

#[test]
fn pages_are_clean() {
    let place = WorkFolder::new();
    for (name, _) in pages(&place) {
        let page = place.path().join(format!("pages/{name}.1"));
        if let Some(printed) = printed("groff", &["-man", "-ww", "-Tutf8", "-z"], &page) {
            assert!(printed.is_empty(), "{name}: {printed}");
        }
    }
}

#[test]
fn completions_are_read_by_their_shells() {
    let place = WorkFolder::new();
    let readers: &[(&str, &[&str])] = &[
        (
            "bash",
            &[
                "-c",
                "source ./bash && complete -p kestrel && COMP_WORDS=(kestrel rec) COMP_CWORD=1 && _kestrel kestrel rec kestrel && echo \"${COMPREPLY[@]}\"",
            ],
        ),
        ("zsh", &["-n", "./zsh"]),
        ("fish", &["--no-execute", "./fish"]),
        // Elvish has the names that it uses in a terminal only.
        ("elvish", &["-version"]),
    ];
    for (shell, arguments) in readers {
        let script = place.run(&["completions", shell]).succeeds().out;
        assert!(
            script.contains("record") && script.contains("duration"),
            "{shell}: {script}"
        );
        fs::write(place.path().join(shell), script).unwrap();
        let mut command = Command::new(shell);
        command
            .args(*arguments)
            .current_dir(place.path())
            .stdin(Stdio::null());
        match command.output() {
            Ok(output) => {
                let all = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
                assert!(output.status.success(), "{shell}: {all}");
                assert!(
                    *shell != "bash" || all.contains(" kestrel\nrecord recover\n"),
                    "{all}"
                );
            }
            Err(_) => eprintln!("skipped: there is no {shell}"),
        }
    }
}
