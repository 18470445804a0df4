//! Errors in a file by itself.

use crate::kernel::wrong;
use kestrel::buffer::layout::Mode;
use kestrel::table::{TableFile, read};
use kestrel_compiler::lang::diag::has_errors;

fn file(text: &str) -> TableFile {
    let (file, found) = read(text, "test.kst");
    assert!(found.is_empty(), "{found:?}");
    file
}

#[test]
fn a_file_without_buffers_has_one() {
    let file = file("sched:sched_switch { record() }");
    let buffer = &file.buffers[0];
    assert_eq!(
        (buffer.name.as_str(), buffer.bytes, buffer.mode),
        ("main", 4 << 20, Mode::Overwrite)
    );
    assert_eq!(file.table_names().collect::<Vec<_>>(), ["main"]);
}

#[test]
fn buffers_and_parameters_are_read() {
    let text = "buffer a { size = 64K  mode = stream }\nbuffer b { size = 1M }\nparam limit = 10ms\ntable t { a:b { record() } }";
    let file = file(text);
    assert_eq!(
        (file.buffers[0].bytes, file.buffers[0].mode),
        (64 << 10, Mode::Stream)
    );
    assert_eq!(
        (file.buffers[1].bytes, file.buffers[1].mode),
        (1 << 20, Mode::Overwrite)
    );
    assert_eq!(file.parameters[0].value, 10_000_000);
}

#[test]
fn sizes_that_are_too_small_are_rounded_up_with_a_remark() {
    for (size, remarks) in [("1", 1), ("4K", 1), ("8191", 1), ("8K", 0)] {
        let text = format!("buffer a {{ size = {size} }}\ntable t {{ }}");
        let (file, found) = read(&text, "test.kst");
        let error_text: Vec<&str> = found.iter().map(|remark| remark.message.as_str()).collect();
        assert_eq!(error_text.len(), remarks, "{error_text:?}");
        assert!(
            error_text
                .iter()
                .all(|error_text| error_text.contains("at least 8 KiB")),
            "{error_text:?}"
        );
        assert!(!has_errors(&found));
        assert!(file.buffers[0].bytes > 0);
    }
}

#[test]
fn every_mistake_has_its_place() {
    for (text, place, words) in [
        ("buffer a { size = 0 }\ntable t { }", "1:19", "no bytes"),
        ("buffer a { size = 1G }\ntable t { }", "1:19", "at most 256 MiB"),
        (
            "buffer messages { size = 1M }\ntable t { }",
            "1:8",
            "reach the agent",
        ),
        (
            "buffer a { size = big }\ntable t { }",
            "1:19",
            "a number of bytes",
        ),
        (
            "buffer a { mode = streem }\ntable t { }",
            "1:19",
            "did you mean \"stream\"?",
        ),
        (
            "buffer a { sise = 1M }\ntable t { }",
            "1:12",
            "did you mean \"size\"?",
        ),
        (
            "buffer a { size = 1M size = 2M }\ntable t { }",
            "1:22",
            "set twice",
        ),
        (
            "buffer a { }\nbuffer b { process = 0 }\ntable t { }",
            "2:22",
            "from 1 to 4194303",
        ),
        (
            "buffer a { }\nbuffer b { process = \"sh\" }\ntable t { }",
            "2:22",
            "its number, or a parameter",
        ),
        (
            "param x = 1\nbuffer a { }\nbuffer b { process = y }\ntable t { }",
            "3:8",
            "there are x",
        ),
        (
            "param x = true\nbuffer a { }\nbuffer b { process = x }\ntable t { }",
            "3:8",
            "holds no number",
        ),
        (
            "buffer a { process = 7 }\ntable t { }",
            "1:8",
            "cannot be for one process",
        ),
        (
            "buffer a { }\nbuffer a { }\ntable t { }",
            "2:8",
            "there is a buffer \"a\" already",
        ),
        (
            "table t { }\ntable t { }",
            "2:7",
            "there is a table \"t\" already",
        ),
        (
            "table t : tt { }\ntable s { }",
            "1:11",
            "there is no table \"tt\"",
        ),
        ("table a : b { }\ntable b : a { }", "1:11", "a from b from a"),
        ("table a : a { }", "1:11", "a from a"),
        (
            "param x = 1\nparam x = 2\ntable t { }",
            "2:7",
            "there is a parameter \"x\" already",
        ),
        ("buffer a { }", "1:12", "no table"),
        ("// nothing\n", "1:10", "no table"),
        ("", "1:1", "no table"),
        ("table t { sched:sched_switch { record( } }", "1:40", "expected"),
    ] {
        let error_text = wrong(text);
        assert!(
            error_text.starts_with(&format!("test.kst:{place}: error: ")),
            "{text}\n{error_text}"
        );
        assert!(error_text.contains(words), "{text}\n{error_text}");
    }
}

#[test]
fn too_many_tables_buffers_and_parameters_are_refused() {
    let many = |word: &str, tail: &str, n: usize| -> String {
        (0..n)
            .map(|i| format!("{word} n{i} {tail}\n"))
            .collect::<String>()
            + "table last { }"
    };
    for (text, words) in [
        (many("table", "{ }", 512), "at most 512 tables; this one has 513"),
        (many("buffer", "{ }", 33), "at most 32 buffers; this one has 33"),
        (
            many("param", "= 1", 257),
            "at most 256 parameters; this one has 257",
        ),
    ] {
        let (_, found) = read(&text, "test.kst");
        assert!(
            found.iter().any(|d| d.message.contains(words)),
            "{words}: {found:?}"
        );
    }
    let (_, found) = read(&many("table", "{ }", 511), "test.kst");
    assert_eq!(found, []);
}

#[test]
fn any_bytes_give_a_file_and_words() {
    let text = "buffer a { size = 1M }\ntable t : s { sched:* , k:f /pid/ { record() } }\nparam x = 1";
    for end in 0..text.len() {
        for junk in ["", "{", "}", "/", "\"", "table", ":"] {
            let _ = read(&format!("{}{junk}", &text[..end]), "test.kst");
        }
    }
}
