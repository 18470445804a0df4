//! All that an event must be recorded with for a program: what its handlers read there, and what others read by addresses that these keep in maps.

use super::advice::{is_to_fill_in, with_word};
use super::events::{TRACEPOINT, is_name, kind_of};
use super::plan::{Round, own_class};
use kestrel_catalog::catalog::{Catalog, find_kind, text_of};
use kestrel_compiler::check::check;
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::ast::Probe;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_replay::event::advised;
use kestrel_replay::refusal::{advice, refused};
use kestrel_replay::{KeptRead, kept_reads, needed, with_arguments};
use kestrel_trace::event::EventClass;
use kestrel_trace::event_kind;
use kestrel_trace::layout::{Base, FieldType, Layout};

/// The field of returns that has the value.
const RETURNED: &str = "retval";

/// The fields of a tracepoint, as far as addresses are wanted: those that are addresses, and the others as numbers and texts.
pub(super) fn tracepoint(catalog: &Catalog, name: &str) -> Option<Layout> {
    let kind = find_kind(TRACEPOINT)?;
    let name = name
        .strip_prefix(TRACEPOINT)
        .and_then(|it| it.strip_prefix(':'))
        .unwrap_or(name);
    let described = kind.describe(catalog, name).ok()?;
    let fields = described.fields.into_iter().map(|field| {
        let ty = match field.ty.as_str() {
            array if array.ends_with(']') => FieldType::CharArray { size: 16 },
            pointer if pointer.ends_with('*') => FieldType::Pointer { symbolic: false },
            _ => FieldType::Integer {
                size: 8,
                signed: true,
                base: Base::Decimal,
            },
        };
        (field.name, ty)
    });
    Some(Layout::new(fields))
}

impl Round<'_> {
    /// The fields that an event must be recorded with, beside its parameters or its own, for all that a handler reads of it.
    pub(super) fn needed(&self, probe: &Probe, event: &EventClass) -> Option<String> {
        self.needed_with(probe, event, &self.kept_reads())
    }

    fn needed_with(&self, probe: &Probe, event: &EventClass, kept: &[KeptRead]) -> Option<String> {
        // What calls are given is recorded by their arguments' own names.
        if !event_kind::is_function_entry(&event.kind) && event.name.contains("syscalls:sys_") {
            return None;
        }
        let whole = with_arguments(event);
        let context = Context {
            types: self.types.clone(),
            ..self.context(&whole)
        };
        let (checked, _) = check(probe, &context, false, &mut self.globals.clone());
        let handler = checked?;
        let values = needed(&handler, &whole, kept)?;
        let others = refused(&handler, Some(&whole), self.held);
        let hints = others.iter().flat_map(|refusal| &refusal.hints);
        Some(hints.fold(values, |values, hint| {
            with_word(values, advised(hint, &event.name))
        }))
    }

    /// What all handlers read by addresses that maps keep.
    fn kept_reads(&self) -> Vec<KeptRead> {
        let mut globals = self.globals.clone();
        let mut found = Vec::new();
        for probe in &self.program.probes {
            for spec in probe.events.iter().filter(|spec| is_name(spec)) {
                let returned = (RETURNED.to_owned(), FieldType::Pointer { symbolic: false });
                let class = with_arguments(&EventClass {
                    kind: kind_of(spec).to_owned(),
                    layout: Layout::new([returned]),
                    ..own_class(&text_of(spec))
                });
                let context = Context {
                    types: self.types.clone(),
                    ..self.context(&class)
                };
                let (checked, _) = check(probe, &context, false, &mut globals);
                found.extend(checked.iter().flat_map(|handler| kept_reads(handler, &class)));
            }
        }
        found
    }

    /// Has refusals of memory whose addresses are kept elsewhere say with which events it is recorded.
    pub(super) fn advise_keepers(&self, refused: &mut [Diagnostic], event: &str) {
        let to_fill_in = |hint: &String| advised(hint, event).is_some_and(is_to_fill_in);
        if !refused.iter().any(|it| it.hints.iter().any(to_fill_in)) {
            return;
        }
        let kept = self.kept_reads();
        let mut keepers = Vec::new();
        for probe in &self.program.probes {
            for spec in probe.events.iter().filter(|spec| is_name(spec)) {
                let class = EventClass {
                    kind: kind_of(spec).to_owned(),
                    ..own_class(&text_of(spec))
                };
                let with = self.needed_with(probe, &class, &kept);
                if let Some(values) = &with
                    && with != self.needed_with(probe, &class, &[])
                {
                    keepers.push(advice(&class.name, values));
                }
            }
        }
        if keepers.is_empty() {
            return;
        }
        for diagnostic in refused {
            let before = diagnostic.hints.len();
            diagnostic.hints.retain(|hint| !to_fill_in(hint));
            if diagnostic.hints.len() < before {
                diagnostic.hints.append(&mut keepers);
            }
        }
    }
}
