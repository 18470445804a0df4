//! What messages begin with where they are rendered as bpftrace's: its words, at its place; the compiler's own follow.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;

use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::lang::ast::Item;
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::{Diagnostic, Severity, Style, render_as_bpftrace};
use kestrel_compiler::lang::expand::{Inputs, expand};

/// The errors about a script.
fn errors(text: &str) -> Vec<Diagnostic> {
    let expanded = expand("stdin", text, Config::default(), &Inputs::default());
    let mut found = expanded.found;
    let context = kernel::by_name("kprobe");
    let mut globals = Globals {
        infers_types: true,
        ..Globals::default()
    };
    for item in &expanded.script.items {
        if let Item::Probe(probe) = item {
            found.extend(check(probe, &context, true, &mut globals).1);
        }
    }
    found.retain(|one| one.severity == Severity::Error);
    found
}

/// Of operands: the type that was refused is named at the whole of the expression or call; the compiler's own words say it at the operand.
#[test]
fn errors_about_operands_begin_as_bpftraces_do() {
    for (body, line) in [
        (
            "@ = avg(\"a\");",
            "stdin:1:13-21: ERROR: avg() only supports integer arguments (string[2] provided)",
        ),
        (
            "print(\"a\" > 1);",
            "stdin:1:15-22: ERROR: Type mismatch for '>': comparing string[2] with int8",
        ),
        (
            "print(str((1,2)));",
            "stdin:1:15-25: ERROR: str() expects a string, integer or a pointer type as first argument ((int8,int8) provided)",
        ),
        (
            "@ = sum((1,2));",
            "stdin:1:13-23: ERROR: sum() only supports integer arguments ((int8,int8) provided)",
        ),
        (
            "@ = sum(comm);",
            "stdin:1:13-22: ERROR: sum() only supports integer arguments (string[16] provided)",
        ),
        (
            "@ = tseries(5, \"a\", 5);",
            "stdin:1:13-31: ERROR: tseries: invalid interval_ns value (must be non-negative literal)",
        ),
        (
            "$s = 2; @ = lhist(5, 0, 10, $s);",
            "stdin:1:21-40: ERROR: lhist: invalid step value",
        ),
        (
            "print(kstack(\"a\"));",
            "stdin:1:15-26: ERROR: kstack: invalid limit value",
        ),
        (
            "$n = 5; print(kstack(perf, $n));",
            "stdin:1:23-39: ERROR: kstack: invalid limit value",
        ),
        (
            "print(ustack(bpftace));",
            "stdin:1:22-29: ERROR: Error parsing stack mode: ustack: Invalid value for stack_mode: valid values are bpftrace, raw, perf, and build_id.",
        ),
        (
            "print(kstack(build_id));",
            "stdin:1:15-31: ERROR: 'build_id' stack mode can only be used for ustack",
        ),
        (
            "print(str(5, \"a\"));",
            "stdin:1:15-26: ERROR: str() only supports int arguments (string provided)",
        ),
        (
            "print(buf(\"a\", \"b\"));",
            "stdin:1:15-28: ERROR: buf() only supports int arguments (string provided)",
        ),
        (
            "print(usym(\"a\"));",
            "stdin:1:15-24: ERROR: usym() expects an integer or pointer argument",
        ),
        (
            "print(ksym(\"a\"));",
            "stdin:1:15-24: ERROR: ksym() expects an integer or pointer argument",
        ),
        (
            "print(uptr(\"a\"));",
            "stdin:1:15-24: ERROR: uptr() only supports integer or pointer arguments (string provided)",
        ),
        (
            "print(strftime(\"%H\", (1,2)));",
            "stdin:1:15-36: ERROR: strftime() only supports int arguments (tuple provided)",
        ),
        (
            "print(bswap(\"a\"));",
            "stdin:1:15-25: ERROR: bswap() only supports integer arguments (string provided)",
        ),
        (
            "exit(\"a\");",
            "stdin:1:9-18: ERROR: exit() only supports int arguments (string provided)",
        ),
        (
            "print(nsecs(\"boot\"));",
            "stdin:1:15-28: ERROR: nsecs() only supports timestamp_mode arguments (string provided)",
        ),
        (
            "print(pid(foo));",
            "stdin:1:19-22: ERROR: Invalid PID namespace mode: foo (expects: curr_ns or init)",
        ),
        (
            "print(strncmp(\"a\", \"b\", \"c\"));",
            "stdin:1:15-37: ERROR: Builtin strncmp requires a non-negative literal",
        ),
        (
            "print(strncmp(\"a\", \"b\", -1));",
            "stdin:1:15-36: ERROR: Builtin strncmp requires a non-negative literal",
        ),
        (
            "print(strlen(\"a\", \"b\"));",
            "stdin:1:15-31: ERROR: Call to strlen() has arguments that do not match any definition.",
        ),
        (
            "print(cpu(1));",
            "stdin:1:15-21: ERROR: Call to cpu() has arguments that do not match any definition.",
        ),
        (
            "@a = hist(5); $x = @a;",
            "stdin:1:23-30: ERROR: Value 'hist_t' cannot be assigned to a scratch variable.",
        ),
        (
            "@a = hist(5); @b = @a;",
            "stdin:1:23-30: ERROR: Map value 'hist_t' cannot be assigned from one map to another. The function that returns this type must be called directly e.g. `@b = hist(retval);`.",
        ),
        (
            "print(\"a\" - 1);",
            "stdin:1:15-22: ERROR: Type mismatch for '-': comparing string[2] with int8",
        ),
        (
            "print((1,2) + (1,2));",
            "stdin:1:15-28: ERROR: The + operator can not be used on expressions of types (int8,int8), (int8,int8)",
        ),
        (
            "print(curtask + \"a\");",
            "stdin:1:15-28: ERROR: The + operator can not be used on expressions of types struct task_struct *, string[2]",
        ),
        (
            "print(curtask + curtask);",
            "stdin:1:15-32: ERROR: The + operator can not be used on expressions of types struct task_struct *, struct task_struct *",
        ),
        (
            "print(\"a\" && 1);",
            "stdin:1:15-23: ERROR: Type mismatch for '&&': comparing string[2] with int8",
        ),
        (
            "print(-\"a\");",
            "stdin:1:15-19: ERROR: The - operator can not be used on expressions of type 'string[2]'",
        ),
        (
            "print(!\"a\");",
            "stdin:1:15-19: ERROR: The ! operator can not be used on expressions of type 'string[2]'",
        ),
        (
            "print(~\"a\");",
            "stdin:1:15-19: ERROR: The ~ operator can not be used on expressions of type 'string[2]'",
        ),
        (
            "print(*\"a\");",
            "stdin:1:15-19: ERROR: The * operator can not be used on expressions of type 'string[2]'",
        ),
        (
            "print(-true);",
            "stdin:1:15-20: ERROR: The - operator can not be used on expressions of type 'bool'",
        ),
        (
            "$a = 5; print($a.x);",
            "stdin:1:23-27: ERROR: Can not access field 'x' on expression of type 'int8'",
        ),
        (
            "$a = (1, 2); print($a.x);",
            "stdin:1:28-32: ERROR: Can not access field 'x' on expression of type '(int8,int8)'",
        ),
        (
            "$a = (x=1); print($a.0);",
            "stdin:1:27-31: ERROR: Can not access index '0' on expression of type 'record { .x = int8 }'",
        ),
        (
            "print(10 / 0);",
            "stdin:1:15-21: ERROR: unable to fold literals due to overflow or underflow",
        ),
        (
            "++5;",
            "stdin:1:11-12: ERROR: syntax: increment/decrement requires a variable or map",
        ),
        (
            "$a[1] = 5;",
            "stdin:1:9-18: ERROR: syntax: invalid assignment target",
        ),
    ] {
        let text = format!("begin {{ {body} }}");
        let found = errors(&text);
        let shown = render_as_bpftrace(&found, "stdin", &text, Style::default());
        assert_eq!(shown.lines().next(), Some(line), "{text}");
        assert!(shown.contains(&found[0].message), "{shown}");
    }
}

/// Errors of syntax in bpftrace's words, where they are rendered as its messages are; the parser's own words follow.
#[test]
fn errors_of_syntax_begin_as_bpftraces_do() {
    for (text, line) in [
        (
            "begin { print(1) print(2); }",
            "stdin:1:18-23: ERROR: syntax: expected ';'",
        ),
        ("begin { @[1 = 5; }", "stdin:1:13-14: ERROR: syntax: expected ']'"),
        (
            "begin { print((1, 2); }",
            "stdin:1:21-22: ERROR: syntax: expected ')'",
        ),
        (
            "begin { print(1 +); }",
            "stdin:1:18-19: ERROR: syntax: expected expression",
        ),
        (
            "begin { if (1) print(1); }",
            "stdin:1:16-21: ERROR: syntax: expected '{'",
        ),
        (
            "begin { if (1) { print(1); } else print(2); }",
            "stdin:1:35-40: ERROR: syntax: expected '{' or 'if' after 'else'",
        ),
        (
            "begin { for ($i in 0..5) { print($i); } }",
            "stdin:1:17-19: ERROR: syntax: expected ':'",
        ),
        (
            "begin { for (i : 0..5) { print(i); } }",
            "stdin:1:14-15: ERROR: syntax: expected variable in for loop",
        ),
        (
            "begin { let a = 5; }",
            "stdin:1:13-14: ERROR: syntax: expected variable after 'let'",
        ),
        (
            "begin { let $a : = 5; }",
            "stdin:1:18-19: ERROR: syntax: expected type name",
        ),
        ("begin { x = 5; }", "stdin:1:11-12: ERROR: syntax: expected ';'"),
        ("begin { $x := 5; }", "stdin:1:12-13: ERROR: syntax: expected ';'"),
        (
            "begin { print('a'); }",
            "stdin:1:15-16: ERROR: syntax: expected expression",
        ),
        (
            "begin { print(“a”); }",
            "stdin:1:15-16: ERROR: syntax: expected expression",
        ),
        (
            "begin { printf(\"hello) }",
            "stdin:1:25-25: ERROR: syntax: unterminated string",
        ),
        (
            "begin { print(1); /* x }",
            "stdin:1:25-25: ERROR: syntax: expected '}'",
        ),
        (
            "begin { print(1); // x }",
            "stdin:1:25-25: ERROR: syntax: expected '}'",
        ),
        (
            "BEGIN { @start = nsecs END { print(1); }",
            "stdin:1:24-27: ERROR: syntax: expected ';'",
        ),
        ("begin print(1);", "stdin:1:7-12: ERROR: syntax: expected '{'"),
        (
            "begin () { print(1); }",
            "stdin:1:7-8: ERROR: syntax: expected '{'",
        ),
        (
            "begin { print(1); } print(2);",
            "stdin:1:30-30: ERROR: syntax: expected '{'",
        ),
        (
            ", begin { print(1); }",
            "stdin:1:1-2: ERROR: syntax: expected attach point",
        ),
        (
            "begin { print(1); } }",
            "stdin:1:22-22: ERROR: syntax: expected '{'",
        ),
        (
            "begin /1 { print(1); }",
            "stdin:1:10-11: ERROR: syntax: expected '/' to close predicate",
        ),
        (
            "begin /pid = 5/ { print(1); }",
            "stdin:1:12-13: ERROR: syntax: expected '/' to close predicate",
        ),
        (
            "begin { print(curtask.); }",
            "stdin:1:23-24: ERROR: syntax: expected field name after '.'",
        ),
        (
            "begin { print(curtask->); }",
            "stdin:1:24-25: ERROR: syntax: expected field name after '->'",
        ),
        (
            "begin { $a = 1 ? 2; }",
            "stdin:1:19-20: ERROR: syntax: expected ':'",
        ),
        (
            "begin { print(1abc); }",
            "stdin:1:16-19: ERROR: syntax: invalid integer suffix 'abc'",
        ),
        (
            "begin { print(0x); }",
            "stdin:1:15-17: ERROR: syntax: invalid integer: ",
        ),
        (
            "begin { print(08); }",
            "stdin:1:15-17: ERROR: syntax: invalid trailing bytes: 08",
        ),
        (
            "begin { print(99999999999999999999); }",
            "stdin:1:15-35: ERROR: syntax: overflow error, maximum value is 18446744073709551615: 99999999999999999999",
        ),
        (
            "begin { print(\"\\q\"); }",
            "stdin:1:17-18: ERROR: syntax: invalid escape character '\\q'",
        ),
        (
            "begin { print(\"\\x\"); }",
            "stdin:1:18-19: ERROR: syntax: invalid hex escape sequence",
        ),
        (
            "begin { print($); }",
            "stdin:1:15-16: ERROR: syntax: expected identifier after '$'",
        ),
        ("begin { @@a = 5; }", "stdin:1:10-12: ERROR: syntax: expected ';'"),
        (
            "begin { printf \"hello\"; }",
            "stdin:1:16-17: ERROR: syntax: expected ';'",
        ),
        (
            "kprobe:f(int x) { print(1); }",
            "stdin:1:14-15: ERROR: syntax: expected '{'",
        ),
        (
            "macro { x } begin { }",
            "stdin:1:7-8: ERROR: syntax: expected macro name",
        ),
        (
            "macro m(x y) { x } begin { }",
            "stdin:1:11-12: ERROR: syntax: expected ')'",
        ),
        (
            "macro m(5) { x } begin { }",
            "stdin:1:9-10: ERROR: syntax: expected macro argument ($var, @map, or identifier)",
        ),
        (
            "fn f(x : int32) : int32 { return 1; } begin { }",
            "stdin:1:6-7: ERROR: syntax: expected variable in function argument",
        ),
        (
            "fn () : int32 { return 1; } begin { }",
            "stdin:1:4-5: ERROR: syntax: expected function name",
        ),
        (
            "config = { = 5 } begin { }",
            "stdin:1:12-13: ERROR: syntax: expected config key",
        ),
        (
            "config = { max_strlen = 5 begin { }",
            "stdin:1:27-32: ERROR: syntax: expected ';'",
        ),
        ("config { } begin { }", "stdin:1:8-9: ERROR: syntax: expected '='"),
        (
            "begin { } config = { max_strlen = 10 }",
            "stdin:1:11-17: ERROR: syntax: config must appear before probes and functions",
        ),
        (
            "import x; begin { }",
            "stdin:1:8-9: ERROR: syntax: expected string after 'import'",
        ),
        (
            "begin { } import \"stdlib/base.bt\";",
            "stdin:1:11-17: ERROR: syntax: root imports must appear before probes and functions",
        ),
        (
            "let a = hash(5); begin { @a[1] = 1; }",
            "stdin:1:1-4: ERROR: syntax: root-level let statements need to be map declarations, e.g. let @a = hash(2);",
        ),
        (
            "let @a hash(5); begin { @a[1] = 1; }",
            "stdin:1:8-12: ERROR: syntax: expected '='",
        ),
        (
            "begin { $a = (x=1, 2); }",
            "stdin:1:20-21: ERROR: syntax: expected identifier",
        ),
    ] {
        let found = expand("stdin", text, Config::default(), &Inputs::default()).found;
        let shown = render_as_bpftrace(&found, "stdin", text, Style::default());
        assert_eq!(shown.lines().next(), Some(line), "{text}");
        assert!(shown.contains(&found[0].message), "{shown}");
    }
}
