//! The machine: decoded code run over memory and maps, with one recorded event as all that there is of the world.

mod answers;

use crate::decode::{Decoded, Places, Step};
use crate::error::{Error, Result};
use crate::memory::{Memory, Outside};
use crate::remembering::Remembering;
use crate::subject::Subject;
use crate::table::Table;
use kestrel_bpf::isa::arithmetic::{alu, atomic, endian, holds, sign_extend};
use kestrel_bpf::isa::{Atomic, Size, Width};

/// Bytes of a frame, as in the kernel.
const FRAME: usize = 512;
/// Frames of a program, as in the kernel.
const FRAMES: usize = 8;
/// Jumps back of one run after which it is given up.
const MAX_JUMPS: u64 = 1 << 24;

/// A processor with its memory.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) memory: Memory,
    pub(crate) tables: Vec<Table>,
    pub(crate) places: Places,
    /// Memory that records hold, for programs that read some.
    pub(crate) remembering: Option<Box<Remembering>>,
    /// State of the pseudo-random numbers.
    pub(crate) random: u64,
    jumps: u64,
}

/// Registers, with room so that any number of four bits is one.
pub(crate) type Registers = [u64; 16];

impl Machine {
    pub(crate) fn new() -> Self {
        let mut memory = Memory::new();
        let places = Places {
            context: memory.add(0),
            stack: memory.add(FRAME * FRAMES),
        };
        Self {
            memory,
            tables: Vec::new(),
            places,
            remembering: None,
            random: 0x2545_f491_4f6c_dd1d,
            jumps: 0,
        }
    }

    /// Runs a program over what lies in the region of the context.
    ///
    /// # Errors
    /// When the program is none of the compiler's, or does not end.
    pub(crate) fn run(&mut self, code: &Decoded, subject: &Subject<'_>) -> Result<u64> {
        self.jumps = 0;
        let mut registers = [0; 16];
        registers[1] = self.places.context.address(0);
        self.frame(code, 0, registers, 0, subject)
    }

    /// Runs a function in a frame of its own; gives what it returns.
    pub(crate) fn frame(
        &mut self,
        code: &Decoded,
        entry: usize,
        mut registers: Registers,
        depth: usize,
        subject: &Subject<'_>,
    ) -> Result<u64> {
        if depth >= FRAMES {
            return Err(Error::Malformed { at: entry });
        }
        registers[10] = self.places.stack.address(FRAME * (depth + 1));
        let mut at = entry;
        loop {
            let step = *code.steps.get(at).ok_or(Error::Malformed { at })?;
            match step {
                // Calls are rare and need more than the others.
                Step::Call(helper) => {
                    registers[0] = answers::call(self, helper, code, &registers, depth, subject)
                        .map_err(|stopped| stopped.at(at))?;
                    at += 1;
                }
                Step::Local { to } => {
                    registers[0] = self.frame(code, to as usize, registers, depth + 1, subject)?;
                    at += 1;
                }
                Step::Exit => return Ok(registers[0]),
                step => match self.step(step, &mut registers) {
                    Ok(None) => at += 1,
                    Ok(Some(to)) => {
                        if to as usize <= at {
                            self.jumps += 1;
                            if self.jumps > MAX_JUMPS {
                                return Err(Error::Endless(MAX_JUMPS));
                            }
                        }
                        at = to as usize;
                    }
                    Err(Outside(address)) => return Err(Error::Outside { at, address }),
                },
            }
        }
    }

    /// One instruction; gives the step to go to, where it is not the next.
    #[inline(always)]
    fn step(&mut self, step: Step, r: &mut Registers) -> std::result::Result<Option<u32>, Outside> {
        // Register numbers are masked to the length of `Registers`, which spares a check of bounds for each operand.
        let get = |r: &Registers, number: u8| r[usize::from(number & 15)];
        let place = |r: &Registers, base: u8, offset: i16| {
            r[usize::from(base & 15)].wrapping_add_signed(i64::from(offset))
        };
        macro_rules! set {
            ($to:expr, $value:expr) => {
                r[usize::from($to & 15)] = $value
            };
        }
        match step {
            Step::Move { to, from } => set!(to, get(r, from)),
            Step::Set { to, value } => set!(to, value),
            Step::Add { to, from } => set!(to, get(r, to).wrapping_add(get(r, from))),
            Step::AddTo { to, value } => set!(to, get(r, to).wrapping_add(value)),
            Step::And { to, value } => set!(to, get(r, to) & value),
            Step::ShiftLeft { to, by } => set!(to, get(r, to) << (by & 63)),
            Step::ShiftRight { to, by } => set!(to, get(r, to) >> (by & 63)),
            Step::Alu { op, width, to, from } => set!(to, alu(op, width, get(r, to), get(r, from))),
            Step::AluTo { op, width, to, value } => set!(to, alu(op, width, get(r, to), value)),
            Step::Negate { width, to } => {
                set!(to, alu(kestrel_bpf::isa::Alu::Sub, width, 0, get(r, to)));
            }
            Step::MoveSigned {
                width,
                bits,
                to,
                from,
            } => {
                set!(to, sign_extend(width, bits.into(), get(r, from)));
            }
            Step::Endian { order, bits, to } => set!(to, endian(order, bits, get(r, to))),
            Step::IfEqual { left, value, then } => return Ok((get(r, left) == value).then_some(then)),
            Step::IfUnequal { left, value, then } => return Ok((get(r, left) != value).then_some(then)),
            Step::If {
                cond,
                width,
                left,
                right,
                then,
            } => {
                return Ok(holds(cond, width, get(r, left), get(r, right)).then_some(then));
            }
            Step::IfTo {
                cond,
                width,
                left,
                value,
                then,
            } => {
                return Ok(holds(cond, width, get(r, left), value).then_some(then));
            }
            Step::Jump { to } => return Ok(Some(to)),
            Step::Load8 { to, base, offset } => {
                set!(to, u64::from_le_bytes(self.memory.load(place(r, base, offset))?));
            }
            Step::Load4 { to, base, offset } => {
                set!(
                    to,
                    u32::from_le_bytes(self.memory.load(place(r, base, offset))?).into()
                );
            }
            Step::Load2 { to, base, offset } => {
                set!(
                    to,
                    u16::from_le_bytes(self.memory.load(place(r, base, offset))?).into()
                );
            }
            Step::Load1 { to, base, offset } => {
                let [byte] = self.memory.load(place(r, base, offset))?;
                set!(to, byte.into());
            }
            Step::LoadSigned {
                size,
                to,
                base,
                offset,
            } => {
                let value = self.load(size, place(r, base, offset))?;
                set!(to, sign_extend(Width::W64, size.bytes() * 8, value));
            }
            Step::Store8 { base, offset, from } => {
                self.memory
                    .store(place(r, base, offset), get(r, from).to_le_bytes())?;
            }
            Step::Store4 { base, offset, from } => {
                self.memory
                    .store(place(r, base, offset), (get(r, from) as u32).to_le_bytes())?;
            }
            Step::Store2 { base, offset, from } => {
                self.memory
                    .store(place(r, base, offset), (get(r, from) as u16).to_le_bytes())?;
            }
            Step::Store1 { base, offset, from } => {
                self.memory.store(place(r, base, offset), [get(r, from) as u8])?;
            }
            Step::StoreTo {
                size,
                base,
                offset,
                value,
            } => {
                self.store(size, place(r, base, offset), value)?;
            }
            Step::Add8 { base, offset, from } => {
                let address = place(r, base, offset);
                // One thread runs a replay, so an atomic addition is a load and a store.
                let old = u64::from_le_bytes(self.memory.load(address)?);
                self.memory
                    .store(address, old.wrapping_add(get(r, from)).to_le_bytes())?;
            }
            Step::Atomic {
                op,
                size,
                base,
                offset,
                from,
            } => {
                self.atomic(op, size, place(r, base, offset), from, r)?;
            }
            Step::Nothing | Step::Call(_) | Step::Local { .. } | Step::Exit => {}
        }
        Ok(None)
    }

    fn load(&self, size: Size, address: u64) -> std::result::Result<u64, Outside> {
        Ok(match size {
            Size::B => u64::from(self.memory.load::<1>(address)?[0]),
            Size::H => u16::from_le_bytes(self.memory.load(address)?).into(),
            Size::W => u32::from_le_bytes(self.memory.load(address)?).into(),
            Size::DW => u64::from_le_bytes(self.memory.load(address)?),
        })
    }

    fn store(&mut self, size: Size, address: u64, value: u64) -> std::result::Result<(), Outside> {
        match size {
            Size::B => self.memory.store(address, [value as u8]),
            Size::H => self.memory.store(address, (value as u16).to_le_bytes()),
            Size::W => self.memory.store(address, (value as u32).to_le_bytes()),
            Size::DW => self.memory.store(address, value.to_le_bytes()),
        }
    }

    fn atomic(
        &mut self,
        op: Atomic,
        size: Size,
        address: u64,
        from: u8,
        r: &mut Registers,
    ) -> std::result::Result<(), Outside> {
        let mask = if size == Size::W { 0xffff_ffff } else { u64::MAX };
        let old = self.load(size, address)?;
        let from = usize::from(from & 15);
        self.store(size, address, atomic(op, old, r[from] & mask, r[0] & mask))?;
        match op {
            Atomic::Cmpxchg => r[0] = old,
            Atomic::Add | Atomic::Or | Atomic::And | Atomic::Xor => {}
            _ => r[from] = old,
        }
        Ok(())
    }
}
