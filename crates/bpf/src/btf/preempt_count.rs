//! The place of the preemption count of each CPU in a kernel.

use super::{Btf, BtfKind, Type, TypeId};

/// A place of the preemption count, by the CPU that a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PreemptCountPlace {
    /// How a program finds it.
    pub source: PreemptCountSource,
    /// Whether the count has 64 bits; interrupts are counted in other bits of it than in the 32-bit one.
    pub is_wide: bool,
}

/// A way to the preemption count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PreemptCountSource {
    /// By the variable of each CPU that has it, at this byte of it: the kernel's symbols must have that (`CONFIG_KALLSYMS_ALL`).
    Symbol {
        /// BTF id of the per-CPU variable.
        id: TypeId,
        /// Offset of the count in the variable, in bytes.
        offset: u32,
    },
    /// By the running task, which leads to its CPU's queue of tasks: that lies in the same memory, at a distance that the kernel's types say.
    RunQueue {
        /// Where a task has the address of its queue of fair tasks (`se.cfs_rq`).
        fair_queue: u32,
        /// Where that has the address of the CPU's queue (`rq`).
        queue: u32,
        /// Offset of the count from that address.
        distance: i32,
    },
}

impl Btf {
    /// The ways to the preemption count, the straight one first. x86 has it in `pcpu_hot` from Linux 6.2 to 6.14, and in 64 bits from 7.3 on.
    pub fn preempt_count(&self) -> Vec<PreemptCountPlace> {
        let Some((id, offset, size)) = self.count_variable() else {
            return Vec::new();
        };
        let symbol = PreemptCountSource::Symbol { id, offset };
        let by_queue = self.beside_queue(id, offset);
        let place = |source| PreemptCountPlace {
            source,
            is_wide: size == 8,
        };
        [Some(symbol), by_queue]
            .into_iter()
            .flatten()
            .map(place)
            .collect()
    }

    /// The variable, the byte of it, and the size of the count.
    fn count_variable(&self) -> Option<(TypeId, u32, u64)> {
        if let Some(id) = self.find(BtfKind::Var, "__preempt_count") {
            return Some((id, 0, self.size_of(id)?));
        }
        let id = self.find(BtfKind::Var, "pcpu_hot")?;
        let hot = self.find(BtfKind::Struct, "pcpu_hot")?;
        let place = self.find_member(hot, "preempt_count")?;
        Some((id, place.bit_offset / 8, self.size_of(place.ty)?))
    }

    /// The count by its distance from the CPU's run queue, to which a program comes from its task: for kernels whose symbols lack the variable.
    fn beside_queue(&self, count: TypeId, offset: u32) -> Option<PreemptCountSource> {
        let member = |structure, name| {
            let id = self.find(BtfKind::Struct, structure)?;
            self.find_member(id, name)
        };
        let entity = member("task_struct", "se")?;
        let fair_queue = self.find_member(entity.ty, "cfs_rq")?;
        let queue = member("cfs_rq", "rq")?;
        let of_cpus = self.find(BtfKind::Datasec, ".data..percpu")?;
        let Type::Datasec { entries, .. } = self.ty(of_cpus) else {
            return None;
        };
        let queues = self.find(BtfKind::Var, "runqueues")?;
        let at = |id| entries.variables().find(|it| it.ty == id).map(|it| it.offset);
        let distance = i64::from(at(count)?) + i64::from(offset) - i64::from(at(queues)?);
        Some(PreemptCountSource::RunQueue {
            fair_queue: (entity.bit_offset + fair_queue.bit_offset) / 8,
            queue: queue.bit_offset / 8,
            distance: i32::try_from(distance).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::write::Builder;

    #[test]
    fn the_count_lies_beside_the_queue_of_its_cpu() {
        let mut types = Builder::new();
        let long = types.unsigned("long", 8);
        let queue = types.structure("rq", &[("nr", long)]);
        let to_queue = types.pointer(queue);
        let fair = types.structure("cfs_rq", &[("load", long), ("rq", to_queue)]);
        let to_fair = types.pointer(fair);
        let entity = types.structure("sched_entity", &[("vruntime", long), ("cfs_rq", to_fair)]);
        types.structure("task_struct", &[("state", long), ("flags", long), ("se", entity)]);
        let count = types.variable("__preempt_count", long);
        let queues = types.variable("runqueues", queue);
        types.datasec(".data..percpu", 4096, &[(count, 40, 8), (queues, 1024, 8)]);
        let types = Btf::parse(types.finish()).unwrap();
        let source = PreemptCountSource::RunQueue {
            fair_queue: 24,
            queue: 8,
            distance: 40 - 1024,
        };
        let found = types.preempt_count();
        assert!(found.iter().all(|place| place.is_wide), "{found:?}");
        assert!(matches!(
            found[0].source,
            PreemptCountSource::Symbol { offset: 0, .. }
        ));
        assert_eq!(found[1].source, source);
    }

    #[test]
    fn a_count_without_queues_has_one_way() {
        let mut types = Builder::new();
        let int = types.int("int", 4);
        let hot = types.structure("pcpu_hot", &[("current_task", int), ("preempt_count", int)]);
        let id = types.variable("pcpu_hot", hot);
        let types = Btf::parse(types.finish()).unwrap();
        let source = PreemptCountSource::Symbol { id, offset: 4 };
        assert_eq!(
            types.preempt_count(),
            [PreemptCountPlace {
                source,
                is_wide: false
            }]
        );
        assert_eq!(Btf::parse(Builder::new().finish()).unwrap().preempt_count(), []);
    }
}
