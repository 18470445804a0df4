//! Rules about crates and what they depend on: arrows, licences, reasons. Facts come from cargo.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::files::{files, text};
use crate::artifact::cargo;

/// Which of our crates may depend on which, tests' support aside.
const ARROWS: &[(&str, &[&str])] = &[
    ("kestrel-bpf", &[]),
    ("kestrel-layout", &[]),
    ("kestrel-trace", &["kestrel-layout"]),
    ("kestrel-tracepoint-macros", &[]),
    (
        "kestrel-tracepoint",
        &["kestrel-layout", "kestrel-tracepoint-macros"],
    ),
    ("kestrel-tracing", &["kestrel-tracepoint"]),
    ("kestrel-compiler", &["kestrel-bpf", "kestrel-trace"]),
    ("kestrel-query", &["kestrel-trace", "kestrel-compiler"]),
    (
        "kestrel-replay",
        &["kestrel-bpf", "kestrel-trace", "kestrel-compiler"],
    ),
    ("kestrel-kernel", &["kestrel-bpf", "kestrel-layout"]),
    (
        "kestrel-catalog",
        &[
            "kestrel-bpf",
            "kestrel-trace",
            "kestrel-compiler",
            "kestrel-kernel",
        ],
    ),
    (
        "kestrel-object",
        &[
            "kestrel-bpf",
            "kestrel-trace",
            "kestrel-compiler",
            "kestrel-kernel",
            "kestrel-catalog",
        ],
    ),
    (
        "kestrel-hook",
        &[
            "kestrel-bpf",
            "kestrel-trace",
            "kestrel-compiler",
            "kestrel-kernel",
            "kestrel-catalog",
        ],
    ),
    (
        "kestrel",
        &[
            "kestrel-bpf",
            "kestrel-trace",
            "kestrel-compiler",
            "kestrel-kernel",
            "kestrel-catalog",
            "kestrel-object",
            "kestrel-hook",
            "kestrel-replay",
        ],
    ),
    ("kestrel-cli", &["kestrel", "kestrel-trace", "kestrel-query"]),
    ("testkit", &["kestrel-bpf", "kestrel-trace", "kestrel-compiler"]),
    ("bare-tests", &["kestrel-tracepoint"]),
    ("guest-programs", &["kestrel-tracepoint", "kestrel-tracing"]),
    ("vm-tests", &["kestrel-kernel", "kestrel", "kestrel-tracepoint"]),
    ("xtask", &["testkit", "vm-tests"]),
];

/// Licences under which a dependency may come.
const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "Unlicense",
    "BSL-1.0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
];

/// A package as `cargo metadata` describes it, as far as it interests here.
#[derive(Deserialize)]
struct Package {
    name: String,
    id: String,
    license: Option<String>,
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

fn metadata() -> Result<Metadata> {
    let output = cargo()
        .args(["metadata", "--format-version", "1"])
        .output()
        .context("run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("read cargo metadata")
}

/// Dependencies between our crates that the design does not have.
pub(super) fn arrows() -> Result<Vec<String>> {
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut broken = Vec::new();
    for package in metadata()?
        .packages
        .iter()
        .filter(|package| package.source.is_none())
    {
        let Some(may) = allowed.get(&*package.name) else {
            broken.push(format!(
                "{} stands in no row of ARROWS ({})",
                package.name, package.id
            ));
            continue;
        };
        // Tests may reach for support: development dependencies are free.
        let ours = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.path.is_some() && dependency.kind.is_none());
        let strayed = ours.filter(|dependency| !may.contains(&&*dependency.name));
        broken.extend(
            strayed.map(|dependency| format!("{} must not depend on {}", package.name, dependency.name)),
        );
    }
    Ok(broken)
}

/// Crates whose licence holds for their own files alone, so that a program that is linked with them keeps its licence; their source is at their registry. `inferno` is
/// the one maintained crate that draws flame graphs.
const WEAK: &[(&str, &str)] = &[("inferno", "CDDL-1.0")];

/// Dependencies whose licence asks for more than being named.
pub(super) fn licences() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for package in metadata()?.packages {
        let licence = package.license.unwrap_or_default();
        if !permitted(&licence) && !WEAK.contains(&(&package.name, &licence)) {
            broken.push(format!("{} is licensed {licence:?}", package.name));
        }
    }
    Ok(broken)
}

/// An SPDX expression: one choice of every OR, all parts of every AND. Parentheses hold one level, as crates have it.
fn permitted(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    if let Some((before, rest)) = expression.split_once('(') {
        let Some((inside, after)) = rest.split_once(')') else {
            return false;
        };
        let inside = if permitted(inside) { "MIT" } else { "refused" };
        return permitted(&format!("{before}{inside}{after}"));
    }
    let all = |choice: &str| {
        choice
            .split(" AND ")
            .all(|licence| LICENCES.contains(&licence.trim()))
    };
    expression.split(" OR ").any(all)
}

/// Dependencies without a comment line on why they are there.
pub(super) fn reasons() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for file in files()?
        .into_iter()
        .filter(|file| file.ends_with("Cargo.toml") && file != "Cargo.toml")
    {
        broken.extend(
            unexplained(&text(&file))
                .into_iter()
                .map(|name| format!("{file}: {name} has no reason above it")),
        );
    }
    Ok(broken)
}

/// Foreign dependencies in a manifest that stand neither below a comment nor in a group that does.
fn unexplained(manifest: &str) -> Vec<String> {
    let (mut inside, mut explained, mut found) = (false, false, Vec::new());
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.contains("dependencies]");
            explained = false;
        } else if line.starts_with('#') {
            explained = true;
        } else if line.trim().is_empty() {
            explained = false;
        } else if let Some((name, value)) = line.split_once('=')
            && inside
            && !explained
            && !(name.contains(".workspace") || value.contains("path =") || line.starts_with(' '))
        {
            found.push(name.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions_are_understood() {
        assert!(permitted("MIT OR GPL-2.0") && permitted("MIT/Apache-2.0"));
        assert!(permitted("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!permitted("GPL-3.0") && !permitted("MIT AND GPL-2.0") && !permitted(""));
    }

    #[test]
    fn a_comment_explains_the_lines_below_it() {
        let manifest = "[dependencies]\nours.workspace = true\na = \"1\"\n# why\nb = \"1\"\nc = { version = \"2\" }\n\n[lints]\nd = 1\n";
        assert_eq!(unexplained(manifest), ["a"]);
    }
}
