//! Passes over the intermediate code, each one file and one row of [`PASSES`]; lowering and registers are elsewhere.

mod dead;
mod facts;
mod fold;
mod fuse;
mod legal;
mod narrow;
mod share;
mod thread;

use crate::ir::Function;

/// A compiler pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// As `--dump` names it.
    pub name: &'static str,
    /// What it does, in one clause.
    pub what: &'static str,
    /// Changes the function in place.
    pub run: fn(&mut Function),
}

/// The passes in their order. All but `legal` are free to be left out: they change speed, not meaning.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "share",
        what: "asks the kernel once for what stays the same during a run",
        run: share::run,
    },
    Pass {
        name: "fold",
        what: "computes what is known, follows copies, moves offsets into memory accesses",
        run: fold::run,
    },
    Pass {
        name: "fuse",
        what: "branches on comparisons themselves instead of on their 0 or 1",
        run: fuse::run,
    },
    Pass {
        name: "narrow",
        what: "drops sign extensions whose upper bits nobody looks at",
        run: narrow::run,
    },
    Pass {
        name: "fold",
        what: "once more, over what the last two laid bare",
        run: fold::run,
    },
    Pass {
        name: "thread",
        what: "follows jumps to jumps, joins blocks, drops unreachable ones",
        run: thread::run,
    },
    Pass {
        name: "dead",
        what: "drops what nobody reads",
        run: dead::run,
    },
    Pass {
        name: "legal",
        what: "leaves only forms that the machine has: 32-bit immediates, no division by a constant 0",
        run: legal::run,
    },
];

/// Runs all of [`PASSES`].
pub fn run_all(function: &mut Function) {
    for pass in PASSES {
        (pass.run)(function);
    }
}
