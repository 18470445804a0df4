//! Functions of DWARF by their addresses: their parameters, and where the compiler says that these are at the entry.

use super::spelling::spelled;
use super::types::Types;
use super::unit::{Die, Entry, Units, constant, flag};
use gimli::{AttributeValue, Expression, Operation, constants as dw};
use kestrel_bpf::btf::TypeId;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Place of a parameter at the entry of its function, as the compiler recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterPlace {
    /// In the register of this number of DWARF.
    Register(u16),
    /// Nowhere: it always has this value.
    Constant(i64),
    /// The debug information does not say.
    Nothing,
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The parameter's name.
    pub name: String,
    /// The parameter's type.
    pub ty: TypeId,
    /// The type as C writes it, in bpftrace's manner: `const char*`.
    pub text: String,
    /// Where the parameter is at the function's entry.
    pub place: ParameterPlace,
}

/// Signature of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The parameters, in order.
    pub parameters: Vec<Parameter>,
    /// The type of what it returns.
    pub returns: TypeId,
    /// The return type as C writes it.
    pub returned: String,
}

/// A function has at most so many parameters.
const MAX_PARAMETERS: usize = 255;

/// The entries of functions that begin at addresses, in one unit.
pub(super) fn find<'d>(root: &Die<'d>, addresses: &[u64]) -> HashMap<u64, Die<'d>> {
    let addresses: HashSet<u64> = addresses.iter().copied().collect();
    let mut found = HashMap::new();
    let mut entries = root.unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() != dw::DW_TAG_subprogram || flag(entry, dw::DW_AT_declaration) {
            continue;
        }
        let Some(begin) = entry_address(root, entry) else {
            continue;
        };
        if addresses.contains(&begin) {
            found.entry(begin).or_insert_with(|| root.beside(entry.offset()));
            if found.len() == addresses.len() {
                break;
            }
        }
    }
    found
}

/// Where a function's code begins.
fn entry_address(root: &Die<'_>, entry: &Entry<'_>) -> Option<u64> {
    let dwarf = &root.units.dwarf;
    if let Some(low) = entry.attr_value(dw::DW_AT_low_pc) {
        return dwarf.attr_address(&root.unit, low).ok()?;
    }
    let ranges = entry.attr_value(dw::DW_AT_ranges)?;
    let mut ranges = dwarf.attr_ranges(&root.unit, ranges).ok()??;
    Some(ranges.next().ok()??.begin)
}

/// A function of the debug information: its name, parameters and return type.
pub(super) fn signature<'d>(die: &Die<'d>, address: u64, types: &mut Types<'d>) -> Signature {
    let mut parameters = Vec::new();
    for child in parameters_of(die) {
        let Some(entry) = child.entry() else {
            continue;
        };
        parameters.push(Parameter {
            name: child.name().unwrap_or_else(|| format!("arg{}", parameters.len())),
            ty: types.of(&child),
            text: spelled(&child),
            place: place(&child, &entry, address),
        });
    }
    Signature {
        parameters,
        returns: types.of(die),
        returned: spelled(die),
    }
}

/// The entries of the parameters: those of a copy of a function, or else of the function itself.
fn parameters_of<'d>(die: &Die<'d>) -> Vec<Die<'d>> {
    let own = |die: &Die<'d>| {
        let children = die.children().into_iter();
        let children = children.filter(|child| child.tag() == dw::DW_TAG_formal_parameter);
        let children: Vec<Die<'d>> = children
            .take(MAX_PARAMETERS)
            .map(|child| die.beside(child.offset()))
            .collect();
        (!children.is_empty()).then_some(children)
    };
    die.inherited(&|die, _| own(die)).unwrap_or_default()
}

fn place(die: &Die<'_>, entry: &Entry<'_>, address: u64) -> ParameterPlace {
    if let Some(value) = constant(entry, dw::DW_AT_const_value) {
        return ParameterPlace::Constant(value);
    }
    let encoding = die.unit.encoding();
    let register = |expression: Expression<_>| {
        let mut operations = expression.operations(encoding);
        match (operations.next(), operations.next()) {
            (Ok(Some(Operation::Register { register })), Ok(None)) => {
                Some(ParameterPlace::Register(register.0))
            }
            _ => None,
        }
    };
    let place = match entry.attr_value(dw::DW_AT_location) {
        Some(AttributeValue::Exprloc(expression)) => register(expression),
        Some(list) => {
            let mut places = match die.units.dwarf.attr_locations(&die.unit, list) {
                Ok(Some(places)) => places,
                _ => return ParameterPlace::Nothing,
            };
            let mut found = None;
            while let Ok(Some(place)) = places.next() {
                if (place.range.begin..place.range.end).contains(&address) {
                    found = register(place.data);
                    break;
                }
            }
            found
        }
        None => None,
    };
    place.unwrap_or(ParameterPlace::Nothing)
}

/// Namespaces in namespaces are at most so deep.
const DEPTH: u32 = 16;

/// Adds the types that have names below an entry, outside of functions.
pub(super) fn named_types<'d>(of: &Die<'d>, types: &mut Types<'d>, depth: u32) {
    for child in of.children() {
        let die = of.beside(child.offset());
        match child.tag() {
            dw::DW_TAG_namespace if depth < DEPTH => named_types(&die, types, depth + 1),
            dw::DW_TAG_structure_type
            | dw::DW_TAG_class_type
            | dw::DW_TAG_union_type
            | dw::DW_TAG_enumeration_type
            | dw::DW_TAG_typedef
                if child.has_attr(dw::DW_AT_name) && !flag(&child, dw::DW_AT_declaration) =>
            {
                types.add(&die);
            }
            _ => {}
        }
    }
}

/// The entry of a unit itself.
pub(super) fn root<'d>(units: &Rc<Units<'d>>, begin: usize) -> Option<Die<'d>> {
    let unit = units.unit(begin)?;
    let offset = unit.header.root_offset();
    Some(Die {
        units: units.clone(),
        unit,
        offset,
    })
}
