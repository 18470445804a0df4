//! The first process of a guest: mounts, modules, then the agent; it reaps what the agent's children leave behind.
#![forbid(unsafe_code)]

#[path = "guest_init/agent.rs"]
mod agent;
#[path = "guest_init/boot.rs"]
mod boot;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("agent") {
        if let Err(error) = agent::serve() {
            println!("guest-init: agent: {error}");
        }
        return;
    }
    boot::prepare();
    boot::run_agent();
}
