//! `kestrel completions`: writes a shell's completion script, made from the definition of the command line.

use crate::exit::{Exit, Failure};
use clap::Args;
use clap_complete::Shell;
use std::io::Write;

/// Options of `completions`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = clap::builder::EnumValueParser::<Shell>::new())]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  source <(kestrel completions bash)                                       in this shell
  kestrel completions bash > /usr/share/bash-completion/completions/kestrel      for all users of bash
  kestrel completions zsh > /usr/share/zsh/vendor-completions/_kestrel           of zsh
  kestrel completions fish > /usr/share/fish/vendor_completions.d/kestrel.fish   of fish";

/// Prints the script.
pub(crate) fn run(options: &Options, mut definition: clap::Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut definition, "kestrel", &mut script);
    crate::screen::out().write_all(&script)?;
    Ok(Exit::Done)
}
