//! Compiled BPF objects (clang's ELF files) onto the running kernel: maps made or found, code loaded, attached, taken down; not how objects are read.
//!
//! ```no_run
//! use kestrel_object::Object;
//! let bytes = std::fs::read("count.o")?;
//! let running = Object::open(&bytes)?.attach_to("count", "vfs_read")?.load()?.attach()?;
//! let hits = running.map("hits").ok_or("no such map")?.typed::<u32, u64>()?;
//! println!("{:?} by process 1, {} processes", hits.get(&1)?, hits.entries()?.len());
//! // Dropping `running` detaches and removes all that is not pinned.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Users of the library `kestrel` know this crate as `kestrel::bpf`.
//!
//! `cargo run --example bpf_calls` shows the rest: values by CPU, global variables, pins that outlive the program and are opened again.
#![forbid(unsafe_code)]

mod attach;
pub mod handler;
mod kconfig;
mod kernel;
mod load;
mod map;
mod opened;
pub mod output;
mod refusal;
mod running;
mod settings;
mod typed;
pub mod value;

pub use handler::{HandlerFile, trusted};
pub use kestrel_bpf::btf::{Btf, TypeId};
pub use kestrel_bpf::object::map::Pinning;
pub use kestrel_bpf::object::{Hook, KINDS, Linked, Map as MapDeclaration, Program as ProgramDeclaration};
pub use kestrel_bpf::verifier_log::VerifierLog;
pub use kestrel_catalog::attach::KprobeVia as Via;
pub use kestrel_catalog::verifier::Refusal;
pub use load::{Loaded, LoadedProgram};
pub use map::{BpfMap, Shape};
pub use opened::Object;
pub use running::{Attached, Running};
pub use typed::TypedMap;
