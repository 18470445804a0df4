//! The rule that no file names a host or a path of the machine where it was written.

use std::collections::BTreeSet;

use anyhow::Result;

use super::files::{files, text};

/// Hosts that a file may name: documentation that every reader can open, and names reserved for examples.
const HOSTS: &[&str] = &[
    "docs.kernel.org",
    "www.kernel.org",
    "git.kernel.org",
    "lore.kernel.org",
    "lwn.net",
    "man7.org",
    "diamon.org",
    "babeltrace.org",
    "lttng.org",
    "www.intel.com",
    "www.rfc-editor.org",
    "datatracker.ietf.org",
    "www.apache.org",
    "www.debian.org",
    "keepachangelog.com",
    "semver.org",
    "github.com",
    "docs.rs",
    "doc.rust-lang.org",
    "perfetto.dev",
    "ui.perfetto.dev",
    "refspecs.linuxfoundation.org",
    "gitlab.com",
    "www.w3.org",
];

/// Hosts and machine paths in the project's files.
pub(super) fn hosts() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for file in files()?.into_iter().filter(|file| file != "Cargo.lock") {
        let text = text(&file);
        for host in named_hosts(&text) {
            let example = ["example", "localhost", "127.0.0.1"]
                .iter()
                .any(|tail| host.ends_with(tail))
                || ["example.com", "example.org", "example.net"]
                    .iter()
                    .any(|tail| host.ends_with(tail));
            if !example && !HOSTS.contains(&&*host) {
                broken.push(format!("{file} names the host {host}"));
            }
        }
        let places = ["/home/", "/root/", "/work/", "/Users/"];
        for place in places.iter().filter(|place| named_place(&text, place)) {
            if !file.starts_with("xtask/src/tidy") {
                broken.push(format!("{file} names a place on one machine, under {place}"));
            }
        }
    }
    Ok(broken)
}

/// Hosts of the text's URLs: between `://` and the next character that cannot be part of a host.
fn named_hosts(text: &str) -> BTreeSet<String> {
    let mut hosts = BTreeSet::new();
    for scheme in ["http://", "https://"] {
        for rest in text.split(scheme).skip(1) {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c)))
                .unwrap_or(rest.len());
            let host = rest[..end].trim_end_matches('.');
            if host.contains('.') {
                hosts.insert(host.to_owned());
            }
        }
    }
    hosts
}

/// A path under a folder that differs from machine to machine, at the start of a word.
fn named_place(text: &str, place: &str) -> bool {
    text.match_indices(place).any(|(at, _)| {
        let next = text[at + place.len()..].chars().next().unwrap_or(' ');
        !text[..at].ends_with(|c: char| c.is_alphanumeric() || "./_-}*~".contains(c))
            && next.is_alphanumeric()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_prose_and_code() {
        let text = "see http://a.example.com/x, \"https://b.example:80\" and https://c.example.";
        assert_eq!(
            named_hosts(text).into_iter().collect::<Vec<_>>(),
            ["a.example.com", "b.example", "c.example"]
        );
        assert!(named_place("in \"/home/jo/x\"", "/home/") && !named_place("a/home/b", "/home/"));
    }
}
