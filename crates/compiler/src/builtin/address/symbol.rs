//! Addresses of the kernel's symbols, which are found before a program runs.

use crate::builtin::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::ExprKind;
use crate::lang::ast::{self, Span};
use crate::lang::diag::Diagnostic;

impl Checker<'_> {
    /// The address of a symbol of the kernel. One that is not known yet is noted, to be looked for before the program is checked again.
    pub(super) fn known_address(&mut self, name: &str, span: Span) -> Checked<u64> {
        if let Some(address) = self.globals.addresses.get(name) {
            return Ok(*address);
        }
        self.globals.shapes.symbols.insert(name.to_owned());
        Err(match self.globals.is_recorded {
            false => self.error(span, format!("Failed to resolve kernel symbol: {name}")),
            true => {
                let message = format!("the address of {name} is not known of this recording");
                let hint = "a recording has the symbols of its stacks and of the addresses in its records";
                self.report(Diagnostic::error(span, message).hint(hint))
            }
        })
    }
}

/// The address of the symbol that an argument of a use names.
pub(super) fn address_of(checker: &mut Checker<'_>, usage: &Use<'_>, symbol: &ast::Expr) -> Checked<u64> {
    let value = checker.expression(symbol)?;
    let ExprKind::ConstantBytes(name) = &value.kind else {
        return Err(usage.wants_literal(checker, symbol));
    };
    let name = String::from_utf8_lossy(name).into_owned();
    checker.known_address(&name, usage.span)
}
