//! Missed hits of kprobes (another one's handler ran): `nmissed` of each `struct kprobe`, for kernels whose links do not report it.
//!
//! A probe of perf's is part of a `struct trace_kprobe`, whose event knows the BPF program on it, and that its number: so the counts of a program
//! are found for any process that attached it, and however many probes share one place.

use super::kprobe_table::{Table, half, no_types, word};
use crate::error::Result;
use crate::facts::Facts;
use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_kernel::Host;
use kestrel_kernel::kcore::Kcore;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The most probes at one place; a longer list changed while it was read.
const LONGEST: usize = 10_000;

/// A registered kprobe of any process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The address of the probe.
    pub address: u64,
    /// The BPF program that it runs, if it runs one.
    pub program: Option<u32>,
    /// Hits while the handler of another probe ran on that CPU.
    pub missed: u64,
}

/// All kprobes there are, those of one place in the order in which the kernel lists them.
///
/// # Errors
/// Where the kernel's memory cannot be read (/proc/kcore, a lockdown), or its symbols and types do not say what is in it.
pub fn registered_kprobes(host: &Host) -> Result<Vec<Registered>> {
    // The same as long as the kernel runs, and long to find.
    static WHERE: OnceLock<KprobeMemory> = OnceLock::new();
    let place = match WHERE.get() {
        Some(place) => place,
        None => {
            let found = KprobeMemory::find(&Facts::new(host.clone()))?;
            WHERE.get_or_init(|| found)
        }
    };
    let memory = Kcore::open(host)?;
    let shape = &place.shape;
    let mut all = Vec::new();
    place.table.each(&memory, |at| {
        let address = word(&memory, at + shape.address)?;
        for probe in shape.at_one_place(&memory, at)? {
            let is_event = place.handlers.contains(&word(&memory, probe + shape.handler)?);
            // A kretprobe of another tool has such a handler, too, and is part of nothing: what is read then leads nowhere.
            let program = is_event.then(|| shape.program(&memory, probe).ok().flatten());
            all.push(Registered {
                address,
                program: program.flatten(),
                missed: word(&memory, probe + shape.missed)?,
            });
        }
        Ok(())
    })?;
    Ok(all)
}

/// The kernel's counts, by the number of the program on the probes.
///
/// # Errors
/// As [`registered_kprobes`].
pub fn by_program(host: &Host) -> Result<HashMap<u32, u64>> {
    let mut sums = HashMap::new();
    for probe in registered_kprobes(host)? {
        if let Some(program) = probe.program {
            *sums.entry(program).or_default() += probe.missed;
        }
    }
    Ok(sums)
}

/// Table, offsets and handlers by which kprobes are found in the kernel's memory.
struct KprobeMemory {
    table: Table,
    shape: Shape,
    /// A `struct kprobe` with one of these is part of a `struct trace_kprobe`.
    handlers: Vec<u64>,
}

impl KprobeMemory {
    fn find(facts: &Facts) -> Result<Self> {
        let symbols = facts.symbols()?;
        let address = |name: &&str| {
            let mut named = symbols.named(name).filter(|s| s.module.is_none());
            named.next().map(|s| s.address)
        };
        let types = facts.types()?;
        Ok(Self {
            table: Table::find(facts)?,
            shape: shape(&types).ok_or_else(no_types)?,
            handlers: ["kprobe_dispatcher", "pre_handler_kretprobe"]
                .iter()
                .filter_map(address)
                .collect(),
        })
    }
}

/// Offsets of the members that are needed.
struct Shape {
    /// Address of the `struct kprobe`.
    address: u64,
    list: u64,
    handler: u64,
    missed: u64,
    /// Of `struct trace_kprobe`: the `struct kprobe` in it, and the pointer to its event.
    probe: u64,
    event: u64,
    /// Of `struct trace_probe_event`, of the array of programs, of a program, of what belongs to it.
    programs: u64,
    first: u64,
    aux: u64,
    id: u64,
}

impl Shape {
    /// The probes that share a place with the one in the table: itself, or those that it stands for.
    fn at_one_place(&self, memory: &Kcore, at: u64) -> Result<Vec<u64>> {
        let head = at + self.list;
        let mut all = Vec::new();
        let mut node = word(memory, head)?;
        while node != head && node != 0 && all.len() < LONGEST {
            all.push(node.wrapping_sub(self.list));
            node = word(memory, node)?;
        }
        if all.is_empty() {
            all.push(at);
        }
        Ok(all)
    }

    /// The program that a probe's event runs.
    fn program(&self, memory: &Kcore, probe: u64) -> Result<Option<u32>> {
        let event = word(memory, probe.wrapping_sub(self.probe).wrapping_add(self.event))?;
        let programs = word(memory, event.wrapping_add(self.programs))?;
        if programs == 0 {
            return Ok(None);
        }
        let program = word(memory, programs.wrapping_add(self.first))?;
        let aux = word(memory, program.wrapping_add(self.aux))?;
        Ok(Some(half(memory, aux.wrapping_add(self.id))?))
    }
}

fn shape(types: &Btf) -> Option<Shape> {
    let of = |structure: &str, path: &[&str]| {
        let mut ty = types.find(BtfKind::Struct, structure)?;
        let mut offset = 0;
        for name in path {
            let place = types.find_member(ty, name)?;
            offset += u64::from(place.offset());
            ty = place.ty;
        }
        Some(offset)
    };
    Some(Shape {
        address: of("kprobe", &["addr"])?,
        list: of("kprobe", &["list"])?,
        handler: of("kprobe", &["pre_handler"])?,
        missed: of("kprobe", &["nmissed"])?,
        probe: of("trace_kprobe", &["rp", "kp"])?,
        event: of("trace_kprobe", &["tp", "event"])?,
        programs: of("trace_probe_event", &["call", "prog_array"])?,
        first: of("bpf_prog_array", &["items"])? + of("bpf_prog_array_item", &["prog"])?,
        aux: of("bpf_prog", &["aux"])?,
        id: of("bpf_prog_aux", &["id"])?,
    })
}
