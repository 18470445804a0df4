//! Maps that are read before a statement determines their type: all uses together do, in whatever order they stand.

use crate::sharing::Maps;

/// Contents of maps when all handlers of a program have run, one after another.
#[track_caller]
fn after(handlers: &[&str], maps: &[&str]) -> String {
    let mut made = Maps::program(handlers);
    for handler in 0..handlers.len() {
        made.run(handler, 0, &[0, 0, 7]);
    }
    maps.iter().map(|map| made.text(map)).collect()
}

#[test]
fn values_have_the_type_of_a_later_store() {
    for (handlers, maps, held) in [
        (
            vec!["{ @a = @b; @b = @c; @c = \"text\" }"],
            vec!["a", "b", "c"],
            "@a: \n@b: \n@c: text\n",
        ),
        (
            vec![
                "{ @a = @b }",
                "{ @b = @c }",
                "{ @c = @d }",
                "{ @d = (1, \"x\") }",
                "{ @a = @d }",
            ],
            vec!["a", "b", "c"],
            "@a: (1, x)\n@b: (0, )\n@c: (0, )\n",
        ),
        (
            vec!["{ @t = (1, @b) }", "{ @b = \"hello\" }"],
            vec!["t"],
            "@t: (1, )\n",
        ),
        (
            vec!["{ $x = @m; @y = $x }", "{ @m = \"str\" }"],
            vec!["y"],
            "@y: \n",
        ),
        (
            vec!["{ let $x; $x = @m; @y = $x.1 }", "{ @m = (1, \"str\") }"],
            vec!["y"],
            "@y: \n",
        ),
        (
            vec!["{ @r = arg2 ? @a : @b }", "{ @a = \"x\"; @b = \"longer\" }"],
            vec!["r"],
            "@r: \n",
        ),
        (
            vec!["{ @j = @i; @i = @j }", "{ @i = \"str\" }"],
            vec!["i", "j"],
            "@i: str\n@j: \n",
        ),
        (
            vec!["{ @k[1] = @i }", "{ @i = (int8)-3 }", "{ @k[2] = @i }"],
            vec!["k"],
            "@k[2]: -3\n@k[1]: 0\n",
        ),
        (
            vec![
                "{ @y = @x }",
                "{ @x = (2, \"a\"); @x = (3, \"abcdefgh\"); @y = @x }",
            ],
            vec!["y"],
            "@y: (3, abcdefgh)\n",
        ),
        (
            vec!["{ if (@x) { @y = @x } else { @y = false } }", "{ @x = true }"],
            vec!["y"],
            "@y: false\n",
        ),
    ] {
        assert_eq!(after(&handlers, &maps), held, "{handlers:?}");
    }
}

#[test]
fn keys_have_the_type_of_a_later_store() {
    for (handlers, maps, held) in [
        (
            vec!["{ @a[@b] = 1; @b = \"x\"; @a[@b] = 2 }"],
            vec!["a"],
            "@a[]: 1\n@a[x]: 2\n",
        ),
        (
            vec!["{ @y[@x] = 1 }", "{ @x = (1, \"b\") }"],
            vec!["y"],
            "@y[0, ]: 1\n",
        ),
        (
            vec!["{ @y[@x, @z] = @z }", "{ @x = 1; @z = \"c\" }"],
            vec!["y"],
            "@y[0, ]: \n",
        ),
        (
            vec!["{ @x[@y[@z]] = 1 }", "{ @y[1] = \"a\"; @z = 1; @x[@y[@z]] = 2 }"],
            vec!["x"],
            "@x[]: 1\n@x[a]: 2\n",
        ),
        (
            vec![
                "{ $k = (1, @x); @y[$k] = 1; $k = (2, \"abcdefghi\"); @y[$k] = 2 }",
                "{ @x = \"abc\" }",
            ],
            vec!["y"],
            "@y[1, ]: 1\n@y[2, abcdefghi]: 2\n",
        ),
    ] {
        assert_eq!(after(&handlers, &maps), held, "{handlers:?}");
    }
}

/// Maps whose type no statement determines hold numbers, and values read from them are numbers to the others.
#[test]
fn maps_of_unknown_type_hold_numbers() {
    for (handlers, maps, held) in [
        (vec!["{ @j = @i; @i = @j }"], vec!["i", "j"], "@i: 0\n@j: 0\n"),
        (
            vec!["{ @i = @i + arg2 }", "{ @k[@i] = 1 }"],
            vec!["i", "k"],
            "@i: 7\n@k[7]: 1\n",
        ),
        (
            vec![
                "{ @c = @b }",
                "{ @b = @never == 1 ? \"x\" : \"yes\" }",
                "{ @c = @b }",
            ],
            vec!["c"],
            "@c: yes\n",
        ),
    ] {
        let mut made = Maps::program_of_any(&handlers, |_, _| crate::kernel::kprobe());
        for handler in 0..handlers.len() {
            made.run(handler, 0, &[0, 0, 7]);
        }
        let found: String = maps.iter().map(|map| made.text(map)).collect();
        assert_eq!(found, held, "{handlers:?}");
    }
}

#[test]
fn types_are_asked_for_before_there_is_a_value() {
    for (stored, size) in [
        ("\"abcdefgh\"", 9),
        ("(uint16)1", 2),
        ("1", 1),
        ("(1, \"abc\")", 5),
        ("(uint64)1", 8),
    ] {
        let read =
            "{ @s = sizeof(typeof(@x)); if comptime (sizeof(@x) == 9) { @nine = 1 } else { @nine = 0 } }";
        let store = format!("{{ @x = {stored} }}");
        let nine = u8::from(size == 9);
        assert_eq!(
            after(&[read, &store], &["s", "nine"]),
            format!("@s: {size}\n@nine: {nine}\n"),
            "{stored}"
        );
    }
}
