//! The maps that an object declares, in any of several styles. They are only read here, not created in the kernel.

mod btf;
mod classic;
mod data;
mod declared;
mod kind;

pub(super) use declared::Source;
pub use declared::{Content, Filling, Inner, KconfigVariable, Map, Pinning};

use crate::Error;

/// Most maps of an object; the kernel lets a program use 64.
const MAX: usize = 4096;

/// A way to declare maps.
struct Style {
    /// The name that users see.
    name: &'static str,
    read: fn(&Source<'_>) -> Result<Vec<Map>, Error>,
}

/// The styles, in the order in which their maps are listed.
const STYLES: &[Style] = &[
    Style {
        name: "BTF (.maps)",
        read: btf::read,
    },
    Style {
        name: "classic (maps)",
        read: classic::read,
    },
    Style {
        name: "global data",
        read: data::read,
    },
    Style {
        name: "kernel configuration",
        read: data::kconfig,
    },
];

/// Reads all maps of an object.
pub(super) fn read(source: &Source<'_>) -> Result<Vec<Map>, Error> {
    let mut maps = Vec::new();
    for style in STYLES {
        for map in (style.read)(source)? {
            maps.push(Map {
                style: style.name,
                ..map
            });
        }
    }
    if maps.len() > MAX {
        return Err(Error::Object(format!(
            "it declares {} maps; more than {MAX} is a mistake",
            maps.len()
        )));
    }
    classic::connect(&mut maps)?;
    btf::fill(source, &mut maps)?;
    Ok(maps)
}
