//! Golden files: sections of input and expected outcome. `BLESS=1` rewrites the outcomes.
//!
//! A file is a list of cases. A case begins with `=== MODE title`, then its input, then `---` and what comes out.

use std::path::Path;

/// Runs every case of a file through `run` (mode, input → outcome).
pub(crate) fn golden(file: &str, run: impl Fn(&str, &str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut fresh = String::new();
    let mut cases = 0;
    for case in text.split("=== ").skip(1) {
        let (title, body) = case.split_once('\n').unwrap();
        let input = body.split("\n---\n").next().unwrap().trim_end();
        let mode = title.split(' ').next().unwrap();
        fresh += &format!("=== {title}\n{input}\n---\n{}\n\n", run(mode, input).trim_end());
        cases += 1;
    }
    assert!(cases > 0, "{file} holds no cases");
    testkit::golden(
        Path::new("tests/golden").join(file),
        &format!("{}\n", fresh.trim_end()),
    );
}
