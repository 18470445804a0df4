//! The checker of one probe: its variables, maps and diagnostics; the other files of the check add methods.

use super::globals::Globals;
use super::phrase::Refused;
use super::tree::{CheckedPair, Variable, VariableId};
use crate::context::Context;
use crate::lang::ast::Span;
use crate::lang::diag::{Diagnostic, Severity};
use kestrel_trace::layout::Names;
use std::collections::{HashMap, HashSet};

/// Most findings reported about one probe.
const FINDINGS: usize = 50;

/// Leaves as many findings as are shown, the first ones, of which one mistake can cause hundreds; warnings go before errors do.
pub(super) fn keep_worst(found: &mut Vec<Diagnostic>) {
    while found.len() > FINDINGS {
        let last_warning = found.iter().rposition(|one| one.severity != Severity::Error);
        found.remove(last_warning.unwrap_or(FINDINGS));
    }
}

/// Something is wrong and has been reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

pub(crate) type Checked<T> = Result<T, Reported>;

/// State of the checker while a probe is checked.
pub(crate) struct Checker<'a> {
    pub(crate) context: &'a Context,
    pub(crate) globals: Globals,
    pub(super) found: Vec<Diagnostic>,
    /// Scratch variables that can be seen, innermost block last.
    pub(super) scopes: Vec<HashMap<String, VariableId>>,
    pub(super) variables: Vec<Variable>,
    /// Event fields whose rules are being followed, outermost first.
    pub(super) rules: Vec<String>,
    /// Number of `record()` statements.
    pub(super) records: u32,
    /// Names of enumerations already asked for.
    pub(super) names: HashMap<kestrel_bpf::btf::TypeId, Names>,
    /// Where each variable is first set, or declared.
    pub(super) declared: HashMap<VariableId, Span>,
    /// Variables that were declared without a type or a value, until something is stored.
    pub(super) undecided: Vec<VariableId>,
    /// Variables whose type is written, with its size: `string` by itself has none.
    pub(super) written: Vec<VariableId>,
    /// Variables that were declared with a type and no value, until something is stored.
    pub(super) unset: Vec<VariableId>,
    /// Whether the value of the expression being checked is read: where only its type or its address is asked for, it is not.
    pub(super) is_read: bool,
    /// Variables that were read before anything was stored in them: each is warned of once.
    pub(super) read_early: HashSet<VariableId>,
    /// Variables that have no value because what should be stored in them is wrong.
    pub(super) without_value: HashSet<String>,
    /// The type of the operand that was refused last.
    pub(super) refused: Refused,
    /// Loops around the statement being checked.
    pub(super) loops: u32,
    /// Conditions around the statement being checked that are known not to hold.
    pub(crate) unreached: u32,
    /// Number of times that `unroll` repeats the statements being checked.
    pub(super) repeats: u64,
    /// Functions of the aggregations that name no map, in source order.
    pub(crate) bare: Vec<(&'static str, Span)>,
    /// The relation to the event before, so far.
    pub(super) pair: Option<CheckedPair>,
    /// Whether the handler was written for one event, by its name.
    pub(super) plain: bool,
}

impl<'a> Checker<'a> {
    pub(super) fn new(context: &'a Context, globals: Globals) -> Self {
        Self {
            context,
            globals,
            found: Vec::new(),
            scopes: vec![HashMap::new()],
            variables: Vec::new(),
            rules: Vec::new(),
            records: 0,
            names: HashMap::new(),
            declared: HashMap::new(),
            undecided: Vec::new(),
            written: Vec::new(),
            unset: Vec::new(),
            is_read: true,
            read_early: HashSet::new(),
            without_value: HashSet::new(),
            refused: Refused::default(),
            loops: 0,
            unreached: 0,
            repeats: 1,
            bare: Vec::new(),
            pair: None,
            plain: false,
        }
    }

    /// Reports an error.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        if !self.found.contains(&diagnostic) {
            self.found.push(diagnostic);
            keep_worst(&mut self.found);
        }
        Reported
    }

    /// Says how something is written where the findings since `before` are about its `places` and say nothing of that.
    pub(crate) fn add_usage(&mut self, before: usize, places: &[Span], written: &str) {
        if written.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            // A word alone is written as it stands there.
            return;
        }
        for mut found in self.found.split_off(before.min(self.found.len())) {
            if found.hints.is_empty() && places.contains(&found.span) {
                found.hints.push(format!("it is written {written}"));
            }
            self.report(found);
        }
    }

    /// Number of findings so far.
    pub(crate) fn findings(&self) -> usize {
        self.found.len()
    }

    /// Reports an error without more to say.
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) -> Reported {
        self.report(Diagnostic::error(span, message))
    }

    /// Reports that a part of the language is not there yet.
    pub(crate) fn not_yet(&mut self, span: Span, what: &str) -> Reported {
        self.error(span, format!("not yet supported: {what}"))
    }
}
