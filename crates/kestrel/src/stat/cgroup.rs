//! A control group by its path, for perf, which takes its directory, and for the language, which takes its number.

use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A control group of the unified hierarchy (cgroup v2).
#[derive(Debug)]
pub struct Cgroup {
    directory: File,
    number: u64,
    /// How deep it lies below the root of the hierarchy, where that is known.
    level: Option<usize>,
}

/// A cgroup that lies deeper is looked for no further, where its depth is not known: namespaces hide the root.
const DEEPEST: usize = 10;

impl Cgroup {
    /// The group of a path: as the file system has it, or below where the hierarchy is mounted.
    ///
    /// # Errors
    /// When no unified hierarchy is mounted, or it has no such group.
    pub fn open(host: &Host, wanted: &str) -> Result<Self> {
        let root = mounted(host)?;
        let path = match Path::new(wanted).starts_with(&root) {
            true => PathBuf::from(wanted),
            false => root.join(wanted.trim_start_matches('/')),
        };
        let missing = |_| Error::NoSuchEvent {
            what: "cgroup".to_owned(),
            wanted: path.display().to_string(),
            near: below(&path),
        };
        let about = path.metadata().map_err(missing)?;
        let directory = File::open(&path).map_err(missing)?;
        if !about.is_dir() {
            return Err(missing(std::io::ErrorKind::NotADirectory.into()));
        }
        // The root has number 1 where it is the hierarchy's own and not that of a namespace.
        let whole = root.metadata().is_ok_and(|root| root.ino() == 1);
        let depth = path
            .strip_prefix(&root)
            .map_or(0, |rest| rest.components().count());
        Ok(Self {
            directory,
            number: about.ino(),
            level: whole.then_some(depth),
        })
    }

    pub(super) fn directory(&self) -> &File {
        &self.directory
    }

    /// Condition for tasks of the group and of the groups below it.
    pub(super) fn condition(&self) -> String {
        const GROUP: &str = "((struct task_struct *)curtask)->cgroups->dfl_cgrp";
        let at = |level: usize| {
            format!(
                "({GROUP}->level >= {level} && {GROUP}->ancestors[{level}]->kn->id == {})",
                self.number
            )
        };
        match self.level {
            Some(level) => at(level),
            None => (1..=DEEPEST).map(at).collect::<Vec<_>>().join(" || "),
        }
    }
}

/// Directory at which the unified hierarchy is mounted.
fn mounted(host: &Host) -> Result<PathBuf> {
    let mounts = host.read("/proc/self/mounts")?;
    let mut points = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let point = words.nth(1)?;
        (words.next()? == "cgroup2").then_some(point)
    });
    points
        .next()
        .map(PathBuf::from)
        .ok_or_else(|| Error::Unsupported {
            what: "counting a cgroup".to_owned(),
            why: "no cgroup2 hierarchy is mounted (`mount -t cgroup2 none /sys/fs/cgroup`)".to_owned(),
        })
}

/// Groups beside one that is not there whose names come close.
fn below(path: &Path) -> Vec<String> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Vec::new();
    };
    let beside = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let names: Vec<String> = beside
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let near =
        kestrel_compiler::lang::diag::nearest(&name.to_string_lossy(), names.iter().map(String::as_str));
    near.into_iter().map(str::to_owned).collect()
}
