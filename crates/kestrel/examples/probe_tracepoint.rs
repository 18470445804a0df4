//! A tracepoint of the kernel with several closures: `probe_tracepoint COMMAND [ARGUMENT…]` prints which processes are made while the command runs. The closure of the highest priority is
//! called first; one ends itself after its first event, and the last registers another.

use kestrel::probe::{self, Callback, Tracepoint};
use std::error::Error;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let command = arguments
        .next()
        .ok_or("usage: probe_tracepoint COMMAND [ARGUMENT…]")?;

    let forks = Tracepoint::on("sched:sched_process_fork").on_hit(|hit| {
        if let (Some(parent), Some(child)) = (hit.get("parent_pid"), hit.get("child_pid")) {
            println!("{parent} has a child: {child}");
        }
    });
    let mut watched = probe::register(forks)?;
    let _before = watched.listen(0, 10, |hit| println!("before: {}", hit.event))?;

    // Registered in one closure, and dropped in another: a closure may end itself.
    let once: Arc<Mutex<Option<Callback>>> = Arc::default();
    let own = Arc::clone(&once);
    let first = watched.listen(0, 5, move |_| {
        println!("the first one");
        own.lock().unwrap_or_else(PoisonError::into_inner).take();
    })?;
    *once.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);

    let listeners = watched.listeners(0)?;
    let mut is_new = true;
    let _last = watched.listen(0, -1, move |_| {
        println!("after");
        if std::mem::take(&mut is_new) {
            listeners.listen(-2, |_| println!("one more after")).keep();
        }
    })?;

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
