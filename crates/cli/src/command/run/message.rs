//! Error messages, in Kestrel's shape or, where the command was called by that name, in bpftrace's.

use super::options::Options;
use crate::exit::Failure;
use crate::style;
use kestrel::language::Diagnostic;

/// The failure of an error about a program that is known as `name`.
pub(super) fn failure(options: &Options, name: &str, error: kestrel::Error) -> Failure {
    if let kestrel::Error::NothingToAttach {
        source_text,
        warnings,
    } = &error
    {
        let shown = diagnostics_text(options, name, warnings, source_text);
        return Failure {
            message: format!("{shown}\n{error}").trim_start().to_owned(),
            formatted: true,
            hint: None,
            exit: Failure::from(error).exit,
        };
    }
    let kestrel::Error::Program {
        source_text,
        diagnostics,
    } = &error
    else {
        return error.into();
    };
    let mut shown: Vec<&Diagnostic> = Vec::new();
    for diagnostic in diagnostics {
        if !shown.contains(&diagnostic) {
            shown.push(diagnostic);
        }
    }
    let shown: Vec<Diagnostic> = shown.into_iter().cloned().collect();
    Failure {
        message: diagnostics_text(options, name, &shown, source_text),
        formatted: true,
        hint: None,
        exit: Failure::from(error).exit,
    }
}

/// Says what is odd about a program.
pub(super) fn warnings(options: &Options, name: &str, found: &[(String, Diagnostic)]) {
    for (text, warning) in found.iter().filter(|_| !options.no_warnings) {
        let text = diagnostics_text(options, name, std::slice::from_ref(warning), text);
        eprintln!("{text}");
    }
}

fn diagnostics_text(options: &Options, name: &str, found: &[Diagnostic], text: &str) -> String {
    match options.as_bpftrace {
        true => style::diagnostics_as_bpftrace(name, found, text),
        false => style::diagnostics_in(name, found, text),
    }
}
