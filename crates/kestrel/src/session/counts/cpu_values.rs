//! The maps of a session's handlers, with each CPU's values apart.

use crate::session::attached::Session;
use kestrel_catalog::Result;
use kestrel_kernel::bpf::Map;
use kestrel_kernel::procfs::possible_cpus;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::aggregate::read::{Row, Snapshot};

impl Session {
    /// Contents of the handlers' maps by CPU: what each CPU has added, with its number.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(crate) fn map_snapshots_by_cpu(&self) -> Result<Vec<(u32, Snapshot)>> {
        self.resources.maps.read_by_cpu(&self.event_names)
    }

    /// Takes rows that are not wanted any more out of a map that is never cleared; gives them by CPU, as they were when they went.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(crate) fn take_rows(
        &self,
        name: &str,
        goes: &mut dyn FnMut(&Row, &MapType) -> bool,
    ) -> Result<Vec<(u32, Snapshot)>> {
        let mut all = self.resources.maps.all().iter();
        let Some((ty, map)) = all.find(|(ty, _)| ty.name == name) else {
            return Ok(Vec::new());
        };
        let ty = ty.named(&self.event_names);
        let mut taken = Vec::new();
        for (key, element) in map.entries()? {
            let alone = Snapshot::new(&ty, &[], [(key.clone(), map.cpu_values(&element))]);
            if alone.rows.first().is_some_and(|row| goes(row, &ty))
                && let Some(element) = take(map, &key)?
            {
                taken.push((key, element));
            }
        }
        let cpus = possible_cpus()?;
        let by_cpu = cpus.iter().enumerate().map(|(place, cpu)| {
            let elements = taken.iter();
            let elements = elements.map(|(key, element)| (key.clone(), map.cpu_values(element).nth(place)));
            (cpu, Snapshot::new(&ty, &[], elements))
        });
        Ok(by_cpu.collect())
    }
}

/// Takes an element out: in one step from Linux 5.14 on. Before, it is read and then deleted, and hits between the two are lost.
fn take(map: &Map, key: &[u8]) -> Result<Option<Vec<u8>>> {
    if let Ok(taken) = map.take(key) {
        return Ok(taken);
    }
    let element = map.lookup(key)?;
    map.delete(key)?;
    Ok(element)
}
