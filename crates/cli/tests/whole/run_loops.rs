//! Loops whose bodies the kernel's verifier must see the end of.

use crate::command::{WorkFolder, needs_tracing};

/// An address that the text names and that each turn moves on is no new state to the verifier, nor is what is done with it.
#[test]
fn addresses_that_loops_move_on_are_accepted() {
    needs_tracing!();
    for (body, held) in [
        ("for ($kv : @k) { @h = max($p++); }", "@h: 24"),
        ("for ($kv : @k) { @h = max((int64)$p++); }", "@h: 24"),
        (
            "for ($i : 0..5) { if ((int64)++$p > 20) { @h = count(); } }",
            "@h: 4",
        ),
        (
            "for ($i : 0..5) { $q = $p; $p = $q + 1; @h = sum((int64)$q); }",
            "@h: 120",
        ),
        ("for ($kv : @k) { @h = (int64)$p-- > 12 ? 1 : 2; }", "@h: 2"),
    ] {
        let program = format!(
            "begin {{ @k[1] = 10; @k[2] = 20; @k[3] = 5; $p = (int32 *)16; {body} clear(@k); exit(); }}"
        );
        let run = WorkFolder::new().run(&["run", "-q", "-e", &program]).succeeds();
        assert_eq!(run.out.trim(), held, "{program}: {}", run.err);
    }
}

/// What a loop of `begin` or `end` prints finds room, or is read while the handler runs; what does neither is counted.
#[test]
fn loops_may_print_more_than_a_ring_holds() {
    needs_tracing!();
    for setting in ["", "config = { perf_rb_pages = 64 } "] {
        let program = format!(
            "{setting}begin {{ for ($i : 0..150001) {{ printf(\"begin %d\\n\", $i); }} }}
             end {{ for ($i : 0..150001) {{ printf(\"end %d\\n\", $i); }} }}"
        );
        let run = WorkFolder::new().run(&["run", "-q", "-e", &program]).succeeds();
        let printed = run
            .out
            .lines()
            .filter(|line| line.starts_with("begin ") || line.starts_with("end "))
            .count();
        let said = run.err.split("lost event count: ").nth(1);
        let said = said.and_then(|rest| rest.split_whitespace().next());
        let lost = said.map_or(0, |count| count.parse().unwrap());
        assert_eq!(printed + lost, 300_002, "{setting}: {}", run.err);
        // With up to 16 processors a ring of its own size holds all of it, whether or not its reader gets a processor in time.
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(!setting.is_empty() || cpus > 16 || lost == 0, "{}", run.err);
    }
}
