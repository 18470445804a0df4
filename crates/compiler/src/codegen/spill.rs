//! Moves values out of registers by rewriting the code: stored where they are made, loaded again where they are read.
//!
//! At first one load serves all reads of a block up to the next call, under a name of its own; should that name find no register
//! either, each read gets its own load, which lives for one operation and always finds one. Cheap values are not stored but
//! made again.

use crate::ir::{BlockId, End, Function, Inst, Object, Op, Operand, Slot, Vreg, Width};
use kestrel_bpf::code::SourceRange;
use std::collections::{HashMap, HashSet};

/// Split state of a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The code as the passes left it.
    #[default]
    Whole,
    /// Serves one block between two calls.
    Stretch,
    /// Serves one operation: must have a register.
    Moment,
}

/// Home of a value while it is in no register.
#[derive(Clone, Debug)]
enum Home {
    Slot(Slot),
    Again(Op),
}

/// Record of all splits so far.
#[derive(Debug, Default)]
pub(crate) struct Spills {
    parts: HashMap<Vreg, Part>,
    homes: HashMap<Vreg, Home>,
    /// Registers that only a load from their home sets.
    loaded: HashSet<Vreg>,
    /// Addresses of homes that values are stored to.
    stored: HashSet<Vreg>,
}

impl Spills {
    /// The part of a split register.
    pub(crate) fn part(&self, v: Vreg) -> Part {
        self.parts.get(&v).copied().unwrap_or_default()
    }

    /// Splits these registers further; `again` says how to make a cheap value anew.
    pub(crate) fn split(
        &mut self,
        function: &mut Function,
        spilled: &[Vreg],
        again: &dyn Fn(Vreg) -> Option<Op>,
    ) {
        for v in spilled {
            if !self.homes.contains_key(v) {
                let home = again(*v).map_or_else(|| Home::Slot(new_slot(function)), Home::Again);
                self.homes.insert(*v, home);
            }
        }
        let spilled: &HashSet<Vreg> = &spilled.iter().copied().collect();
        self.keep_context(function, spilled);
        for at in 0..function.blocks.len() {
            self.rewrite(function, at, spilled);
        }
    }

    /// A context that is spilled is stored first of all.
    fn keep_context(&mut self, function: &mut Function, spilled: &HashSet<Vreg>) {
        let Some(context) = function.context.filter(|c| spilled.contains(c)) else {
            return;
        };
        let Some(Home::Slot(slot)) = self.homes.get(&context).cloned() else {
            return;
        };
        split_entry(function);
        let fresh = function.vreg();
        self.name(context, fresh);
        function.context = Some(fresh);
        let store = self.store(function, slot, fresh, SourceRange::default());
        function.blocks[0].insts.splice(0..0, store);
    }

    /// Remembers a new name for a part of `v`.
    fn name(&mut self, v: Vreg, fresh: Vreg) {
        let part = match self.part(v) {
            Part::Whole => Part::Stretch,
            _ => Part::Moment,
        };
        self.parts.insert(fresh, part);
        if let Some(home) = self.homes.get(&v).cloned() {
            self.homes.insert(fresh, home);
        }
    }

    fn rewrite(&mut self, function: &mut Function, at: usize, spilled: &HashSet<Vreg>) {
        let insts = std::mem::take(&mut function.blocks[at].insts);
        let mut out: Vec<Inst> = Vec::with_capacity(insts.len());
        // Names under which values are in registers here.
        let mut names: HashMap<Vreg, Vreg> = HashMap::new();
        for Inst { mut op, span } in insts {
            if self.is_superfluous(&op, spilled) {
                continue;
            }
            op.each_use(&mut |v| {
                if spilled.contains(v) {
                    *v = self.fetch(function, *v, &mut names, &mut out, span);
                }
            });
            if op.is_call() {
                names.clear();
            }
            let made = op.def().filter(|v| spilled.contains(v));
            let Some(v) = made else {
                out.push(Inst { op, span });
                continue;
            };
            let fresh = function.vreg();
            self.name(v, fresh);
            op.def_mut().into_iter().for_each(|dst| *dst = fresh);
            out.push(Inst { op, span });
            if let Some(Home::Slot(slot)) = self.homes.get(&v).cloned() {
                out.extend(self.store(function, slot, fresh, span));
            }
            if self.part(v) == Part::Whole {
                names.insert(v, fresh);
            }
        }
        if let Some(mut end) = function.blocks[at].end.clone() {
            let span = function.blocks[at].end_span;
            end.each_use(&mut |v| {
                if spilled.contains(v) {
                    *v = self.fetch(function, *v, &mut names, &mut out, span);
                }
            });
            function.blocks[at].end = Some(end);
        }
        function.blocks[at].insts = out;
    }

    /// Loads and stores of an earlier splitting, and operations that are made again at each use.
    fn is_superfluous(&self, op: &Op, spilled: &HashSet<Vreg>) -> bool {
        match op {
            Op::Load { dst, .. } if self.loaded.contains(dst) => spilled.contains(dst),
            Op::Store {
                base,
                value: Operand::Reg(v),
                ..
            } => self.stored.contains(base) && spilled.contains(v),
            _ => op
                .def()
                .is_some_and(|v| spilled.contains(&v) && matches!(self.homes.get(&v), Some(Home::Again(_)))),
        }
    }

    /// The name under which `v` is in a register here, after a load if need be.
    fn fetch(
        &mut self,
        function: &mut Function,
        v: Vreg,
        names: &mut HashMap<Vreg, Vreg>,
        out: &mut Vec<Inst>,
        span: SourceRange,
    ) -> Vreg {
        if let Some(name) = names.get(&v) {
            return *name;
        }
        let fresh = function.vreg();
        self.name(v, fresh);
        match self.homes.get(&v).cloned() {
            Some(Home::Slot(slot)) => {
                let base = function.vreg();
                let address = Op::SlotAddress {
                    dst: base,
                    slot,
                    offset: 0,
                };
                self.loaded.insert(fresh);
                let load = Op::Load {
                    dst: fresh,
                    width: Width::B8,
                    signed: false,
                    base,
                    offset: 0,
                };
                out.extend([address, load].map(|op| Inst { op, span }));
            }
            // Computing it again is cheaper than a load from the stack.
            Some(Home::Again(mut op)) => {
                op.def_mut().into_iter().for_each(|dst| *dst = fresh);
                out.push(Inst { op, span });
            }
            None => debug_assert!(false, "{v} has no home"),
        }
        if self.part(v) == Part::Whole {
            names.insert(v, fresh);
        }
        fresh
    }

    /// Stores from a register always: of an immediate the verifier of kernels before 6.3 forgets the value.
    fn store(&mut self, function: &mut Function, slot: Slot, value: Vreg, span: SourceRange) -> [Inst; 2] {
        let base = function.vreg();
        self.stored.insert(base);
        let address = Op::SlotAddress {
            dst: base,
            slot,
            offset: 0,
        };
        let store = Op::Store {
            width: Width::B8,
            base,
            offset: 0,
            value: value.into(),
        };
        [address, store].map(|op| Inst { op, span })
    }
}

fn new_slot(function: &mut Function) -> Slot {
    function.objects.push(Object {
        size: 8,
        align: 8,
        span: SourceRange::default(),
        framed: true,
    });
    Slot(function.objects.len() as u32 - 1)
}

/// Makes sure that nothing jumps to the entry, so that what stands there runs once.
fn split_entry(function: &mut Function) {
    let entry = BlockId(0);
    let targets = function
        .blocks
        .iter()
        .filter_map(|b| b.end.as_ref())
        .flat_map(End::targets);
    if !targets.into_iter().any(|t| t == entry) {
        return;
    }
    let body = BlockId(function.blocks.len() as u32);
    for target in function
        .blocks
        .iter_mut()
        .flat_map(|b| &mut b.end)
        .flat_map(End::targets_mut)
    {
        if *target == entry {
            *target = body;
        }
    }
    let moved = function.blocks[0].clone();
    function.blocks[0].insts.clear();
    function.blocks[0].end = Some(End::Jump(body));
    function.blocks.push(moved);
}
