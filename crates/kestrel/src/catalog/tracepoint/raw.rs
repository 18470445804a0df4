//! The raw way: a tracepoint's fields computed from its raw arguments by a field rule, in the types of its formatted entry.

use super::super::kind::{Attachment, Way};
use super::super::{Catalog, raw_tracepoint};
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
    // An operand may bear the name of a field (`state`): the field's expression then means the operand, so operands come first.
    let mut all = raw_tracepoint::argument_fields(&target, false, true);
    all.extend(fields.into_iter().map(|(name, ty, expression)| EventField {
        name,
        ty,
        source: Source::Expression(expression),
        recorded: true,
    }));
    let way = |direct| Way {
        attachment: Attachment::TypedTracepoint {
            name: raw.to_owned(),
            id: target.id,
        },
        context: Context {
            name: name.to_owned(),
            function: None,
            program: ProgramKind::TracingTracepoint,
            number: EventNumber::Constant(0),
            selector: None,
            fields: all.clone(),
            arguments: (0..target.arguments.len() as u32)
                .map(|index| Source::Argument { index, trusted: true })
                .collect(),
            return_value: None,
            types: Some(target.types.clone()),
            features: catalog.features(ProgramKind::TracingTracepoint),
            direct_loads: direct,
            preemptible: false,
        },
        guard: guard.clone(),
    };
    vec![way(true), way(false)]
}
