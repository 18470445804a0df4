//! bpf(2) as owned values: maps, programs, links, pins, ids; not how instructions are made, not which programs to attach where.

mod btf;
mod descriptor;
mod id;
mod link;
mod map;
mod memlock;
mod perf_attach;
mod perf_output;
mod pin;
mod program;
mod ringbuf;
pub mod sys;

pub use btf::{btf_bytes, load_btf, module_btf, module_btf_id};
pub use id::{Stats, btf_ids, enable_stats, link_ids, map_ids, program_ids};
pub use link::{IteratorScope, KprobeMulti, KprobeTargets, Link, LinkDetail, LinkInfo, UprobeMulti};
pub use map::{Map, MapBtf, MapInfo, MapSpec, ValueCheck};
pub use perf_attach::Attachment;
pub use perf_output::{PerfOutput, PerfRecord};
pub use pin::{Pinned, pin, pinned, unpin};
pub use program::{Program, ProgramBtf, ProgramInfo, ProgramKind, ProgramSpec, TestRun, TestRunResult};
pub use ringbuf::RingBuffer;
pub use sys::{AttachType, LinkType, MapKind, ProgramType};
