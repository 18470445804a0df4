//! A hook compiled to a BPF program: for one of its strategies, with the buffers and tables of its plan.

use super::check_handlers::members;
use super::constant_records;
use super::hook::{Hook, PlannedStrategy, Slot, layouts};
use super::planned::{BufferPlan, Plan};
use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_catalog::attach::CallEnd;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::tree::CheckedProbe;
use kestrel_compiler::context::Context;
use kestrel_compiler::{Program, compile_hook};
use kestrel_hook::buffer::layout::Mode;
use kestrel_hook::buffer::writer::{Outlined, RingSink, map_name};
use kestrel_hook::hook::MAX_TABLE_SLOTS;
use kestrel_hook::hook::dispatch::{Dispatch, HandlerChoice};
use kestrel_hook::hook::named;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_hook::hook::second_chance::{ProgramPlace, Switches};

/// Whether the kernel knows of a program's functions which of them may sleep, so that those that do not may be called with preemption off (Linux 6.15).
fn knows_sleepable_handlers(context: &Context) -> bool {
    let known = |types: &Btf| {
        let function = types.find(BtfKind::Struct, "bpf_subprog_info")?;
        types.find_member(function, "might_sleep")
    };
    context.types.as_deref().and_then(known).is_some()
}

impl Hook {
    /// Number of slots of its program array, for programs that are made later: one for each table, or the next of a named probe, whose programs are
    /// made anew where they refer to buffers.
    pub(crate) fn slots(&self, plan: &Plan) -> u32 {
        match self.named_probe {
            _ if !plan.slots => 0,
            None => MAX_TABLE_SLOTS,
            Some(_) if self.records > 0 => named::PROBE_SLOTS,
            Some(_) => 0,
        }
    }

    /// Way in which its code finds the handler that an event meets.
    fn choice(&self, strategy: &PlannedStrategy, plan: &Plan) -> HandlerChoice {
        // A pinned program runs when there is no session any more.
        if strategy.mechanism.own_event().is_some() || strategy.mechanism.pin().is_some() {
            return HandlerChoice::Always;
        }
        match (self.named_probe, &self.slot, self.handlers.as_slice()) {
            (Some(own), Some(_), _) => HandlerChoice::Recompiled(own),
            (Some(own), None, _) => HandlerChoice::Named {
                own,
                slots: self.slots(plan) > 0,
            },
            (None, Some(Slot { only: Some(row), .. }), _) => HandlerChoice::Handler(*row),
            (None, Some(slot), _) => HandlerChoice::Instances(slot.sets.clone()),
            (None, None, [_]) if plan.tables.len() == 1 && !plan.slots => HandlerChoice::Only,
            (None, None, rows) => HandlerChoice::Tables {
                tables: rows.iter().map(|row| row.tables.clone()).collect(),
                slots: plan.slots,
            },
        }
    }

    /// Compiles the program that the kernel is given: with the handlers at the other end of a call, where that shares it.
    ///
    /// # Errors
    /// As [`Hook::compile`].
    pub(crate) fn compile_shared(
        &self,
        strategy: &PlannedStrategy,
        plan: &Plan,
        place: Option<ProgramPlace>,
    ) -> Result<Program> {
        let own = self.compile(strategy, plan, place)?;
        let (Some(end), Some(other)) = (strategy.mechanism.call_end(), plan.other_end(self)) else {
            return Ok(own);
        };
        let Some(its_way) = other.strategies.first() else {
            return Ok(own);
        };
        let other = other.compile(its_way, plan, place)?;
        let (entry, at_return) = match end {
            CallEnd::Return => (other, own),
            CallEnd::Entry => (own, other),
        };
        entry.with_return(at_return).map_err(|error| Error::Compile {
            event: self.event(),
            why: error.to_string(),
        })
    }

    /// Compiles the handlers for a strategy. Where the hook is several programs: the one at a `place` among them.
    ///
    /// # Errors
    /// When a record is too large for a page, or needs more stack than BPF has.
    pub fn compile(
        &self,
        strategy: &PlannedStrategy,
        plan: &Plan,
        place: Option<ProgramPlace>,
    ) -> Result<Program> {
        let mut context = strategy.context.clone();
        context.number = context.number.numbered(self.first_record_id, self.records.max(1));
        context.members = members(&context, &self.instances);
        let calls = self.calls(strategy);
        let features = &context.features;
        let can = context.preemptible && features.preempt_disable && features.irq_save;
        // Linux 6.10 to 6.14 take no call, with preemption off, of a function that is verified apart. Programs that call others keep their few bytes of stack.
        let choice = self.choice(strategy, plan);
        let calls_none = calls.is_empty() && !plan.slots && !choice.is_called();
        let sleepers_known = knows_sleepable_handlers(&context);
        let functions = strategy.checked.iter().any(CheckedProbe::takes_functions);
        // A program that calls another one lets itself be preempted, and so does one whose handlers call functions that may not be called otherwise.
        let preemption_off = place.is_some() && can && calls.is_empty() && (sleepers_known || !functions);
        let overwrites = plan.buffers.iter().any(|b| b.geometry.mode == Mode::Overwrite);
        let switches_off = context.preemptible && features.preempt_disable && (overwrites || preemption_off);
        let may = calls_none && (!switches_off || sleepers_known);
        let records = strategy.checked.iter().flat_map(CheckedProbe::records).count();
        let outlined = match may {
            false => Outlined::None,
            // A program that writes much, or runs once, is verified sooner with calls; one that writes one record writes it sooner without.
            true if plan.buffers.len() == 1 && (records > 1 || choice == HandlerChoice::Always) => {
                Outlined::All
            }
            true => Outlined::SlowPath,
        };
        let ring_of = |buffer: &BufferPlan| RingSink {
            map: map_name(&buffer.name),
            geometry: buffer.geometry,
            reentrant: place.is_some(),
            bell: buffer.bell,
            outlined,
            // Scripts are started more often than they print.
            brief: plan.globals.infers_types,
        };
        let sink = Dispatch {
            buffers: plan
                .buffers
                .iter()
                .map(|b| (b.name.clone(), ring_of(b)))
                .collect(),
            owners: (0..)
                .zip(&plan.buffers)
                .filter_map(|(number, buffer)| Some((number, buffer.process.clone()?)))
                .collect(),
            buffer_policy: plan.buffer_policy(),
            counts_failures: plan.globals.counts_failures,
            counts_updates: plan.globals.counts_updates,
            counts_divisions: plan.globals.keeps_failures(),
            tables: plan.tables.clone(),
            parameters: plan.globals.parameters.iter().map(|p| p.name.clone()).collect(),
            followed: matches!(plan.target, ProcessFilter::Command(_)) && self.about.is_empty(),
            preemption_off,
            calls,
            choice,
            subprogram: may,
            taken_from: self.taken_from,
            relayed_hooks: self.relayed_hooks.clone(),
            passes_to: self.passes_to,
            place,
            switches: place.and(context.types.as_deref()).and_then(Switches::find),
        };
        let split = constant_records::split(strategy);
        let handlers = split.as_ref().map_or(&strategy.checked, |split| &split.rest);
        let handlers: Vec<&CheckedProbe> = handlers.iter().collect();
        let program = compile_hook(&handlers, &context, &sink).map_err(|e| Error::Compile {
            event: context.name.clone(),
            why: e.to_string(),
        })?;
        Ok(match split {
            None => program,
            Some(_) => Program {
                layouts: layouts(&strategy.checked),
                ..program
            },
        })
    }
}
