//! The event of the kernel's documentation (`samples/trace_events`, `include/trace/events/sched.h`) in user space: a program that starts children says `sched_process_fork` as the kernel does.
//!
//! ```text
//! cargo run --example fork -- true            sched:sched_process_fork: comm=fork pid=4711 child_comm=true child_pid=4712
//! cargo run --example fork -- --format        what tracefs has in events/sched/sched_process_fork/format
//! ```

use std::process::Command;

/// A process as both events show it.
struct Task {
    comm: String,
    pid: u32,
}

kestrel_tracepoint::events! {
    group sched;

    /// A process has a child.
    event sched_process_fork(parent: &Task, child: &Task) {
        parent_comm: char[16] = parent.comm,
        parent_pid: i32 as pid_t = parent.pid as i32,
        child_comm: char[16] = child.comm,
        child_pid: i32 as pid_t = child.pid as i32,
    } print "comm={parent_comm} pid={parent_pid} child_comm={child_comm} child_pid={child_pid}";
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    kestrel_tracepoint::init()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["--format"] {
        print!("{}", sched_process_fork::event().format());
        return Ok(());
    }
    let _printed =
        sched_process_fork::event().listen(|record| println!("{}: {record}", record.event()), 0)?;
    let own = Task {
        comm: std::fs::read_to_string("/proc/self/comm")?.trim_end().to_owned(),
        pid: std::process::id(),
    };
    for program in &arguments {
        let mut child = Command::new(program).spawn()?;
        let task = Task {
            comm: program.clone(),
            pid: child.id(),
        };
        trace_sched_process_fork(&own, &task);
        child.wait()?;
    }
    Ok(())
}
