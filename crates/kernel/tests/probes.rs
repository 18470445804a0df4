//! Probes inside the kernel, counted against calls of this process: in guests (machines for development often have no kprobes, and skip).
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of functions marked as tests"
)]

use kestrel_bpf::asm::Assembler;
use kestrel_bpf::btf::{BtfKind, TypeId};
use kestrel_bpf::code::{Code, MapRef};
use kestrel_bpf::helper;
use kestrel_bpf::isa::{Atomic, Cond, Reg, Size, Width};
use kestrel_kernel::bpf::Attachment;
use kestrel_kernel::bpf::{
    AttachType, KprobeMulti, KprobeTargets, Link, LinkDetail, Map, MapKind, MapSpec, Program, ProgramKind,
    ProgramSpec, sys,
};
use kestrel_kernel::feature::{Feature, Features};
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_kernel::perf::{PerfEvent, PerfTarget, ProbePlace};
use kestrel_kernel::tracefs::{DynamicEvents, Tracefs};
use kestrel_kernel::{Host, process};
use std::os::fd::AsFd;

/// The features of this machine, or `None` (said so) if it lacks one.
fn with(feature: Feature) -> Option<Features> {
    let host = Host::default();
    let _mounted = host.mount_tracefs();
    let features = Features::new(host);
    let support = features.check(feature);
    if !support.works() {
        println!("skipped: {} {support}", feature.name());
    }
    support.works().then_some(features)
}

/// Counts this thread's events in the word at 0.
fn counter() -> Code {
    let mut asm = Assembler::new();
    let out = asm.label();
    asm.call(helper::GET_CURRENT_PID_TGID)
        .branch(Cond::Ne, Width::W32, Reg::R0, process::thread_id() as i32, out)
        .map_value(Reg::R1, MapRef(0), 0)
        .mov(Reg::R2, 1)
        .atomic(Atomic::Add, Size::DW, Reg::R1, 0, Reg::R2)
        .bind(out)
        .mov(Reg::R0, 0)
        .exit();
    asm.finish().unwrap()
}

struct Counted {
    memory: Mapping,
    program: Program,
}

impl Counted {
    fn new(kind: ProgramKind) -> Self {
        let map = Map::create(&MapSpec::new(MapKind::ARRAY, "n", 4, 4096, 1).with_flags(sys::MAP_MMAPABLE))
            .unwrap();
        let memory = Mapping::new(map.as_fd(), 0, 4096, Access::ReadOnly).unwrap();
        let program = Program::load(&ProgramSpec::new("counter", kind, &counter(), &[map.as_fd()])).unwrap();
        Self { memory, program }
    }

    /// Number of events of `times` calls that read the personality: rare, cheap, and nothing else does it.
    fn count(&self, times: u64) -> u64 {
        let before = self.memory.load_u64(0).unwrap();
        for _ in 0..times {
            std::fs::read("/proc/self/personality").unwrap();
        }
        self.memory.load_u64(0).unwrap() - before
    }
}

/// Called once for each read of /proc/self/personality.
const FUNCTION: &str = "proc_pid_personality";

#[test]
fn kprobes_and_kretprobes_count_calls_and_say_where_they_are() {
    let Some(features) = with(Feature::Kprobe) else {
        return;
    };
    for at_return in [false, true] {
        let counted = Counted::new(ProgramKind::Kprobe);
        let place = ProbePlace::Symbol(FUNCTION, 0);
        let event = PerfEvent::kprobe(features.host(), place, at_return, PerfTarget::All).unwrap();
        let attached = event.attach(&counted.program, 0).unwrap();
        assert_eq!(counted.count(20), 20);
        let Attachment::Link(link) = attached else {
            println!("this kernel has no perf links (before 5.15)");
            continue;
        };
        match link.info().unwrap().detail {
            LinkDetail::Kprobe {
                function,
                at_return: printed,
                missed,
                ..
            } => {
                assert_eq!((function.as_str(), printed, missed), (FUNCTION, at_return, 0));
            }
            LinkDetail::Other => println!("this kernel does not tell where a perf link is (before 6.6)"),
            other => panic!("{other:?}"),
        }
        drop(link);
        assert_eq!(counted.count(5), 0);
    }
    let wrong = PerfEvent::kprobe(
        features.host(),
        ProbePlace::Symbol("no_such_function", 0),
        false,
        PerfTarget::All,
    );
    assert_eq!(wrong.unwrap_err().errno().unwrap().name(), Some("ENOENT"));
}

#[test]
fn kprobes_by_address_are_kprobes_by_name() {
    let Some(features) = with(Feature::Kprobe) else {
        return;
    };
    let symbols = Kallsyms::read(features.host()).unwrap();
    let address = symbols.named(FUNCTION).next().unwrap().address;
    let counted = Counted::new(ProgramKind::Kprobe);
    let event = PerfEvent::kprobe(
        features.host(),
        ProbePlace::Address(address),
        false,
        PerfTarget::All,
    )
    .unwrap();
    let attached = event.attach(&counted.program, 0).unwrap();
    assert_eq!(counted.count(20), 20);
    drop(attached);
}

#[test]
fn one_link_probes_many_functions() {
    let Some(features) = with(Feature::KprobeMulti) else {
        return;
    };
    let symbols = Kallsyms::read(features.host()).unwrap();
    let addresses = [FUNCTION, "proc_pid_stack"].map(|name| symbols.named(name).next().unwrap().address);
    for targets in [
        KprobeTargets::Symbols(&[FUNCTION, "proc_pid_stack"]),
        KprobeTargets::Addresses(&addresses),
    ] {
        let counted = Counted::new(ProgramKind::KprobeMulti);
        let multi = KprobeMulti {
            targets,
            cookies: &[1, 2],
            at_return: false,
            session: false,
        };
        let link = Link::kprobe_multi(&counted.program, &multi).unwrap();
        assert_eq!(counted.count(20), 20);
        match link.info().unwrap().detail {
            LinkDetail::KprobeMulti { count, .. } => assert_eq!(count, 2),
            other => {
                println!("this kernel does not tell how many functions a link probes (before 6.6): {other:?}")
            }
        }
        let short = KprobeMulti {
            cookies: &[1],
            ..multi
        };
        assert!(Link::kprobe_multi(&counted.program, &short).is_err());
    }
}

#[test]
fn function_entries_and_exits_are_counted() {
    let Some(features) = with(Feature::Fentry) else {
        return;
    };
    let id = features.btf().unwrap().find(BtfKind::Func, FUNCTION).unwrap();
    let ways = [
        (ProgramKind::FunctionEntry(id), AttachType::TRACE_FENTRY),
        (ProgramKind::FunctionExit(id), AttachType::TRACE_FEXIT),
    ];
    for (kind, attach) in ways {
        let counted = Counted::new(kind);
        let link = Link::tracing(&counted.program, attach, 0).unwrap();
        assert_eq!(counted.count(20), 20);
        match link.info().unwrap().detail {
            LinkDetail::Tracing {
                attach: printed,
                target: TypeId(0),
            } => {
                assert_eq!(printed, attach);
                println!("this kernel does not tell the target of a tracing link (before 5.13)");
            }
            detail => assert_eq!(detail, LinkDetail::Tracing { attach, target: id }),
        }
        drop(link);
        assert_eq!(counted.count(5), 0);
    }
}

#[test]
fn a_named_probe_of_tracefs_is_an_event_like_others() {
    let Some(features) = with(Feature::KprobeEvents) else {
        return;
    };
    let tracefs = Tracefs::open(features.host()).unwrap();
    let name = format!("test_{}", std::process::id());
    tracefs
        .define(
            DynamicEvents::Kprobe,
            &format!("r64:kestrel/{name} {FUNCTION} $retval"),
        )
        .unwrap();
    let probe = format!("r64:kestrel/{name}");
    assert!(
        tracefs
            .definitions(DynamicEvents::Kprobe)
            .unwrap()
            .iter()
            .any(|line| line.starts_with(&probe))
    );
    assert!(tracefs.format("kestrel", &name).unwrap().field("arg1").is_some());
    {
        let counted = Counted::new(ProgramKind::Kprobe);
        let id = tracefs.event_id("kestrel", &name).unwrap();
        let event = PerfEvent::tracepoint(id, &name, PerfTarget::All).unwrap();
        let attached = event.attach(&counted.program, 0).unwrap();
        assert_eq!(counted.count(20), 20);
        drop(attached);
    }
    let profile = tracefs.profile(DynamicEvents::Kprobe).unwrap();
    assert!(profile.iter().any(|row| row.name == name));
    tracefs
        .define(DynamicEvents::Kprobe, &format!("-:kestrel/{name}"))
        .unwrap();
    assert!(
        !tracefs
            .definitions(DynamicEvents::Kprobe)
            .unwrap()
            .iter()
            .any(|line| line.contains(&name))
    );
}
