//! Iterators: over everything of a kind, over one map, one cgroup with all below it, or one process.
//!
//! The objects to walk stand behind the program's name: `dump=map:NAME` (of the object, or the path of a pin), `cgroup:PATH`, `task:PID`. An iterator over
//! the entries of a map that is given none walks the first of the object's maps whose entries have what it reads; one over cgroups all of them.

use super::request::{AttachRequest, Binding};
use super::tracing;
use kestrel_catalog::attach::Links;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{self, IteratorScope, Link, Map, MapKind, Pinned, Program, ProgramKind};
use kestrel_kernel::{Errno, Host};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// Restriction of an iterator to a part of what it walks.
enum IteratorRange<'a> {
    All,
    Map(&'a str),
    Cgroup(&'a str),
    Process(&'a str),
}

impl<'a> IteratorRange<'a> {
    fn of(target: &'a str) -> Self {
        match target.split_once(':') {
            Some(("map", name)) => Self::Map(name),
            Some(("cgroup", path)) => Self::Cgroup(path),
            Some(("task", pid)) => Self::Process(pid),
            _ => Self::All,
        }
    }
}

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    let target = match IteratorRange::of(request.target) {
        IteratorRange::All => request.target,
        _ => request.written,
    };
    tracing::bind(&AttachRequest { target, ..*request })
}

/// Kinds of iterators that walk the entries of one map.
const OF_MAPS: &[&str] = &["bpf_map_elem", "bpf_sk_storage_map", "sockmap"];
/// The mount point of cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    let link = match (IteratorRange::of(request.target), request.written) {
        (IteratorRange::Map(name), _) => over_map(request, program, name)?,
        (IteratorRange::Cgroup(path), _) => over_cgroup(request, program, path)?,
        (IteratorRange::Process(pid), _) => {
            let pid = pid
                .parse()
                .map_err(|_| request.wrong(format!("`{pid}` is not the number of a process")))?;
            Link::iterator(program, &IteratorScope::Process(pid))?
        }
        (IteratorRange::All, target) if OF_MAPS.contains(&target) => over_some_map(request, program)?,
        (IteratorRange::All, "cgroup") => over_cgroup(request, program, CGROUPS)?,
        (IteratorRange::All, _) => return tracing::attach(request, program, kind),
    };
    Ok(link.into())
}

fn over_map(request: &AttachRequest<'_>, program: &Program, name: &str) -> Result<Link> {
    if name.starts_with('/') {
        return match bpf::pinned(Path::new(name))? {
            Pinned::Map(map) => walk(request, program, &map, name),
            _ => Err(request.wrong(format!("{name} is not the pin of a map"))),
        };
    }
    match request.maps.iter().find(|map| map.name() == name) {
        Some(map) => walk(request, program, map, name),
        None => {
            let names: Vec<&str> = request.maps.iter().map(|map| map.name()).collect();
            Err(request.wrong(format!(
                "the object has no map {name}; it has {}; or give the path of a pin",
                names.join(", ")
            )))
        }
    }
}

fn walk(request: &AttachRequest<'_>, program: &Program, map: &Map, name: &str) -> Result<Link> {
    Link::iterator(program, &IteratorScope::Map(map.as_fd())).map_err(|error| match error.errno() {
        Some(Errno::EACCES) => request.wrong(format!(
            "it reads more of each entry than those of the map {name} have"
        )),
        Some(Errno::EINVAL) => {
            request.wrong(format!("it does not walk maps like {name} ({})", map.info().kind))
        }
        _ => error.into(),
    })
}

fn over_some_map(request: &AttachRequest<'_>, program: &Program) -> Result<Link> {
    let mut last = None;
    for map in request
        .maps
        .iter()
        .filter(|map| !map.is_data() && map.info().kind != MapKind::RINGBUF)
    {
        match walk(request, program, map, map.name()) {
            Ok(link) => return Ok(link),
            Err(error) => last = Some(error),
        }
    }
    let none = || {
        request.wrong(format!(
            "say which map it is to walk: {}=map:NAME, or the path of a pin",
            request.name
        ))
    };
    Err(last.filter(|_| request.maps.len() == 1).unwrap_or_else(none))
}

fn over_cgroup(request: &AttachRequest<'_>, program: &Program, path: &str) -> Result<Link> {
    let directory = cgroup(request.kernel.known.host(), Path::new(path))?;
    Ok(Link::iterator(
        program,
        &IteratorScope::Cgroup(directory.as_fd()),
    )?)
}

/// The directory of a control group, on this host where its path begins at the root.
fn cgroup(host: &Host, path: &Path) -> Result<File> {
    // Others begin where the user is, which no other tree stands in for.
    let path = match path.is_absolute() {
        true => host.path(path),
        false => path.to_owned(),
    };
    File::open(&path).map_err(Error::io("open the cgroup", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_is_one_of_the_host() {
        let tree = tempfile::tempdir().unwrap();
        let host = Host::new(tree.path());
        let path = Path::new("/sys/fs/cgroup/only.here");
        let error = cgroup(&host, path).unwrap_err().to_string();
        assert!(error.contains(&*tree.path().to_string_lossy()), "{error}");
        std::fs::create_dir_all(host.path(path)).unwrap();
        assert!(cgroup(&host, path).unwrap().metadata().unwrap().is_dir());
        assert!(
            cgroup(&host, Path::new("src")).is_ok(),
            "below the current directory"
        );
    }
}
