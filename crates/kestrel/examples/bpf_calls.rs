//! A compiled object used from Rust: `bpf_calls OBJECT COMMAND [ARGUMENT…]` loads an object with a map `hits` that counts by process (`u32` to
//! `u64`), counts while the command runs, leaves it pinned and attached, and takes that down again as another program would.

use kestrel::bpf::{BpfMap, Object};
use kestrel::kernel::bpf::{self, Pinned};
use std::error::Error;
use std::path::Path;
use std::process::Command;

/// Where it is pinned: bpffs takes care of it when this program is gone.
const PINS: &str = "/sys/fs/bpf/bpf_calls";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: bpf_calls OBJECT COMMAND [ARGUMENT…]";
    let bytes = std::fs::read(arguments.next().ok_or(usage)?)?;
    let mut command = Command::new(arguments.next().ok_or(usage)?);
    command.args(arguments);

    // Each step gives a handle that undoes what it did when it is dropped; nothing is attached before the last.
    let loaded = Object::open(&bytes)?.load()?;
    for note in loaded.notes() {
        println!("note: {note}");
    }
    let running = loaded.attach()?;
    let hits = running.map("hits").ok_or("the object has no map hits")?;
    // A map of another shape is refused here, not read as something that it is not.
    let hits = hits.typed::<u32, u64>()?;

    let us = std::process::id();
    hits.set(&us, &1000)?; // The program goes on from what it finds.
    let mut child = command.spawn()?;
    let pid = child.id();
    child.wait()?;
    println!("process {pid}: {} calls", count(hits.get(&pid)?));
    println!("we: {} calls", count(hits.get(&us)?));
    println!("removed: {}, again: {}", hits.remove(&pid)?, hits.remove(&pid)?);
    if let Some(Err(error)) = running.map("hits").map(narrow) {
        println!("wrong: {error}");
    }

    // Pinned links, programs and maps outlive their handles.
    running.pin(Path::new(PINS))?;
    drop(running);
    let mut child = command.spawn()?;
    let pid = child.id();
    child.wait()?;
    let Pinned::Map(found) = bpf::pinned(&Path::new(PINS).join("map_hits"))? else {
        return Err("what is pinned as map_hits is no map".into());
    };
    let found = BpfMap::from_pin("hits", found);
    println!("pinned: {} calls", count(found.typed::<u32, u64>()?.get(&pid)?));

    // Removing the pins ends objects without other references: the links first.
    let mut names: Vec<_> = std::fs::read_dir(PINS)?.collect::<Result<_, _>>()?;
    names.sort_by_key(|entry| entry.file_name());
    for entry in names {
        println!(
            "unpinned {}: {}",
            entry.file_name().display(),
            bpf::unpin(&entry.path())?
        );
    }
    std::fs::remove_dir(PINS)?;
    Ok(())
}

fn count(found: Option<u64>) -> u64 {
    found.unwrap_or_default()
}

/// Half a value is none.
fn narrow(map: &BpfMap) -> Result<(), kestrel::Error> {
    map.typed::<u32, u32>().map(drop)
}
