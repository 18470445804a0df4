//! `kestrel run`: what programs print and how they end.

use crate::house::{Place, needs_tracing};

/// What a program prints, without what is said about its probes.
fn printed(program: &str) -> String {
    Place::new().run(&["run", "-q", "-e", program]).succeeds().out
}

#[test]
fn programs_print_in_the_order_of_time() {
    needs_tracing!();
    let program = r#"begin { printf("%d %s\n", 1 + 1, "two"); print((1, "a")); }
        interval:ms:20 { if (@n++ == 2) { exit(); } }
        end { for ($i : 0..3) { printf("%d ", $i); } printf("bye\n"); }"#;
    let out = printed(program);
    assert!(out.starts_with("2 two\n(1, a)\n0 1 2 bye\n"), "{out}");
    assert!(out.contains("@n: 3\n"), "{out}");
}

/// A map is read before the handler that fills it, and a variable grows with what is stored in it.
#[test]
fn what_is_held_is_found_over_all_uses() {
    needs_tracing!();
    let program = r#"begin { print(@later["x"]); $s = "a"; $s = "longer"; print($s); exit(); }
        end { @later["x"] = "text"; @pairs[(1, 2), "k"] = (3, "v"); }"#;
    let out = printed(program);
    assert!(out.starts_with("\nlonger\n"), "{out}");
    assert!(
        out.contains("@later[x]: text\n") && out.contains("@pairs[(1, 2), k]: (3, v)\n"),
        "{out}"
    );
}

/// Each reading of a map that is cleared shows what was counted since the one before.
#[test]
fn no_count_is_lost_or_doubled_over_clearings() {
    needs_tracing!();
    let program = r#"begin { @c = count(); @c = count(); print(@c); clear(@c); @c = count(); print(@c); clear(@c); exit(); }"#;
    let out = printed(program);
    assert!(out.starts_with("@c: 2\n"), "{out}");
    let counts = out.matches("@c: 2\n").count() + out.matches("@c: 1\n").count();
    assert_eq!(counts, 2, "{out}");
}

#[test]
fn programs_that_are_wrong_are_refused() {
    needs_tracing!();
    let place = Place::new();
    let wrong = |program: &str, words: &[&str]| place.run(&["run", "-e", program]).fails(2, words);
    wrong("begin { nosuch() }", &["unknown function \"nosuch\""]);
    wrong("begin { printf(\"%d\") }", &["not enough arguments"]);
    wrong(
        "begin { system(\"touch here\") }",
        &["unsafe function", "--unsafe"],
    );
    // Only programs fire them.
    place
        .run(&["record", "-e", "BEGIN", "--", "true"])
        .fails(2, &["BEGIN", "not yet supported"]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn the_code_of_exit_is_the_commands() {
    needs_tracing!();
    Place::new()
        .run(&["run", "-e", "begin { exit(3) }"])
        .fails(3, &[]);
}
