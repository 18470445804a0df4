//! Reading a program: its text, its arguments, the settings of the environment.

use super::encoding::decoded;
use super::files::ScriptFiles;
use super::options::Options;
use super::verdict;
use crate::exit::{Exit, Failure};
use kestrel::kernel::Host;
use kestrel::language::Diagnostic;
use kestrel::language::config::{Config, MissingProbes};
use kestrel::language::expand::Inputs;
use kestrel::language::library::{RECORDED_TEXTS, TEXTS};
use kestrel::plan::ProgramText;
use std::io::Read;
use std::path::Path;

/// The name of texts that are no files, in messages.
const STDIN: &str = "stdin";

/// Reads the program.
pub(super) fn program(options: &Options, command: Option<u32>) -> Result<ProgramText, Failure> {
    let (name, text) = text(options)?;
    let (positional, named) = arguments(options);
    let files = ScriptFiles {
        directories: &options.include_directory,
    };
    // As macros they are known with parentheses and without.
    let own = format!(
        "macro cpid() {{ {} }} macro has_cpid() {{ {} }}",
        command.unwrap_or(0),
        command.is_some()
    );
    let library = match options.trace {
        Some(_) => RECORDED_TEXTS,
        None => TEXTS,
    };
    let library: Vec<(&str, &str)> = library
        .iter()
        .copied()
        .chain([("<command>", own.as_str())])
        .collect();
    let has_types = Host::default().path("/sys/kernel/btf/vmlinux").exists();
    let defined: &[(&str, &str)] = match has_types {
        true => &[("BPFTRACE_HAVE_BTF", "1")],
        false => &[],
    };
    let inputs = Inputs {
        defined,
        positional: &positional,
        named: &named,
        files: &files,
        library: &library,
    };
    let text = options.include.iter().rfold(text, |text, header| {
        // One that is there as it is named is no file of the folders for headers.
        let found = header.is_file().then(|| std::path::absolute(header));
        let path = found.and_then(Result::ok).unwrap_or_else(|| header.clone());
        format!("#include <{}>\n{text}", path.display())
    });
    let settings = settings().map_err(|failure| verdict::of_environment(options, failure))?;
    let mut program = ProgramText::read(&name, &text, settings, &inputs)
        .map_err(|error| super::message::failure(options, &name, error))?;
    // -v shows what is left out, and why.
    if options.verbose && program.config.missing_probes == MissingProbes::Ignore {
        program.config.missing_probes = MissingProbes::Warn;
    }
    if command.is_none()
        && let Some(place) = kestrel::plan::mention(&text, "cpid")
    {
        let message = "No child command (`-c`); cpid is zero";
        let warning = Diagnostic::warning(place, message).hint("-c COMMAND runs one");
        program.warnings.push(warning);
    }
    if let [first, ..] = program.unexpected_options.as_slice() {
        let failure = Failure::new(
            Exit::Usage,
            match first.as_str() {
                "help" => "the options of this program were asked for; it did not run".to_owned(),
                // The words that scripts' tests know.
                _ => format!(
                    "unexpected program command line options: --{}",
                    program.unexpected_options.join(", --")
                ),
            },
        );
        let has_help = program.options.iter().any(|option| option.help.is_some());
        let expected = program.options.iter().map(|option| match &option.help {
            Some(help) => format!("--{}: {help}", option.name),
            None => format!("--{}", option.name),
        });
        let expected: Vec<String> = expected.collect();
        // Options with a word about them stand in lines of their own.
        let expected = match has_help {
            true => format!("\n{}", expected.join("\n")),
            false => format!(" {}", expected.join(", ")),
        };
        return Err(match program.options.is_empty() {
            true => failure.hint("this program has no options"),
            false => failure.hint(format!("expected program options:{expected}")),
        });
    }
    Ok(program)
}

/// The name and text of a program.
pub(super) fn text(options: &Options) -> Result<(String, String), Failure> {
    if let Some(program) = &options.program {
        return Ok((STDIN.to_owned(), program.clone()));
    }
    let Some(path) = options.script.as_deref().map(Path::new) else {
        return Err(Failure::new(Exit::Usage, "there is no program"));
    };
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        read.map_err(|error| Failure::new(Exit::Failed, format!("cannot read standard input: {error}")))?;
        return Ok((STDIN.to_owned(), decoded(bytes)));
    }
    match std::fs::read(path) {
        Ok(bytes) => Ok((path.display().to_string(), decoded(bytes))),
        Err(error) => {
            let why = crate::style::system_words(&error);
            let message = format!("failed to open file '{}': {why}", path.display());
            Err(Failure::new(Exit::Failed, message))
        }
    }
}

/// Positional and named arguments.
fn arguments(options: &Options) -> (Vec<String>, Vec<(String, Option<String>)>) {
    let first = options.script.iter().filter(|_| options.program.is_some());
    let (mut positional, mut named) = (Vec::new(), Vec::new());
    for word in first.chain(&options.arguments) {
        let word = word.to_string_lossy();
        match word.strip_prefix("--") {
            // Options, which may have names, begin here; a parameter it is not.
            Some("") => {}
            Some(option) => {
                let (name, value) = match option.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (option, None),
                };
                named.push((name.to_owned(), value));
            }
            None => positional.push(word.into_owned()),
        }
    }
    (positional, named)
}

/// The settings that the environment gives by variables `BPFTRACE_…`.
fn settings() -> Result<Config, Failure> {
    let mut config = Config::default();
    for (name, value) in std::env::vars() {
        if let Err(why) = config.read_variable(&name, &value) {
            return Err(Failure::new(Exit::Usage, format!("{name}: {why}")));
        }
    }
    Ok(config)
}
