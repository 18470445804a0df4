//! The mirror of Debian's packages: read out of the machine's own apt sources, or named by the user; no host is known here.

use std::{fs, path::Path};

use anyhow::{Context, Result};

/// Code names by which a Debian archive is recognised among other archives.
const RELEASES: &[&str] = &[
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "sid",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];

/// The two archives that Debian's kernels come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// Releases, updates and backports.
    pub(crate) main: String,
    /// Security updates.
    pub(crate) security: String,
}

/// One line of apt's sources: an archive and the suites taken from it.
struct Source {
    uri: String,
    suites: Vec<String>,
}

impl Mirror {
    /// The mirror at `base`, which holds `debian` and `debian-security`.
    pub(crate) fn at(base: &str) -> Self {
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix("/debian").unwrap_or(base);
        Self {
            main: format!("{base}/debian"),
            security: format!("{base}/debian-security"),
        }
    }

    /// The mirror that this machine's apt uses.
    pub(crate) fn of_this_machine() -> Result<Self> {
        Self::from_sources(&read_sources(Path::new("/etc/apt"))).context(
            "find Debian's archives in /etc/apt (sources.list, sources.list.d): \
             none there; name a mirror with --mirror URL",
        )
    }

    fn from_sources(sources: &[Source]) -> Option<Self> {
        let debian = |suite: &String| {
            RELEASES
                .iter()
                .any(|name| suite.split(['-', '/']).next() == Some(name))
        };
        let security =
            |suite: &String| debian(suite) && (suite.ends_with("-security") || suite.ends_with("/updates"));
        let find = |wanted: &dyn Fn(&String) -> bool| {
            sources
                .iter()
                .find(|source| source.suites.iter().any(wanted))
                .map(|source| source.uri.clone())
        };
        let main = find(&|suite| debian(suite) && !security(suite))?;
        let security = find(&|suite| security(suite)).unwrap_or_else(|| format!("{main}-security"));
        Some(Self { main, security })
    }
}

fn read_sources(apt: &Path) -> Vec<Source> {
    let mut files = vec![apt.join("sources.list")];
    let more = fs::read_dir(apt.join("sources.list.d"))
        .into_iter()
        .flatten()
        .flatten();
    let mut more: Vec<_> = more.map(|entry| entry.path()).collect();
    more.sort();
    files.extend(more);
    let mut sources = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => sources.extend(text.lines().filter_map(one_line)),
            Some("sources") => sources.extend(stanzas(&text)),
            _ => {}
        }
    }
    sources
}

/// `deb [options] URI SUITE COMPONENT…`
fn one_line(line: &str) -> Option<Source> {
    let rest = line
        .trim()
        .strip_prefix("deb")?
        .strip_prefix([' ', '\t'])?
        .trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(options) => options.split_once(']')?.1,
        None => rest,
    };
    let mut words = rest.split_whitespace();
    let uri = words.next()?.trim_end_matches('/').to_owned();
    Some(Source {
        uri,
        suites: vec![words.next()?.to_owned()],
    })
}

/// The stanzas of a deb822 file: `Types`, `URIs` and `Suites`, each possibly several words.
fn stanzas(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    for stanza in text.split("\n\n") {
        let field = |name: &str| -> Vec<String> {
            let line = stanza
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect()
        };
        if !field("Types").iter().any(|kind| kind == "deb")
            || field("Enabled").iter().any(|word| word == "no")
        {
            continue;
        }
        for uri in field("URIs") {
            sources.push(Source {
                uri: uri.trim_end_matches('/').to_owned(),
                suites: field("Suites"),
            });
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_sources_name_the_archives() {
        let deb822 = "Types: deb\n# a comment\nURIs: http://mirror.example/debian/\nSuites: bookworm bookworm-updates\n\n\
                      Types: deb\nURIs: http://mirror.example/sec\nSuites: bookworm-security\n\n\
                      Types: deb\nURIs: http://other.example/x\nSuites: nodistro\n";
        let want = Mirror {
            main: "http://mirror.example/debian".into(),
            security: "http://mirror.example/sec".into(),
        };
        assert_eq!(Mirror::from_sources(&stanzas(deb822)), Some(want.clone()));
        let lines = "# deb http://no.example/debian bookworm main\n\
                     deb [arch=amd64 signed-by=/k] http://mirror.example/debian/ trixie main\n\
                     deb http://mirror.example/sec trixie-security main\n";
        let lines: Vec<_> = lines.lines().filter_map(one_line).collect();
        assert_eq!(Mirror::from_sources(&lines), Some(want));
    }

    #[test]
    fn another_distribution_is_not_taken_for_debian() {
        let lines: Vec<_> = one_line("deb http://archive.example/ubuntu noble main")
            .into_iter()
            .collect();
        assert_eq!(Mirror::from_sources(&lines), None);
    }
}
