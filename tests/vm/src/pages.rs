//! The command lines that README.md and the pages of docs/ show, run in their order as a reader would who copies them: every line of an example that
//! begins with a prompt. What a guest cannot run as it stands is in [`EXCEPTIONS`], with the reason.

mod exceptions;

use self::exceptions::EXCEPTIONS;
use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// How a line is run that is not run as it stands to its end, which is 0.
enum RunMode {
    /// The line is not run.
    Skip,
    /// With this in the place of that.
    With(&'static str, &'static str),
    /// As this line: what the page leaves to its reader is filled in.
    As(&'static str),
    /// Interrupted as soon as it has said this.
    Until(&'static str),
    /// Beside those that follow, once this file is there, until a line `kill` ends it.
    Beside(&'static str),
    /// Ends what runs beside.
    Kill,
    /// The line ends with this code.
    Fails(i32),
}

/// Longest time of a line, in a guest whose processors are emulated.
const LIMIT: Duration = Duration::from_secs(200);

/// The pages that have command lines.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let with = PAGES.iter().filter(|(_, text)| !commands(text).is_empty());
    with.map(|(name, _)| *name).collect()
}

/// A page, and the folder in which its lines are run.
#[derive(Debug)]
pub struct Page {
    name: &'static str,
    text: &'static str,
    folder: PathBuf,
    /// Number of lines that were run.
    ran: Cell<u32>,
}

impl Page {
    /// The page of this name.
    ///
    /// # Panics
    /// When there is no such page, or no folder can be made.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let Some((name, text)) = PAGES.iter().find(|(page, _)| *page == name) else {
            panic!("there is no page {name}")
        };
        let folder = PathBuf::from(format!("/tmp/page.{name}"));
        let _ = fs::remove_dir_all(&folder);
        done(fs::create_dir_all(&folder), "create", &folder);
        Self {
            name,
            text,
            folder,
            ran: Cell::new(0),
        }
    }

    /// Puts a file there, in a folder of its own where the name has one.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder.join(name);
        if let Some(folder) = path.parent() {
            done(fs::create_dir_all(folder), "create", folder);
        }
        done(fs::write(&path, bytes), "write", &path);
    }

    /// Puts a script there.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        self.write(name, format!("#!/bin/sh\n{text}\n"));
        let path = self.folder.join(name);
        done(
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)),
            "make executable",
            &path,
        );
    }

    /// Puts a copy of a file there.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn copy(&self, from: &str, name: &str) {
        done(
            fs::copy(from, self.folder.join(name)).map(drop),
            "copy",
            Path::new(from),
        );
    }

    /// The indented block that begins so.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn block(&self, begin: &str) -> String {
        let lines = self.text.lines();
        let block: Vec<&str> = lines
            .skip_while(|line| {
                !line
                    .strip_prefix("    ")
                    .is_some_and(|line| line.starts_with(begin))
            })
            .take_while(|line| line.is_empty() || line.starts_with("    "))
            .collect();
        assert!(!block.is_empty(), "{} has no block `{begin}…`", self.name);
        block.join("\n") + "\n"
    }

    /// Runs its lines in their order, at least so many, and takes away what they leave.
    ///
    /// # Panics
    /// When one does not end as it should, or one of [`EXCEPTIONS`] is none of a line of the page.
    pub fn run(&self, at_least: usize) {
        self.run_all(self.name, &commands(self.text), at_least);
    }

    /// Runs the commands in the last column of its tables in their order, at least so many, and takes away what they leave.
    ///
    /// # Panics
    /// As [`Page::run`].
    pub fn run_tables(&self, at_least: usize) {
        self.run_all(
            &format!("{}, tables", self.name),
            &table_commands(self.text),
            at_least,
        );
    }

    fn run_all(&self, name: &str, commands: &[(usize, String)], at_least: usize) {
        assert!(commands.len() >= at_least, "{name}: {commands:?}");
        let exceptions = || EXCEPTIONS.iter().filter(|(page, ..)| *page == name);
        let row_of = |line: &str| exceptions().find(|(_, begin, ..)| squeezed(line).starts_with(begin));
        for (_, begin, ..) in exceptions() {
            let mut rows = commands.iter().filter_map(|(_, line)| row_of(line));
            let stands = rows.any(|(_, other, ..)| begin == other);
            assert!(
                stands,
                "{name}: no line begins with `{begin}`, or an earlier row has it"
            );
        }
        let mut beside = None;
        for (number, line) in commands {
            let begun = Instant::now();
            let place = format!("{}:{number}", self.name);
            match row_of(line) {
                None => self.ends(&place, self.start(line), line, 0),
                Some((.., RunMode::Skip, why)) => {
                    println!("{place}: not run ({why}): {line}");
                    continue;
                }
                Some((.., RunMode::With(from, to), _)) => {
                    assert!(
                        line.contains(from),
                        "{place}: `{from}` is to be replaced in {line}"
                    );
                    let line = line.replace(from, to);
                    self.ends(&place, self.start(&line), &line, 0);
                }
                Some((.., RunMode::As(line), _)) => self.ends(&place, self.start(line), line, 0),
                Some((.., RunMode::Fails(code), _)) => self.ends(&place, self.start(line), line, *code),
                Some((.., RunMode::Until(word), _)) => {
                    let child = self.start(&format!("exec {line}"));
                    crate::until(&format!("{place}: `{word}` said by {line}"), || {
                        let (out, err) = self.messages();
                        out.contains(word) || err.contains(word)
                    });
                    interrupt(&child);
                    self.ends(&place, child, line, 0);
                }
                Some((.., RunMode::Beside(file), _)) => {
                    let alone = line.trim_end().trim_end_matches('&');
                    beside = Some(self.start(&format!("exec {alone}")));
                    let file = self.folder.join(file);
                    crate::until(&format!("{place}: {} made by {line}", file.display()), || {
                        file.exists()
                    });
                }
                Some((.., RunMode::Kill, _)) => {
                    let Some(child) = beside.take() else {
                        panic!("{place}: nothing runs beside {line}")
                    };
                    interrupt(&child);
                    self.ends(&place, child, line, 0);
                }
            }
            println!("{place}: {:.1} s: {line}", begun.elapsed().as_secs_f64());
        }
        assert!(beside.is_none(), "{name}: something still runs");
        let _ = crate::kestrel(&["stop", "--all"]);
        for left in [&*self.folder, Path::new("/var/lib/kestrel")] {
            let _ = fs::remove_dir_all(left);
        }
    }

    /// Starts a line; what it says goes to files of its own.
    fn start(&self, line: &str) -> Child {
        self.ran.set(self.ran.get() + 1);
        let file = |name: &str| {
            let path = self.path(name);
            match File::create(&path) {
                Ok(file) => file,
                Err(error) => panic!("create {}: {error}", path.display()),
            }
        };
        let child = Command::new("sh")
            .args(["-o", "pipefail", "-c", line])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn();
        match child {
            Ok(child) => child,
            Err(error) => panic!("run sh: {error}"),
        }
    }

    /// Where the last line that was started says something.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{}.{name}", self.ran.get()))
    }

    /// Output of the program.
    fn messages(&self) -> (String, String) {
        let read =
            |name| String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned();
        (read("out"), read("err"))
    }

    /// Waits for a line's end.
    fn ends(&self, place: &str, mut child: Child, line: &str, code: i32) {
        let begun = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if begun.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(20)),
                Ok(None) => {
                    let _ = child.kill();
                    panic!(
                        "{place}: after {LIMIT:?} it still runs: {line}\n{:?}",
                        self.messages()
                    )
                }
                Err(error) => panic!("{place}: wait for {line}: {error}"),
            }
        };
        let (out, err) = self.messages();
        assert_eq!(status.code(), Some(code), "{place}: {line}\n{out}{err}");
        assert!(!err.contains("panicked"), "{place}: {line}\n{err}");
    }
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let sent = pid.map(|pid| kill_process(pid, Signal::INT));
    assert!(matches!(sent, Some(Ok(()))), "interrupt it: {sent:?}");
}

fn done(result: std::io::Result<()>, action: &str, path: &Path) {
    if let Err(error) = result {
        panic!("{action} {}: {error}", path.display());
    }
}

/// With one space wherever there are several.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The command lines of a page with their numbers: in its indented and fenced examples, what follows a prompt; where an example has no prompts, its lines
/// that begin with `kestrel`. A line that ends with a backslash goes on with the next.
fn commands(text: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for block in blocks(text) {
        let prompted = |line: &str| {
            ["# ", "$ "]
                .iter()
                .find_map(|prompt| line.strip_prefix(prompt))
                .map(str::to_owned)
        };
        let prompts = block.iter().any(|(_, line)| prompted(line).is_some());
        let mut goes_on = false;
        for (number, line) in block {
            let bare = || (!prompts && line.starts_with("kestrel ")).then(|| line.clone());
            match all.last_mut() {
                Some((_, last)) if goes_on => *last = format!("{last} {}", line.trim()),
                _ => match prompted(&line).or_else(bare) {
                    Some(command) => all.push((number, command)),
                    None => continue,
                },
            }
            goes_on = false;
            if let Some((_, last)) = all.last_mut()
                && let Some(begun) = last.strip_suffix('\\')
            {
                *last = begun.trim_end().to_owned();
                goes_on = true;
            }
        }
    }
    all
}

/// The commands in the last columns of a page's tables with their lines' numbers.
fn table_commands(text: &str) -> Vec<(usize, String)> {
    let rows = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some((number, cells.rsplit_once(" | ")?.1))
    });
    rows.flat_map(|(number, cell)| {
        let words = cell.split('`').skip(1).step_by(2);
        let commands = words.filter(|word| word.starts_with("kestrel "));
        commands.map(move |command| (number, command.to_owned()))
    })
    .collect()
}

/// The examples of a page: indented and fenced blocks, their lines numbered and without the indentation.
fn blocks(text: &str) -> Vec<Vec<(usize, String)>> {
    let mut blocks = vec![Vec::new()];
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        let fence = line.starts_with("```");
        fenced ^= fence;
        let inside = if fenced {
            Some(line)
        } else {
            line.strip_prefix("    ")
        };
        match inside {
            Some(line) if !fence => {
                if let Some(block) = blocks.last_mut() {
                    block.push((number + 1, line.to_owned()));
                }
            }
            _ if line.is_empty() && !fenced => {}
            _ => blocks.push(Vec::new()),
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_tables_are_in_the_last_column() {
        let text = "| you know | here |\n|---|---|\n| `kestrel x` | `kestrel a`, the same; `kestrel b` ([c](c.md)), `-d` |\n| e | |\n";
        let found = [(3, "kestrel a".to_owned()), (3, "kestrel b".to_owned())];
        assert_eq!(table_commands(text), found);
    }

    #[test]
    fn commands_follow_a_prompt() {
        let text = "words\n\n    # kestrel a \\\n        -- b\n    kestrel: what it says\n\n```text\n$ kestrel c\n# not Markdown\n```\n\nor\n\n    kestrel d   # e\n    table f\n";
        let found: Vec<String> = commands(text)
            .into_iter()
            .map(|(n, line)| format!("{n} {line}"))
            .collect();
        assert_eq!(
            found,
            [
                "3 kestrel a -- b",
                "8 kestrel c",
                "9 not Markdown",
                "14 kestrel d   # e"
            ]
        );
    }

    #[test]
    fn pages_with_commands_are_known() {
        assert!(names().len() >= 7, "{:?}", names());
    }
}
