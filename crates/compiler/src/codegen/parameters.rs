//! Parameters of functions: stored in the frame at the entry, except for those that the function loads before anything else: such loads become moves from the
//! parameters' registers.

use super::allocate::{Allocation, Location};
use super::emit::ARGUMENTS;
use crate::ir::{BlockId, Function, Op, Parameters, Slot, Vreg, Width};
use kestrel_bpf::isa::Reg;

/// The registers that parameters come in.
pub(super) fn registers(parameters: Parameters) -> impl Iterator<Item = Reg> {
    let first = usize::from(parameters.first) - 1;
    ARGUMENTS.into_iter().skip(first).take(parameters.count.into())
}

/// Loads of parameters at the start of a function, which its registers still hold.
#[derive(Default)]
pub(super) struct RegisterLoads {
    /// By instruction of the first block.
    loads: Vec<Option<Reg>>,
    /// By parameter: whether it is stored in the frame.
    stored: Vec<bool>,
}

impl RegisterLoads {
    pub(super) fn of(function: &Function, allocation: &Allocation) -> Self {
        let Some(parameters) = function.parameters else {
            return Self::default();
        };
        let registers: Vec<Reg> = registers(parameters).collect();
        let reader = Reader {
            function,
            allocation,
            object: parameters.slot,
        };
        let loads = reader.loads(&registers);
        let stored = (0..).zip(&registers).map(|(place, register)| {
            let taken = loads.iter().flatten().filter(|taken| *taken == register);
            taken.count() != reader.mentions(place * 8)
        });
        Self {
            stored: stored.collect(),
            loads,
        }
    }

    /// The register from which an instruction takes a parameter.
    pub(super) fn by(&self, block: BlockId, inst: usize) -> Option<Reg> {
        self.loads
            .get(inst)
            .copied()
            .flatten()
            .filter(|_| block == BlockId(0))
    }

    /// Whether a parameter is stored in the frame at the entry.
    pub(super) fn is_stored(&self, parameter: u32) -> bool {
        self.stored.get(parameter as usize).copied().unwrap_or(true)
    }
}

/// Looks for reads of the object of a frame that parameters are stored in.
struct Reader<'a> {
    function: &'a Function,
    allocation: &'a Allocation,
    object: Slot,
}

impl Reader<'_> {
    fn place(&self, v: Vreg) -> Option<&Location> {
        self.allocation.places.get(v.0 as usize)
    }

    fn register(&self, v: Vreg) -> Option<Reg> {
        match self.place(v) {
            Some(Location::Reg(register)) => Some(*register),
            _ => None,
        }
    }

    fn is_in_frame(&self, v: Vreg) -> bool {
        matches!(self.place(v), Some(Location::Again(Op::SlotAddress { .. })))
    }

    /// Offset of an access in the object, if it is one of the object.
    fn offset(&self, base: Vreg, offset: i16) -> Option<u32> {
        match self.place(base) {
            Some(Location::Again(Op::SlotAddress {
                slot, offset: within, ..
            })) if *slot == self.object => within.checked_add_signed(offset.into()),
            _ => None,
        }
    }

    /// By instruction of the first block, up to the first that is neither a load of a parameter nor a store in the frame: the register that holds what it loads.
    fn loads(&self, registers: &[Reg]) -> Vec<Option<Reg>> {
        let ends = self.function.blocks.iter().filter_map(|block| block.end.as_ref());
        if ends.flat_map(|end| end.targets()).any(|to| to == BlockId(0)) {
            return Vec::new();
        }
        let context = self.function.context.and_then(|context| self.register(context));
        let mut written: Vec<Reg> = context.into_iter().collect();
        let mut loads = Vec::new();
        for inst in &self.function.block(BlockId(0)).insts {
            let found = match &inst.op {
                Op::SlotAddress { dst, .. } if self.is_in_frame(*dst) => None,
                Op::Store { base, .. } if self.is_in_frame(*base) => None,
                Op::Load {
                    dst,
                    width: Width::B8,
                    base,
                    offset,
                    ..
                } => {
                    let at = self.offset(*base, *offset);
                    let register = at.and_then(|at| registers.get(at as usize / 8));
                    let (Some(register), Some(to)) = (register, self.register(*dst)) else {
                        break;
                    };
                    if written.contains(register) {
                        break;
                    }
                    written.push(to);
                    Some(*register)
                }
                _ => break,
            };
            loads.push(found);
        }
        loads
    }

    /// Number of reads of a word of the object; other uses of the object count for each word.
    fn mentions(&self, word: u32) -> usize {
        let insts = self.function.blocks.iter().flat_map(|block| &block.insts);
        let reads = insts.filter(|inst| match &inst.op {
            Op::SlotAddress { dst, slot, .. } => *slot == self.object && !self.is_in_frame(*dst),
            Op::Load { base, offset, .. } => self.offset(*base, *offset).is_some_and(|at| at / 8 == word / 8),
            op => op.uses().any(|v| self.offset(v, 0).is_some()),
        });
        reads.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Builder;
    use Reg::*;
    use kestrel_bpf::helper;

    /// A function of two parameters, in registers 2 and 3, that are kept in `slot`, at `base`; and the places of its values, all but `base` nowhere.
    fn of_two(b: Builder, slot: Slot, base: Vreg) -> (Function, Vec<Location>) {
        let mut function = b.finish();
        function.parameters = Some(Parameters {
            slot,
            first: 2,
            count: 2,
        });
        let all = usize::try_from(function.vregs).unwrap();
        let mut places: Vec<Location> = (0..all).map(|_| Location::Nowhere).collect();
        places[base.0 as usize] = Location::Again(Op::SlotAddress {
            dst: base,
            slot,
            offset: 0,
        });
        (function, places)
    }

    /// Loads of a function of two parameters, in registers 2 and 3: by instruction, and whether each is stored. `reads` are the parameters that
    /// it loads one after the other, with the register that each load goes to; `None` puts a call of a helper between them.
    fn loads(reads: &[Option<(usize, Reg)>]) -> (Vec<Option<Reg>>, [bool; 2]) {
        let mut b = Builder::new();
        let slot = b.slot(16, 8);
        let base = b.slot_address(slot, 0);
        let mut registers = Vec::new();
        let mut last = base;
        for read in reads {
            match read {
                Some((parameter, to)) => {
                    let at = i16::try_from(parameter * 8).unwrap();
                    let loaded = b.load(Width::B8, base, at);
                    registers.push((loaded, *to));
                    last = loaded;
                }
                None => last = b.helper(helper::KTIME_GET_NS, &[]),
            }
        }
        b.exit(last);
        let (function, mut places) = of_two(b, slot, base);
        for (v, to) in registers {
            places[v.0 as usize] = Location::Reg(to);
        }
        let found = RegisterLoads::of(&function, &Allocation { places });
        let count = function.blocks[0].insts.len();
        let by = (0..count)
            .map(|inst| found.by(BlockId(0), inst))
            .skip(1)
            .collect();
        (by, [found.is_stored(0), found.is_stored(1)])
    }

    #[test]
    fn parameters_that_are_loaded_first_are_moves_from_their_registers() {
        let (by, stored) = loads(&[Some((0, R6)), Some((1, R7))]);
        assert_eq!(by, [Some(R2), Some(R3)]);
        assert_eq!(stored, [false, false]);
    }

    #[test]
    fn one_that_nothing_reads_is_not_stored() {
        let (by, stored) = loads(&[Some((1, R6))]);
        assert_eq!((by, stored), (vec![Some(R3)], [false, false]));
    }

    #[test]
    fn swapped_ones_are_not_read_from_registers_that_were_written() {
        // The first move writes the second parameter's register.
        let (by, stored) = loads(&[Some((0, R3)), Some((1, R2))]);
        assert_eq!(by, [Some(R2), None]);
        assert_eq!(stored, [false, true]);
    }

    #[test]
    fn one_that_is_read_twice_is_taken_twice_or_stored() {
        let (by, stored) = loads(&[Some((0, R6)), Some((0, R7))]);
        assert_eq!((by, stored), (vec![Some(R2), Some(R2)], [false, false]));
        // The first move writes the register that the second would take it from.
        let (by, stored) = loads(&[Some((0, R2)), Some((0, R7))]);
        assert_eq!((by, stored), (vec![Some(R2), None], [true, false]));
    }

    #[test]
    fn a_parameter_loaded_behind_a_call_is_stored() {
        let (by, stored) = loads(&[Some((0, R6)), None, Some((1, R7))]);
        assert_eq!(by, [Some(R2), None, None]);
        assert_eq!(stored, [false, true]);
    }

    #[test]
    fn a_load_that_is_spilled_has_its_parameter_stored() {
        let mut b = Builder::new();
        let [first, _second] = b.parameters(2);
        b.exit(first);
        let function = b.finish();
        // No load has a register: as where all are taken.
        let places = (0..function.vregs).map(|_| Location::Nowhere).collect();
        let found = RegisterLoads::of(&function, &Allocation { places });
        assert!((0..4).all(|inst| found.by(BlockId(0), inst).is_none()));
        assert!(found.is_stored(0));
    }

    #[test]
    fn a_loop_to_the_entry_takes_nothing_from_registers() {
        let mut b = Builder::new();
        let slot = b.slot(16, 8);
        let base = b.slot_address(slot, 0);
        let loaded = b.load(Width::B8, base, 0);
        b.jump(BlockId(0));
        let (function, mut places) = of_two(b, slot, base);
        places[loaded.0 as usize] = Location::Reg(R6);
        let found = RegisterLoads::of(&function, &Allocation { places });
        assert_eq!(found.by(BlockId(0), 1), None);
        assert!(found.is_stored(0));
    }
}
