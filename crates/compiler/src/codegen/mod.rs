//! From intermediate code to BPF: registers, frame, instructions. Meaning is settled before; the kernel is not known here.

mod allocate;
mod emit;
mod frame;
mod live;
pub mod lower;
mod moves;
mod scratch;
mod spill;

use crate::error::Error;
use crate::ir::{Function, MapUse, Slot};
use kestrel_bpf::code::Code;

/// Instructions, and the maps they refer to.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The instructions.
    pub code: Code,
    /// By [`kestrel_bpf::code::MapRef`]; may hold a scratch map that the function did not have.
    pub maps: Vec<MapUse>,
    /// The function as it was emitted, after all passes.
    pub function: Function,
}

/// Generates code. Where the frame is too small, its largest object moves to the scratch map, until all fits.
///
/// # Errors
/// When not even the scratch map has room, or a jump is too long.
pub fn generate(function: &Function) -> Result<Generated, Error> {
    let mut evicted: Vec<Slot> = Vec::new();
    loop {
        let mut attempt = function.clone();
        scratch::evict(&mut attempt, &evicted);
        crate::pass::run_all(&mut attempt);
        let (live, allocation) = allocate::allocate(&mut attempt);
        let frame = frame::Frame::of(&attempt, &live);
        if frame.size <= frame::LIMIT {
            let code = emit::emit(&attempt, &live, &allocation, &frame).map_err(Error::Assemble)?;
            return Ok(Generated {
                code,
                maps: attempt.maps.clone(),
                function: attempt,
            });
        }
        // So many bytes must go at least; each attempt takes a while.
        let mut excess = frame.size - frame::LIMIT;
        while excess > 0 {
            let victim = next_victim(function, &evicted, frame.size)?;
            excess = excess.saturating_sub(function.objects[victim.0 as usize].size);
            evicted.push(victim);
        }
    }
}

/// The largest object still in the frame, if the scratch map can take it.
fn next_victim(function: &Function, evicted: &[Slot], needed: u32) -> Result<Slot, Error> {
    let size = |slot: Slot| function.objects[slot.0 as usize].size;
    let too_large = |span| Error::FrameTooLarge {
        needed,
        limit: frame::LIMIT,
        span,
    };
    let victim = (0..function.objects.len() as u32)
        .map(Slot)
        .filter(|slot| !evicted.contains(slot))
        .max_by_key(|slot| size(*slot));
    let Some(victim) = victim else {
        return Err(too_large(Default::default()));
    };
    let taken: u32 = evicted.iter().map(|slot| size(*slot).next_multiple_of(8)).sum();
    if taken + size(victim) > scratch::LIMIT {
        return Err(too_large(function.objects[victim.0 as usize].span));
    }
    Ok(victim)
}
