//! Maps and global variables as values of Rust types: sizes are checked when the types are named, never bytes' meaning, which only the object knows.

use super::map::BpfMap;
use super::running::Running;
use bytemuck::Pod;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::ValueCheck;
use std::marker::PhantomData;

/// A map whose keys are `K` and whose values are `V`.
///
/// `bytemuck` has [`Pod`] for numbers and arrays of them, and derives it for structures of `#[repr(C)]` without gaps.
#[derive(Clone, Copy, Debug)]
pub struct TypedMap<'m, K, V> {
    map: &'m BpfMap,
    of: PhantomData<(K, V)>,
}

impl BpfMap {
    /// The map with keys and values of these types.
    ///
    /// # Errors
    /// [`Error::Object`] with both sizes if a type has another than the map.
    pub fn typed<K: Pod, V: Pod>(&self) -> Result<TypedMap<'_, K, V>> {
        let info = self.info();
        let checked = [
            ("keys", info.key_size, size_of::<K>(), std::any::type_name::<K>()),
            (
                "values",
                info.value_size,
                size_of::<V>(),
                std::any::type_name::<V>(),
            ),
        ];
        for (what, has, wanted, name) in checked {
            if has as usize != wanted {
                return Err(Error::Object {
                    object: format!("the map {}", self.name()),
                    why: format!("its {what} have {has} bytes, {name} has {wanted}"),
                });
            }
        }
        Ok(TypedMap {
            map: self,
            of: PhantomData,
        })
    }
}

impl<K: Pod, V: Pod> TypedMap<'_, K, V> {
    /// Value under a key, if there is one.
    ///
    /// # Errors
    /// [`Error::Kernel`]; [`Error::Object`] if each CPU has a value of its own, which [`TypedMap::cpus`] reads.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        self.refuse_per_cpu("cpus")?;
        let element = self.map.lookup(bytemuck::bytes_of(key))?;
        Ok(element.map(|element| read(&element)))
    }

    /// Values under a key on each possible CPU; a single value where the map is not per CPU.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub fn cpus(&self, key: &K) -> Result<Option<Vec<V>>> {
        let element = self.map.lookup(bytemuck::bytes_of(key))?;
        Ok(element.map(|element| self.values(&element)))
    }

    /// Writes a value under a key, new or not; on every CPU where each has its own.
    ///
    /// # Errors
    /// [`Error::Kernel`]: `E2BIG` if the map is full.
    pub fn set(&self, key: &K, value: &V) -> Result<()> {
        let mut element = vec![0; self.map.element_size()];
        let info = self.map.info();
        let stride = if info.is_per_cpu() {
            info.cpu_stride()
        } else {
            element.len()
        };
        for place in element.chunks_exact_mut(stride.max(1)) {
            let value = bytemuck::bytes_of(value);
            place.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        }
        Ok(self
            .map
            .update(bytemuck::bytes_of(key), &element, ValueCheck::Any)?)
    }

    /// Removes a key; says whether it was there.
    ///
    /// # Errors
    /// [`Error::Kernel`]: arrays keep theirs.
    pub fn remove(&self, key: &K) -> Result<bool> {
        Ok(self.map.delete(bytemuck::bytes_of(key))?)
    }

    /// All keys with their values, in the map's order.
    ///
    /// # Errors
    /// As [`TypedMap::get`], with [`TypedMap::cpu_entries`].
    pub fn entries(&self) -> Result<Vec<(K, V)>> {
        self.refuse_per_cpu("cpu_entries")?;
        let all = self.map.entries()?.into_iter();
        Ok(all.map(|(key, element)| (read(&key), read(&element))).collect())
    }

    /// All keys with the values of each possible CPU.
    ///
    /// # Errors
    /// [`Error::Kernel`].
    pub fn cpu_entries(&self) -> Result<Vec<(K, Vec<V>)>> {
        let all = self.map.entries()?.into_iter();
        Ok(all
            .map(|(key, element)| (read(&key), self.values(&element)))
            .collect())
    }

    fn values(&self, element: &[u8]) -> Vec<V> {
        self.map.cpu_values(element).map(read).collect()
    }

    fn refuse_per_cpu(&self, instead: &str) -> Result<()> {
        if self.map.info().is_per_cpu() {
            return Err(Error::Object {
                object: format!("the map {}", self.map.name()),
                why: format!("each CPU has a value of its own: {instead}() reads them"),
            });
        }
        Ok(())
    }
}

impl Running {
    /// The value that a global variable has now.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such variable, or it has another size than the type.
    pub fn variable<V: Pod>(&self, name: &str) -> Result<V> {
        let object = &self.loaded().object;
        let Some(variable) = object.parsed().variable(name) else {
            return Err(object.wrong(format!("it has no global variable {name}")));
        };
        if variable.size as usize != size_of::<V>() {
            return Err(object.wrong(format!(
                "the variable {name} has {} bytes, {} has {}",
                variable.size,
                std::any::type_name::<V>(),
                size_of::<V>()
            )));
        }
        let data = match self.maps().get(variable.map) {
            Some(map) => map.lookup(&[0; 4])?,
            None => None,
        };
        let start = variable.offset as usize;
        let bytes = data
            .as_deref()
            .and_then(|data| data.get(start..start + size_of::<V>()));
        bytes
            .map(read)
            .ok_or_else(|| object.wrong(format!("the variable {name} lies outside of its section")))
    }
}

/// The sizes are known to be equal: a type's own is read, whatever the bytes are aligned to.
fn read<T: Pod>(bytes: &[u8]) -> T {
    bytemuck::try_pod_read_unaligned(bytes).unwrap_or_else(|_| T::zeroed())
}
