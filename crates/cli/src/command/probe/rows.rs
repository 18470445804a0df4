//! Named probes as they are typed: words of a command line, or rows of a file; the kernel's own lines among them.

use crate::exit::{Exit, Failure};
use kestrel::session::named::kernel_line::Kernel;
use kestrel::session::named::{ProbeRequest, kernel_line};
use std::path::Path;

/// Probes of the words `NAME EVENT …`; a line of the kernel's syntax is one word that brings its own name.
pub(super) fn from_words(words: &[String], kernel: &dyn Kernel) -> Result<Vec<ProbeRequest>, Failure> {
    let mut all = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if kernel_line::is_kernel_line(word) {
            all.push(kernel_line::read(word, kernel)?);
            continue;
        }
        let Some(source) = rest.next() else {
            let why = format!("`{word}` is a name without an event");
            return Err(
                Failure::new(Exit::Usage, why).hint("kestrel probe add NAME 'kprobe:vfs_read { record() }'; or a line of the kernel's, place and all in one word: 'p:GROUP/NAME vfs_read count=%dx'")
            );
        };
        all.push(ProbeRequest {
            name: word.clone(),
            source: source.clone(),
            ..ProbeRequest::default()
        });
    }
    Ok(all)
}

/// Probes of a file: a row is a name and an event, or a line of the kernel's syntax; it goes on over the lines that are indented, or begin with a
/// brace. What begins with `#` or `//` is a remark.
pub(super) fn from_file(text: &str, file: &str, kernel: &dyn Kernel) -> Result<Vec<ProbeRequest>, Failure> {
    let mut rows: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') || trimmed.starts_with("//") {
            continue;
        }
        let goes_on = line.starts_with([' ', '\t', '{', '}', '/']);
        match rows.last_mut().filter(|_| goes_on) {
            Some((_, row)) => {
                row.push('\n');
                row.push_str(line);
            }
            None => rows.push((number, trimmed.to_owned())),
        }
    }
    let beside = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut all = Vec::new();
    for (number, row) in rows {
        if kernel_line::is_kernel_line(&row) {
            all.push(kernel_line::read(&row, kernel)?);
            continue;
        }
        let Some((name, source)) = row.split_once(char::is_whitespace) else {
            let why = format!("{file}:{number}: `{row}` is a name without an event");
            return Err(Failure::new(Exit::Usage, why).hint("a row is: NAME kprobe:vfs_read { record() }"));
        };
        all.push(ProbeRequest {
            name: name.to_owned(),
            source: source.trim().to_owned(),
            beside: beside.to_owned(),
            ..ProbeRequest::default()
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel::catalog::Catalog;
    use kestrel::kernel::Host;

    /// A kernel of which nothing is known.
    fn nothing() -> Catalog {
        Catalog::new(Host::new("/nonexistent"))
    }

    fn names(all: &[ProbeRequest]) -> Vec<(&str, &str)> {
        all.iter().map(|r| (r.name.as_str(), r.source.as_str())).collect()
    }

    #[test]
    fn words_are_pairs_and_lines_of_the_kernel() {
        let words = ["reads", "kprobe:vfs_read", "p:grp/w vfs_write"].map(str::to_owned);
        let all = from_words(&words, &nothing()).unwrap();
        assert_eq!(names(&all)[0], ("reads", "kprobe:vfs_read"));
        assert_eq!(all[1].name, "grp/w");
        assert!(from_words(&["alone".to_owned()], &nothing()).is_err());
    }

    #[test]
    fn rows_go_on_where_they_are_indented() {
        let text = "# remark\nreads kprobe:vfs_read {\n  count()\n}\n\nwrites\tkprobe:vfs_write\n  /pid == 1/ { record() }\nr:back vfs_read\n";
        let all = from_file(text, "f", &nothing()).unwrap();
        let found = names(&all);
        assert_eq!(found[0], ("reads", "kprobe:vfs_read {\n  count()\n}"));
        assert_eq!(
            found[1],
            ("writes", "kprobe:vfs_write\n  /pid == 1/ { record() }")
        );
        assert_eq!(found[2].0, "back");
        let alone = from_file("alone\n", "f", &nothing());
        assert!(alone.unwrap_err().message.contains("f:1"));
    }
}
