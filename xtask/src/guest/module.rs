//! Which kernel modules a guest needs, found in an unpacked package and put into the order in which they load.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::vmlinux::decompress;

/// Modules that a guest needs where the kernel does not have them built in: the agent's port, the peers' image with a writable
/// layer over it, the note that memory dumps are read with.
const WANTED: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "virtio_blk",
    "overlay",
    "qemu_fw_cfg",
];

/// Modules that guests have beside them and load when a test asks: with functions that programs may call.
const SPARE: &[&str] = &["crc32c_generic", "nf_conntrack"];

/// A module ready to load.
pub(crate) struct Module {
    pub(crate) name: String,
    /// The ELF file, decompressed.
    pub(crate) bytes: Vec<u8>,
}

/// Modules of one package, dependencies first.
pub(crate) struct Selected {
    /// Modules that every guest loads.
    pub(crate) wanted: Vec<Module>,
    /// Modules that guests have and do not load, without those that they depend on.
    pub(crate) spare: Vec<Module>,
}

/// The modules under `folder` that guests have; those built into the kernel are not there and not missed.
pub(crate) fn select(folder: &Path) -> Result<Selected> {
    let mut files = BTreeMap::new();
    index(folder, &mut files).with_context(|| format!("look for modules in {}", folder.display()))?;
    let mut wanted = Vec::new();
    for name in WANTED {
        choose(name, &files, &mut wanted)?;
    }
    for module in &wanted {
        files.remove(&module.name);
    }
    let mut spare = Vec::new();
    for name in SPARE {
        choose(name, &files, &mut spare)?;
    }
    Ok(Selected { wanted, spare })
}

/// Maps each module's name (with underscores) to its file.
fn index(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            index(&entry.path(), files)?;
        } else if let Some((name, _)) = name.split_once(".ko") {
            files.insert(name.replace('-', "_"), entry.path());
        }
    }
    Ok(())
}

fn choose(name: &str, files: &BTreeMap<String, PathBuf>, chosen: &mut Vec<Module>) -> Result<()> {
    let Some(file) = files
        .get(name)
        .filter(|_| chosen.iter().all(|module| module.name != name))
    else {
        return Ok(());
    };
    let packed = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let bytes = decompress(&packed).with_context(|| format!("unpack {}", file.display()))?;
    for needed in dependencies(&bytes) {
        choose(&needed, files, chosen)?;
    }
    chosen.push(Module {
        name: name.to_owned(),
        bytes,
    });
    Ok(())
}

/// The `depends=` entry of a module's information, a NUL-terminated string.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[at + KEY.len()..]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    value
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_load_first() {
        let folder = tempfile::tempdir().unwrap();
        let module = |name: &str, depends: &str| {
            let text = format!("\x7fELF....license=GPL\0depends={depends}\0name=x\0");
            fs::create_dir_all(folder.path().join("drivers/virtio")).unwrap();
            fs::write(folder.path().join(format!("drivers/virtio/{name}.ko")), text).unwrap();
        };
        module("virtio_pci", "virtio_pci_modern_dev,virtio,virtio_ring");
        module("virtio_pci_modern_dev", "");
        module("virtio_ring", "virtio");
        module("virtio", "");
        module("virtio-blk", "virtio,virtio_ring");
        module("unwanted", "");
        module("nf_conntrack", "virtio,nf_defrag_ipv4");
        module("nf_defrag_ipv4", "");
        let selected = select(folder.path()).unwrap();
        let names =
            |modules: Vec<Module>| -> Vec<_> { modules.into_iter().map(|module| module.name).collect() };
        assert_eq!(names(selected.spare), ["nf_defrag_ipv4", "nf_conntrack"]);
        assert_eq!(
            names(selected.wanted),
            [
                "virtio_pci_modern_dev",
                "virtio",
                "virtio_ring",
                "virtio_pci",
                "virtio_blk"
            ]
        );
    }
}
