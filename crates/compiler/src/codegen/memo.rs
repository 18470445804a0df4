//! The functions that were fitted last. A hook that is several programs, and the programs of one session, have functions in common: the handlers, the ring's writer.
//! Fitting one is most of the time that a program takes to compile.

use super::Fitted;
use crate::error::Error;
use crate::ir::{Function, MapUse};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Functions that are kept: those of one program with a few to spare.
const KEPT: usize = 8;

/// A function as it was asked for, and what came of it.
struct Entry {
    function: Function,
    maps: Vec<MapUse>,
    limit: u32,
    fitted: Rc<Fitted>,
}

thread_local! {
    static LAST: RefCell<VecDeque<Entry>> = const { RefCell::new(VecDeque::new()) };
}

/// [`Fitted::of`], of a function that was fitted already if possible. The functions that it calls are those of that one: they do not matter to it.
pub(super) fn fitted(function: &Function, maps: &[MapUse], limit: u32) -> Result<Rc<Fitted>, Error> {
    let known = LAST.with_borrow_mut(|last| {
        let at = last
            .iter()
            .position(|entry| entry.is_for(function, maps, limit))?;
        let entry = last.remove(at)?;
        let fitted = entry.fitted.clone();
        last.push_back(entry);
        Some(fitted)
    });
    if let Some(fitted) = known {
        return Ok(fitted);
    }
    let fitted = Rc::new(Fitted::of(function, maps, limit)?);
    let entry = Entry {
        function: function.clone(),
        maps: maps.to_vec(),
        limit,
        fitted: fitted.clone(),
    };
    LAST.with_borrow_mut(|last| {
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(entry);
    });
    Ok(fitted)
}

impl Entry {
    /// Whether fitting this function gives the same: its maps are replaced by those of the program, and its calls are by name.
    fn is_for(&self, function: &Function, maps: &[MapUse], limit: u32) -> bool {
        let Function {
            blocks,
            objects,
            vregs,
            context,
            parameters,
            maps: _,
            called: _,
        } = &self.function;
        self.limit == limit
            && (*vregs, *context) == (function.vregs, function.context)
            && *parameters == function.parameters
            && *objects == function.objects
            && self.maps == maps
            && *blocks == function.blocks
    }
}

#[cfg(test)]
mod tests {
    use crate::codegen::generate;
    use crate::ir::{Builder, Function};
    use kestrel_bpf::interp::Machine;

    /// Ten times what its function gives, plus a constant.
    fn program(given: i64, more: i64) -> Function {
        let mut b = Builder::new();
        b.own("number", |b, [_unused]| b.exit(given));
        let number = b.call("number", &[0.into()]);
        let tenfold = b.mul(number, 10);
        let sum = b.add(tenfold, more);
        b.exit(sum);
        b.finish()
    }

    #[test]
    fn functions_alike_call_the_functions_of_their_own_program() {
        for (given, more, sum) in [(4, 2, 42), (5, 2, 52), (4, 3, 43), (4, 2, 42)] {
            let generated = generate(&program(given, more)).unwrap();
            let value = Machine::new().run(&generated.code, &[]).unwrap();
            assert_eq!(value, sum);
            let own = generated.function.called["number"].blocks.iter();
            assert!(own.eq(program(given, more).called["number"].blocks.iter()));
        }
    }
}
