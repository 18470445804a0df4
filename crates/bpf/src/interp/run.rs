//! The execution loop: one instruction after another, over the meanings of the instruction table.

use super::Machine;
use super::fault::{Fault, Reason};
use super::helpers::Arguments;
use super::map::handle;
use super::memory::{Access, Space};
use crate::code::{Code, Relocation, RelocationTarget};
use crate::helper::{self, Helper};
use crate::insn::Insn;
use crate::isa::arithmetic::{alu, atomic, endian, holds, sign_extend};
use crate::isa::{self, Atomic, Callee, Imm64, Meaning, Second, Size, Width};
use std::rc::Rc;

/// `MAX_BPF_STACK`.
const STACK: u64 = 512;
/// `MAX_CALL_FRAMES`.
const FRAMES: usize = 8;
/// `MAX_TAIL_CALL_CNT`.
const TAIL_CALLS: u32 = 33;

/// Base of the addresses of functions in registers; no memory is mapped there.
const FUNCTIONS: u64 = 0xfffd_0000_0000_0000;

/// Called before each instruction with its index.
type Hook<'a> = &'a mut dyn FnMut(&mut Machine, usize);

/// A run of a program in the interpreter.
struct Run {
    code: Rc<Code>,
    at: usize,
    registers: [Option<u64>; 11],
    /// Callers, the outermost first: return address and r6–r10.
    frames: Vec<(usize, [Option<u64>; 5])>,
    /// Stacks of the frames, freed as they return.
    stacks: Vec<u64>,
    context: u64,
    tail_calls: u32,
    /// Instructions that may still run.
    steps_left: u64,
}

impl Machine {
    /// Runs a program whose r1 points to a copy of `context`; returns r0.
    pub fn run(&mut self, code: &Code, context: &[u8]) -> Result<u64, Fault> {
        self.run_hooked(code, context, &mut |_, _| {})
    }

    /// Runs a program, calling `hook` before every instruction with the instruction's index, also in functions that helpers call. The hook may
    /// change the machine and run other programs on it: an interrupt between any two instructions.
    pub fn run_hooked(
        &mut self,
        code: &Code,
        context: &[u8],
        hook: &mut dyn FnMut(&mut Self, usize),
    ) -> Result<u64, Fault> {
        let address = self.memory.allocate(Space::Context, context.len() as u64);
        self.run_at(address, code, context, hook)
    }

    /// Runs a program with the copy of `context` at an address, where nothing else may be: programs can tell contexts apart by that.
    pub fn run_at(
        &mut self,
        address: u64,
        code: &Code,
        context: &[u8],
        hook: &mut dyn FnMut(&mut Self, usize),
    ) -> Result<u64, Fault> {
        self.memory.insert(Space::Context, address, context.to_vec());
        let mut run = Run {
            code: Rc::new(code.clone()),
            at: 0,
            registers: [None; 11],
            frames: Vec::new(),
            stacks: Vec::new(),
            context: address,
            tail_calls: 0,
            steps_left: self.max_steps,
        };
        let before = self.preempt_depth;
        let interrupts_off = self.interrupts_off;
        let result = run
            .go(self, hook)
            .and_then(|r0| match self.preempt_depth.saturating_sub(before) {
                0 if self.interrupts_off > interrupts_off => Err(Reason::InterruptsOff),
                0 => Ok(r0),
                depth => Err(Reason::PreemptionOff { depth }),
            });
        for region in run.stacks.iter().chain([&run.context]) {
            self.memory.remove(*region);
        }
        self.preempt_depth = before;
        self.interrupts_off = interrupts_off;
        let text = || crate::text::instruction(&run.code, run.at, &[]);
        result.map_err(|reason| Fault {
            insn: run.at,
            text: text(),
            reason,
        })
    }
}

impl Run {
    fn go(&mut self, machine: &mut Machine, hook: Hook<'_>) -> Result<u64, Reason> {
        self.registers[1] = Some(self.context);
        self.enter(machine);
        loop {
            if let Some(r0) = self.advance(machine, hook)? {
                return Ok(r0);
            }
        }
    }

    /// Runs the next instruction; returns r0 where it ends the program.
    fn advance(&mut self, machine: &mut Machine, hook: Hook<'_>) -> Result<Option<u64>, Reason> {
        let insn = *self.code.insns.get(self.at).ok_or(Reason::LeftProgram)?;
        hook(machine, self.at);
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Reason::TooManySteps {
            limit: machine.max_steps,
        })?;
        machine.steps += 1;
        let row = isa::row(&insn).ok_or(Reason::NotAnInstruction)?;
        let next = self.at + row.slots();
        self.at = match self.step(machine, hook, insn, row.meaning)? {
            Flow::Next => next,
            Flow::To(at) => at,
            Flow::Done(r0) => return Ok(Some(r0)),
        };
        Ok(None)
    }

    fn step(
        &mut self,
        machine: &mut Machine,
        hook: Hook<'_>,
        insn: Insn,
        meaning: Meaning,
    ) -> Result<Flow, Reason> {
        let Insn {
            dst, src, off, imm, ..
        } = insn;
        let immediate = i64::from(imm) as u64;
        let second = |run: &Self, second| match second {
            Second::Reg => run.get(src),
            Second::Imm => Ok(immediate),
        };
        match meaning {
            Meaning::Alu {
                op,
                width,
                second: from,
            } => {
                let b = second(self, from)?;
                // Only a move may write a register that has not been written yet.
                let a = if op == isa::Alu::Mov { 0 } else { self.get(dst)? };
                self.set(dst, alu(op, width, a, b))?;
            }
            Meaning::Neg { width } => {
                let negative = alu(isa::Alu::Sub, width, 0, self.get(dst)?);
                self.set(dst, negative)?;
            }
            Meaning::MovSigned { width, bits } => {
                let value = sign_extend(width, bits.into(), self.get(src)?);
                self.set(dst, value)?;
            }
            Meaning::Endian { order, bits } => {
                let value = endian(order, bits, self.get(dst)?);
                self.set(dst, value)?;
            }
            Meaning::Jump {
                cond,
                width,
                second: from,
            } => {
                if holds(cond, width, self.get(dst)?, second(self, from)?) {
                    return self.jump(off.into());
                }
            }
            Meaning::Goto => return self.jump(off.into()),
            Meaning::GotoLong => return self.jump(imm.into()),
            Meaning::Load { size, signed } => {
                let address = self.get(src)?.wrapping_add_signed(off.into());
                let value = self.load(machine, size, address)?;
                let value = if signed {
                    sign_extend(Width::W64, size.bytes() * 8, value)
                } else {
                    value
                };
                self.set(dst, value)?;
            }
            Meaning::Store { size, second: from } => {
                let address = self.get(dst)?.wrapping_add_signed(off.into());
                let value = second(self, from)?;
                machine
                    .memory
                    .check_instruction(address, size.bytes().into(), Access::Write, false)?;
                store(machine, size, address, value)?;
            }
            Meaning::Atomic { op, size } => {
                let address = self.get(dst)?.wrapping_add_signed(off.into());
                self.atomic(machine, op, size, address, src)?;
            }
            Meaning::Load64(kind) => {
                let value = self.load64(machine, kind, imm)?;
                self.set(dst, value)?;
            }
            Meaning::Call(callee) => return self.call(machine, hook, callee, imm),
            Meaning::Exit => return self.leave(machine),
        }
        Ok(Flow::Next)
    }

    fn get(&self, register: u8) -> Result<u64, Reason> {
        let value = self.registers.get(usize::from(register)).copied().flatten();
        value.ok_or(Reason::UninitialisedRegister { register })
    }

    fn set(&mut self, register: u8, value: u64) -> Result<(), Reason> {
        match self.registers.get_mut(usize::from(register)) {
            Some(place) if register < 10 => *place = Some(value),
            _ => return Err(Reason::WroteFramePointer),
        }
        Ok(())
    }

    fn jump(&self, distance: i64) -> Result<Flow, Reason> {
        let to = self.at as i64 + 1 + distance;
        usize::try_from(to).map(Flow::To).map_err(|_| Reason::LeftProgram)
    }

    fn load(&self, machine: &Machine, size: Size, address: u64) -> Result<u64, Reason> {
        let bytes = size.bytes().into();
        match machine
            .memory
            .check_instruction(address, bytes, Access::Read, machine.direct_kernel_reads)
        {
            // The kernel answers a fault of a direct load with zero.
            Err(Reason::NullPointer { .. } | Reason::BadAddress { .. }) if machine.direct_kernel_reads => {
                return Ok(0);
            }
            checked => checked?,
        }
        Ok(number(machine.memory.slice(address, bytes)?))
    }

    fn atomic(
        &mut self,
        machine: &mut Machine,
        op: Atomic,
        size: Size,
        address: u64,
        src: u8,
    ) -> Result<(), Reason> {
        let bytes = u64::from(size.bytes());
        let mask = if size == Size::W { 0xffff_ffff } else { u64::MAX };
        if !address.is_multiple_of(bytes) {
            return Err(Reason::Misaligned { address, size: bytes });
        }
        let operand = self.get(src)? & mask;
        let r0 = if op == Atomic::Cmpxchg {
            self.get(0)? & mask
        } else {
            0
        };
        machine.memory.check(address, bytes, Access::Write, false)?;
        machine.memory.check(address, bytes, Access::Read, false)?;
        let old = number(machine.memory.slice(address, bytes)?);
        store(machine, size, address, atomic(op, old, operand, r0))?;
        match op {
            Atomic::Cmpxchg => self.set(0, old),
            Atomic::Add | Atomic::Or | Atomic::And | Atomic::Xor => Ok(()),
            _ => self.set(src, old),
        }
    }

    fn target(&self) -> Option<&RelocationTarget> {
        let found = self
            .code
            .relocations
            .binary_search_by_key(&self.at, |r: &Relocation| r.insn)
            .ok()?;
        self.code.relocations.get(found).map(|r| &r.target)
    }

    fn load64(&self, machine: &mut Machine, kind: Imm64, low: i32) -> Result<u64, Reason> {
        let high = self.code.insns.get(self.at + 1).ok_or(Reason::LeftProgram)?.imm as u32;
        match (kind, self.target()) {
            (Imm64::Plain, _) => Ok(u64::from(low as u32) | u64::from(high) << 32),
            (Imm64::Map, Some(RelocationTarget::Map(map))) => Ok(handle(*map)),
            (Imm64::MapValue, Some(RelocationTarget::MapValue(map))) => {
                Ok(machine.first_value(*map)?.wrapping_add(high.into()))
            }
            (Imm64::Function, _) => {
                let at = self.at as i64 + 1 + i64::from(low);
                Ok(FUNCTIONS.wrapping_add_signed(at))
            }
            _ => Err(Reason::Other(format!(
                "a {kind:?} load without a relocation that this interpreter knows"
            ))),
        }
    }

    fn call(
        &mut self,
        machine: &mut Machine,
        hook: Hook<'_>,
        callee: Callee,
        imm: i32,
    ) -> Result<Flow, Reason> {
        match callee {
            Callee::Local => {
                let to = self.jump(imm.into())?;
                self.save(self.at + 1)?;
                // The kernel saves r6 to r9 for the caller; their values in a callee are undefined, and reading it an error.
                self.registers[6..].fill(None);
                self.registers[0] = None;
                self.enter(machine);
                Ok(to)
            }
            Callee::Helper if Helper(imm as u32) == helper::TAIL_CALL => self.tail_call(machine),
            Callee::Helper if Helper(imm as u32) == helper::FOR_EACH_MAP_ELEM => {
                let Arguments([map, function, context, ..]) = self.arguments(4)?;
                let elements = machine.elements(map)?;
                let mut done = 0;
                for (key, value) in elements {
                    let key_address = machine.memory.allocate(Space::Value, key.len() as u64);
                    machine.memory.fill(key_address, &key)?;
                    let answer = self.call_back(machine, hook, function, &[map, key_address, value, context]);
                    machine.memory.remove(key_address);
                    done += 1;
                    if answer? != 0 {
                        break;
                    }
                }
                self.returned(done)
            }
            Callee::Helper if Helper(imm as u32) == helper::LOOP => {
                let Arguments([count, function, context, ..]) = self.arguments(4)?;
                let mut done = 0;
                // `BPF_MAX_LOOPS`: more is refused with E2BIG.
                if count > 1 << 23 {
                    return self.returned(7_u64.wrapping_neg());
                }
                while done < count {
                    done += 1;
                    if self.call_back(machine, hook, function, &[done - 1, context])? != 0 {
                        break;
                    }
                }
                self.returned(done)
            }
            Callee::Helper => {
                let helper = Helper(imm as u32);
                let body = machine
                    .helpers
                    .get(&helper)
                    .cloned()
                    .ok_or_else(|| Reason::UnknownHelper {
                        number: helper.0,
                        name: helper.name().unwrap_or("unknown"),
                    })?;
                let arguments = self.arguments(helper.row().map_or(0, |row| row.arguments))?;
                let r0 = body(machine, arguments)?;
                self.returned(r0)
            }
            Callee::Kfunc => {
                let Some(RelocationTarget::Kfunc(name)) = self.target() else {
                    return Err(Reason::UnknownKfunc {
                        name: format!("#{imm}"),
                    });
                };
                let body = machine.kfuncs.get(name).cloned();
                let body = body.ok_or_else(|| Reason::UnknownKfunc { name: name.clone() })?;
                let r0 = body(machine, self.arguments(0)?)?;
                self.returned(r0)
            }
        }
    }

    /// Calls a function of the program from within a helper; returns its value.
    fn call_back(
        &mut self,
        machine: &mut Machine,
        hook: Hook<'_>,
        function: u64,
        arguments: &[u64],
    ) -> Result<u64, Reason> {
        let entry = usize::try_from(function.wrapping_sub(FUNCTIONS)).unwrap_or(usize::MAX);
        if !self.code.callbacks.contains(&entry) {
            return Err(Reason::Other(
                "a callback at an address that is no function of the program".to_owned(),
            ));
        }
        let (at, depth) = (self.at, self.frames.len());
        self.save(at)?;
        self.registers.fill(None);
        for (place, argument) in self.registers[1..].iter_mut().zip(arguments) {
            *place = Some(*argument);
        }
        self.enter(machine);
        self.at = entry;
        while self.frames.len() > depth {
            if self.advance(machine, hook)?.is_some() {
                return Err(Reason::LeftProgram);
            }
        }
        self.at = at;
        self.get(0)
    }

    /// Saves a caller's r6 to r10 and its return address.
    fn save(&mut self, back: usize) -> Result<(), Reason> {
        if self.frames.len() + 1 >= FRAMES {
            return Err(Reason::TooDeep);
        }
        let [.., r6, r7, r8, r9, r10] = self.registers;
        self.frames.push((back, [r6, r7, r8, r9, r10]));
        Ok(())
    }

    fn arguments(&self, needed: u8) -> Result<Arguments, Reason> {
        let mut values = [0; 5];
        for (number, value) in (1_u8..).zip(&mut values) {
            match self.get(number) {
                Ok(known) => *value = known,
                Err(missing) if number <= needed => return Err(missing),
                Err(_) => {}
            }
        }
        Ok(Arguments(values))
    }

    fn returned(&mut self, r0: u64) -> Result<Flow, Reason> {
        self.registers[1..=5].fill(None);
        self.registers[0] = Some(r0);
        Ok(Flow::Next)
    }

    fn tail_call(&mut self, machine: &mut Machine) -> Result<Flow, Reason> {
        // The verifier refuses tail calls with preemption or interrupts off, because the called program could not switch them on again.
        if machine.interrupts_off > 0 {
            return Err(Reason::InterruptsOff);
        }
        if machine.preempt_depth > 0 {
            return Err(Reason::PreemptionOff {
                depth: machine.preempt_depth,
            });
        }
        let Arguments([context, map, index, ..]) = self.arguments(3)?;
        let program = machine.map_of(map)?.0.programs.get(&(index as u32)).cloned();
        match program {
            Some(program) if self.tail_calls < TAIL_CALLS => {
                self.tail_calls += 1;
                self.code = program;
                self.registers = [None; 11];
                self.registers[1] = Some(context);
                self.frames.clear();
                for stack in self.stacks.drain(..) {
                    machine.memory.remove(stack);
                }
                self.enter(machine);
                Ok(Flow::To(0))
            }
            _ => self.returned(-2_i64 as u64),
        }
    }

    /// A new frame with a stack of its own.
    fn enter(&mut self, machine: &mut Machine) {
        let stack = machine.memory.allocate(Space::Stack, STACK);
        self.stacks.push(stack);
        self.registers[10] = Some(stack + STACK);
    }

    fn leave(&mut self, machine: &mut Machine) -> Result<Flow, Reason> {
        let r0 = self.get(0)?;
        let Some((back, saved)) = self.frames.pop() else {
            return Ok(Flow::Done(r0));
        };
        if let Some(stack) = self.stacks.pop() {
            machine.memory.remove(stack);
        }
        self.returned(r0)?;
        self.registers[6..].copy_from_slice(&saved);
        Ok(Flow::To(back))
    }
}

/// Control flow after an instruction.
enum Flow {
    Next,
    To(usize),
    /// Exit of the program, with this r0.
    Done(u64),
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn store(machine: &mut Machine, size: Size, address: u64, value: u64) -> Result<(), Reason> {
    let bytes = value.to_le_bytes();
    machine
        .memory
        .fill(address, bytes.get(..size.bytes() as usize).unwrap_or(&[]))
}
