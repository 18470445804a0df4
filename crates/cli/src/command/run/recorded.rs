//! `run --trace`: a program over a recording.

use super::options::{Options, OutputFormat};
use super::{message, modes, output, read};
use crate::exit::{Exit, Failure};
use crate::opening;
use crate::replaying::{OutputStyle, Prepared};
use std::path::Path;

/// Runs the program over a recording.
pub(super) fn run(options: &Options, path: &Path) -> Result<Exit, Failure> {
    let mut program = read::program(options, None)?;
    modes::keep_events_of_mode(&mut program, None)?;
    let mut trace = opening::open(path)?;
    let json = options.format == OutputFormat::Json;
    let look = OutputStyle {
        json,
        quiet: options.quiet,
        allows_unsafe: options.r#unsafe,
        no_warnings: options.no_warnings,
        escaped: !json && options.output.is_none() && crate::screen::shows_programs(),
    };
    let prepared = Prepared::new(&program, &look, &mut trace)
        .map_err(|error| message::failure(options, &program.name, error))?;
    message::warnings(options, &program.name, prepared.replaying.warnings());
    if options.dry_run {
        return Ok(Exit::Done);
    }
    prepared.run(&mut trace, &mut |_| true, &mut output(options)?)
}
