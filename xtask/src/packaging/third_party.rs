//! The packages that are linked into the binary, with their licences: what these ask of whoever passes a binary on. Names and texts come from cargo.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::artifact::cargo;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

/// Names, versions and licences, and each text of a licence once, with whose it is.
pub(super) fn text() -> Result<String> {
    let linked = ask(&[
        "tree",
        "--package",
        "kestrel-cli",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ])?;
    let metadata: Metadata =
        serde_json::from_str(&ask(&["metadata", "--format-version", "1"])?).context("read cargo metadata")?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata.packages {
        let Package { name, version, .. } = &package;
        // "serde v1.0.1 (proc-macro)": what only runs in the compiler is listed, too.
        let named = format!("{name} v{version}");
        let is = |line: &str| line == named || line.starts_with(&format!("{named} "));
        if package.source.is_none() || !linked.lines().any(is) {
            continue;
        }
        let licence = package.license.as_deref().unwrap_or("unknown");
        let _ = writeln!(list, "{name} {version}: {licence}");
        for text in licences(&package)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut all = format!("Rust packages that are linked into kestrel, and their licences\n\n{list}");
    for (text, names) in texts {
        let _ = write!(all, "\n──── {} ────\n\n{}\n", names.join(", "), text.trim_end());
    }
    Ok(all)
}

/// The texts of a package's licences.
fn licences(package: &Package) -> Result<Vec<String>> {
    let folder = package
        .manifest_path
        .parent()
        .context("a package without a folder")?;
    let mut texts = Vec::new();
    for name in super::names(folder)? {
        let upper = name.to_string_lossy().to_uppercase();
        if ["LICENSE", "LICENCE", "COPYING", "NOTICE"]
            .iter()
            .any(|word| upper.starts_with(word))
            && let Ok(text) = fs::read_to_string(folder.join(&name))
        {
            texts.push(text.replace("\r\n", "\n"));
        }
    }
    Ok(texts)
}

fn ask(arguments: &[&str]) -> Result<String> {
    let output = cargo().args(arguments).output().context("run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("read what cargo says")
}
