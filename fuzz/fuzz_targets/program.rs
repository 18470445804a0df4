//! Programs made of the language's own pieces: bytes choose tokens, so that what comes looks like a program and gets as far as the checker. It is expanded, checked
//! in rounds as `kestrel run` does, and formatted.
#![no_main]

use kestrel_compiler::check::{check, globals::Globals, shape::ROUNDS};
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::ast::Item;
use kestrel_compiler::lang::config::Config;
use kestrel_compiler::lang::diag::{Style, has_errors};
use kestrel_compiler::lang::expand::{Inputs, expand};
use kestrel_compiler::lang::format::format;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

#[path = "../../crates/compiler/tests/kernel/mod.rs"]
mod kernel;

static EVENTS: LazyLock<Vec<Context>> = LazyLock::new(|| vec![kernel::switch(), kernel::kprobe()]);

/// A table: the pieces that a byte chooses from.
const PIECES: &[&str] = &[
    "begin { ", "kprobe:f ", "/", "{ ", "} ", "( ", ") ", "[ ", "] ", "; ", ", ", "= ", "== ", "!= ", "< ", ">= ", "+ ", "- ", "* ",
    "/ ", "% ", "<< ", ">> ", "& ", "| ", "^ ", "&& ", "|| ", "! ", "~ ", "? ", ": ", ".. ", "->", ".", "++ ", "-- ", "+= ", "$a ",
    "$b ", "$c ", "@ ", "@m ", "@n ", "@m[1] ", "@n[$a, comm] ", "1 ", "0 ", "-1 ", "255 ", "0x7fffffffffffffff ", "\"\" ", "\"text\" ",
    "pid ", "comm ", "nsecs ", "arg0 ", "args", "args.prev ", "args.prev->", "pid ", "curtask ", "retval ", "kstack ", "ustack(3) ",
    "if (", "else ", "while (", "for ($i : 0..", "for ($kv : @m) { ", "unroll (2) { ", "break; ", "continue; ", "return; ", "let ", "let $d : ",
    "(int8)", "(uint64)", "(bool)", "(struct task_struct *)", "(int8[8])", "int32 ", "string[16] ", "sizeof(", "offsetof(struct task_struct, ",
    "count() ", "sum(", "avg(", "hist(", "lhist(", "stats(", "print(", "printf(\"%d %s\", ", "clear(", "zero(", "delete(@m, ", "has_key(@m, ",
    "len(", "str(", "strncmp(", "strcontains(", "buf(", "(1, \"x\") ", "(a=1, b=2) ", "comptime ", "macro f($x) { ", "macro g(@x, y) { ", "f(",
    "g(", "&", "true ", "false ", "exit(); ", "config = { max_strlen = ", "import \"x\"; ", "#define A ", "A ", "\n", "$1 ", "$# ", "kaddr(\"x\") ",
    "ntop(", "pton(\"::1\") ", "join(", "strftime(\"%H\", ", "tseries(", "record(", "typeof(", "fn h($x : int64) : int64 { ", "enum e { X, Y }; ",
    "struct s { int a; char b[4]; }; ", "(struct s *)",
];

fuzz_target!(|bytes: &[u8]| {
    let text: String = bytes
        .iter()
        .take(400)
        .map(|byte| PIECES[*byte as usize % PIECES.len()])
        .collect();
    _ = format(&text);
    let expanded = expand("<program>", &text, Config::default(), &Inputs::default());
    expanded.sources.render(&expanded.found, Style::default());
    if has_errors(&expanded.found) {
        return;
    }
    for context in &*EVENTS {
        let mut shapes = None;
        for _ in 0..ROUNDS {
            let mut globals = Globals {
                infers_types: true,
                source: Some(("<program>".to_owned(), "".into())),
                shapes: shapes.clone().unwrap_or_default(),
                ..Globals::default()
            };
            for item in &expanded.script.items {
                if let Item::Probe(probe) = item {
                    let (_, found) = check(probe, context, true, &mut globals);
                    expanded.sources.render(&found, Style::default());
                }
            }
            if shapes.as_ref() == Some(&globals.shapes) {
                break;
            }
            shapes = Some(globals.shapes);
        }
    }
});
