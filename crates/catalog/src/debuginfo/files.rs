//! Search for separate debug information of a program: files by its build id, by the name in its `.gnu_debuglink`, in the folders of packages.

use crate::bounded_read;
use object::Object;
use std::path::{Path, PathBuf};

/// Directory in which packages put debug files.
const PACKAGES: &str = "/usr/lib/debug";

/// Build id and links by which a file's debug information is found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    build_id: Option<Vec<u8>>,
    /// The name of the debug file, with the checksum of its contents.
    link: Option<(Vec<u8>, u32)>,
    /// Whether the file has debug information itself.
    pub(super) described: bool,
}

impl Identity {
    /// Identity of an ELF file, from its bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let Ok(file) = object::File::parse(bytes) else {
            return Self::default();
        };
        let link = file.gnu_debuglink().ok().flatten();
        Self {
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            link: link.map(|(name, sum)| (name.to_vec(), sum)),
            described: [".debug_info", ".debug_info.dwo"]
                .iter()
                .any(|name| file.section_by_name(name).is_some()),
        }
    }

    /// Whether a file is the debug file of this one.
    fn is_told_by(&self, bytes: &[u8]) -> bool {
        match (&self.build_id, Self::of(bytes).build_id) {
            (Some(own), Some(other)) => *own == other,
            _ => {
                let sum = self.link.as_ref().map(|(_, sum)| *sum);
                sum.is_some_and(|sum| sum == checksum(bytes))
            }
        }
    }
}

/// The checksum in `.gnu_debuglink` (CRC-32 of gzip).
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}

/// The folders in which debug files are looked for: those that are asked for, where a relative one is one of the working directory or one beside the program; then those of packages.
fn folders(asked: &[PathBuf], program: &Path) -> Vec<PathBuf> {
    let beside = program.parent().unwrap_or(Path::new(""));
    let mut all = Vec::new();
    for folder in asked {
        all.push(folder.clone());
        if folder.is_relative() {
            all.push(beside.join(folder));
        }
    }
    all.push(PACKAGES.into());
    all
}

/// The debug file of a program at a path, with its bytes.
pub(super) fn debug_file(path: &Path, own: &Identity, asked: &[PathBuf]) -> Option<(PathBuf, Vec<u8>)> {
    let folders = folders(asked, path);
    let mut places: Vec<PathBuf> = Vec::new();
    if let Some(id) = &own.build_id {
        let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some((head, rest)) = digits.split_at_checked(2) {
            places.extend(
                folders
                    .iter()
                    .map(|folder| folder.join(format!(".build-id/{head}/{rest}.debug"))),
            );
        }
        places.extend(fetched(&digits));
    }
    let name = match &own.link {
        Some((name, _)) => Some(String::from_utf8_lossy(name).into_owned()),
        None => path
            .file_name()
            .map(|name| format!("{}.debug", name.to_string_lossy())),
    };
    // A name is not a way out of these folders.
    if let Some(name) = name.filter(|name| !name.contains('/'))
        && let Some(beside) = path.parent()
    {
        places.extend([beside.join(&name), beside.join(".debug").join(&name)]);
        for folder in &folders {
            let below = beside.strip_prefix("/").unwrap_or(beside);
            places.extend([folder.join(&name), folder.join(below).join(&name)]);
        }
    }
    places.into_iter().find_map(|place| {
        let bytes = present(&place).filter(|_| place != path)?;
        own.is_told_by(&bytes).then_some((place, bytes))
    })
}

/// Debug files that debuginfod's clients have fetched.
fn fetched(build_id: &str) -> Vec<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let folders = [
        folder("DEBUGINFOD_CACHE_PATH"),
        folder("XDG_CACHE_HOME").map(|home| home.join("debuginfod_client")),
        folder("HOME").map(|home| home.join(".cache/debuginfod_client")),
    ];
    let folders = folders.into_iter().flatten();
    folders
        .map(|folder| folder.join(build_id).join("debuginfo"))
        .collect()
}

/// The bytes of a unit's own file (`.dwo`) that lies where the compiler put it, beside the program, or in a folder that is asked for.
pub(super) fn split_file(program: &Path, folder: &str, name: &str, asked: &[PathBuf]) -> Option<Vec<u8>> {
    let bare = Path::new(name).file_name()?;
    let mut places = vec![Path::new(folder).join(name)];
    places.extend(program.parent().map(|beside| beside.join(bare)));
    places.extend(folders(asked, program).iter().map(|folder| folder.join(bare)));
    places.iter().find_map(|place| present(place))
}

/// The bytes of the package of such files (`.dwp`).
pub(super) fn package(programs: &[&Path], asked: &[PathBuf]) -> Option<Vec<u8>> {
    programs.iter().find_map(|program| {
        let mut named = program.as_os_str().to_owned();
        named.push(".dwp");
        let named = PathBuf::from(named);
        let bare = named.file_name()?.to_owned();
        let others = folders(asked, program);
        let others = others.iter().map(|folder| folder.join(&bare));
        let mut places = std::iter::once(named).chain(others);
        places.find_map(|place| present(&place))
    })
}

/// The bytes of a file, if there is one.
fn present(place: &Path) -> Option<Vec<u8>> {
    place
        .is_file()
        .then(|| bounded_read::read(place, bounded_read::LARGEST_PROGRAM).ok())
        .flatten()
}
