//! `kestrel man DIR` writes a manual page for each command, from the clap definition. Hidden from help: packagers run it through `cargo xtask man`.

use crate::exit::{CODES, Exit, Failure};
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Options of `man`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The directory to write them into; it is made where it is not there
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The section of the manual.
const SECTION: &str = "1";

/// Writes the pages.
pub(crate) fn run(options: &Options, definition: Command) -> Result<Exit, Failure> {
    write_all(definition, &options.directory).map_err(|error| {
        let directory = options.directory.display();
        Failure::new(
            Exit::Failed,
            format!("cannot write manual pages into {directory}: {error}"),
        )
    })?;
    Ok(Exit::Done)
}

fn write_all(definition: Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut definition = whole(definition);
    definition.build();
    let mut all = Vec::new();
    collect(&definition, None, &mut all);
    let names: BTreeSet<String> = all.iter().map(|page| name(page.command)).collect();
    for page in &all {
        let file = format!("{}.{SECTION}", name(page.command));
        let text = String::from_utf8_lossy(&page.render(&names)?).into_owned();
        fs::write(directory.join(file), ascii(&text))?;
    }
    Ok(())
}

/// The definition with the words that `-h` leaves out.
fn whole(definition: Command) -> Command {
    let definition = definition.mut_args(|argument| argument.hide_short_help(false));
    definition.mut_subcommands(whole)
}

/// A page that every formatter reads alike: characters beyond ASCII by their numbers.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_ascii() {
            true => out.push(c),
            false => {
                let _ = write!(out, "\\[u{:04X}]", u32::from(c));
            }
        }
    }
    out
}

/// A manual page: a command, and the one that it is a part of.
struct Page<'a> {
    command: &'a Command,
    parent: Option<&'a Command>,
}

/// The commands that help shows, each after the one it is a part of.
fn collect<'a>(command: &'a Command, parent: Option<&'a Command>, all: &mut Vec<Page<'a>>) {
    all.push(Page { command, parent });
    for part in shown(command) {
        collect(part, Some(command), all);
    }
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|part| !part.is_hide_set())
}

/// The name of a command's page: `kestrel-buffer-dump`.
fn name(command: &Command) -> String {
    command
        .get_bin_name()
        .unwrap_or_else(|| command.get_name())
        .replace(' ', "-")
}

impl Page<'_> {
    fn render(&self, names: &BTreeSet<String>) -> io::Result<Vec<u8>> {
        let name = name(self.command);
        let man = Man::new(self.command.clone()).section(SECTION);
        let help = self.command.get_after_help().map(ToString::to_string);
        let after = After::of(help.as_deref().unwrap_or_default());
        let mut out = Vec::new();
        // The date would be that of the build: pages that say the same are the same.
        writeln!(
            out,
            ".TH {} {SECTION} \"\" \"Kestrel {}\" \"Kestrel Manual\"",
            name.to_uppercase(),
            env!("CARGO_PKG_VERSION")
        )?;
        man.render_name_section(&mut out)?;
        man.render_synopsis_section(&mut out)?;
        man.render_description_section(&mut out)?;
        after.remarks().to_writer(&mut out)?;
        if self
            .command
            .get_arguments()
            .any(|argument| !argument.is_hide_set())
        {
            man.render_options_section(&mut out)?;
        }
        if shown(self.command).next().is_some() {
            self.parts().to_writer(&mut out)?;
        }
        exit_status().to_writer(&mut out)?;
        after.examples().to_writer(&mut out)?;
        self.see_also(names).to_writer(&mut out)?;
        Ok(out)
    }

    /// The section COMMANDS: the subcommands with their pages.
    fn parts(&self) -> Roff {
        let mut roff = Roff::new();
        roff.control("SH", ["COMMANDS"]);
        for part in shown(self.command) {
            roff.control("TP", []);
            roff.text([bold(name(part)), roman(format!("({SECTION})"))]);
            roff.text([roman(about(part))]);
        }
        roff
    }

    /// The pages of the command that this one is a part of, of its parts, and of those that its help mentions.
    fn see_also(&self, names: &BTreeSet<String>) -> Roff {
        let own = name(self.command);
        let mut pages: BTreeSet<String> = shown(self.command).map(name).collect();
        pages.extend(self.parent.map(name));
        pages.extend(
            self.parent
                .into_iter()
                .flat_map(shown)
                .map(name)
                .filter(|_| own.matches('-').count() > 1),
        );
        pages.extend(mentioned(&help(self.command), names));
        pages.insert("kestrel".to_owned());
        pages.remove(&own);
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]);
        let last = pages.len().saturating_sub(1);
        for (number, page) in pages.into_iter().enumerate() {
            let end = if number == last { "" } else { "," };
            roff.text([bold(page), roman(format!("({SECTION}){end}"))]);
        }
        roff
    }
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// The help text of a command, as `--help` prints it.
fn help(command: &Command) -> String {
    command.clone().render_long_help().to_string()
}

/// The pages of commands that a text mentions: of `kestrel buffer dump -o x`, the page `kestrel-buffer-dump`.
fn mentioned(text: &str, names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in text.split("kestrel ").skip(1) {
        let mut page = "kestrel".to_owned();
        for word in rest.split(|c: char| !c.is_ascii_lowercase()) {
            let longer = format!("{page}-{word}");
            if !names.contains(&longer) {
                break;
            }
            page = longer;
        }
        found.insert(page);
    }
    found
}

/// The text after the options in the help: paragraphs, and blocks of indented lines, each below a line that introduces it.
struct After<'a> {
    paragraphs: Vec<&'a str>,
    blocks: Vec<(&'a str, Vec<&'a str>)>,
}

impl<'a> After<'a> {
    fn of(text: &'a str) -> Self {
        let mut after = Self {
            paragraphs: Vec::new(),
            blocks: Vec::new(),
        };
        for part in text.split("\n\n").filter(|part| !CODES.starts_with(part)) {
            let lead = part.lines().next().unwrap_or_default();
            let rest: Vec<&str> = part.lines().skip(1).collect();
            match rest.iter().any(|line| line.starts_with(' ')) {
                _ if lead.starts_with(' ') => after.blocks.push(("", part.lines().collect())),
                true => after.blocks.push((lead, rest)),
                false => after.paragraphs.push(part),
            }
        }
        after
    }

    fn remarks(&self) -> Roff {
        let mut roff = Roff::new();
        for paragraph in &self.paragraphs {
            roff.control("PP", []);
            roff.text([roman(paragraph.replace('\n', " "))]);
        }
        roff
    }

    fn examples(&self) -> Roff {
        let mut roff = Roff::new();
        if !self.blocks.is_empty() {
            roff.control("SH", ["EXAMPLES"]);
        }
        for (number, (lead, lines)) in self.blocks.iter().enumerate() {
            if number > 0 {
                roff.control("PP", []);
            }
            if !["Examples:", ""].contains(lead) {
                roff.text([roman(*lead)]);
                roff.control("PP", []);
            }
            roff.control("nf", []);
            for line in lines {
                roff.text([Inline::Roman(line.strip_prefix("  ").unwrap_or(line).to_owned())]);
            }
            roff.control("fi", []);
        }
        roff
    }
}

/// The exit codes, which all commands share.
fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for line in CODES.lines().skip(1) {
        let (code, meaning) = line.trim().split_once("  ").unwrap_or((line, ""));
        roff.control("TP", []);
        roff.text([bold(code)]);
        roff.text([roman(meaning)]);
    }
    roff
}
