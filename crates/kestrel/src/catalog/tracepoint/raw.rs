//! The raw way: a tracepoint's fields computed from its raw arguments by a field rule, in the types of its formatted entry.

use super::super::Catalog;
use super::super::kind::{Attachment, Way};
use super::super::raw_tracepoint::{self, RawTarget};
use super::classic::value_type;
use super::rules::Rule;
use kestrel_compiler::context::{Context, EventField, EventNumber, ProgramKind, Source, ValueType};
use kestrel_kernel::tracefs::Format;

/// The ways to see a tracepoint through its rule: reading directly, then by probe reads. Empty where the rule does not cover
/// the running kernel's entry field by field.
pub(super) fn ways(catalog: &Catalog, name: &str, format: &Format, rule: &Rule) -> Vec<Way> {
    let typed = |field: &kestrel_kernel::tracefs::Field| {
        let (_, expression) = rule.fields.iter().find(|(name, _)| *name == field.name)?;
        let ty = value_type(format, field, false)?;
        Some((field.name.clone(), ty, (*expression).to_owned()))
    };
    let Some(fields) = format.fields.iter().map(typed).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    from_expressions(catalog, name, rule.raw, fields, None)
}

/// Ways over a raw tracepoint with fields given as expressions.
pub(super) fn from_expressions(
    catalog: &Catalog,
    name: &str,
    raw: &str,
    fields: Vec<(String, ValueType, String)>,
    guard: Option<String>,
) -> Vec<Way> {
    let Some(target) = raw_tracepoint::target(catalog, raw) else {
        return Vec::new();
    };
    let way = |attachment, program, trusted, direct| Way {
        attachment,
        context: Context {
            name: name.to_owned(),
            function: None,
            program,
            number: EventNumber::Constant(0),
            selector: None,
            fields: fields_of(&target, trusted, &fields),
            arguments: (0..target.arguments.len() as u32)
                .map(|index| Source::Argument { index, trusted })
                .collect(),
            return_value: None,
            types: Some(target.types.clone()),
            registers: Vec::new(),
            pair: None,
            features: catalog.features(program),
            direct_loads: direct,
            // Kernels of 7.x call the programs of a tracepoint with preemption on, system-call tracepoints from 6.13 on.
            preemptible: true,
        },
        guard: guard.clone(),
        companions: None,
    };
    let typed = || Attachment::TypedTracepoint {
        name: raw.to_owned(),
        id: target.id,
    };
    let untyped = Attachment::RawTracepoint { name: raw.to_owned() };
    vec![
        way(typed(), ProgramKind::TracingTracepoint, true, true),
        way(typed(), ProgramKind::TracingTracepoint, true, false),
        // The verifier lets nobody load an argument that points to something without a structure (`work_func_t function`) here
        // (`btf_ctx_access`); there, arguments are plain numbers.
        way(untyped, ProgramKind::RawTracepoint, false, false),
    ]
}

/// An operand may bear the name of a field (`state`): the field's expression then means the operand, so operands come first.
fn fields_of(target: &RawTarget, trusted: bool, fields: &[(String, ValueType, String)]) -> Vec<EventField> {
    let mut all = raw_tracepoint::argument_fields(target, false, trusted);
    all.extend(fields.iter().map(|(name, ty, expression)| EventField {
        name: name.clone(),
        ty: ty.clone(),
        source: Source::Expression(expression.clone()),
        recorded: true,
    }));
    all
}
