//! Handlers that share maps: compiled, run in the interpreter on several processors, and read as the recorder reads.

use crate::kernel;
use crate::support::bump::{self, Bump};
use kestrel_bpf::code::{Code, MapRef, RelocationTarget};
use kestrel_bpf::interp::{self, Machine};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::shape::{PROGRAM_ROUNDS, Shapes};
use kestrel_compiler::check::{check, tree::CheckedProbe};
use kestrel_compiler::context::Context;
use kestrel_compiler::ir::{MapKind, MapSpec, MapUse};
use kestrel_compiler::lang::diag::{Style, render};
use kestrel_compiler::lang::parse_events;
use kestrel_compiler::{compile, map, unwind};
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::aggregate::{self, state};
use kestrel_trace::symbol::Symbols;

pub(crate) const CPUS: u32 = 4;
/// Where a test puts texts.
pub(crate) const KERNEL: u64 = 0xffff_8880_1000_0000;

/// Programs that share maps.
pub(crate) struct Maps {
    pub(crate) globals: Globals,
    pub(crate) checked: Vec<(CheckedProbe, Context)>,
    pub(crate) machine: Machine,
    pub(crate) names: Vec<String>,
    pub(crate) programs: Vec<Code>,
}

impl Maps {
    /// One handler per text, all for `vfs_read(file, buf, count, flags)`.
    #[track_caller]
    pub(crate) fn new(handlers: &[&str]) -> Self {
        Self::with(handlers, Globals::default(), |_, _| kernel::kprobe())
    }

    /// The same where maps may be read that nothing writes.
    #[track_caller]
    pub(crate) fn accepted(handlers: &[&str]) -> Self {
        Self::made(handlers, Globals::default(), |_, _| kernel::kprobe())
    }

    #[track_caller]
    pub(crate) fn with(
        handlers: &[&str],
        globals: Globals,
        context: impl Fn(usize, &str) -> Context,
    ) -> Self {
        let made = Self::made(handlers, globals, context);
        assert_eq!(made.globals.unwritten, []);
        made
    }

    /// The handlers of a program: checked again until what its maps and variables hold is known from all of their uses.
    #[allow(dead_code, reason = "not every file of tests has programs")]
    #[track_caller]
    pub(crate) fn program(handlers: &[&str]) -> Self {
        Self::program_of(handlers, |_, _| kernel::kprobe())
    }

    /// The same for events of all kinds.
    #[allow(dead_code, reason = "not every file of tests has programs")]
    #[track_caller]
    pub(crate) fn program_of(handlers: &[&str], context: impl Fn(usize, &str) -> Context) -> Self {
        let made = Self::program_of_any(handlers, context);
        assert_eq!(made.globals.unwritten, []);
        made
    }

    /// The same where maps may be read that nothing writes.
    #[allow(dead_code, reason = "not every file of tests has programs")]
    #[track_caller]
    pub(crate) fn program_of_any(handlers: &[&str], context: impl Fn(usize, &str) -> Context) -> Self {
        let mut shapes = Shapes::of_program();
        for _ in 0..PROGRAM_ROUNDS {
            let mut globals = Globals {
                infers_types: true,
                max_strlen: Some(40),
                unwinds: true,
                shapes: shapes.clone(),
                ..Globals::default()
            };
            for (index, handler) in handlers.iter().enumerate() {
                let (probe, _) = parse_events(&format!("e:x {handler}"));
                check(&probe, &context(index, handler), true, &mut globals);
            }
            match shapes.next(globals.shapes) {
                Some(next) => shapes = next,
                None => break,
            }
        }
        let globals = Globals {
            infers_types: true,
            max_strlen: Some(40),
            unwinds: true,
            shapes,
            ..Globals::default()
        };
        Self::made(handlers, globals, context)
    }

    #[track_caller]
    pub(crate) fn made(
        handlers: &[&str],
        mut globals: Globals,
        context: impl Fn(usize, &str) -> Context,
    ) -> Self {
        let mut checked = Vec::new();
        for (index, handler) in handlers.iter().enumerate() {
            let text = format!("e:x {handler}");
            let (probe, found) = parse_events(&text);
            assert!(found.is_empty(), "{text}: {found:?}");
            let context = context(index, handler);
            let (one, found) = check(&probe, &context, true, &mut globals);
            let Some(one) = one else {
                panic!("{}", render(&found, "x", &text, Style::default()));
            };
            checked.push((one, context));
        }
        let mut maps = Self {
            globals,
            checked,
            machine: Machine::new(),
            names: Vec::new(),
            programs: Vec::new(),
        };
        for (one, context) in maps.checked.clone() {
            let program = compile(&one, &context, &Bump::default()).expect("compiles");
            let refs: Vec<MapRef> = program.maps.iter().map(|used| maps.map(used)).collect();
            let mut code = program.code;
            for relocation in &mut code.relocations {
                if let RelocationTarget::Map(map) | RelocationTarget::MapValue(map) = &mut relocation.target {
                    *map = refs[map.0 as usize];
                }
            }
            maps.programs.push(code);
        }
        maps
    }

    /// The machine's map for one that a program uses.
    fn map(&mut self, used: &MapUse) -> MapRef {
        let add = |machine: &mut Machine, spec: &MapSpec| {
            let entries = spec.entries;
            let kind = match spec.kind {
                MapKind::Array => interp::MapKind::Array { entries },
                MapKind::PerCpuArray => interp::MapKind::PerCpuArray { entries },
                MapKind::Hash => interp::MapKind::Hash { entries },
                MapKind::PerCpuHash => interp::MapKind::PerCpuHash { entries },
                MapKind::LruHash => interp::MapKind::LruHash { entries },
                MapKind::PerCpuLruHash => interp::MapKind::PerCpuLruHash { entries },
                other => panic!("{other:?}"),
            };
            machine.add_map(kind, spec.key, spec.value)
        };
        let name = match used {
            MapUse::Private(spec) => {
                self.names.push(String::new());
                return add(&mut self.machine, spec);
            }
            MapUse::External(name) => name,
        };
        if let Some(at) = self.names.iter().position(|known| known == name) {
            return MapRef(at as u32);
        }
        self.names.push(name.clone());
        let known = self.globals.maps.iter().find(|m| map::external_name(m) == *name);
        let spec = match (name.as_str(), known) {
            (state::MAP, _) => map::state_spec(&self.globals.maps),
            (bump::MAP, _) => MapSpec {
                name: name.clone(),
                kind: MapKind::Array,
                key: 4,
                value: bump::VALUE,
                entries: 1,
                flags: 0,
            },
            (_, Some(ty)) => map::spec(ty),
            _ => {
                let mut tables = unwind::specs().into_iter();
                let (_, spec) = tables
                    .find(|(table, _)| table == name)
                    .unwrap_or_else(|| panic!("no map {name}"));
                spec
            }
        };
        add(&mut self.machine, &spec)
    }

    /// Runs a program on a CPU with these arguments.
    #[track_caller]
    pub(crate) fn run(&mut self, program: usize, cpu: u32, args: &[u64]) {
        self.machine.environment.cpu = cpu;
        let registers = registers(args);
        if let Err(fault) = self.machine.run(&self.programs[program], &registers) {
            panic!("{fault}");
        }
    }

    /// The machine's map of a name.
    pub(crate) fn at(&self, name: &str) -> Option<MapRef> {
        let place = self.names.iter().position(|known| known == name);
        place.map(|at| MapRef(at as u32))
    }

    /// The state map's bytes, none where no program uses it.
    pub(crate) fn state(&self) -> Vec<u8> {
        let state = self.at(state::MAP);
        let bytes = state.and_then(|map| self.machine.value(map, &[0; 4], 0));
        bytes.unwrap_or_default()
    }

    /// Contents of a map.
    #[track_caller]
    pub(crate) fn snapshot(&self, name: &str) -> Snapshot {
        let ty = self.globals.map(name).expect("a map of that name");
        let map = self.at(&map::external_name(ty)).expect("a program uses it");
        let shared = !ty.value.is_per_cpu() || ty.value.is_shared();
        let cpus = if shared { 1 } else { CPUS };
        let elements: Vec<(Vec<u8>, Vec<Vec<u8>>)> = self
            .machine
            .keys(map)
            .into_iter()
            .map(|key| {
                let values = (0..cpus).filter_map(|cpu| self.machine.value(map, &key, cpu));
                (key.clone(), values.collect())
            })
            .collect();
        let borrowed = elements
            .iter()
            .map(|(key, values)| (key.clone(), values.iter().map(Vec::as_slice)));
        Snapshot::new(ty, &self.state(), borrowed)
    }

    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> String {
        aggregate::text(&self.snapshot(name), &Symbols::default())
    }
}

/// Registers whose first arguments are these.
pub(crate) fn registers(args: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; 168];
    for (at, arg) in [112, 104, 96, 88, 72, 64].into_iter().zip(args) {
        bytes[at..at + 8].copy_from_slice(&arg.to_le_bytes());
    }
    bytes
}

/// Runs one handler for each count (`arg2`) on CPUs in turn; gives the map `@`.
#[track_caller]
pub(crate) fn after(handler: &str, counts: &[u64]) -> String {
    let mut maps = Maps::new(&[handler]);
    for (count, cpu) in counts.iter().zip((0..CPUS).cycle()) {
        maps.run(0, cpu, &[0, 0, *count]);
    }
    maps.text("")
}
