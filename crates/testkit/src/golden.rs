//! Compares text with a file in the repository, and writes the file where `BLESS=1` is set.

use std::path::{Path, PathBuf};

/// Panics unless the file at `path`, relative to the tested package, holds exactly `actual`. With `BLESS=1` in the
/// environment the file is written instead.
///
/// # Panics
///
/// Where the texts differ, or the file cannot be read or written.
#[track_caller]
pub fn golden(path: impl AsRef<Path>, actual: &str) {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
    let path = root.join(path);
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        if let Err(e) = bless(&path, actual) {
            panic!("cannot write {}: {e}", path.display());
        }
        return;
    }
    let expected = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) => panic!("cannot read {}: {e} (BLESS=1 writes it)", path.display()),
    };
    if let Some(difference) = difference(&expected, actual) {
        panic!("{} differs (BLESS=1 accepts):\n{difference}", path.display());
    }
}

fn bless(path: &Path, actual: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, actual)
}

/// Lines around the first difference, `-` expected, `+` actual; `None` where the texts are equal.
fn difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.split('\n').collect(), actual.split('\n').collect());
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[same..]
        .iter()
        .rev()
        .zip(new[same..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let mut out = format!("first difference in line {}\n", same + 1);
    let mut show = |mark: char, lines: &[&str]| {
        for line in lines.iter().take(40) {
            out.push_str(&format!("{mark} {line}\n"));
        }
    };
    show(' ', &old[same.saturating_sub(3)..same]);
    show('-', &old[same..old.len() - end]);
    show('+', &new[same..new.len() - end]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_difference_shows_the_lines_that_differ() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let shown = difference("a\nb\nc\n", "a\nx\ny\nc\n").unwrap_or_default();
        assert_eq!(shown, "first difference in line 2\n  a\n- b\n+ x\n+ y\n");
        assert!(difference("a", "a\n").is_some());
    }
}
