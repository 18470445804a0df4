//! A private apt: own sources, own state, nothing installed, no root needed; apt checks the signatures, we check the
//! hashes again. It knows packages, not kernels.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    cache::{Cache, file_digest},
    mirror::Mirror,
};

/// Archive and suite of every index that is read.
const SUITES: &[(Archive, &str)] = &[
    (Archive::Security, "bullseye-security"),
    (Archive::Security, "bookworm-security"),
    (Archive::Security, "trixie-security"),
    (Archive::Main, "trixie"),
    (Archive::Main, "trixie-backports"),
];

/// Where Debian keeps its own keys, in the order of preference.
const KEYRINGS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
];

/// Time for which fetched indexes are good: one run of the chores asks several times.
const FRESH: Duration = Duration::from_secs(600);

#[derive(Clone, Copy)]
enum Archive {
    Main,
    Security,
}

/// One version of a package in the indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) version: String,
    pub(crate) sha256: String,
}

/// A private apt root in the cache.
pub(crate) struct Apt {
    root: PathBuf,
}

impl Apt {
    /// Prepares the root and fetches the indexes.
    pub(crate) fn open(cache: &Cache, mirror: &Mirror) -> Result<Self> {
        let root = cache.folder("apt")?;
        let apt = Self { root };
        apt.configure(mirror)?;
        let marker = apt.root.join("updated");
        let wanted = format!("{mirror:?}");
        let age = fs::metadata(&marker)
            .and_then(|file| file.modified())
            .map(|at| at.elapsed().unwrap_or_default());
        if age.is_ok_and(|age| age < FRESH) && fs::read_to_string(&marker).is_ok_and(|known| known == wanted)
        {
            return Ok(apt);
        }
        eprintln!("guest: reading the package indexes of {}", mirror.main);
        apt.run("apt-get", &["-qq", "update"])
            .context("fetch the package indexes")?;
        fs::write(&marker, wanted)?;
        Ok(apt)
    }

    fn configure(&self, mirror: &Mirror) -> Result<()> {
        let root = self.root.display();
        for folder in [
            "etc/apt.conf.d",
            "etc/preferences.d",
            "state/lists/partial",
            "cache/archives/partial",
        ] {
            fs::create_dir_all(self.root.join(folder)).with_context(|| format!("create {root}/{folder}"))?;
        }
        let keyring = keyring()?;
        let sources: String = SUITES
            .iter()
            .map(|(archive, suite)| {
                let uri = match archive {
                    Archive::Main => &mirror.main,
                    Archive::Security => &mirror.security,
                };
                format!("deb [signed-by={keyring} arch=amd64] {uri} {suite} main\n")
            })
            .collect();
        fs::write(self.root.join("etc/sources.list"), sources)?;
        fs::write(self.root.join("status"), "")?;
        let settings = format!(
            r#"{network}Dir::Etc "{root}/etc"; Dir::Etc::parts "{root}/etc/apt.conf.d";
Dir::Etc::netrc "/etc/apt/auth.conf"; Dir::Etc::netrcparts "/etc/apt/auth.conf.d";
Dir::State "{root}/state"; Dir::State::status "{root}/status"; Dir::Cache "{root}/cache";
APT::Architecture "amd64"; APT::Architectures {{"amd64";}}; APT::Sandbox::User "";
Acquire::Languages "none"; Acquire::Retries "3"; Acquire::Check-Valid-Until "false"; Acquire::Check-Date "false";
#clear APT::Update::Post-Invoke; #clear APT::Update::Post-Invoke-Success; #clear DPkg::Post-Invoke;
"#,
            network = network_settings(),
        );
        fs::write(self.root.join("apt.conf"), settings)?;
        Ok(())
    }

    /// Every package name that starts so.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self
            .run("apt-cache", &["pkgnames", prefix])?
            .lines()
            .map(str::to_owned)
            .collect())
    }

    /// Records of the indexes about a package, the newest version first.
    pub(crate) fn records(&self, package: &str) -> Result<Vec<Record>> {
        Ok(parse_records(&self.run("apt-cache", &["show", package])?))
    }

    /// Downloads the newest version of a package that is really there, checks its hash, unpacks it into `into`.
    pub(crate) fn unpack(&self, package: &str, into: &Path) -> Result<Record> {
        let records = self.records(package)?;
        ensure!(!records.is_empty(), "package {package}: not in the indexes");
        let mut last = None;
        for record in records {
            match self.unpack_version(package, &record, into) {
                Ok(()) => return Ok(record),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| anyhow::anyhow!("package {package}: no version can be fetched")))
    }

    fn unpack_version(&self, package: &str, record: &Record, into: &Path) -> Result<()> {
        let folder = tempfile::tempdir_in(&self.root).context("make a download folder")?;
        let wanted = format!("{package}={}", record.version);
        self.run_in(folder.path(), "apt-get", &["-qq", "download", &wanted])
            .with_context(|| format!("download {wanted}"))?;
        let file = fs::read_dir(folder.path())?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .with_context(|| format!("download {wanted}: no file came"))?;
        let found = file_digest(&file)?;
        ensure!(
            found == record.sha256,
            "{wanted}: SHA-256 is {found}, the signed index says {}",
            record.sha256
        );
        let file = file.to_str().context("a path that is not UTF-8")?;
        let target = into.to_str().context("a path that is not UTF-8")?;
        self.run("dpkg-deb", &["-x", file, target])
            .with_context(|| format!("unpack {wanted}"))?;
        Ok(())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        self.run_in(&self.root, program, arguments)
    }

    fn run_in(&self, folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env("APT_CONFIG", self.root.join("apt.conf"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("run {program}"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!(
                "{program} {}: {}: {}",
                arguments.join(" "),
                output.status,
                stderr.trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Debian's keyring on this machine.
pub(crate) fn keyring() -> Result<&'static str> {
    KEYRINGS
        .iter()
        .copied()
        .find(|path| Path::new(path).exists())
        .with_context(|| {
            format!(
                "find Debian's keys ({}): install debian-archive-keyring",
                KEYRINGS.join(" or ")
            )
        })
}

/// Proxies and the like that this machine's apt is set up with, carried into the private one.
fn network_settings() -> String {
    let dump = Command::new("apt-config")
        .arg("dump")
        .stdin(Stdio::null())
        .output();
    let dump = dump
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    dump.lines()
        .filter(|line| line.starts_with("Acquire::http") || line.starts_with("Acquire::ftp"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn parse_records(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|v| v.trim().to_owned())
        };
        if let (Some(version), Some(sha256)) = (field("Version:"), field("SHA256:")) {
            records.push(Record { version, sha256 });
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_version_and_hash_together() {
        let text = "Package: a\nVersion: 1:2\nSHA256: aa\nDescription: x\n y\n\nPackage: a\nVersion: 1:1\nSHA256: bb\n";
        let want = [("1:2", "aa"), ("1:1", "bb")].map(|(v, s)| Record {
            version: v.into(),
            sha256: s.into(),
        });
        assert_eq!(parse_records(text), want);
    }
}
