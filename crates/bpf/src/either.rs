//! Joins two programs into one that calls a kernel function first and runs the one or the other by its answer.
//!
//! ```text
//!   r6 = r1;  r0 = which(r1);  r1 = r6;  if r0 goto second       what decides
//!   first                                                        as it was
//!   second                                                       as it was
//!   functions of the first, functions of the second              that helpers call back
//!   functions of the first, functions of the second              that they call themselves
//! ```

use crate::asm::Assembler;
use crate::code::{Code, Line, MapRef, OwnFunction, Relocation, RelocationTarget};
use crate::error::Error;
use crate::insn::Insn;
use crate::isa::{self, Callee, Cond, Imm64, Meaning, Reg};
use std::ops::Range;

/// The program that is `first` where the kernel's function `which`, given the context, says no, and `second` where it says yes. The maps of the second come
/// behind so many `maps` of the first.
///
/// # Errors
/// When they are too long together.
pub fn either(which: &str, first: &Code, second: &Code, maps: u32) -> Result<Code, Error> {
    let programs = [Program::of(first, 0), Program::of(second, maps)];
    let [body, ..] = programs[0].sections();
    let mut code = decision(which, body.len())?;
    let mut next = code.insns.len();
    let mut placed = programs.map(|program| Placed {
        program,
        begins: [0; SECTIONS],
    });
    for section in 0..SECTIONS {
        for one in &mut placed {
            one.begins[section] = next;
            next += one.program.sections()[section].len();
        }
    }
    for section in 0..SECTIONS {
        for one in &placed {
            one.append_section(section, &mut code)?;
        }
    }
    Ok(code)
}

/// The decision code, which runs first: goes on to the program behind it, or over that, `over` instructions long, to the other.
fn decision(which: &str, over: usize) -> Result<Code, Error> {
    let mut asm = Assembler::new();
    let first = asm.label();
    asm.mov(Reg::R6, Reg::R1).kfunc(which).mov(Reg::R1, Reg::R6);
    // The function returns a bool: only the lowest byte of the register is defined.
    asm.and(Reg::R0, 0xff).jump_if(Cond::Eq, Reg::R0, 0, first);
    asm.raw(long_jump(asm.here(), over)?);
    asm.bind(first);
    asm.finish()
}

fn long_jump(insn: usize, over: usize) -> Result<Insn, Error> {
    let distance = i32::try_from(over).map_err(|_| Error::JumpTooFar {
        insn,
        distance: over as i64,
    })?;
    let row = isa::row_of(Meaning::GotoLong).ok_or_else(|| Error::NoInstruction {
        insn,
        what: "a jump over many instructions".to_owned(),
    })?;
    Ok(row.encode(0, 0, 0, distance))
}

/// The sections of a program: itself, functions that helpers call back, functions that it calls itself, in this order.
const SECTIONS: usize = 3;

/// One of the joined programs.
struct Program<'c> {
    code: &'c Code,
    /// Where its functions begin: those that helpers call back, and those that it calls itself.
    callbacks: usize,
    functions: usize,
    /// Maps before its own.
    maps: u32,
}

impl<'c> Program<'c> {
    fn of(code: &'c Code, maps: u32) -> Self {
        let functions = code.functions.first().map_or(code.insns.len(), |own| own.begin);
        let callbacks = code.callbacks.first().copied().unwrap_or(functions);
        Self {
            code,
            callbacks,
            functions,
            maps,
        }
    }

    fn sections(&self) -> [Range<usize>; SECTIONS] {
        [
            0..self.callbacks,
            self.callbacks..self.functions,
            self.functions..self.code.insns.len(),
        ]
    }
}

/// Place of a program in the code of all.
struct Placed<'c> {
    program: Program<'c>,
    begins: [usize; SECTIONS],
}

impl Placed<'_> {
    /// Index of an instruction of the program in the joined code.
    fn new_index(&self, insn: usize) -> Result<usize, Error> {
        let mut sections = self.program.sections().into_iter().zip(self.begins);
        let place = sections.find(|(section, _)| section.contains(&insn));
        place
            .map(|(section, begin)| begin + insn - section.start)
            .ok_or(Error::OutsideOfProgram { insn })
    }

    /// Appends one of the program's sections.
    fn append_section(&self, section: usize, to: &mut Code) -> Result<(), Error> {
        let from = self.program.code;
        let section = self.program.sections()[section].clone();
        for (insn, copied) in from.insns.iter().enumerate() {
            if section.contains(&insn) {
                to.insns.push(self.moved(insn, *copied)?);
            }
        }
        let relocations = from.relocations.iter().filter(|one| section.contains(&one.insn));
        for one in relocations {
            to.relocations.push(Relocation {
                insn: self.new_index(one.insn)?,
                target: self.target(&one.target),
            });
        }
        let lines = from.lines.iter().filter(|line| section.contains(&line.insn));
        for line in lines {
            to.lines.push(Line {
                insn: self.new_index(line.insn)?,
                source: line.source,
            });
        }
        let callbacks = from.callbacks.iter().filter(|insn| section.contains(insn));
        for insn in callbacks {
            to.callbacks.push(self.new_index(*insn)?);
        }
        let functions = from.functions.iter().filter(|own| section.contains(&own.begin));
        for own in functions {
            to.functions.push(OwnFunction {
                begin: self.new_index(own.begin)?,
                ..*own
            });
        }
        Ok(())
    }

    fn target(&self, target: &RelocationTarget) -> RelocationTarget {
        match target {
            RelocationTarget::Map(map) => RelocationTarget::Map(MapRef(map.0 + self.program.maps)),
            RelocationTarget::MapValue(map) => RelocationTarget::MapValue(MapRef(map.0 + self.program.maps)),
            RelocationTarget::Kfunc(name) => RelocationTarget::Kfunc(name.clone()),
        }
    }

    /// An instruction that names a function of the program by its distance, with the distance that is now.
    fn moved(&self, insn: usize, one: Insn) -> Result<Insn, Error> {
        let meaning = isa::row(&one).map(|row| row.meaning);
        if !matches!(
            meaning,
            Some(Meaning::Load64(Imm64::Function) | Meaning::Call(Callee::Local))
        ) {
            return Ok(one);
        }
        let target = insn as i64 + 1 + i64::from(one.imm);
        let target = usize::try_from(target).map_err(|_| Error::OutsideOfProgram { insn })?;
        let distance = self.new_index(target)? as i64 - self.new_index(insn)? as i64 - 1;
        let imm = i32::try_from(distance).map_err(|_| Error::JumpTooFar { insn, distance })?;
        Ok(Insn { imm, ..one })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::Machine;
    use crate::isa::Size;

    /// A program whose function of its own says its number, and another half of it.
    fn calls(number: i32) -> Code {
        let mut asm = Assembler::new();
        let [callback, function] = [asm.label(), asm.label()];
        asm.load(Size::DW, Reg::R7, Reg::R1, 0).call_local(callback);
        asm.add(Reg::R7, Reg::R0).call_local(function);
        asm.add(Reg::R0, Reg::R7).exit();
        asm.callback(callback).mov(Reg::R0, number / 2).exit();
        asm.own_function(function, 0).mov(Reg::R0, number / 2).exit();
        asm.finish().unwrap()
    }

    fn run(code: &Code, second: bool) -> u64 {
        let mut machine = Machine::new();
        machine.set_kfunc("which", move |_, _| Ok(0x100 | u64::from(second)));
        machine.run(code, &7u64.to_le_bytes()).unwrap()
    }

    #[test]
    fn the_kernel_says_which_it_is() {
        let code = either("which", &calls(100), &calls(200), 0).unwrap();
        assert_eq!((run(&code, false), run(&code, true)), (107, 207));
        assert_eq!(code.callbacks.len(), 2);
        assert!(code.callbacks.is_sorted());
        let own: Vec<usize> = code.functions.iter().map(|own| own.begin).collect();
        assert_eq!(own.len(), 2);
        assert!(own.is_sorted() && code.callbacks < own);
        // Each stretch ends with a program's, or a function's, end.
        for begin in code.callbacks.iter().chain(&own) {
            assert_eq!(code.insns[begin - 1], *code.insns.last().unwrap());
        }
    }

    #[test]
    fn a_first_program_beyond_16_bit_jumps_is_joined() {
        let mut asm = Assembler::new();
        for _ in 0..40_000 {
            asm.mov(Reg::R0, 1);
        }
        asm.exit();
        let code = either("which", &asm.finish().unwrap(), &calls(200), 0).unwrap();
        assert_eq!((run(&code, false), run(&code, true)), (1, 207));
    }

    #[test]
    fn maps_of_the_second_come_behind() {
        let map = |number| {
            let mut asm = Assembler::new();
            asm.map(Reg::R1, MapRef(number)).mov(Reg::R0, 0).exit();
            asm.finish().unwrap()
        };
        let code = either("which", &map(1), &map(0), 2).unwrap();
        let maps = code.relocations.iter().filter_map(|one| match one.target {
            RelocationTarget::Map(map) => Some(map.0),
            _ => None,
        });
        assert_eq!(maps.collect::<Vec<_>>(), [1, 2]);
    }
}
