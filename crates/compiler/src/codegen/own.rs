//! The BPF-to-BPF functions of a program: those that its functions call, each once, with the maps that all have in common.

use crate::ir::{Function, MapUse, Op};
use kestrel_bpf::code::MapRef;
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of stack of one of them: each is on the stack together with whoever calls it.
pub(crate) const LIMIT: u32 = 96;
/// Bytes to which the kernel rounds up the stack of each function (`check_max_stack_depth`).
const ROUNDED: u32 = 32;

/// Bytes of stack that the functions take which a function calls, at most at a time; `frames` has the frame of each.
pub(crate) fn below(function: &Function, frames: &BTreeMap<&str, u32>) -> u32 {
    let of = |(name, one): (&String, &Function)| {
        let frame = frames.get(name.as_str()).copied().unwrap_or(LIMIT);
        frame.max(1).next_multiple_of(ROUNDED) + below(one, frames)
    };
    function.called.iter().map(of).max().unwrap_or(0)
}

/// Adds what a function calls, and what these call, to `called`; the maps that they refer to join `maps`.
pub(crate) fn collect<'f>(
    function: &'f Function,
    called: &mut BTreeMap<&'f str, Function>,
    maps: &mut Vec<MapUse>,
) {
    for (name, one) in &function.called {
        if called.contains_key(name.as_str()) {
            continue;
        }
        called.insert(name, with_maps(one, maps));
        collect(one, called, maps);
    }
}

/// Places of the functions that helpers call back, by the first one or by what it has called back; the first among them.
pub(crate) fn called_back(functions: &[&Function]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([0]);
    let mut open = vec![0];
    while let Some(function) = open.pop().and_then(|place| functions.get(place)) {
        for inst in function.blocks.iter().flat_map(|block| &block.insts) {
            if let Op::Callback { number, .. } = inst.op
                && reached.insert(number as usize + 1)
            {
                open.push(number as usize + 1);
            }
        }
    }
    reached
}

/// The functions that are called, by the roots or by what these call.
pub(crate) fn reached<'f>(
    roots: impl Iterator<Item = &'f Function>,
    bodies: &BTreeMap<&str, &'f Function>,
) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Function> = roots.collect();
    while let Some(function) = open.pop() {
        for inst in function.blocks.iter().flat_map(|block| &block.insts) {
            if let Op::Call { name, .. } = &inst.op
                && reached.insert(name.clone())
            {
                open.extend(bodies.get(name.as_str()));
            }
        }
    }
    reached
}

/// The function with references into `maps`.
fn with_maps(function: &Function, maps: &mut Vec<MapUse>) -> Function {
    let places: Vec<MapRef> = function
        .maps
        .iter()
        .map(|map| {
            let at = maps.iter().position(|known| known == map).unwrap_or_else(|| {
                maps.push(map.clone());
                maps.len() - 1
            });
            MapRef(at as u32)
        })
        .collect();
    let mut function = function.clone();
    for inst in function.blocks.iter_mut().flat_map(|block| &mut block.insts) {
        if let Op::Map { map, .. } | Op::MapValue { map, .. } = &mut inst.op
            && let Some(place) = places.get(map.0 as usize)
        {
            *map = *place;
        }
    }
    function
}

#[cfg(test)]
mod tests {
    use crate::codegen;
    use crate::ir::{Builder, Condition, Operand, Width};
    use kestrel_bpf::code::MapRef;
    use kestrel_bpf::interp::{Machine, MapKind};

    /// Adds to a word of a map that only functions know, through a function that calls another one.
    fn add_twice(b: &mut Builder, number: Operand) -> Operand {
        b.own("add twice", |b, [number]| {
            b.own("add", |b, [number]| {
                let map = b.external("sums");
                let word = b.map_value(map, 8);
                b.atomic_add(Width::B8, word, 0, number);
                let sum = b.load(Width::B8, word, 0);
                b.exit(sum);
            });
            b.call("add", &[number.into()]);
            let sum = b.call("add", &[number.into()]);
            b.exit(sum);
        });
        b.call("add twice", &[number]).into()
    }

    #[test]
    fn a_function_is_there_once_and_serves_all_calls() {
        let mut b = Builder::new();
        b.external("another");
        let context = b.context();
        let number = b.load(Width::B8, context, 0);
        let first = add_twice(&mut b, number.into());
        let second = add_twice(&mut b, 100.into());
        let first = b.materialize(first);
        let both = b.mul(first, 1000);
        let second = b.materialize(second);
        let both = b.add(both, second);
        // The context is there still.
        let number = b.load(Width::B8, context, 0);
        let all = b.add(both, number);
        b.exit(all);
        let generated = codegen::generate(&b.finish()).unwrap();
        assert_eq!(generated.code.functions.len(), 2);
        assert!(generated.code.functions.iter().all(|own| own.parameters == 1));

        let mut machine = Machine::new();
        for _ in &generated.maps {
            machine.add_map(MapKind::Array { entries: 1 }, 4, 16);
        }
        let value = machine.run(&generated.code, &7u64.to_le_bytes()).unwrap();
        assert_eq!(value, 14 * 1000 + 214 + 7);
        let sums = machine.value(MapRef(1), &[0; 4], 0).unwrap();
        assert_eq!(sums[8..], 214u64.to_le_bytes());
    }

    #[test]
    fn an_uncalled_function_is_left_out() {
        let mut b = Builder::new();
        let (called, end) = (b.block(), b.block());
        let zero = b.constant(0);
        b.branch(Condition::NotEqual, zero, 0, called, end);
        b.switch_to(called);
        add_twice(&mut b, 1.into());
        b.jump(end);
        b.switch_to(end);
        b.exit(0);
        let generated = codegen::generate(&b.finish()).unwrap();
        assert_eq!(generated.code.functions.len(), 0);
    }

    #[test]
    fn a_caller_has_the_stack_that_its_callees_leave() {
        let program = |calls: bool| {
            let mut b = Builder::new();
            let slots: Vec<_> = (0..16).map(|_| b.slot(31, 1)).collect();
            for slot in &slots {
                let at = b.slot_address(*slot, 0);
                b.store(Width::B8, at, 0, 1);
            }
            if calls {
                add_twice(&mut b, 1.into());
            }
            for slot in &slots {
                b.keep(*slot);
            }
            b.exit(0);
            codegen::generate(&b.finish()).unwrap().maps.len()
        };
        // Some of its objects lie in a map of its own.
        assert_eq!((program(false), program(true)), (0, 2));
    }
}
