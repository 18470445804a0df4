//! Types of DWARF as people read them: `int*`, `const char*`, `struct Foo*`.

use super::types::{counts, is_composite};
use super::unit::Die;
use gimli::constants as dw;
use std::cell::Cell;

/// Types in types are spelled at most so deep.
const DEPTH: u32 = 16;
/// A type is spelled of at most so many.
const MAX: u32 = 256;

/// The type of a parameter or of what a function returns; `void` where it has none.
pub(super) fn spelled(die: &Die<'_>) -> String {
    of(die, 0, &Cell::new(MAX))
}

fn of(die: &Die<'_>, depth: u32, left: &Cell<u32>) -> String {
    die.ty()
        .map_or_else(|| "void".to_owned(), |ty| written(&ty, depth + 1, left))
}

fn written(die: &Die<'_>, depth: u32, left: &Cell<u32>) -> String {
    let Some(entry) = die.entry().filter(|_| depth < DEPTH && left.get() > 0) else {
        return "void".to_owned();
    };
    left.set(left.get() - 1);
    if let Some(whole) = die.follow(&entry, dw::DW_AT_signature) {
        return written(&whole, depth + 1, left);
    }
    let name = || die.name().unwrap_or_default();
    let tagged = |tag: &str| format!("{tag} {}", name()).trim_end().to_owned();
    let target = |tag| {
        let ty = die.ty().and_then(|ty| ty.entry());
        ty.is_some_and(|ty| ty.tag() == tag)
    };
    match entry.tag() {
        dw::DW_TAG_pointer_type => {
            let to = of(die, depth, left);
            match target(dw::DW_TAG_subroutine_type) {
                true => to,
                false => format!("{to}*"),
            }
        }
        dw::DW_TAG_reference_type => format!("{}&", of(die, depth, left)),
        dw::DW_TAG_rvalue_reference_type => format!("{}&&", of(die, depth, left)),
        dw::DW_TAG_const_type | dw::DW_TAG_volatile_type => {
            let word = match entry.tag() {
                dw::DW_TAG_const_type => "const",
                _ => "volatile",
            };
            // A qualifier behind the `*` belongs to the pointer.
            match target(dw::DW_TAG_pointer_type) {
                true => format!("{} {word}", of(die, depth, left)),
                false => format!("{word} {}", of(die, depth, left)),
            }
        }
        dw::DW_TAG_restrict_type => format!("{} restrict", of(die, depth, left)),
        dw::DW_TAG_atomic_type => format!("_Atomic {}", of(die, depth, left)),
        dw::DW_TAG_array_type => {
            let counts = counts(die).into_iter().map(|count| format!("[{count}]"));
            format!("{}{}", of(die, depth, left), counts.collect::<String>())
        }
        dw::DW_TAG_subroutine_type => {
            let parameters = die.children().into_iter();
            let parameters = parameters.filter(|child| child.tag() == dw::DW_TAG_formal_parameter);
            let parameters: Vec<String> = parameters
                .map(|child| of(&die.beside(child.offset()), depth, left))
                .collect();
            format!("{} (*)({})", of(die, depth, left), parameters.join(", "))
        }
        dw::DW_TAG_enumeration_type => tagged("enum"),
        dw::DW_TAG_union_type => tagged("union"),
        tag if is_composite(tag) => tagged("struct"),
        _ => name(),
    }
}
