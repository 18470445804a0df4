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
