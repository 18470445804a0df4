//! Programs compiled and loaded before they are attached, by several threads: the verifier looks at each program for itself and takes longer than all
//! the rest. A hook that fails here is tried again when it is attached, where its error is reported or its next strategy is taken.

use crate::plan::{Hook, Plan, PlannedStrategy};
use crate::session::hook_maps::{numbers_map, slots_map};
use crate::session::resources::Resources;
use kestrel_bpf::btf::Btf;
use kestrel_catalog::Result;
use kestrel_catalog::attach::Sites;
use kestrel_catalog::catalog::Catalog;
use kestrel_compiler::Program as Compiled;
use kestrel_hook::hook::dispatch;
use kestrel_hook::hook::second_chance::{self, ProgramPlace};
use kestrel_kernel::bpf::{Map, Program, ProgramKind};
use kestrel_kernel::preemption::Preemption;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Fewer programs than this are not worth a thread.
const MIN_PROGRAMS: usize = 16;
/// The most threads that load programs; more would wait for each other in the kernel.
const THREADS: usize = 8;

/// The type that programs were loaded as, and each of them with maps of its own.
pub(in crate::session) type LoadedAs = (ProgramKind, Vec<(Program, Vec<Map>)>);

/// A strategy of a hook, prepared for attaching.
#[derive(Debug)]
pub(in crate::session) struct PreparedHook {
    /// The hook's programs: several where threads can be preempted inside of them.
    pub(in crate::session) compiled: Vec<Compiled>,
    /// The map that distinguishes a set's events, under its name.
    pub(in crate::session) numbers: Option<(String, Map)>,
    /// For each of the programs, room for handlers that come later.
    pub(in crate::session) slots: Vec<Map>,
    /// The hits that were seen, where there are several programs.
    pub(in crate::session) seen: Option<Map>,
    /// The programs, where they are loaded already.
    pub(in crate::session) loaded: Option<LoadedAs>,
}

impl PreparedHook {
    /// Compiles a strategy and makes its maps.
    pub(in crate::session) fn compile(
        plan: &Plan,
        hook: &Hook,
        strategy: &PlannedStrategy,
        preemption: Preemption,
    ) -> Result<Self> {
        let selector = strategy.context.selector.as_ref();
        let is_preempted = strategy.mechanism.is_preempted(preemption);
        let first = hook.compile_shared(strategy, plan, is_preempted.then_some(ProgramPlace::FIRST))?;
        let mut compiled = vec![first];
        for place in second_chance::later(second_chance::PROGRAMS).filter(|_| is_preempted) {
            compiled.push(hook.compile(strategy, plan, Some(place))?);
        }
        let mut slots = Vec::new();
        for _ in &compiled {
            slots.extend(slots_map(hook.slots(plan), !hook.calls(strategy).is_empty())?);
        }
        Ok(Self {
            compiled,
            slots,
            seen: is_preempted.then(second_chance::create_map).transpose()?,
            numbers: selector.map(|s| numbers_map(hook, &s.map)).transpose()?,
            loaded: None,
        })
    }

    /// The maps of one of the programs by the names that its code has for them.
    pub(in crate::session) fn maps(&self, program: usize) -> Vec<(&str, &Map)> {
        let numbers = self.numbers.iter().map(|(name, map)| (name.as_str(), map));
        let slots = self.slots.get(program).map(|map| (dispatch::SLOTS_MAP, map));
        let seen = self.seen.as_ref().map(|map| (second_chance::MAP, map));
        numbers.chain(slots).chain(seen).collect()
    }
}

/// Prepares the first strategy of each hook; all `None` if there are few programs, or where a hook fails.
pub(in crate::session) fn prepare(
    resources: &Resources,
    plan: &Plan,
    catalog: &Catalog,
) -> Vec<Option<PreparedHook>> {
    let (types, preemption) = (catalog.types().ok(), preemption(plan, catalog));
    let is_preempted = |hook: &&Hook| {
        hook.strategies
            .first()
            .is_some_and(|strategy| strategy.mechanism.is_preempted(preemption))
    };
    let preempted = plan.hooks.iter().filter(is_preempted).count();
    let programs = plan.hooks.len() + preempted * (second_chance::PROGRAMS as usize - 1);
    make_in_parallel(plan.hooks.len(), programs, &|index| {
        // Programs for a slot are made where the slot is known.
        let hook = plan.hooks.get(index).filter(|hook| hook.slot.is_none())?;
        // Hooks that share a program come with the first.
        let shares = |other: &Hook| hook.entry_exit_id.is_some() && other.entry_exit_id == hook.entry_exit_id;
        if plan.hooks.iter().take(index).any(shares) {
            return None;
        }
        prepare_hook(resources, plan, hook, types.as_ref(), preemption)
    })
}

/// Results of `make` for hooks `0..count`, by several threads; all `None` if there are fewer than [`MIN_PROGRAMS`] programs: the caller makes them itself.
pub(in crate::session) fn make_in_parallel<T: Send>(
    count: usize,
    programs: usize,
    make: &(dyn Fn(usize) -> Option<T> + Sync),
) -> Vec<Option<T>> {
    let mut all: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let threads = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(THREADS);
    let threads = threads.min(count);
    if programs < MIN_PROGRAMS || threads < 2 {
        return all;
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return made;
            }
            made.extend(make(index).map(|one| (index, one)));
        }
    };
    let made = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let made = threads.into_iter().filter_map(|thread| thread.join().ok());
        made.flatten().collect::<Vec<_>>()
    });
    for (index, ready) in made {
        all[index] = Some(ready);
    }
    all
}

/// Where threads can be preempted inside a plan's programs and [`second_chance`] helps: at trampolines of functions only up to its limit of programs. Asked
/// for only if a hook is concerned.
pub(in crate::session) fn preemption(plan: &Plan, catalog: &Catalog) -> Preemption {
    const EVERYWHERE: Preemption = Preemption {
        tracepoints: true,
        trampolines: true,
    };
    let mut strategies = plan.hooks.iter().flat_map(|hook| &hook.strategies);
    if !strategies.any(|strategy| strategy.mechanism.is_preempted(EVERYWHERE)) {
        return Preemption::default();
    }
    let mut preemption = catalog.preemption();
    preemption.trampolines &= most_on_a_function(plan) <= second_chance::MAX_ON_A_FUNCTION;
    preemption
}

/// Most hooks of a plan at one function's trampoline.
fn most_on_a_function(plan: &Plan) -> usize {
    let mut hooks: HashMap<(Option<&str>, u32), usize> = HashMap::new();
    for hook in &plan.hooks {
        let sites = hook.strategies.first().map(|strategy| strategy.mechanism.sites());
        if let Some(Sites::Trampoline(module, id)) = sites {
            *hooks.entry((module, id.0)).or_default() += 1;
        }
    }
    hooks.into_values().max().unwrap_or(0)
}

fn prepare_hook(
    resources: &Resources,
    plan: &Plan,
    hook: &Hook,
    types: Option<&Arc<Btf>>,
    preemption: Preemption,
) -> Option<PreparedHook> {
    let strategy = hook.strategies.first()?;
    let mut ready = PreparedHook::compile(plan, hook, strategy, preemption).ok()?;
    if strategy.mechanism.loads_ahead() {
        let kind = strategy.mechanism.called_kind(true).ok()?;
        let event = hook.event();
        let load = |(number, compiled): (usize, &Compiled)| {
            let given = ready.maps(number);
            resources
                .load(
                    (&event, &hook.function()),
                    kind,
                    &compiled.code,
                    &compiled.maps,
                    types,
                    &given,
                )
                .ok()
        };
        let loaded: Option<Vec<_>> = ready.compiled.iter().enumerate().map(load).collect();
        ready.loaded = loaded.map(|programs| (kind, programs));
    }
    Some(ready)
}
