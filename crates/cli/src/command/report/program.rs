//! `report -e 'EVENT { … }'`: what a program says of a recording.

use crate::exit::{Exit, Failure};
use crate::filter;
use crate::replaying::{OutputStyle, Prepared};
use crate::style;
use kestrel::language::config::Config;
use kestrel::language::expand::Inputs;
use kestrel::language::library::RECORDED_TEXTS;
use kestrel::plan::ProgramText;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::record::Record;

/// The name of the text in messages.
const NAME: &str = "-e";

/// Runs the program over the records that are wanted.
pub(super) fn answer(
    filter: &filter::Options,
    json: bool,
    text: &str,
    mut trace: Trace,
) -> Result<Exit, Failure> {
    let inputs = Inputs {
        library: RECORDED_TEXTS,
        ..Inputs::default()
    };
    let program = ProgramText::read(NAME, text, Config::default(), &inputs).map_err(named)?;
    let look = OutputStyle {
        json,
        quiet: true,
        allows_unsafe: false,
        no_warnings: false,
        escaped: !json && crate::screen::shows_programs(),
    };
    let mut choice = filter.choose(&mut trace, false)?;
    let prepared = Prepared::new(&program, &look, &mut trace).map_err(named)?;
    for (text, warning) in prepared.replaying.warnings() {
        eprintln!(
            "{}",
            style::diagnostics_in(NAME, std::slice::from_ref(warning), text)
        );
    }
    let wanted = &mut |record: &Record<'_>| choice.wants(record);
    match json {
        true => prepared.run(&mut trace, wanted, &mut crate::screen::out()),
        false => prepared.run(&mut trace, wanted, &mut crate::screen::of_program()),
    }
}

/// The failure, with the option's name at the places of what is wrong, as warnings have it.
fn named(error: kestrel::Error) -> Failure {
    match error {
        kestrel::Error::Program {
            source_text,
            diagnostics,
        } => Failure {
            formatted: true,
            ..Failure::new(
                Exit::Usage,
                style::diagnostics_in(NAME, &diagnostics, &source_text),
            )
        },
        error => error.into(),
    }
}
