//! Kernels by series: the newest Debian package whose file is really there, unpacked into the cache; nothing is installed.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{
    apt::Apt,
    cache::{Cache, write_whole},
    mirror::Mirror,
    module, vmlinux,
};

/// The kernels that the whole test suite runs on.
pub(crate) const MATRIX: &[&str] = &["6.1", "6.12", "6.18", "7.2", "7.3"];

/// The oldest and the newest kernel of the matrix.
pub(crate) const MATRIX_ENDS: &[&str] = &["6.1", "7.3"];

/// The matrix and the oldest kernel, which must be refused by name.
pub(crate) const ALL: &[&str] = &["5.10", "6.1", "6.12", "6.18", "7.2", "7.3"];

/// The kernel used when none is named.
pub(crate) const DEFAULT: &str = "6.12";

/// Time for which an answer to "which is the newest?" is good.
const FRESH: Duration = Duration::from_secs(7 * 24 * 3600);

/// Number of versions of a series that are tried before giving up: indexes name files that are gone.
const ATTEMPTS: usize = 12;

/// Where its modules are in a kernel's folder, and the lists of those that are loaded and of those that are not.
const MODULES: &str = "modules";
const ORDER: &str = "order";
const SPARE: &str = "spare";

/// A kernel in the cache.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// The user's request, as in `6.12`.
    pub(crate) series: String,
    /// The release, as `uname -r` prints it.
    pub(crate) release: String,
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Resolved {
    release: String,
}

/// A package that may hold the kernel, and the one that holds its modules when they are apart.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    release: String,
    image: String,
    modules: Option<String>,
}

impl Kernel {
    /// The newest kernel of a series, from the cache if the answer there is fresh or nothing newer can be reached.
    pub(crate) fn obtain(cache: &Cache, series: &str, mirror: Option<&str>) -> Result<Self> {
        ensure!(is_series(series), "kernel {series:?}: a series looks like 6.12");
        let kernels = cache.folder("kernel")?;
        let answer = kernels.join(format!("{series}.json"));
        let _lock = cache.lock("kernel")?;
        let known = Self::known(&kernels, &answer, series);
        if let Some((kernel, true)) = &known {
            return Ok(kernel.clone());
        }
        match Self::fetch(cache, &kernels, series, mirror) {
            Ok(kernel) => {
                write_whole(
                    &answer,
                    &serde_json::to_vec(&Resolved {
                        release: kernel.release.clone(),
                    })?,
                )?;
                Ok(kernel)
            }
            Err(error) => match known {
                Some((kernel, _)) => {
                    eprintln!("guest: {error:#}; staying with {} from the cache", kernel.release);
                    Ok(kernel)
                }
                None => Err(error),
            },
        }
    }

    /// The ELF file to boot, without KASLR and without decompression.
    pub(crate) fn vmlinux(&self) -> PathBuf {
        self.folder.join("vmlinux")
    }

    /// The file as Debian ships it.
    pub(crate) fn vmlinuz(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Names and ELF bytes of the modules that a guest needs, dependencies first.
    pub(crate) fn modules(&self) -> Result<Vec<(String, Vec<u8>)>> {
        self.listed(ORDER)
    }

    /// Bytes of the modules that guests do not load by themselves.
    pub(crate) fn spare_modules(&self) -> Result<Vec<(String, Vec<u8>)>> {
        self.listed(SPARE)
    }

    fn listed(&self, list: &str) -> Result<Vec<(String, Vec<u8>)>> {
        let folder = self.folder.join(MODULES);
        let order = fs::read_to_string(folder.join(list))
            .with_context(|| format!("read the modules of {}", self.release))?;
        let read = |name: &str| Ok((name.to_owned(), fs::read(folder.join(name))?));
        order.lines().map(read).collect()
    }

    /// The kernel that the cache names for a series, and whether that answer is fresh.
    fn known(kernels: &Path, answer: &Path, series: &str) -> Option<(Self, bool)> {
        let resolved: Resolved = serde_json::from_slice(&fs::read(answer).ok()?).ok()?;
        let folder = kernels.join(&resolved.release);
        let age = SystemTime::now()
            .duration_since(fs::metadata(answer).ok()?.modified().ok()?)
            .unwrap_or_default();
        let kernel = Self {
            series: series.to_owned(),
            release: resolved.release,
            folder,
        };
        // A cache of before there were spare modules is asked to have them; without a mirror it is still good.
        let whole = kernel.has_spare_modules();
        kernel.folder.exists().then_some((kernel, whole && age < FRESH))
    }

    fn has_spare_modules(&self) -> bool {
        self.folder.join(MODULES).join(SPARE).exists()
    }

    fn fetch(cache: &Cache, kernels: &Path, series: &str, mirror: Option<&str>) -> Result<Self> {
        let mirror = match mirror {
            Some(base) => Mirror::at(base),
            None => Mirror::of_this_machine()?,
        };
        let apt = Apt::open(cache, &mirror)?;
        let mut names = apt.names(&format!("linux-image-{series}."))?;
        for prefix in ["linux-binary-", "linux-binary-unsigned-", "linux-modules-"] {
            names.extend(apt.names(&format!("{prefix}{series}."))?);
        }
        let mut failures = Vec::new();
        for candidate in candidates(series, &names).into_iter().take(ATTEMPTS) {
            let kernel = Self {
                series: series.to_owned(),
                folder: kernels.join(&candidate.release),
                release: candidate.release.clone(),
            };
            let folder = &kernel.folder;
            if !kernel.has_spare_modules() {
                if let Err(error) = unpack(&apt, kernels, &candidate, folder) {
                    failures.push(format!("{}: {error:#}", candidate.image));
                    continue;
                }
                eprintln!(
                    "guest: kernel {series} is {} (package {})",
                    candidate.release, candidate.image
                );
            }
            return Ok(kernel);
        }
        if failures.is_empty() {
            bail!("kernel {series}: no package of that series in the indexes");
        }
        bail!(
            "kernel {series}: none of these could be had:\n  {}",
            failures.join("\n  ")
        )
    }
}

fn is_series(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.')
        .is_some_and(|(major, minor)| number(major) && number(minor))
}

/// The packages that may hold a kernel of the series, newest first, the signed before the unsigned of a version.
fn candidates(series: &str, names: &[String]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for name in names {
        let split = name
            .strip_prefix("linux-binary-unsigned-")
            .or_else(|| name.strip_prefix("linux-binary-"));
        let Some(version) = split.or_else(|| name.strip_prefix("linux-image-")) else {
            continue;
        };
        let Some(version) = version
            .strip_suffix("-unsigned")
            .unwrap_or(version)
            .strip_suffix("-cloud-amd64")
        else {
            continue;
        };
        if !version
            .strip_prefix(series)
            .is_some_and(|rest| rest.starts_with('.'))
        {
            continue;
        }
        let release = format!("{version}-cloud-amd64");
        let modules = Some(format!("linux-modules-{release}")).filter(|modules| names.contains(modules));
        if split.is_none() && modules.is_some() {
            continue; // Where modules are apart, linux-image is an empty package that only depends on the others.
        }
        found.push(Candidate {
            release,
            image: name.clone(),
            modules,
        });
    }
    found.sort_by_key(|candidate| {
        (
            std::cmp::Reverse(numbers(&candidate.release)),
            candidate.image.contains("unsigned"),
        )
    });
    found
}

/// The numbers in a version, which is how versions of one series compare.
fn numbers(version: &str) -> Vec<u64> {
    let version = version.strip_suffix("-cloud-amd64").unwrap_or(version);
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

/// Unpacks a candidate and keeps what a guest needs of it.
fn unpack(apt: &Apt, kernels: &Path, candidate: &Candidate, folder: &Path) -> Result<()> {
    let scratch = tempfile::tempdir_in(kernels).context("make a folder to unpack in")?;
    let (tree, kept) = (scratch.path().join("tree"), scratch.path().join("kept"));
    fs::create_dir_all(&tree)?;
    for package in [Some(&candidate.image), candidate.modules.as_ref()]
        .into_iter()
        .flatten()
    {
        apt.unpack(package, &tree)?;
    }
    let release = &candidate.release;
    let places = [
        format!("boot/vmlinuz-{release}"),
        format!("usr/lib/modules/{release}/vmlinuz"),
    ];
    let image = places
        .iter()
        .map(|place| tree.join(place))
        .find(|path| path.exists());
    let image = fs::read(image.context("no vmlinuz in it")?)?;
    fs::create_dir_all(kept.join(MODULES))?;
    fs::write(kept.join("vmlinux"), vmlinux::extract(&image)?)?;
    fs::write(kept.join("vmlinuz"), image)?;
    let places = [
        format!("lib/modules/{release}"),
        format!("usr/lib/modules/{release}"),
    ];
    let place = places
        .iter()
        .map(|place| tree.join(place))
        .find(|path| path.join("kernel").exists());
    let modules = module::select(&place.context("no modules in it")?.join("kernel"))?;
    for (list, modules) in [(ORDER, modules.wanted), (SPARE, modules.spare)] {
        let mut order = String::new();
        for module in modules {
            let name = format!("{}.ko", module.name);
            fs::write(kept.join(MODULES).join(&name), module.bytes)?;
            order += &format!("{name}\n");
        }
        fs::write(kept.join(MODULES).join(list), order)?;
    }
    if !folder.exists() {
        return fs::rename(&kept, folder).with_context(|| format!("name {}", folder.display()));
    }
    // The kernel stays the file that it was: snapshots know it by that. The list of spare modules comes last, since it says that they are there.
    let list = kept.join(MODULES).join(SPARE);
    for name in fs::read_to_string(&list)?.lines() {
        fs::rename(kept.join(MODULES).join(name), folder.join(MODULES).join(name))?;
    }
    fs::rename(list, folder.join(MODULES).join(SPARE)).with_context(|| format!("add to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_a_series_comes_first_and_its_signed_package_before_the_other() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64-unsigned",
            "linux-image-6.1.0-56-cloud-amd64-dbg",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-0.deb11.99-cloud-amd64",
            "linux-image-6.12.1+deb13-cloud-amd64",
        ];
        let names = names.map(str::to_owned);
        let images: Vec<_> = candidates("6.1", &names)
            .into_iter()
            .map(|candidate| candidate.image)
            .collect();
        assert_eq!(
            images,
            [
                "linux-image-6.1.0-56-cloud-amd64",
                "linux-image-6.1.0-56-cloud-amd64-unsigned",
                "linux-image-6.1.0-9-cloud-amd64",
                "linux-image-6.1.0-0.deb11.99-cloud-amd64",
            ]
        );
    }

    #[test]
    fn where_modules_are_apart_both_packages_are_taken() {
        let release = "7.2.12+deb13-cloud-amd64";
        let names = ["linux-image-", "linux-binary-unsigned-", "linux-modules-"]
            .map(|kind| format!("{kind}{release}"));
        let want = Candidate {
            release: release.into(),
            image: format!("linux-binary-unsigned-{release}"),
            modules: Some(format!("linux-modules-{release}")),
        };
        assert_eq!(candidates("7.2", &names), [want]);
    }
}
