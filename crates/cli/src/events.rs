//! The options that name events, for all commands that trace or count: `-e EVENT`, `-e @FILE`, and `--filter` behind those that it is for.

use crate::exit::{Exit, Failure};
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use kestrel::bounded_read;
use kestrel::catalog::Catalog;
use kestrel::ftrace::{LARGEST_LIST, filtered, listed};
use std::path::Path;

/// The options as they are typed.
#[derive(Args, Debug)]
struct Typed {
    /// An event, e.g. 'sched:sched_switch', 'kprobe:vfs_read /pid == 42/ { record(arg2) }'; may be repeated
    /// (or several with commas between them). @FILE: the events of a file in the layout of tracefs's set_event
    #[arg(short, long = "event", value_name = "EVENT")]
    events: Vec<String>,
    /// Only hits that a filter of tracefs lets through, e.g. 'prev_pid == 0 && next_comm ~ "k*"': for the events of the -e before it; may be repeated
    #[arg(long = "filter", value_name = "FILTER")]
    filters: Vec<String>,
}

/// The `-e` and `--filter` options.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Texts of `-e`, each with the filters behind it.
    typed: Vec<(String, Vec<String>)>,
}

impl Args for Events {
    fn augment_args(command: Command) -> Command {
        Typed::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Typed::augment_args_for_update(command)
    }
}

impl FromArgMatches for Events {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |id: &str| {
            let texts = matches.get_many::<String>(id).into_iter().flatten().cloned();
            let indices = matches.indices_of(id).into_iter().flatten();
            indices.zip(texts).collect::<Vec<_>>()
        };
        let mut words: Vec<(usize, String, bool)> = Vec::new();
        words.extend(values("events").into_iter().map(|(at, text)| (at, text, false)));
        words.extend(values("filters").into_iter().map(|(at, text)| (at, text, true)));
        words.sort_by_key(|(at, ..)| *at);
        let mut typed: Vec<(String, Vec<String>)> = Vec::new();
        for (_, text, filters) in words {
            match (filters, typed.last_mut()) {
                (false, _) => typed.push((text, Vec::new())),
                (true, Some((_, filters))) => filters.push(text),
                (true, None) => {
                    let message = "--filter stands behind the -e whose events it is for\n";
                    return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, message));
                }
            }
        }
        Ok(Self { typed })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Events {
    /// The events after others, which have no filter.
    pub(crate) fn behind(self, first: Vec<String>) -> Self {
        let first = first.into_iter().map(|text| (text, Vec::new()));
        Self {
            typed: first.chain(self.typed).collect(),
        }
    }

    /// The event specifications as the language has them: files read, filters in the predicates.
    pub(crate) fn texts(&self, catalog: &Catalog) -> Result<Vec<String>, Failure> {
        let text = |(typed, filters): &(String, Vec<String>)| {
            let text = match typed.strip_prefix('@') {
                Some(file) => of_file(file, catalog)?,
                None => typed.clone(),
            };
            let add = |text: String, filter: &String| filtered(&text, filter, catalog);
            Ok(filters.iter().try_fold(text, add)?)
        };
        self.typed.iter().map(text).collect()
    }
}

/// The events of a file, with the predicate and the block that stand behind its name.
fn of_file(typed: &str, catalog: &Catalog) -> Result<String, Failure> {
    let cut = [" /", " {"].iter().filter_map(|begin| typed.find(begin)).min();
    let (path, behind) = typed.split_at(cut.unwrap_or(typed.len()));
    let bytes = bounded_read::read(Path::new(path), LARGEST_LIST).map_err(|error| {
        let failure = Failure::new(Exit::Failed, format!("cannot read the events of {path}: {error}"));
        failure.hint("-e @FILE reads lines of SYSTEM:EVENT, as tracefs's set_event has them")
    })?;
    let list = String::from_utf8_lossy(&bytes);
    Ok(listed(&list, path, catalog)? + behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        events: Events,
    }

    fn typed(words: &[&str]) -> Result<Vec<(String, Vec<String>)>, String> {
        let line = Line::try_parse_from(std::iter::once(&"x").chain(words));
        line.map(|line| line.events.typed)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_filter_is_for_the_events_before_it() {
        let words = [
            "-e",
            "a:b",
            "--filter",
            "x == 1",
            "-e",
            "c:d",
            "--filter=y == 2",
            "--filter",
            "z",
        ];
        let of = |text: &str, filters: &[&str]| {
            (
                text.to_owned(),
                filters
                    .iter()
                    .map(|filter| (*filter).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            typed(&words).unwrap(),
            [of("a:b", &["x == 1"]), of("c:d", &["y == 2", "z"])]
        );
        assert!(
            typed(&["--filter", "x", "-e", "a:b"])
                .unwrap_err()
                .contains("behind the -e")
        );
        assert!(typed(&[]).unwrap().is_empty());
    }
}
