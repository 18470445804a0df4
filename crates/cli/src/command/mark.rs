//! `kestrel mark`: an event of user space, which sessions and recordings with the event `mark` handle.

use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::kernel::mark::{Marks, PATH};
use kestrel::kernel::{Error as Kernel, Host};
use std::io::BufRead;

/// Options of `mark`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The text; `-` reads texts from standard input, one mark per line
    #[arg(value_name = "TEXT")]
    text: String,
    /// Values: NAME=VALUE
    #[arg(value_name = "NAME=VALUE")]
    values: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel record -a -e mark,sched:sched_switch            a recording that has the event `mark`
  kestrel mark 'deploy begins' build=1234 by=alice
  make 2>&1 | kestrel mark -                              one mark per line
  echo 'deploy ends' > /dev/kestrel-mark                  the same from a script without Kestrel, or from a program by one write(2)

Marks are dropped when no session and no recording has the event. The device belongs to root:
`chgrp GROUP /dev/kestrel-mark; chmod g+w /dev/kestrel-mark` lets others make marks, until the machine is started again.";

/// The most bytes of a mark's text, and of all its values together, that a record holds.
const MAX_BYTES: usize = 255;

/// Runs `kestrel mark`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let values = values(&options.values)?;
    let open = Marks::open(&Host::default()).map_err(failure_of)?;
    let marks = open.ok_or_else(|| {
        Failure::new(
            Exit::Failed,
            format!(
                "nobody listens: nothing has taken marks since this machine was started ({PATH} is not there)"
            ),
        )
        .hint(
            "`kestrel record -a -e mark`, or `kestrel start FILE` with the event `mark` in a table, makes it",
        )
    })?;
    if options.text != "-" {
        marks
            .write(check_length(&options.text)?, &values)
            .map_err(failure_of)?;
        return Ok(Exit::Done);
    }
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if line.ends_with(b"\n") {
            line.pop();
        }
        // A line is what it is, and may be long: the rest of it is left out, as it is of what programs write.
        let text = String::from_utf8_lossy(&line).replace('\0', " ");
        marks.write(truncate(&text), &values).map_err(failure_of)?;
        line.clear();
    }
    Ok(Exit::Done)
}

/// A text that a record can hold.
fn check_length(text: &str) -> Result<&str, Failure> {
    match text.len() {
        0..=MAX_BYTES => Ok(text),
        long => Err(Failure::new(
            Exit::Usage,
            format!("the text has {long} bytes, and a mark holds {MAX_BYTES}"),
        )
        .hint("a long text goes line by line through `kestrel mark -`")),
    }
}

/// Truncates a text to what a record can hold.
fn truncate(text: &str) -> &str {
    let mut end = text.len().min(MAX_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// All values as one text, `name=value name="two words"`.
fn values(given: &[String]) -> Result<String, Failure> {
    let spelled = given.iter().map(|value| quote_value(value));
    let all = spelled.collect::<Result<Vec<_>, _>>()?.join(" ");
    match all.len() {
        0..=MAX_BYTES => Ok(all),
        long => Err(Failure::new(
            Exit::Usage,
            format!("the values take {long} bytes together, and a mark holds {MAX_BYTES}"),
        )),
    }
}

/// One value: as it is where that is clear, else in quotes.
fn quote_value(given: &str) -> Result<String, Failure> {
    let wrong = |why: &str| {
        Failure::new(Exit::Usage, format!("`{given}` is no value of a mark: {why}"))
            .hint("values are written build=1234; a text of several words is one argument, in quotes")
    };
    let Some((name, value)) = given.split_once('=') else {
        return Err(wrong("it has no ="));
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(is_part) {
        return Err(wrong("its name is not made of letters, digits, _, - and ."));
    }
    let plain = |c: char| !(c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\' | '='));
    match !value.is_empty() && value.chars().all(plain) {
        true => Ok(given.to_owned()),
        false => Ok(format!("{name}={}", serde_json::Value::from(value))),
    }
}

fn failure_of(error: Kernel) -> Failure {
    let may_not = error.errno().is_some_and(|errno| errno.is_permission());
    let failure = Failure::from(kestrel::Error::Mark(error));
    match may_not {
        true => Failure {
            exit: Exit::Privilege,
            ..failure
        }
        .hint(format!(
            "try it with sudo, or let a group make marks: `chgrp GROUP {PATH}; chmod g+w {PATH}`"
        )),
        false => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[&str]) -> Result<String, String> {
        let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
        values(&given).map_err(|failure| failure.message)
    }

    #[test]
    fn values_are_spelled_unambiguously() {
        assert_eq!(of(&[]).unwrap(), "");
        assert_eq!(of(&["build=1234", "by=ä.b-c"]).unwrap(), "build=1234 by=ä.b-c");
        assert_eq!(
            of(&["what=two words", "empty=", "path=a=b", "q=\"", "line=a\nb"]).unwrap(),
            r#"what="two words" empty="" path="a=b" q="\"" line="a\nb""#
        );
    }

    #[test]
    fn invalid_option_values_are_refused() {
        for (given, why) in [
            ("build", "has no ="),
            ("=5", "its name"),
            ("two words=5", "its name"),
            ("a\u{1b}=5", "its name"),
        ] {
            let error_text = of(&[given]).unwrap_err();
            assert!(error_text.contains(why), "{given}: {error_text}");
        }
        assert!(
            of(&[&format!("a={}", "x".repeat(254))])
                .unwrap_err()
                .contains("256 bytes")
        );
        assert_eq!(of(&[&format!("a={}", "x".repeat(253))]).unwrap().len(), MAX_BYTES);
    }

    #[test]
    fn long_texts_are_refused_and_long_lines_cut() {
        assert!(check_length(&"x".repeat(MAX_BYTES)).is_ok());
        assert!(
            check_length(&"x".repeat(MAX_BYTES + 1))
                .unwrap_err()
                .message
                .contains("256 bytes")
        );
        assert_eq!(truncate("short"), "short");
        assert_eq!(truncate(&"ä".repeat(200)).len(), MAX_BYTES - 1);
    }
}
