//! Names of errors, signals and system calls where they meet other strings.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;
#[path = "support/maps.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod sharing;
mod support;

use sharing::Maps;

/// Contents of a program's maps when it has run once with numbers as its arguments.
#[track_caller]
fn once(program: &str, numbers: &[i64], maps: &[&str]) -> String {
    let mut made = Maps::program(&[&format!("{{ {program} }}")]);
    let numbers: Vec<u64> = numbers.iter().map(|number| number.cast_unsigned()).collect();
    made.run(0, 0, &numbers);
    maps.iter().map(|map| made.text(map)).collect()
}

#[test]
fn names_are_kept_with_other_strings() {
    for (program, numbers, held) in [
        (
            "@ = \"x\"; @ = strerror(arg0)",
            vec![2],
            "@: No such file or directory\n",
        ),
        ("@ = strerror(arg0); @ = \"x\"", vec![2], "@: x\n"),
        (
            "@ = strerror(2); @ = strerror(arg0)",
            vec![-1],
            "@: Operation not permitted\n",
        ),
        ("@ = \"x\"; @ = signal_name(arg0)", vec![9], "@: Killed\n"),
        ("@ = \"x\"; @ = syscall_name(arg0)", vec![1], "@: write\n"),
        (
            "@[syscall_name(arg0)] = 1; @[\"x\"] = 2; @[syscall_name(0)] = 3",
            vec![1],
            "@[write]: 1\n@[x]: 2\n@[read]: 3\n",
        ),
        (
            "@[1, signal_name(arg0)] = 1; @[2, \"x\"] = 2",
            vec![64],
            "@[1, Real-time signal 30]: 1\n@[2, x]: 2\n",
        ),
        (
            "@ = (1, syscall_name(arg0)); @ = (2, \"x\"); @ = (3, syscall_name(arg0))",
            vec![59],
            "@: (3, execve)\n",
        ),
        (
            "$x = strerror(arg0); $x = \"longer than all the others\"; $x = strerror(arg0); @ = $x",
            vec![1],
            "@: Operation not permitted\n",
        ),
        (
            "$x = arg0 == 1 ? \"none\" : signal_name(arg0); @ = $x",
            vec![15],
            "@: Terminated\n",
        ),
        (
            "$x = arg0 == 1 ? syscall_name(arg0) : \"none\"; @ = $x",
            vec![1],
            "@: write\n",
        ),
        (
            "@k = signal_name(arg0); $k = @k; @ = \"none\"; @ = @k",
            vec![9],
            "@: Killed\n",
        ),
        (
            "@ = (strlen(signal_name(arg0)), strlen(strerror(2)), str_concat(syscall_name(arg0), \"!\"))",
            vec![1],
            "@: (6, 25, write!)\n",
        ),
    ] {
        assert_eq!(once(program, &numbers, &[""]), held, "{program}");
    }
}

/// A number without a name has the text for that, whatever lies around it.
#[test]
fn numbers_without_names_have_a_string() {
    for (number, held) in [
        (-5_000_i64, "@: (Unknown error, N/A, Unknown syscall)\n"),
        (0, "@: (Success, Unknown signal 0, read)\n"),
        (32, "@: (Broken pipe, Unknown signal 32, dup)\n"),
        (1_000_000, "@: (Unknown error, N/A, Unknown syscall)\n"),
    ] {
        let program = "$a = \"\"; $a = strerror(arg0); $b = \"\"; $b = signal_name(arg0); $c = \"\"; $c = syscall_name(arg0); @ = ($a, $b, $c)";
        assert_eq!(once(program, &[number], &[""]), held, "{number}");
    }
}

#[test]
fn names_are_compared_with_strings() {
    let program = "$s = \"Broken pipe\"; @ = (strerror(arg0) == \"Broken pipe\", strerror(arg0) == $s, strerror(arg0) != \"Success\", signal_name(arg1) == \"Killed\", \"write\" == syscall_name(arg2), syscall_name(arg2) == \"no call\", syscall_name(0) == \"read\", syscall_name(arg2) == \"Unknown syscall\")";
    assert_eq!(
        once(program, &[-32, 9, 1], &[""]),
        "@: (true, true, true, true, true, false, true, false)\n"
    );
    assert_eq!(
        once(program, &[1, 1, 9_999], &[""]),
        "@: (false, false, true, false, false, false, true, true)\n"
    );
}
