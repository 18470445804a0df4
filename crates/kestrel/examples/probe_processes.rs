//! Fork and exec watched: `probe_processes COMMAND [ARGUMENT…]` prints which processes are made while the command runs, and what they execute.

use kestrel::probe::{self, Jprobe, Kretprobe, Probe};
use std::error::Error;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments
        .next()
        .ok_or("usage: probe_processes COMMAND [ARGUMENT…]")?;

    // fork, vfork, clone and clone3 all go through kernel_clone, which returns the new process's number.
    let forks = Kretprobe::on("kernel_clone").without_registers().on_hit(|hit| {
        let child = hit.returned().unwrap_or_default();
        println!("{} {}: fork -> {child}", hit.comm, hit.pid);
    });
    // The new program is known, and its file open; nothing of the old program is gone yet.
    let execs = Jprobe::on("begin_new_exec")
        .handler("record(file = str(args.bprm->filename))")
        .on_hit(|hit| {
            if let Some(file) = hit.get("file") {
                println!("{}: exec {file}", hit.pid);
            }
        });
    let mut watched = probe::register_all([Probe::from(forks), Probe::from(execs)])?;

    let mut child = Command::new(command).args(arguments).spawn()?;
    let mut status = None;
    watched.run_while(|| {
        status = child.try_wait().transpose();
        status.is_none()
    })?;
    let ended = probe::unregister(watched)?;
    println!("hits: {}, lost: {}", ended.hits, ended.lost);
    for missed in &ended.missed {
        println!("{missed}");
    }
    if let Some(status) = status {
        status?;
    }
    Ok(())
}
