//! A handler at faults: `probe_fault COMMAND [ARGUMENT…]` runs a command that gives the kernel a bad address, finds the instruction that faults, and runs
//! the command once more with a fault-handler there.

use kestrel::catalog::Catalog;
use kestrel::code::Code;
use kestrel::kernel::Host;
use kestrel::probe::Kprobe;
use std::error::Error;
use std::process::Command;
use std::sync::mpsc;

fn main() -> Result<(), Box<dyn Error>> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let (program, arguments) = command
        .split_first()
        .ok_or("usage: probe_fault COMMAND [ARGUMENT…]")?;
    let name = program.rsplit('/').next().unwrap_or(program);
    let theirs = format!("comm == \"{name}\"");
    let run = || Command::new(program).args(arguments).status();

    // The kernel calls this function at every fault that it recovers from; its first argument is the saved registers.
    let (send, places) = mpsc::channel();
    let mut all = Kprobe::at("fixup_exception")
        .filter(&theirs)
        .pre("record(ip = ((struct pt_regs *)arg0)->ip)")
        .on_hit(move |hit| {
            let ip = hit.get("ip").and_then(|ip| ip.as_u64());
            // Faults after the first have no receiver.
            let _ = ip.map(|ip| send.send(ip));
        })
        .register()?;
    run()?;
    all.poll()?;
    all.unregister()?;
    let ip = places
        .try_iter()
        .next()
        .ok_or("the command makes nothing fault")?;

    let catalog = Catalog::new(Host::default());
    let function = Code::new(&catalog)?.around(ip)?;
    let offset = ip - function.address;
    println!("faults at {}+{offset:#x}", function.symbol);

    let faults = Kprobe::at(&function.symbol)
        .offset(offset)
        .filter(&theirs)
        .fault("record(args, regs)")
        .on_hit(|hit| {
            for (name, value) in &hit.arguments {
                println!("{name} {value}");
            }
            if let Some(registers) = &hit.registers {
                println!("{registers}");
            }
        })
        .register()?;
    run()?;
    let ended = faults.unregister()?;
    println!("{} faults, {} lost", ended.hits, ended.lost);
    Ok(())
}
