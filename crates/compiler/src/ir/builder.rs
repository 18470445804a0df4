//! Writes intermediate code: every operation appends to the current block and gives its result's register.

use super::{
    AluOp, AtomicOp, Bits, Block, BlockId, Condition, End, Function, Helper, Inst, MapSpec, MapUse, Object,
    Op, Operand, Parameters, Slot, Vreg, Width,
};
use kestrel_bpf::code::{MapRef, SourceRange as Span};
use std::collections::BTreeMap;

/// A [`Function`] being written.
///
/// ```
/// use kestrel_compiler::ir::{Builder, Condition, Width};
/// let mut b = Builder::new();
/// let out = b.block();
/// let context = b.context();
/// let value = b.load(Width::B8, context, 16);
/// b.branch_if(Condition::Less, value, 10, out);
/// b.exit(1);
/// b.switch_to(out);
/// b.exit(0);
/// assert_eq!(b.finish().blocks.len(), 3);
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    function: Function,
    current: BlockId,
    span: Span,
    /// Values by name that are there on every way from here on.
    named_values: BTreeMap<String, Vreg>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A function with an empty entry block, which is the current one.
    pub fn new() -> Self {
        let mut builder = Self {
            function: Function {
                blocks: Vec::new(),
                objects: Vec::new(),
                vregs: 0,
                context: None,
                parameters: None,
                maps: Vec::new(),
                called: BTreeMap::new(),
            },
            current: BlockId(0),
            span: Span::default(),
            named_values: BTreeMap::new(),
        };
        builder.block();
        builder
    }

    /// The function; blocks that were not ended leave the program with 0.
    pub fn finish(mut self) -> Function {
        for block in &mut self.function.blocks {
            block.end.get_or_insert(End::Exit(Operand::Imm(0)));
        }
        self.function
    }

    /// A new empty block; the current one is unchanged.
    pub fn block(&mut self) -> BlockId {
        self.function.blocks.push(Block {
            insts: Vec::new(),
            end: None,
            end_span: self.span,
            cold: false,
        });
        BlockId(self.function.blocks.len() as u32 - 1)
    }

    /// A new empty block whose code goes last because it is rarely reached.
    pub fn cold_block(&mut self) -> BlockId {
        let id = self.block();
        self.function.blocks[id.0 as usize].cold = true;
        id
    }

    /// Appends to this block from now on.
    pub fn switch_to(&mut self, block: BlockId) {
        self.current = block;
    }

    /// The block being appended to.
    pub fn current(&self) -> BlockId {
        self.current
    }

    /// Whether the current block has its end already (what follows could never run).
    pub(crate) fn is_ended(&self) -> bool {
        self.function.block(self.current).end.is_some()
    }

    /// Sets the place in the source that the following code is made from.
    pub fn at(&mut self, span: Span) {
        self.span = span;
    }

    /// The source of what is being written.
    pub fn span(&self) -> Span {
        self.span
    }

    fn push(&mut self, op: Op) {
        let span = self.span;
        let block = &mut self.function.blocks[self.current.0 as usize];
        debug_assert!(block.end.is_none(), "appending to an ended block");
        block.insts.push(Inst { op, span });
    }

    fn make(&mut self, op: impl FnOnce(Vreg) -> Op) -> Vreg {
        let dst = self.vreg();
        self.push(op(dst));
        dst
    }

    /// A fresh register without a value, to be set by [`Builder::assign`] on every path.
    pub fn vreg(&mut self) -> Vreg {
        self.function.vreg()
    }

    /// Sets a register (again).
    pub fn assign(&mut self, dst: Vreg, value: impl Into<Operand>) {
        self.push(match value.into() {
            Operand::Reg(src) => Op::Copy { dst, src },
            Operand::Imm(value) => Op::Const { dst, value },
        });
    }

    /// Emits a constant.
    pub fn constant(&mut self, value: i64) -> Vreg {
        self.make(|dst| Op::Const { dst, value })
    }

    /// The operand in a register.
    pub fn materialize(&mut self, value: impl Into<Operand>) -> Vreg {
        match value.into() {
            Operand::Reg(v) => v,
            Operand::Imm(value) => self.constant(value),
        }
    }

    /// The program's context: register 1 at its entry.
    pub fn context(&mut self) -> Vreg {
        let function = &mut self.function;
        if let Some(context) = function.context {
            return context;
        }
        let context = function.vreg();
        function.context = Some(context);
        context
    }

    /// `left op right` on so many bits.
    pub fn alu(&mut self, op: AluOp, bits: Bits, left: Vreg, right: impl Into<Operand>) -> Vreg {
        let right = right.into();
        self.make(|dst| Op::Alu {
            op,
            bits,
            dst,
            left,
            right,
        })
    }

    /// `left + right`.
    pub fn add(&mut self, left: Vreg, right: impl Into<Operand>) -> Vreg {
        self.alu(AluOp::Add, Bits::B64, left, right)
    }

    /// `left - right`.
    pub fn sub(&mut self, left: Vreg, right: impl Into<Operand>) -> Vreg {
        self.alu(AluOp::Sub, Bits::B64, left, right)
    }

    /// `left & right`.
    pub fn and(&mut self, left: Vreg, right: impl Into<Operand>) -> Vreg {
        self.alu(AluOp::And, Bits::B64, left, right)
    }

    /// `left | right`.
    pub fn or(&mut self, left: Vreg, right: impl Into<Operand>) -> Vreg {
        self.alu(AluOp::Or, Bits::B64, left, right)
    }

    /// `left * right`.
    pub fn mul(&mut self, left: Vreg, right: impl Into<Operand>) -> Vreg {
        self.alu(AluOp::Mul, Bits::B64, left, right)
    }

    /// `left << right`.
    pub fn shift_left(&mut self, left: Vreg, right: impl Into<Operand>) -> Vreg {
        self.alu(AluOp::ShiftLeft, Bits::B64, left, right)
    }

    /// `left >> right`, filled with zeros.
    pub fn shift_right(&mut self, left: Vreg, right: impl Into<Operand>) -> Vreg {
        self.alu(AluOp::ShiftRight, Bits::B64, left, right)
    }

    /// 1 if the comparison of 64 bits holds, else 0.
    pub fn compare(&mut self, condition: Condition, left: Vreg, right: impl Into<Operand>) -> Vreg {
        let right = right.into();
        self.make(|dst| Op::Compare {
            condition,
            bits: Bits::B64,
            dst,
            left,
            right,
        })
    }

    /// The low bytes of `src`, extended to 64 bits.
    pub fn extend(&mut self, src: Vreg, width: Width, signed: bool) -> Vreg {
        self.make(|dst| Op::Extend {
            dst,
            src,
            width,
            signed,
        })
    }

    /// The low bytes of `src` in reverse order, zeros above.
    pub fn swap_bytes(&mut self, src: Vreg, width: Width) -> Vreg {
        self.make(|dst| Op::SwapBytes { dst, src, width })
    }

    /// Reads memory, zero-extended.
    pub fn load(&mut self, width: Width, base: Vreg, offset: i16) -> Vreg {
        self.load_extended(width, false, base, offset)
    }

    /// Reads memory, sign- or zero-extended.
    pub fn load_extended(&mut self, width: Width, signed: bool, base: Vreg, offset: i16) -> Vreg {
        self.make(|dst| Op::Load {
            dst,
            width,
            signed,
            base,
            offset,
        })
    }

    /// Reads 8 bytes for the processor's caches only.
    pub fn touch(&mut self, base: Vreg, offset: i16) {
        self.make(|dst| Op::Touch { dst, base, offset });
    }

    /// Writes memory.
    pub fn store(&mut self, width: Width, base: Vreg, offset: i16, value: impl Into<Operand>) {
        let value = value.into();
        self.push(Op::Store {
            width,
            base,
            offset,
            value,
        });
    }

    /// Adds to memory, atomically; the old value is not wanted.
    pub fn atomic_add(&mut self, width: Width, base: Vreg, offset: i16, value: impl Into<Operand>) {
        let value = self.materialize(value);
        self.push(Op::Atomic {
            op: AtomicOp::Add,
            width,
            base,
            offset,
            value,
            old: None,
        });
    }

    /// Changes memory atomically and gives what was there.
    pub fn fetch(
        &mut self,
        op: AtomicOp,
        width: Width,
        base: Vreg,
        offset: i16,
        value: impl Into<Operand>,
    ) -> Vreg {
        let value = self.materialize(value);
        self.make(|dst| Op::Atomic {
            op,
            width,
            base,
            offset,
            value,
            old: Some(dst),
        })
    }

    /// Writes `new` if `expected` is there; gives what was there (equal to `expected` on success).
    pub fn compare_exchange(
        &mut self,
        width: Width,
        base: Vreg,
        offset: i16,
        expected: Vreg,
        new: Vreg,
    ) -> Vreg {
        self.make(|dst| Op::CompareExchange {
            dst,
            width,
            base,
            offset,
            expected,
            new,
        })
    }

    /// Sets aside `size` bytes of the frame, or of the scratch map where the frame is full; not initialised.
    pub fn slot(&mut self, size: u32, align: u32) -> Slot {
        self.function.objects.push(Object {
            size,
            align,
            span: self.span,
            framed: false,
        });
        Slot(self.function.objects.len() as u32 - 1)
    }

    /// A slot that is in the stack frame in any case, for helpers that want their argument there.
    pub(crate) fn framed_slot(&mut self, size: u32, align: u32) -> Slot {
        let slot = self.slot(size, align);
        if let Some(object) = self.function.objects.last_mut() {
            object.framed = true;
        }
        slot
    }

    /// The parameters of a function that is called (`own`) or called back by a helper: `N` registers from `first` (1 to 5) on. Before anything else, since
    /// calls overwrite these registers.
    pub fn parameters<const N: usize>(&mut self, first: u8) -> [Vreg; N] {
        let slot = self.framed_slot(N as u32 * 8, 8);
        self.function.parameters = Some(Parameters {
            slot,
            first,
            count: N as u8,
        });
        let at = self.slot_address(slot, 0);
        std::array::from_fn(|place| self.load(Width::B8, at, place as i16 * 8))
    }

    /// Keeps a value under a name, to be used where its definition dominates: the caller forgets them ([`Self::clear_named_values`]) where another path begins.
    /// A later one of this name replaces it.
    pub fn set_named_value(&mut self, name: &str, value: Vreg) {
        self.named_values.insert(name.to_owned(), value);
    }

    /// Forgets the values that [`Self::set_named_value`] keeps.
    pub fn clear_named_values(&mut self) {
        self.named_values.clear();
    }

    /// The value of this name that was kept in this function.
    pub fn named_value(&self, name: &str) -> Option<Vreg> {
        self.named_values.get(name).copied()
    }

    /// The function of this number among those that helpers call back.
    pub fn callback(&mut self, number: u32) -> Vreg {
        self.make(|dst| Op::Callback { dst, number })
    }

    /// Maps that functions of the program refer to, in this order.
    pub fn maps_mut(&mut self) -> &mut Vec<MapUse> {
        &mut self.function.maps
    }

    /// Keeps a frame object in use up to here.
    pub fn keep(&mut self, slot: Slot) {
        let base = self.slot_address(slot, 0);
        self.make(|dst| Op::Touch { dst, base, offset: 0 });
    }

    /// Address of a frame object plus `offset`.
    pub fn slot_address(&mut self, slot: Slot, offset: u32) -> Vreg {
        self.make(|dst| Op::SlotAddress { dst, slot, offset })
    }

    /// A map made for this program alone; the same specification gives the same map.
    pub fn map(&mut self, spec: MapSpec) -> MapRef {
        self.map_use(MapUse::Private(spec))
    }

    /// A map of the surroundings; the same name gives the same map.
    pub fn external(&mut self, name: &str) -> MapRef {
        self.map_use(MapUse::External(name.to_owned()))
    }

    fn map_use(&mut self, map: MapUse) -> MapRef {
        let maps = &mut self.function.maps;
        let at = maps.iter().position(|m| *m == map).unwrap_or_else(|| {
            maps.push(map);
            maps.len() - 1
        });
        MapRef(at as u32)
    }

    /// A map as helpers take it.
    pub fn map_pointer(&mut self, map: MapRef) -> Vreg {
        self.make(|dst| Op::Map { dst, map })
    }

    /// A variable of the kernel, by its number in the kernel's types.
    pub fn kernel_variable(&mut self, id: u32) -> Vreg {
        self.make(|dst| Op::KernelVariable { dst, id })
    }

    /// An address inside the first value of an array map.
    pub fn map_value(&mut self, map: MapRef, offset: u32) -> Vreg {
        self.make(|dst| Op::MapValue { dst, map, offset })
    }

    /// Calls a helper with at most five arguments.
    pub fn helper(&mut self, helper: Helper, args: &[Operand]) -> Vreg {
        self.make(|dst| Op::Helper {
            dst: Some(dst),
            helper,
            args: args.to_vec(),
        })
    }

    /// Calls a kernel function with at most five arguments.
    pub fn kfunc(&mut self, name: &str, args: &[Operand]) -> Vreg {
        self.make(|dst| Op::Kfunc {
            dst: Some(dst),
            name: name.to_owned(),
            args: args.to_vec(),
        })
    }

    /// A function of the program's own, which `make` writes where the program has none of this name yet; it is given numbers and gives one
    /// ([`Builder::exit`]). The verifier goes through it once, however often and with whatever it is called, and knows nothing of what it gives: what is needed in
    /// several places, or rarely, costs each of them a call instead of the code.
    pub fn own<const N: usize>(&mut self, name: &str, make: impl FnOnce(&mut Self, [Vreg; N])) {
        if self.function.called.contains_key(name) {
            return;
        }
        let mut own = Self::new();
        own.at(self.span);
        let given = own.parameters(1);
        make(&mut own, given);
        self.function.called.insert(name.to_owned(), own.finish());
    }

    /// Calls a function that [`Builder::own`] has written, with as many numbers as it takes.
    pub fn call(&mut self, name: &str, args: &[Operand]) -> Vreg {
        self.make(|dst| Op::Call {
            dst,
            name: name.to_owned(),
            args: args.to_vec(),
        })
    }

    fn end(&mut self, end: End) {
        let span = self.span;
        let block = &mut self.function.blocks[self.current.0 as usize];
        debug_assert!(block.end.is_none(), "ending an ended block");
        block.end = Some(end);
        block.end_span = span;
    }

    /// Ends the block: goes to `to`.
    pub fn jump(&mut self, to: BlockId) {
        self.end(End::Jump(to));
    }

    /// Ends the block: compares 64 bits and goes to one of two blocks.
    pub fn branch(
        &mut self,
        condition: Condition,
        left: Vreg,
        right: impl Into<Operand>,
        then: BlockId,
        otherwise: BlockId,
    ) {
        self.branch_on(condition, Bits::B64, left, right, then, otherwise);
    }

    /// Ends the block: compares so many bits and goes to one of two blocks.
    pub fn branch_on(
        &mut self,
        condition: Condition,
        bits: Bits,
        left: Vreg,
        right: impl Into<Operand>,
        then: BlockId,
        otherwise: BlockId,
    ) {
        self.end(End::Branch {
            condition,
            bits,
            left,
            right: right.into(),
            then,
            otherwise,
        });
    }

    /// Goes to `then` if the comparison of 64 bits holds; a fresh block follows and becomes the current one.
    pub fn branch_if(&mut self, condition: Condition, left: Vreg, right: impl Into<Operand>, then: BlockId) {
        let next = self.block();
        self.branch(condition, left, right, then, next);
        self.switch_to(next);
    }

    /// Ends the block: returns from the function, which is the program where it is none of `own`'s.
    pub fn exit(&mut self, value: impl Into<Operand>) {
        self.end(End::Exit(value.into()));
    }
}
