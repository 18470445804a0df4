//! Passes over the intermediate code, each one file and one row of `PASSES`; lowering and registers are elsewhere.

mod dead;
mod facts;
mod fold;
mod fuse;
mod legal;
mod narrow;
mod share;
mod thread;

use crate::ir::Function;

/// The passes in their order, each changes the function in place. All but `legal` are free to be left out: they change speed, not meaning.
const PASSES: &[fn(&mut Function)] = &[
    // Asks the kernel once for values that are constant during a run.
    share::run,
    // Computes constants, follows copies, moves offsets into memory accesses.
    fold::run,
    // Branches on comparisons themselves instead of on their 0 or 1.
    fuse::run,
    // Drops sign extensions whose upper bits are never read.
    narrow::run,
    // Once more, over what the last two have made constant or a copy.
    fold::run,
    // Follows jumps to jumps, joins blocks, drops unreachable ones.
    thread::run,
    // Drops operations whose results are never read.
    dead::run,
    // Rewrites what BPF has no instruction for: immediates beyond 32 bits, division by a constant 0.
    legal::run,
];

/// Runs all passes in their order.
pub fn run_all(function: &mut Function) {
    for pass in PASSES {
        pass(function);
    }
}
