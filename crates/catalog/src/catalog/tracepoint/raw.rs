//! The raw strategy: a tracepoint's fields computed from its raw arguments by a field rule, in the types of its formatted entry.

use super::super::kind::Strategy;
use super::super::lookup::Catalog;
use super::super::raw_tracepoint::{self, RawTarget};
use super::field_type::value_type;
use super::page_frame;
use super::rules::Rule;
use crate::attach::{self, Mechanism};
use kestrel_bpf::btf::Type;
use kestrel_compiler::context::{Context, EventField, ProgramKind, Source, ValueType};
use kestrel_kernel::tracefs::{Field, Format, Location};

/// Strategies to see a tracepoint through a rule: reading directly, then by probe reads. Empty where the rule does not cover
/// the running kernel's entry field by field.
pub(super) fn strategies(catalog: &Catalog, name: &str, format: &Format, rule: &Rule<'_>) -> Vec<Strategy> {
    let Some(target) = raw_tracepoint::target(catalog, rule.raw) else {
        return Vec::new();
    };
    let typed = |field: &Field| {
        let ty = value_type(format, field, false)?;
        let expression = match rule.fields.iter().find(|(name, _)| *name == field.name) {
            Some((_, expression)) => page_frame::expand(catalog, expression)?,
            None => argument(&target, field)?,
        };
        Some((field.name.clone(), ty, expression))
    };
    let Some(fields) = format.fields.iter().map(typed).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let is_argument = |text: &str| target.arguments.iter().any(|(name, _)| name == text);
    let follows = fields.iter().any(|(.., expression)| !is_argument(expression));
    let computes = rule.fields.iter().any(|(_, text)| page_frame::is_in(text));
    of_target(
        catalog,
        name,
        rule.raw,
        &target,
        &fields,
        None,
        follows && !computes,
    )
}

/// The argument that a field bears the name of, where it is as large as the field: the kernel copies it then, and the row of the rule is
/// where that was checked by hand.
fn argument(target: &RawTarget, field: &Field) -> Option<String> {
    let (name, ty) = target.arguments.iter().find(|(name, _)| *name == field.name)?;
    let scalar = matches!(
        target.types.resolved(*ty),
        Type::Int(_) | Type::Enum(_) | Type::Ptr(_)
    );
    let same = target.types.size_of(*ty) == Some(u64::from(field.size));
    (scalar && same && field.location == Location::Inline && !field.is_array()).then(|| name.clone())
}

/// Ways over a raw tracepoint with fields given as expressions.
pub(super) fn from_expressions(
    catalog: &Catalog,
    name: &str,
    raw: &str,
    fields: Vec<(String, ValueType, String)>,
    guard: Option<String>,
) -> Vec<Strategy> {
    let target = raw_tracepoint::target(catalog, raw);
    target.map_or_else(Vec::new, |target| {
        of_target(catalog, name, raw, &target, &fields, guard, true)
    })
}

/// `typed_first`: whether the kernel should know what the arguments point to. That lets pointers be followed fast, but the verifier then
/// refuses to compute with them, and it takes a moment for each program; a handler that only copies arguments does better without.
fn of_target(
    catalog: &Catalog,
    name: &str,
    raw: &str,
    target: &RawTarget,
    fields: &[(String, ValueType, String)],
    guard: Option<String>,
    typed_first: bool,
) -> Vec<Strategy> {
    let strategy = |mechanism, program, trusted, direct| Strategy {
        mechanism,
        context: Context {
            // However it is seen, a tracepoint has fields, not arguments: those are the raw tracepoint's.
            fields: fields_of(target, trusted, fields),
            types: Some(target.types.clone()),
            features: catalog.features(program),
            direct_loads: direct,
            // Kernels of 7.x call the programs of a tracepoint with preemption on, system-call tracepoints from 6.13 on.
            preemptible: true,
            dispatchers: catalog.dispatchers(raw),
            ..Context::new(name, program)
        },
        guard: guard.clone(),
        companions: None,
    };
    let typed = || {
        Mechanism::TypedTracepoint(attach::TypedTracepoint {
            name: raw.to_owned(),
            id: target.id,
        })
    };
    let untyped = Mechanism::RawTracepoint(attach::RawTracepoint { name: raw.to_owned() });
    // The verifier lets no program load an argument that points to something without a structure (`work_func_t function`) where it knows types
    // (`btf_ctx_access`); here, arguments are plain numbers.
    let untyped = strategy(untyped, ProgramKind::RawTracepoint, false, false);
    if !typed_first {
        return vec![untyped];
    }
    vec![
        strategy(typed(), ProgramKind::TracingTracepoint, true, true),
        strategy(typed(), ProgramKind::TracingTracepoint, true, false),
        untyped,
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
