//! Error messages, in Kestrel's shape or, where the command was called by that name, in bpftrace's.

use super::options::Options;
use super::verdict;
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
    let in_c = shown
        .first()
        .is_some_and(|first| is_in_c(source_text, first.span.start as usize));
    let failure = Failure {
        message: diagnostics_text(options, name, &shown, source_text),
        formatted: true,
        hint: None,
        exit: Failure::from(error).exit,
    };
    match in_c {
        true => verdict::of_environment(options, failure),
        false if shown.iter().any(|found| found.not_attachable) => verdict::not_attached(options, failure),
        false => failure,
    }
}

/// Whether a place in a program is in what bpftrace leaves to a compiler of C: a line of the preprocessor, or a definition of a type.
fn is_in_c(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    if text.get(line..).unwrap_or_default().trim_start().starts_with('#') {
        return true;
    }
    // The item that the place is in begins behind the last end of one that is in no braces.
    let (mut begin, mut depth) = (0, 0_usize);
    for (place, byte) in before.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(byte, b'}' | b';') {
            begin = place + 1;
        }
    }
    let item = text.get(begin..).unwrap_or_default().trim_start();
    let word = item
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .next();
    matches!(word, Some("struct" | "union" | "enum" | "typedef"))
}

/// Says what is odd about a program.
pub(super) fn warnings(options: &Options, name: &str, found: &[(String, Diagnostic)]) {
    for (text, warning) in found.iter().filter(|_| !options.no_warnings) {
        let text = diagnostics_text(options, name, std::slice::from_ref(warning), text);
        eprintln!("{text}");
    }
}

fn diagnostics_text(options: &Options, name: &str, found: &[Diagnostic], text: &str) -> String {
    text_of(options.as_bpftrace, name, found, text)
}

/// Diagnostics as text, in bpftrace's form or in Kestrel's.
pub(super) fn text_of(as_bpftrace: bool, name: &str, found: &[Diagnostic], text: &str) -> String {
    match as_bpftrace {
        true => style::diagnostics_as_bpftrace(name, found, text),
        false => style::diagnostics_in(name, found, text),
    }
}

#[cfg(test)]
mod tests {
    use super::is_in_c;

    #[test]
    fn definitions_and_lines_of_the_preprocessor_are_c() {
        for (text, is_c) in [
            ("struct a { ^nosuch x; };", true),
            ("begin { } struct a { int x^", true),
            ("#include ^<nosuch.h>\nbegin { }", true),
            ("struct a { int x; }; begin { ^print(1) }", false),
            ("struct a { int x; }\nbegin { $a = (struct ^nosuch *)0; }", false),
            ("begin { @ = 1; ^nosuch() }", false),
        ] {
            let at = text.find('^').unwrap();
            assert_eq!(is_in_c(&text.replace('^', ""), at), is_c, "{text}");
        }
    }
}
