//! `kestrel run`: values that are read from the memory of a process.

use crate::command::{WorkFolder, needs_tracing};

/// A program that passes a struct with pointers, then pairs of strings of which the second may be in the first.
const PASSING: &str = "
    #include <string.h>
    struct in { int *one; int *two; };
    struct all { int first; struct in in; int *list[3]; int none[0]; };
    __attribute__((noinline)) void pass(struct all *all) { __asm__ volatile(\"\" :: \"r\"(all) : \"memory\"); }
    __attribute__((noinline)) void look(const char *text, const char *part) { __asm__ volatile(\"\" :: \"r\"(text), \"r\"(part) : \"memory\"); }
    int main(void) {
        int numbers[3] = {1, 2, 3};
        struct all all = {7, {numbers, numbers + 1}, {numbers, numbers + 1, numbers + 2}};
        pass(&all);
        static char text[900], part[900];
        memset(text, 'x', 800); memset(part, 'x', 300); look(text, part);
        part[299] = 'y'; look(text, part);
        text[799] = 'y'; look(text, part);
        part[200] = 'z'; look(text, part);
        memset(part, 0, 900); memset(part, 'x', 128); look(text, part);
        memset(part, 'x', 127); part[127] = 'y'; look(text, part);
        part[0] = 0; look(text, part);
        memset(part, 'x', 850); look(text, part);
        return 0; }";

/// Pointers in a copy of a struct lead into the memory of the process, as the struct did; strings are found whatever their lengths are.
#[test]
fn copies_of_structs_and_long_strings_are_of_the_process() {
    needs_tracing!();
    let place = WorkFolder::new();
    let (source, program) = (place.path().join("passing.c"), place.path().join("passing"));
    std::fs::write(&source, PASSING).unwrap();
    let mut compiler = std::process::Command::new("cc");
    let compiled = compiler.args(["-O1", "-o"]).arg(&program).arg(&source).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no compiler of C");
        return;
    }
    let program = program.display().to_string();
    let ran = |text: &str| {
        let run = place.run(&["run", "-q", "-e", text, "-c", &program]).succeeds();
        assert_eq!(run.err, "");
        run.out.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let structs = ran(&format!(
        r#"struct in {{ int *one; int *two; }} struct all {{ int first; struct in in; int *list[3]; int none[0]; }}
        uprobe:{program}:pass {{
            $all = *(struct all *)arg0; $in = $all.in; $list = ((struct all *)arg0).list; let $same: int32 *[3] = $list;
            print((*$all.in.one, *$in.two, *$list[2], *$same[1], *$all.list[0]));
            @kept = $all; $pointer = @kept.in.two; @in[1] = $all.in; print((*@kept.in.one, *$pointer));
            for ($kv : @in) {{ print(*$kv.1.two); }} print($all.none); clear(@kept); clear(@in); }}"#
    ));
    assert_eq!(structs, "(1, 2, 3, 2, 1) (1, 2) 2 []");
    let places = ran(&format!(
        r#"uprobe:{program}:look {{ print((strstr(str(arg0), str(arg1)), strcontains(str(arg0), str(arg1)))); }}"#
    ));
    assert_eq!(
        places,
        "(0, true) (-1, false) (500, true) (-1, false) (0, true) (672, true) (0, true) (-1, false)"
    );
    let long = ran(&format!(
        r#"config = {{ max_strlen = 9999 }} uprobe:{program}:look {{ print((strstr(str(arg0), "xxy"), strstr(str(arg0), str(arg1)) == 500)); }}"#
    ));
    assert_eq!(
        long.matches("(797, ").count(),
        6,
        "the last six texts have it: {long}"
    );
    assert_eq!(long.matches("true").count(), 1, "{long}");
}
