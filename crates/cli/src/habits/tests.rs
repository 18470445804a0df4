//! Habits: each example is answered, and the page of the documentation has all of them.

use super::*;
use crate::Arguments;
use clap::Parser as _;

/// Habits that work as they are.
const WORK: &[(&str, &str, &str)] = &[
    ("perf", "record -F 99 -a", "a profile of all CPUs"),
    ("perf", "record -F 99 sleep 5", "a command without `--`"),
    ("perf", "record -p 1,2 -e sched:sched_switch", "several processes"),
    ("perf", "record -t 1 -e sched:sched_switch", "threads"),
    (
        "perf",
        "record -p 1 -e sched:sched_switch sleep 10",
        "a process while a command runs",
    ),
    (
        "perf",
        "record --call-graph dwarf -F 99 -- make",
        "stacks without frame pointers",
    ),
    ("perf", "record -g -e sched:sched_switch -- make", "call stacks"),
    (
        "perf",
        "record -e cycles -c 100000 -- make",
        "a sample every 100,000 cycles",
    ),
    (
        "perf",
        "record -e cycles,instructions -- make",
        "counters by their names",
    ),
    (
        "perf",
        "record --all-cpus -e sched:sched_switch sleep 5",
        "everybody's events",
    ),
    ("perf", "record -C 0,1 -e sched:sched_switch", "CPUs"),
    (
        "perf",
        "record -e sched:sched_switch --filter 'prev_pid == 1' -a",
        "the kernel's filters",
    ),
    (
        "perf",
        "record -o perf.data -e sched:sched_switch",
        "the recording's name: a directory",
    ),
    (
        "perf",
        "record --overwrite -e sched:sched_switch",
        "the newest events",
    ),
    (
        "perf",
        "record --max-size 1G -e sched:sched_switch",
        "ends when it has 1 GiB",
    ),
    ("perf", "record -q -e sched:sched_switch", "fewer messages"),
    ("perf", "record -v -e sched:sched_switch", "more messages"),
    (
        "perf",
        "record -vv -e sched:sched_switch",
        "no more than with one",
    ),
    (
        "perf",
        "record -v -v -e sched:sched_switch",
        "no more than with one",
    ),
    ("perf", "record -F99 -ag -- make", "short options in one word"),
    (
        "perf",
        "record --call-graph dwarf,16384 -F 99 -p 1",
        "16 KiB of each stack are copied",
    ),
    (
        "perf",
        "record -e context-switches -c1 -- make",
        "every context switch",
    ),
    (
        "perf",
        "record -e 'syscalls:*' --filter 'common_pid != 1' -- make",
        "a filter for all of a group",
    ),
    (
        "perf",
        "record -e minor-faults,major-faults -c 1 -- make",
        "several counters, each time",
    ),
    (
        "perf",
        "record -e sched:sched_switch,cpu-clock -- make",
        "tracepoints and counters",
    ),
    (
        "perf",
        "record --event sched:sched_switch --cpu 0 --output my.trace sleep 5",
        "long options",
    ),
    ("perf", "top", "events and who causes them, as they happen"),
    ("perf", "top -d 5", "every five seconds"),
    ("perf", "top -e sched:sched_switch", "one event"),
    ("perf", "top -p 1", "a process"),
    ("perf", "stat -- make", "counts of a command"),
    ("perf", "stat -I 1000 -a", "counts every second"),
    ("perf", "stat -r 5 -- make", "mean and deviation"),
    ("perf", "stat -x, -- make", "fields with separators"),
    ("perf", "stat -e cycles,instructions -a -A sleep 5", "by CPU"),
    ("perf", "stat -p 1", "a process"),
    ("perf", "stat -a -C 0,1 sleep 5", "all that happens on CPUs"),
    ("perf", "stat -a -G system.slice sleep 5", "a cgroup"),
    ("perf", "stat -p 1 sleep 10", "a process while a command runs"),
    (
        "perf",
        "stat -e cs,faults -x, -o counts -- make",
        "fields in a file",
    ),
    ("perf", "stat -I100 -a sleep 1", "a value beside its option"),
    ("perf", "stat -aA -e msr/tsc/ sleep 5", "a unit's counters"),
    (
        "perf",
        "stat -e '{cycles,instructions}:u' -- make",
        "groups of counters",
    ),
    ("perf", "stat -r5 -o counts --append -- make", "counts in a file"),
    ("perf", "report --stdio", "text, also on a terminal"),
    ("perf", "report -g", "call chains"),
    ("perf", "report perf.data", "perf's own recording"),
    ("trace-cmd", "print trace.dat", "trace-cmd's own recording"),
    ("perf", "report --no-children", "by the code itself"),
    (
        "perf",
        "report --comm make --pid 1 --tid 1 --cpu 0",
        "a part of it",
    ),
    ("perf", "print --ns perf.data", "times with nanoseconds"),
    ("perf", "report --percent-limit 1", "rows of 1 % and more"),
    ("perf", "sched record", "the scheduler"),
    ("perf", "sched latency", "delays"),
    ("perf", "sched latency -s max", "the longest delays first"),
    ("perf", "sched map", "which CPU had which task"),
    ("perf", "sched timehist", "the scheduler's steps"),
    ("perf", "sched record -a -- sleep 5", "all processes' scheduling"),
    ("perf", "sched latency --sort max,avg", "by several columns"),
    ("perf", "sched map --compact", "a smaller map"),
    (
        "perf",
        "sched timehist -p 1 --cpu 0 --time 10,20 -wnMI",
        "a part, with what else there is",
    ),
    ("perf", "sched timehist -sw", "sums, and who woke whom"),
    ("perf", "trace --syscalls -s ls", "a summary of system calls"),
    (
        "strace",
        "trace --syscalls=%file,read --signal=!CHLD -- ls",
        "system calls and signals",
    ),
    ("perf, trace-cmd", "list 'sched:*'", "events"),
    ("perf", "help record", "help of a command"),
    ("trace-cmd", "record -e sched:sched_switch ls", "a command"),
    ("trace-cmd", "stop", "the end of a session"),
    ("bpftrace", "run script.bt", "a script"),
    ("bpftrace", "run -e 'BEGIN { exit() }'", "a program"),
    ("bpftrace", "run -c 'sleep 1' script.bt", "with a command"),
    ("bpftrace", "run -p 1 script.bt", "of a process"),
    ("bpftrace", "run -f json script.bt", "JSON"),
    ("bpftrace", "run -o out script.bt", "into a file"),
    ("bpftrace", "run -l 'tracepoint:sched:*'", "events"),
    (
        "bpftrace",
        "run -lv 'tracepoint:sched:*'",
        "events and their fields",
    ),
    ("bpftrace", "run -qfjson script.bt 42", "only its output, and $1"),
    (
        "bpftrace",
        "run -B none -k script.bt",
        "unbuffered, with warnings",
    ),
    (
        "bpftrace",
        "run -I /usr/include --include x.h script.bt",
        "headers",
    ),
    ("bpftrace", "run -d ast script.bt", "a stage of the compiler"),
    ("bpftrace", "run --dry-run script.bt", "only checked"),
    ("bpftrace", "run --unsafe script.bt", "what changes the system"),
];

fn words(line: &str) -> Vec<OsString> {
    let mut words = vec![OsString::from("kestrel")];
    for (number, part) in line.split('\'').enumerate() {
        match number % 2 {
            0 => words.extend(part.split_whitespace().map(OsString::from)),
            _ => words.push(part.into()),
        }
    }
    words
}

#[test]
fn every_habit_is_answered_where_it_is_refused() {
    for habit in HABITS {
        let words = words(habit.example);
        let given = answer(&words, false).unwrap_or_default();
        let expected = habit.answer.split("{}").next().unwrap_or_default();
        assert!(given.starts_with(expected), "{}: {given}", habit.example);
        assert!(!given.contains("{}"), "{given}");
        if habit.is_refused() {
            let parsed = Arguments::try_parse_from(crate::spelled(words));
            assert!(parsed.is_err(), "{} works: its row is to go", habit.example);
        }
    }
    assert!(HABITS.len() + WORK.len() > 50);
}

#[test]
fn behind_the_name_of_a_tool_its_habits_are_answered() {
    for (line, start, part) in [
        ("perf script -F comm", "leave `perf` out", "kestrel print"),
        ("perf record -g ls", "leave its name out", "kestrel record"),
        (
            "strace -c ls",
            "`strace` is `kestrel trace --syscalls`",
            "--summary",
        ),
        ("strace -s 200 ls", "`strace` is", "255 bytes"),
        ("strace ls", "`kestrel trace --syscalls -- ls`", ""),
        ("strace -p 1", "`kestrel trace --syscalls -p 1`", ""),
        (
            "babeltrace2 --clock-date t",
            "`babeltrace2` is `kestrel print`",
            "--time wall",
        ),
        ("babeltrace2 t", "`kestrel print [DIR]`", ""),
        ("lttng view", "leave `lttng` out", "kestrel print"),
    ] {
        let given = answer(&words(line), false).unwrap_or_default();
        assert!(
            given.starts_with(start) && given.contains(part),
            "{line}: {given}"
        );
    }
}

#[test]
fn command_lines_listed_as_working_parse() {
    for (_, line, _) in WORK {
        let parsed = Arguments::try_parse_from(crate::spelled(words(line)));
        let help = |error: &clap::Error| error.kind() == clap::error::ErrorKind::DisplayHelp;
        assert!(parsed.as_ref().err().is_none_or(help), "{line}: {parsed:?}");
    }
}

#[test]
fn unknown_words_are_no_habits() {
    for line in [
        "record",
        "",
        "record -e sched:sched_switch -- top -m 1",
        "report mine",
        "record -e mark",
        "nosuch",
    ] {
        assert_eq!(answer(&words(line), false), None, "{line}");
    }
}

#[test]
fn short_options_are_found_behind_others() {
    let of = |line: &str| answer(&words(line), false);
    let alone = of("record -e sched:sched_switch -a -R sleep 1");
    assert!(alone.is_some());
    assert_eq!(of("record -e sched:sched_switch -aR sleep 1"), alone);
    // The word behind an option that takes a value is its value.
    assert_eq!(of("record -e sched:sched_switch -oaR sleep 1"), None);
}

#[test]
fn the_page_has_them_all() {
    let mut page = String::from(
        "# Coming from perf, trace-cmd and bpftrace\n\nCommand lines of other tools: which work unchanged, and how the rest is spelled here. The same table makes the hints that Kestrel prints.\n\n## Works as it is\n\n| from | `kestrel …` | what it does |\n|---|---|---|\n",
    );
    let cell = |text: &str| text.replace('|', "\\|");
    for (tool, line, what) in WORK {
        page.push_str(&format!("| {tool} | `{}` | {what} |\n", cell(line)));
    }
    page.push_str("\n## Has another spelling\n\n| from | typed as `kestrel …` | answer |\n|---|---|---|\n");
    for habit in HABITS {
        let typed = answer(&words(habit.example), false).unwrap_or_default();
        page.push_str(&format!(
            "| {} | `{}` | {} |\n",
            habit.of,
            cell(habit.example),
            cell(&typed)
        ));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/habits.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == page, "docs/habits.md is old: BLESS=1 writes it anew");
}
