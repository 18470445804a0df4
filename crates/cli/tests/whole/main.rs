//! Tests of the built command as users run it: output, files left behind, exit codes. Contents of records are tested where they are made.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod asked;
mod command;
mod compressed;
mod counts;
mod damaged;
mod export;
mod habits;
mod import;
mod looking;
mod manual;
mod page;
mod recorded_calls;
mod recordings;
mod replay;
mod right;
mod run;
mod run_attaching;
mod run_casts;
mod run_language;
mod run_loops;
mod run_memory;
mod run_options;
mod run_reference;
mod run_stacks;
mod run_verdicts;
mod sched;
mod stat;
mod surroundings;
mod switching;
mod syscalls;
mod targets;
mod terminal;
mod top;
mod user_probes;
mod wrong;
