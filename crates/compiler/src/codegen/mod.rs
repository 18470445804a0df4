//! From intermediate code to BPF: registers, frame, instructions. Meaning is settled before; the kernel is not known here.

mod allocate;
mod emit;
mod frame;
mod live;
pub mod lower;
mod memo;
mod moves;
mod own;
mod parameters;
mod scratch;
mod spill;
mod unread;

use crate::error::Error;
use crate::ir::{Function, MapUse, Op, Slot};
use kestrel_bpf::code::Code;
use std::collections::BTreeMap;

/// Instructions, and the maps they refer to.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The generated instructions.
    pub code: Code,
    /// By [`kestrel_bpf::code::MapRef`]; may hold a scratch map that the function did not have.
    pub maps: Vec<MapUse>,
    /// The function as it was emitted, after all passes.
    pub function: Function,
    /// The functions that helpers call back, and those that it calls itself, in the same way.
    pub others: Vec<Function>,
}

/// Generates code of a program that has one function.
///
/// # Errors
/// As [`generate_all`].
pub fn generate(function: &Function) -> Result<Generated, Error> {
    generate_all(function, &[])
}

/// Generates code of a program and of the functions that helpers call back; all have the program's maps. Where a frame is too small, its largest object moves
/// to a scratch map, until all fits.
///
/// # Errors
/// When not even the scratch map has room, or a jump is too long.
pub fn generate_all(function: &Function, callbacks: &[Function]) -> Result<Generated, Error> {
    let mut maps = function.maps.clone();
    let mut called = BTreeMap::new();
    for one in std::iter::once(function).chain(callbacks) {
        own::collect(one, &mut called, &mut maps);
    }
    let mut own = Vec::new();
    for (name, one) in &called {
        let fit = memo::fitted(one, &maps, own::LIMIT)?;
        maps.clone_from(&fit.function.maps);
        own.push((*name, fit));
    }
    let frames = own.iter().map(|(name, one)| (*name, one.frame.size)).collect();
    let limit = share(function, callbacks, &frames, 0) / 32 * 32;
    let mut fitted = Vec::new();
    for one in std::iter::once(function).chain(callbacks) {
        let fit = memo::fitted(one, &maps, limit)?;
        maps.clone_from(&fit.function.maps);
        fitted.push(fit);
    }
    // The kernel knows a function by a call of it: one whose calls the passes dropped has no place in the program.
    let kept = own::called_back(&fitted.iter().map(|one| &one.function).collect::<Vec<_>>());
    let is_kept = |number: usize| kept.contains(&number);
    let roots = kept
        .iter()
        .filter_map(|number| Some(&fitted.get(*number)?.function));
    let bodies = own.iter().map(|(name, one)| (*name, &one.function)).collect();
    let reached = own::reached(roots, &bodies);
    own.retain(|(name, _)| reached.contains(*name));
    let numbered = fitted.iter().enumerate();
    let placed: Vec<Option<emit::Placed<'_>>> = numbered
        .map(|(number, one)| is_kept(number).then(|| one.placed()))
        .collect();
    let placed_own: Vec<(&str, emit::Placed<'_>)> =
        own.iter().map(|(name, one)| (*name, one.placed())).collect();
    let code = emit::emit(&placed, &placed_own).map_err(Error::Assemble)?;
    // Called functions are those of this program, whichever one they were fitted for.
    let given = std::iter::once(function).chain(callbacks).map(|one| &one.called);
    let called = called.iter().filter(|(name, _)| reached.contains(**name));
    let given = given.chain(called.map(|(_, one)| &one.called));
    let own = own.into_iter().map(|(_, one)| one);
    let count = fitted.len();
    let mut functions = fitted
        .into_iter()
        .chain(own)
        .zip(given)
        .enumerate()
        .filter(|(number, _)| *number >= count || is_kept(*number))
        .map(|(_, (one, called))| Function {
            called: called.clone(),
            ..one.function.clone()
        });
    let function = functions.next().unwrap_or_else(|| function.clone());
    Ok(Generated {
        code,
        maps,
        function,
        others: functions.collect(),
    })
}

/// The stack that each of a function and those that are called back has, with `above` functions above it: a function is on the stack together with those that call
/// it back, and with what it calls itself.
fn share(function: &Function, callbacks: &[Function], frames: &BTreeMap<&str, u32>, above: u32) -> u32 {
    let own = frame::LIMIT.saturating_sub(own::below(function, frames)) / (above + 1);
    let ops = function.blocks.iter().flat_map(|block| &block.insts);
    let called = ops.filter_map(|inst| match inst.op {
        Op::Callback { number, .. } => callbacks.get(number as usize),
        _ => None,
    });
    let shares = called.map(|called| share(called, callbacks, frames, above + 1));
    shares.min().map_or(own, |least| least.min(own))
}

/// A function whose frame fits.
struct Fitted {
    function: Function,
    live: live::Live,
    allocation: allocate::Allocation,
    frame: frame::Frame,
}

impl Fitted {
    /// Moves objects of the frame to a scratch map until the others take no more than `limit` bytes.
    fn of(function: &Function, maps: &[MapUse], limit: u32) -> Result<Self, Error> {
        let mut evicted: Vec<Slot> = Vec::new();
        loop {
            let mut attempt = function.clone();
            attempt.maps = maps.to_vec();
            scratch::evict(&mut attempt, &evicted);
            crate::pass::run_all(&mut attempt);
            unread::drop_unread(&mut attempt);
            let (live, allocation) = allocate::allocate(&mut attempt);
            let frame = frame::Frame::of(&attempt, &live);
            if frame.size <= limit {
                return Ok(Self {
                    function: attempt,
                    live,
                    allocation,
                    frame,
                });
            }
            // So many bytes must go at least; each attempt takes a while.
            let mut excess = frame.size - limit;
            while excess > 0 {
                let victim = next_victim(function, &evicted, (frame.size, limit))?;
                excess = excess.saturating_sub(function.objects[victim.0 as usize].size);
                evicted.push(victim);
            }
        }
    }

    fn placed(&self) -> emit::Placed<'_> {
        emit::Placed {
            function: &self.function,
            live: &self.live,
            allocation: &self.allocation,
            frame: &self.frame,
        }
    }
}

/// The largest object still in the frame, if the scratch map can take it.
fn next_victim(function: &Function, evicted: &[Slot], (needed, limit): (u32, u32)) -> Result<Slot, Error> {
    let size = |slot: Slot| function.objects[slot.0 as usize].size;
    let too_large = |span| Error::FrameTooLarge { needed, limit, span };
    let victim = (0..function.objects.len() as u32)
        .map(Slot)
        .filter(|slot| !evicted.contains(slot) && !function.objects[slot.0 as usize].framed)
        .max_by_key(|slot| size(*slot));
    let Some(victim) = victim else {
        return Err(too_large(Default::default()));
    };
    if size(victim) > scratch::LIMIT {
        return Err(too_large(function.objects[victim.0 as usize].span));
    }
    Ok(victim)
}
