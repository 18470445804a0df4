//! A plan as text: what `--dry-run` prints.

use super::hook::{Hook, PlannedStrategy};
use super::planned::{BufferPlan, Plan};
use kestrel_catalog::Result;
use kestrel_compiler::ir::MapUse;
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::hook::owner::Owner;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_trace::print::counted;
use std::fmt::{self, Write};

/// The plan: buffer, processes, programs, records; with `code`, the BPF of each program, too.
///
/// # Errors
/// When a handler cannot be compiled.
pub fn show(plan: &Plan, code: bool) -> Result<String> {
    let mut out = String::new();
    // Every field is named, so that a new one is shown or left out on purpose.
    for BufferPlan {
        name,
        geometry,
        process,
        bell: _,
    } in &plan.buffers
    {
        let mode = match geometry.mode {
            Mode::Stream => "stream: the newest record is lost and counted when the ring is full",
            Mode::Overwrite => "overwrite: the oldest page goes when the ring is full",
        };
        let whose = process.as_ref().map_or_else(String::new, |owner| match owner {
            Owner::Process(pid) => format!(", for process {pid}"),
            Owner::Parameter(name) => format!(", for the process whose number the parameter {name} holds"),
        });
        let _ = writeln!(
            out,
            "buffer {name}: {} KiB per CPU{whose}, {mode}",
            geometry.data() >> 10
        );
    }
    let listed = |noun: &str, numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let plural = if noun == "process" { "es" } else { "s" };
        let plural = if numbers.len() == 1 { "" } else { plural };
        format!("{noun}{plural} {}", numbers.join(", "))
    };
    let whose = match &plan.target {
        ProcessFilter::All => "all processes".to_owned(),
        ProcessFilter::Processes(pids) => listed("process", pids),
        ProcessFilter::Threads(tids) => listed("thread", tids),
        ProcessFilter::Command(pid) => {
            format!("the command (process {pid}) and its children, from its exec on")
        }
    };
    let _ = writeln!(out, "events of {whose}");
    for hook in &plan.hooks {
        show_hook(&mut out, plan, hook, code)?;
    }
    Ok(out)
}

fn show_hook(out: &mut String, plan: &Plan, hook: &Hook, code: bool) -> Result<()> {
    let Some(strategy) = hook.strategies.first() else {
        return Ok(());
    };
    let names: Vec<&str> = hook.instances.iter().take(3).map(|i| i.name.as_str()).collect();
    let more = hook.instances.len().saturating_sub(names.len());
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let _ = writeln!(out, "\n{}{more}", names.join(", "));
    let _ = writeln!(out, "  attach: {strategy}");
    for other in hook.strategies.iter().skip(1) {
        let _ = writeln!(out, "  else:   {other}");
    }
    if !hook.about.is_empty() {
        let _ = writeln!(out, "  of these, and about these by {}", hook.about.join(", "));
    }
    // The planned strategy; which one works is known when it is attached.
    let program = hook.compile(strategy, plan, None)?;
    let _ = writeln!(
        out,
        "  program: {}",
        counted(program.code.insns.len() as u64, "instruction")
    );
    for class in hook.classes(strategy).iter().take(1) {
        let size = class.layout.constant_size().map_or_else(
            || format!("at most {}", counted(class.layout.max_size() as u64, "byte")),
            |size| counted(size as u64, "byte"),
        );
        let fields: Vec<&str> = class.layout.fields().iter().map(|f| f.name.as_str()).collect();
        let _ = writeln!(out, "  record {}: {size}: {}", class.id.0, fields.join(", "));
    }
    if code {
        let maps: Vec<&str> = program.maps.iter().map(map_text).collect();
        for line in kestrel_bpf::text::listing(&program.code, &maps).lines() {
            let _ = writeln!(out, "    {line}");
        }
    }
    Ok(())
}

impl fmt::Display for PlannedStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = if self.context.direct_loads {
            "reading directly"
        } else {
            "reading by bpf_probe_read_kernel"
        };
        f.write_str(&self.mechanism.describe(reads))
    }
}

fn map_text(used: &MapUse) -> &str {
    match used {
        MapUse::Private(spec) => &spec.name,
        MapUse::External(name) => name,
    }
}
