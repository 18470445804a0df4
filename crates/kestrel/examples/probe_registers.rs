//! Registers before and after an instruction: `probe_registers FUNCTION [MNEMONIC]`, while a thread of this program reads a byte three times.
//!
//! The instruction is the function's first of that mnemonic that can be probed: a `push`, if nothing else is said, after which the stack
//! pointer is 8 less. Give it a function that reading calls: `vfs_read`.

use kestrel::catalog::Catalog;
use kestrel::code::Code;
use kestrel::kernel::Host;
use kestrel::probe::{Kprobe, Phase};
use std::error::Error;
use std::io::Read;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let function = arguments.next().unwrap_or_else(|| "vfs_read".to_owned());
    let mnemonic = arguments.next().unwrap_or_else(|| "push".to_owned());

    let catalog = Catalog::new(Host::default());
    let code = Code::new(&catalog)?.function(None, &function)?;
    let found = code.instructions.iter().find(|one| {
        one.offset > 0 && one.probeable.is_ok() && one.text.split(' ').next() == Some(mnemonic.as_str())
    });
    let Some(instruction) = found else {
        return Err(format!("{function} has no {mnemonic} that can be probed").into());
    };
    println!("{function}+{:#x}: {}", instruction.offset, instruction.text);

    let mut probe = Kprobe::at(&function)
        .offset(instruction.offset)
        .filter("comm == \"reader\"")
        .pre("record(regs)")
        .post("record(regs)")
        .on_hit(|hit| {
            let when = if hit.phase == Phase::Pre {
                "before"
            } else {
                "after"
            };
            if let Some(registers) = &hit.registers {
                println!("{when} in {} on CPU {}:\n{registers}", hit.comm, hit.cpu);
            }
        })
        .register()?;
    let read = || -> std::io::Result<()> {
        let mut zero = std::fs::File::open("/dev/zero")?;
        (0..3).try_for_each(|_| zero.read_exact(&mut [0]))
    };
    let reader = std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(read)?;
    reader.join().map_err(|_| "the reader panicked")??;
    probe.run_for(Duration::from_millis(20))?;
    let ended = probe.unregister()?;
    println!("hits: {}, lost: {}", ended.hits, ended.lost);
    for missed in &ended.missed {
        println!("{missed}");
    }
    Ok(())
}
