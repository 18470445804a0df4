//! The kernel's types, the catalog's types and written types, all as [`Type`]; and types as words.
//!
//! | room | what it does |
//! |---|---|
//! | `kernel` | types of BTF and of the catalog |
//! | `written` | types as scripts write them: casts, declarations |
//! | `size` | sizes and alignment in memory |
//! | `kept` | types of values that lie in records and maps |
//! | `words` | types in messages and for `typeof` |

mod kept;
mod kernel;
mod size;
mod words;
mod written;

use super::checker::{Checked, Checker, Reported};
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_bpf::btf::Btf;

impl<'a> Checker<'a> {
    pub(crate) fn btf(&self) -> Option<&'a Btf> {
        self.context.types.as_deref()
    }

    /// The kernel's types, or an error that `what` needs them.
    pub(crate) fn need_btf(&mut self, span: Span, what: &str) -> Checked<&'a Btf> {
        self.btf().ok_or_else(|| self.no_btf(span, what))
    }

    /// Says that something needs the kernel's types, which there are none of.
    pub(super) fn no_btf(&mut self, span: Span, what: &str) -> Reported {
        let message = format!("{what} needs the kernel's types, and this kernel publishes none");
        let hint = "the kernel must be built with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)";
        self.report(Diagnostic::error(span, message).hint(hint))
    }
}
