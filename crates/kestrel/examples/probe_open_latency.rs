//! Latency of opening files: `probe_open_latency FILE…` opens each file once, and prints what a return probe with entry data saw of it.

use kestrel::probe::{Kretprobe, Phase};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let mut opens = Kretprobe::on("do_sys_openat2")
        .maxactive(64)
        .filter(&format!("pid == {}", std::process::id()))
        .handler("record(name = str(entry.args.filename), retval, took = nsecs - entry.nsecs)")
        .on_hit(|hit| {
            assert_eq!(hit.phase, Phase::Return);
            let (Some(name), Some(took)) = (hit.get("name"), hit.get("took")) else {
                return;
            };
            match hit.returned() {
                Some(error) if error < 0 => println!("{name}: error {}, {took} ns", -error),
                _ => println!("{name}: opened, {took} ns"),
            }
        })
        .register()?;
    for file in &files {
        // That it may fail is part of what is shown.
        drop(std::fs::File::open(file));
    }
    opens.poll()?;
    let ended = opens.unregister()?;
    for missed in &ended.missed {
        println!("{missed}");
    }
    Ok(())
}
