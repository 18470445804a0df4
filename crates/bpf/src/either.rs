//! Two programs as one: a function of the kernel's says, each time that it runs, which of them it is.
//!
//! ```text
//!   r6 = r1;  r0 = which(r1);  r1 = r6;  if r0 goto second       what decides
//!   first                                                        as it was
//!   second                                                       as it was
//!   functions of the first, functions of the second              that helpers call back
//! ```

use crate::asm::Assembler;
use crate::code::{Code, Line, MapRef, Relocation, RelocationTarget};
use crate::error::Error;
use crate::insn::Insn;
use crate::isa::{self, Callee, Cond, Imm64, Meaning, Reg};

/// The program that is `first` where the kernel's function `which`, given the context, says no, and `second` where it says yes. The maps of the second come
/// behind so many `maps` of the first.
///
/// # Errors
/// When they are too long together.
pub fn either(which: &str, first: &Code, second: &Code, maps: u32) -> Result<Code, Error> {
    let parts = [Part::of(first, 0), Part::of(second, maps)];
    let mut code = decision(which, parts[0].body)?;
    let mut places = Vec::new();
    let mut next = code.insns.len();
    for part in &parts {
        places.push(Placed {
            part,
            body: next,
            functions: 0,
        });
        next += part.body;
    }
    for placed in &mut places {
        placed.functions = next;
        next += placed.part.code.insns.len() - placed.part.body;
    }
    for functions in [false, true] {
        for placed in &places {
            placed.copy(functions, &mut code)?;
        }
    }
    Ok(code)
}

/// What runs first: goes on to the program behind it, or over that, `over` instructions long, to the other.
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

/// One of the programs.
struct Part<'c> {
    code: &'c Code,
    /// Instructions before its first function.
    body: usize,
    /// Maps before its own.
    maps: u32,
}

impl<'c> Part<'c> {
    fn of(code: &'c Code, maps: u32) -> Self {
        let body = code.callbacks.first().copied().unwrap_or(code.insns.len());
        Self { code, body, maps }
    }
}

/// Where a program stands among all.
struct Placed<'p> {
    part: &'p Part<'p>,
    body: usize,
    functions: usize,
}

impl Placed<'_> {
    /// Where an instruction of the program is now.
    fn now(&self, insn: usize) -> usize {
        match insn < self.part.body {
            true => self.body + insn,
            false => self.functions + insn - self.part.body,
        }
    }

    /// Appends the program's body, or its functions.
    fn copy(&self, functions: bool, to: &mut Code) -> Result<(), Error> {
        let from = self.part.code;
        let within = |insn: &usize| (*insn >= self.part.body) == functions;
        for (insn, copied) in from.insns.iter().enumerate().filter(|(insn, _)| within(insn)) {
            to.insns.push(self.moved(insn, *copied)?);
        }
        let relocations = from.relocations.iter().filter(|one| within(&one.insn));
        to.relocations.extend(relocations.map(|one| Relocation {
            insn: self.now(one.insn),
            target: self.target(&one.target),
        }));
        let lines = from.lines.iter().filter(|line| within(&line.insn));
        to.lines.extend(lines.map(|line| Line {
            insn: self.now(line.insn),
            source: line.source,
        }));
        let callbacks = from.callbacks.iter().filter(|insn| within(insn));
        to.callbacks.extend(callbacks.map(|insn| self.now(*insn)));
        Ok(())
    }

    fn target(&self, target: &RelocationTarget) -> RelocationTarget {
        match target {
            RelocationTarget::Map(map) => RelocationTarget::Map(MapRef(map.0 + self.part.maps)),
            RelocationTarget::MapValue(map) => RelocationTarget::MapValue(MapRef(map.0 + self.part.maps)),
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
        let target = (insn as i64 + 1 + i64::from(one.imm)).max(0) as usize;
        let distance = self.now(target) as i64 - self.now(insn) as i64 - 1;
        let imm = i32::try_from(distance).map_err(|_| Error::JumpTooFar { insn, distance })?;
        Ok(Insn { imm, ..one })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::Machine;
    use crate::isa::Size;

    /// A program whose function says its number.
    fn calls(number: i32) -> Code {
        let mut asm = Assembler::new();
        let function = asm.label();
        asm.load(Size::DW, Reg::R7, Reg::R1, 0).call_local(function);
        asm.add(Reg::R0, Reg::R7).exit();
        asm.callback(function).mov(Reg::R0, number).exit();
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
    }

    #[test]
    fn the_first_may_be_long() {
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
