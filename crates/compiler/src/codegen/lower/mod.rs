//! The checked tree becomes intermediate code: one probe, one function; the sink says how a record is kept.

mod known;
mod record;
mod text;
mod value;

use crate::check::tree::{CheckedProbe, Expr, Record, Statement, StatementKind};
use crate::context::Context;
use crate::error::Error;
use crate::ir::{BlockId, Builder, Condition, Function, Vreg, Width, helper};
use crate::sink::Sink;
use kestrel_trace::layout::Layout;
use known::Known;

/// A function, and the layouts of the records it writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    /// The program.
    pub function: Function,
    /// By what its number exceeds the event's; empty if it writes none.
    pub layouts: Vec<Layout>,
}

/// Lowers one probe.
///
/// # Errors
/// When the sink refuses a record, or the tree is not one that the checker makes.
pub fn lower(probe: &CheckedProbe, context: &Context, sink: &dyn Sink) -> Result<Lowered, Error> {
    let mut b = Builder::new();
    let variables: Vec<Vreg> = probe.variables.iter().map(|_| b.vreg()).collect();
    let done = b.block();
    let mut lower = Lower {
        b,
        context,
        sink,
        variables,
        known: Known::default(),
        done,
        selected: None,
        records: probe.records().collect(),
    };
    sink.admit(&mut lower.b, done);
    lower.select(probe.selector.as_ref())?;
    if let Some(predicate) = &probe.predicate {
        let body = lower.b.block();
        lower.condition(predicate, body, done)?;
        lower.b.switch_to(body);
    }
    for v in lower.variables.clone() {
        lower.b.assign(v, 0);
    }
    lower.statements(&probe.body)?;
    if !lower.b.is_ended() {
        lower.b.jump(done);
    }
    lower.b.switch_to(done);
    lower.b.exit(0);
    Ok(Lowered {
        function: lower.b.finish(),
        layouts: probe.records().map(|r| r.layout.clone()).collect(),
    })
}

/// The state of lowering one probe.
struct Lower<'a> {
    b: Builder,
    context: &'a Context,
    sink: &'a dyn Sink,
    /// Scratch variables.
    variables: Vec<Vreg>,
    /// Values already in registers on every path to here.
    known: Known,
    /// Leaves the program.
    done: BlockId,
    /// The number of the event, where it is looked up.
    selected: Option<Vreg>,
    /// All that the probe may write, in source order.
    records: Vec<&'a Record>,
}

impl Lower<'_> {
    /// Looks up the number of the event that this is; leaves where it is not wanted.
    fn select(&mut self, selector: Option<&Expr>) -> Result<(), Error> {
        let (Some(value), Some(selector)) = (selector, self.context.selector.as_ref()) else {
            return Ok(());
        };
        let index = self.operand(value)?;
        let key = self.b.slot(4, 4);
        let key = self.b.slot_address(key, 0);
        self.b.store(Width::B4, key, 0, index);
        let map = self.b.external(&selector.map);
        let map = self.b.map_pointer(map);
        let found = self.b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
        self.b.branch_if(Condition::Equal, found, 0, self.done);
        let number = self.b.load(Width::B2, found, 0);
        self.b.branch_if(Condition::Equal, number, 0, self.done);
        self.selected = Some(number);
        Ok(())
    }

    fn statements(&mut self, statements: &[Statement]) -> Result<(), Error> {
        for statement in statements {
            if self.b.is_ended() {
                // What follows a return never runs.
                break;
            }
            self.b.at(statement.span);
            self.statement(statement)?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        match &statement.kind {
            StatementKind::Set { variable, value } => {
                let value = self.operand(value)?;
                let target = *self.variables.get(variable.0 as usize).ok_or(Error::Malformed {
                    what: "a variable that was not declared",
                    span: statement.span,
                })?;
                self.b.assign(target, value);
            }
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
                let (known_yes, known_no) = self.condition(condition, yes, no)?;
                let mut after = Vec::new();
                for (block, body, known) in [(yes, then, known_yes), (no, otherwise, known_no)] {
                    self.b.switch_to(block);
                    self.known = known;
                    self.statements(body)?;
                    if !self.b.is_ended() {
                        self.b.jump(join);
                        after.push(self.known.clone());
                    }
                }
                self.known = after.into_iter().reduce(|a, b| a.common(&b)).unwrap_or_default();
                self.b.switch_to(join);
            }
            StatementKind::Record(record) => self.record(record, statement.span)?,
            StatementKind::Return => self.b.jump(self.done),
        }
        Ok(())
    }
}
