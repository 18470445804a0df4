//! Maps of an object: made, or found pinned or given, with their content and the slots that the object fills.

use super::Loaded;
use crate::kconfig;
use crate::map::{self, BpfMap};
use kestrel_bpf::object::map::{Content, Filling, Inner, Map as Declaration};
use kestrel_catalog::Result;
use kestrel_kernel::bpf::{self, Map, ValueCheck};
use std::os::fd::AsFd;
use std::sync::Arc;

impl Loaded {
    /// Makes sure that the sizes of all maps are known.
    fn check_sizes(&self, given: &dyn Fn(&str) -> Result<Option<Map>>) -> Result<()> {
        let mut open = Vec::new();
        for map in self.object.parsed.maps() {
            let Some(option) = map::open_size(map) else {
                continue;
            };
            let elsewhere = self
                .object
                .settings
                .pinned
                .iter()
                .any(|(name, _)| *name == map.name);
            let path = map::pin_path(&self.object.host, &self.object.name, map)?;
            let pinned = path.is_some_and(|path| std::fs::symlink_metadata(path).is_ok());
            if !elsewhere && !pinned && given(&map.name)?.is_none() {
                open.push(option);
            }
        }
        // Compilers have an order of their own for what a program declares.
        open.sort_unstable();
        match open.as_slice() {
            [] => Ok(()),
            [one] => Err(self.object.wrong(format!(
                "it leaves the size of a map to its own loader: say it, {one} (of a ring, a power of two from 4096 on)"
            ))),
            many => Err(self.object.wrong(format!(
                "it leaves the sizes of {} maps to its own loader: say them, {} (of rings, powers of two from 4096 on)",
                many.len(),
                many.join(" ")
            ))),
        }
    }

    pub(super) fn make_maps(&mut self) -> Result<()> {
        self.make_maps_with(&|_| Ok(None)).map(drop)
    }

    /// Makes the maps, but for those that other processes have already, by their names; says whether any was given.
    pub(crate) fn make_maps_with(&mut self, given: &dyn Fn(&str) -> Result<Option<Map>>) -> Result<bool> {
        let mut any = false;
        self.check_sizes(given)?;
        let declared = self.object.parsed.maps().to_vec();
        let types = self
            .object
            .parsed
            .btf()
            .and_then(|btf| kestrel_bpf::btf::Btf::parse(btf.bytes().clone()).ok())
            .map(Arc::new);
        let mut made: Vec<Option<BpfMap>> = declared.iter().map(|_| None).collect();
        // Templates first; what holds maps later. Two rounds do: maps in maps hold none.
        for round in 0..2 {
            for (index, map) in declared.iter().enumerate() {
                let later = matches!(map.inner, Some(Inner::Map(_)));
                if later != (round == 1) {
                    continue;
                }
                let inner = match &map.inner {
                    Some(Inner::Map(held)) => made.get(*held).and_then(Option::as_ref).map(|map| &map.map),
                    _ => None,
                };
                if inner.is_none() && later {
                    return Err(self
                        .object
                        .wrong(format!("the map {} holds maps that hold maps", map.name)));
                }
                let (found, reused, path) = match given(&map.name)? {
                    Some(map) => {
                        any = true;
                        (map, true, None)
                    }
                    None => self.make_map(map, inner)?,
                };
                self.notes.extend(map::enlarged(map, &found, reused)?);
                if let Some(place) = made.get_mut(index) {
                    *place = Some(BpfMap {
                        name: map.name.clone(),
                        map: found,
                        key: map.key,
                        value: map.value,
                        types: types.clone(),
                        reused,
                        path,
                        is_data: map.is_data,
                    });
                }
            }
        }
        self.maps = made.into_iter().flatten().collect();
        Ok(any)
    }

    fn make_map(
        &self,
        declared: &Declaration,
        inner: Option<&Map>,
    ) -> Result<(Map, bool, Option<std::path::PathBuf>)> {
        let mut pinned = self.object.settings.pinned.iter();
        if let Some((_, path)) = pinned.find(|(name, _)| *name == declared.name) {
            let found = map::reuse(path, declared)?.ok_or_else(|| {
                let why = format!(
                    "nothing is pinned at {}, where its map {} should be",
                    path.display(),
                    declared.name
                );
                self.object.wrong(why)
            })?;
            return Ok((found, true, None));
        }
        let path = map::pin_path(&self.object.host, &self.object.name, declared)?;
        if let Some(path) = &path
            && let Some(found) = map::reuse(path, declared)?
        {
            return Ok((found, true, Some(path.clone())));
        }
        let btf = self.btf.as_ref().map(AsFd::as_fd);
        // The kernel takes the shape of inner maps from one that exists while the outer one is made.
        let template = match &declared.inner {
            Some(Inner::Template(template)) => Some(map::create(&self.object.name, template, btf, None)?),
            _ => None,
        };
        let inner = inner.or(template.as_ref()).map(AsFd::as_fd);
        let made = map::create(&self.object.name, declared, btf, inner)?;
        let kconfig;
        let content: Option<&[u8]> = match &declared.content {
            Content::Empty => None,
            Content::Bytes(bytes) => Some(bytes),
            Content::Kconfig(variables) => {
                let btf = self
                    .object
                    .parsed
                    .btf()
                    .ok_or_else(|| self.object.wrong("it has no types"))?;
                kconfig = kconfig::values(
                    &self.object.host,
                    &self.object.settings.config,
                    btf,
                    variables,
                    declared.value_size,
                )?;
                Some(&kconfig)
            }
        };
        if let Some(content) = content {
            made.update(&[0; 4], content, ValueCheck::Any)?;
        }
        if declared.is_data && declared.flags & bpf::sys::MAP_PROGRAM_READ_ONLY != 0 {
            // The verifier takes values of frozen maps for constants, and so drops branches that need helpers of other kernels.
            made.freeze()?;
        }
        Ok((made, false, path))
    }

    /// Slots of program arrays and of maps of maps that the object fills itself.
    pub(crate) fn fill_slots(&self) -> Result<()> {
        for (declared, map) in self.object.parsed.maps().iter().zip(&self.maps) {
            for (slot, filling) in &declared.filling {
                match filling {
                    Filling::Map(held) => {
                        if let Some(held) = self.maps.get(*held) {
                            map.set_slot(*slot, held.map.as_fd())?;
                        }
                    }
                    Filling::Program(name) => {
                        let program = self
                            .programs
                            .iter()
                            .find(|program| program.declared.name == *name);
                        let left = self.left.iter().any(|(left, _)| left == name);
                        if left || !self.object.settings.takes(name, true) {
                            continue;
                        }
                        let program = program.ok_or_else(|| {
                            self.object.wrong(format!(
                                "slot {slot} of {} wants the program {name}, which is not there",
                                map.name
                            ))
                        })?;
                        map.set_slot(*slot, program.program.as_fd())?;
                    }
                }
            }
        }
        Ok(())
    }
}
