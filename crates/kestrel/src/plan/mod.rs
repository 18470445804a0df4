//! Planning a session before anything is attached: events resolved, handlers checked, record ids given out; pure but for asking the catalog.

mod calls;
mod check_handlers;
mod compile;
pub(crate) mod constant_records;
pub(crate) mod declared_maps;
mod describe;
mod entry_exit;
mod events;
mod existing;
mod findings;
mod hook;
mod load;
mod misnamed;
mod missing;
mod own_events;
mod per_event;
mod planned;
mod planner;
pub(crate) mod program_types;
mod relayed;
mod second_jprobe;
mod show;
mod source;
mod targets;
mod text;
mod together;
mod trust;

pub use crate::user_stack::UserStack;
pub(crate) use check_handlers::{CalledProgram, Candidate, Checked, without_set};
pub use describe::{TableEvent, describe, handler};
pub use existing::{Existing, ExistingHook};
pub use hook::{Hook, PlannedHandler, PlannedStrategy, Slot};
pub(crate) use hook::{called, whole_name};
pub use kestrel_hook::hook::Call;
pub use load::plan_load;
pub(crate) use load::plan_named;
pub(crate) use per_event::PerEventBuilder;
pub(crate) use planned::room_to_grow;
pub use planned::{BufferPlan, Plan, number};
pub(crate) use second_jprobe::no_second;
pub use show::show;
pub use source::{Options, ProbeFilter, ProgramText, Source, mention};

use kestrel_catalog::Result;
use kestrel_catalog::catalog::Catalog;
use kestrel_compiler::check::globals::{Globals, UserPlace};
use kestrel_compiler::check::shape::{PROGRAM_ROUNDS, Shapes};
use kestrel_compiler::lang::config::{self, MissingProbes};
use kestrel_hook::buffer::layout::{Geometry, Mode};
pub use kestrel_hook::buffer::name::MAIN as BUFFER;
use kestrel_hook::table::BufferSpec;
use kestrel_kernel::procfs::{ClockPair, possible_cpus};
use kestrel_trace::layout::StackMode;
use planner::{Done, Planner};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

/// The name under which a nameless table is known.
pub const TABLE: &str = "main";

/// How the words begin that need to know how the kernel counts preemption, which takes a look at a program that runs.
const PREEMPT_COUNTS: &str = "common_";

/// The word of handlers that keep stacks of the kernel.
const KERNEL_STACKS: &str = "kstack";

/// Plans a session: table number *n* is the *n*th of a file.
///
/// # Errors
/// The first event specification that is wrong, names nothing, or asks for what this kernel cannot do; [`kestrel_catalog::Error::Table`] with all that
/// is wrong in a table file; or why this kernel cannot be asked.
pub fn plan(source: Source<'_>, options: &Options, catalog: &Catalog) -> Result<Plan> {
    if options.flags || source.mentions(PREEMPT_COUNTS) {
        catalog.learn_preempt_count();
    }
    if options.kernel_stack || source.mentions(KERNEL_STACKS) {
        catalog.learn_dispatchers();
    }
    let one = [BufferSpec::default()];
    let (specs, parameters, max_map_keys) = match source {
        Source::Events(_) | Source::Program(_) => (&one[..], &options.parameters, options.max_map_keys),
        Source::File(file) => (&*file.buffers, &file.parameters, file.max_map_keys),
    };
    let globals = Globals {
        tables: match source {
            Source::Events(_) | Source::Program(_) => Vec::new(),
            Source::File(file) => file.table_names().map(str::to_owned).collect(),
        },
        buffers: specs.iter().map(|b| b.name.clone()).collect(),
        parameters: parameters.clone(),
        messages: options.persistent || options.messages,
        targets: options.target.has_threads(),
        persistent: options.persistent,
        max_map_keys,
        control_groups: match source {
            // Found in the rounds of its planning.
            Source::Program(_) => BTreeMap::new(),
            Source::Events(specs) => {
                control_groups(specs.iter().flat_map(|spec| control_groups_in(spec)), catalog)
            }
            Source::File(file) => control_groups(control_groups_in(&file.text), catalog),
        },
        ..Globals::default()
    };
    let (mut hooks, done) = match source {
        Source::Program(program) => program_hooks(program, options, globals, catalog)?,
        Source::Events(specs) => {
            let mut planner = Planner::new(catalog, options.clone(), globals);
            (planner.specs(specs)?, planner.finish()?)
        }
        Source::File(file) => {
            let mut planner = Planner::new(catalog, options.clone(), globals);
            planner.begin_file(file);
            let names: Vec<&str> = file.table_names().collect();
            let cells = planner.tables(file, &names)?;
            let groups = planner.groups(&cells)?;
            let numbers: Vec<u32> = (1..=cells.len() as u32).collect();
            (planner.hooks(groups, &numbers), planner.finish()?)
        }
    };
    let Done {
        globals,
        objects,
        warnings,
    } = done;
    let next = number(&mut hooks, 1)?;
    // Tables may be loaded later, and a ring's counters cannot grow.
    let room = match options.persistent {
        true => room_to_grow(next),
        false => next,
    };
    let buffer = |spec: &BufferSpec| {
        let bytes = options.buffer_bytes.unwrap_or(spec.bytes);
        let mode = options.mode.unwrap_or(match source {
            Source::Events(_) | Source::Program(_) => Mode::Stream,
            Source::File(_) => spec.mode,
        });
        BufferPlan {
            name: spec.name.clone(),
            geometry: Geometry::new(mode, bytes, room),
            process: spec.process.clone(),
            bell: BufferPlan::bell_of(options.bell, &spec.name, mode),
        }
    };
    let mut plan = Plan {
        tables: match source {
            Source::Events(_) | Source::Program(_) => vec![TABLE.to_owned()],
            Source::File(_) => globals.tables.clone(),
        },
        hooks,
        target: options.target.clone(),
        buffers: specs.iter().map(buffer).collect(),
        globals,
        slots: options.persistent,
        objects,
        warnings,
    };
    if options.persistent || plan.asks() {
        // A persistent session may get a handler with `notify` later, when its buffers are made.
        plan.give_messages_a_buffer();
    }
    match source {
        Source::Events(_) | Source::Program(_) => Ok(plan),
        Source::File(file) => trust::check(file, plan),
    }
}

/// How stacks are shown, as the setting says it.
fn stack_mode(set: config::StackMode) -> StackMode {
    match set {
        config::StackMode::Bpftrace => StackMode::Bpftrace,
        config::StackMode::Perf => StackMode::Perf,
        config::StackMode::Raw => StackMode::Raw,
        config::StackMode::BuildId => StackMode::BuildId,
    }
}

/// Where the symbols of the kernel are that a program has asked for.
fn addresses(shapes: &Shapes, catalog: &Catalog) -> BTreeMap<String, u64> {
    let wanted = shapes.symbols.iter();
    let found = wanted.filter_map(|name| {
        let symbol = catalog.symbols().ok()?.named(name).next()?;
        Some((name.clone(), symbol.address))
    });
    found.collect()
}

/// Where the symbols of programs are that a program has asked for.
fn user_places(shapes: &Shapes, catalog: &Catalog) -> BTreeMap<(String, String), UserPlace> {
    let wanted = shapes.user_symbols.iter();
    let found = wanted.filter_map(|key| Some((key.clone(), catalog.user_place(&key.0, &key.1)?)));
    found.collect()
}

/// The numbers of control groups by their paths: in the unified hierarchy those of their directories.
fn control_groups(paths: impl Iterator<Item = String>, catalog: &Catalog) -> BTreeMap<String, u64> {
    let found = paths.filter_map(|path| {
        let about = catalog.host().path(&path).metadata().ok()?;
        about.is_dir().then(|| (path, about.ino()))
    });
    found.collect()
}

/// The paths of control groups that stand in a text of handlers: `cgroupid("/sys/fs/cgroup/web")`.
fn control_groups_in(text: &str) -> impl Iterator<Item = String> {
    let calls = text.split("cgroupid").skip(1);
    calls.filter_map(|rest| {
        let argument = rest.trim_start().strip_prefix('(')?.trim_start();
        let mut quoted = argument.strip_prefix('"')?.chars();
        let mut path = String::new();
        loop {
            match quoted.next()? {
                '"' => return Some(path),
                '\\' => path.push(quoted.next()?),
                other => path.push(other),
            }
        }
    })
}

/// Globals that the probes of a program share at the begin of a round, over what they do whatever the program; `shapes` is what is known of its maps.
///
/// # Errors
/// [`kestrel_catalog::Error::Program`] with the declarations of maps that are wrong.
pub(crate) fn globals_of(program: &ProgramText, shapes: &Shapes, globals: &Globals) -> Result<Globals> {
    Ok(Globals {
        shapes: shapes.clone(),
        infers_types: true,
        max_strlen: u32::try_from(program.config.max_strlen).ok(),
        license: Some(program.config.license.clone()),
        declared: declared_maps::sizes(program)?,
        source: Some((program.name.clone(), program.text.clone())),
        stack_mode: stack_mode(program.config.stack_mode),
        series_clock: program.config.dummy_ts_map.strip_prefix('@').map(str::to_owned),
        ..globals.clone()
    })
}

/// The hooks of a program, planned again until what its maps hold is known from all of their uses.
fn program_hooks(
    program: &ProgramText,
    options: &Options,
    globals: Globals,
    catalog: &Catalog,
) -> Result<(Vec<Hook>, Done)> {
    let mut shapes = Shapes::of_program();
    // Once, since all uses of a map have to agree.
    let wall_clock = Some(ClockPair::now().offset());
    for _ in 0..PROGRAM_ROUNDS {
        let globals = Globals {
            wall_clock,
            unwinds: options.unwinds,
            allows_unsafe: options.allows_unsafe,
            counts_failures: options.counts_failures,
            counts_updates: options.counts_updates,
            addresses: addresses(&shapes, catalog),
            user_places: user_places(&shapes, catalog),
            control_groups: control_groups(shapes.control_groups.iter().cloned(), catalog),
            cpus: possible_cpus().map_or(1, |cpus| cpus.iter().count() as u64),
            ..globals_of(program, &shapes, &globals)?
        };
        let mut planner = Planner::new(catalog, options.clone(), globals);
        let planned = planner.program(program);
        if catalog.executables().share_types(catalog.types().ok().as_ref()) {
            // Types of traced programs that maps are known to hold have other numbers now.
            shapes = Shapes::of_program();
            continue;
        }
        let Some(next) = shapes.next(planner.globals.shapes.clone()) else {
            let mut hooks = planned?;
            constant_records::give_to_reader(&mut hooks);
            for hook in &mut hooks {
                // An event that the kernel refuses to attach may be missing, too; a hook that another one needs may not.
                hook.may_be_missing =
                    program.config.missing_probes != MissingProbes::Error && !hook.companion;
            }
            let mut done = planner.finish()?;
            let text = program.text.to_string();
            let unfit = declared_maps::unfit(program, &done.globals);
            if !unfit.is_empty() {
                return Err(kestrel_catalog::Error::Program {
                    source_text: text,
                    diagnostics: unfit,
                });
            }
            let warnings = declared_maps::warnings(program, &done.globals);
            done.warnings
                .extend(warnings.into_iter().map(|warning| (text.clone(), warning)));
            return Ok((hooks, done));
        };
        shapes = next;
    }
    Err(kestrel_catalog::Error::Compile {
        event: program.name.clone(),
        why: "what its maps hold is not found after many rounds".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_are_found_in_texts() {
        let text = r#"sched:sched_switch /cgroup == cgroupid ( "/a/b") || cgroup == cgroupid("/c \"d\"")/ { @[cgroupid(x)] = count() } // cgroupid("#;
        let found: Vec<String> = control_groups_in(text).collect();
        assert_eq!(found, ["/a/b", "/c \"d\""]);
    }
}
