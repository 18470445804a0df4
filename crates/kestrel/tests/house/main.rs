//! The whole house without a kernel: from the text of an event to the printed line, through catalog, checker, compiler, ring and printer.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests"
)]

mod kernel;
mod marks;
#[allow(dead_code, reason = "of the ring's bench this needs the reader alone")]
#[path = "../../../hook/tests/ring/support.rs"]
mod support;
mod tables;

use kernel::{NEXT, PREV, USER, switch_entry, words};
use kestrel::attach::{self, Mechanism};
use kestrel::buffer::writer::map_name;
use kestrel::catalog::{Catalog, Via};
use kestrel::plan::{BUFFER, PlannedStrategy, Source, plan};
use kestrel::session::control;
use kestrel_bpf::code::MapRef;
use kestrel_bpf::interp::{self, Machine};
use kestrel_compiler::ir::{MapKind, MapUse};
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::decode::EventTable;
use kestrel_trace::export::{Export, Json, Style, Text};
use kestrel_trace::packet::PAGE;
use kestrel_trace::process::Processes;
use kestrel_trace::symbol::Symbols;
use support::{Reader, rest};

/// Output of the program.
struct Printed {
    text: String,
    json: String,
}

/// Plans `event` on the miniature kernel, runs its first way that `wanted` likes on each context, and prints what was recorded.
fn run(event: &str, via: Via, wanted: fn(&PlannedStrategy) -> bool, contexts: &[Vec<u8>]) -> Printed {
    let tree = tempfile::tempdir().unwrap();
    let catalog = kernel::build(tree.path());
    run_on(&catalog, (event, via), wanted, contexts, |_| {})
}

/// The same on a kernel that is there, with more in its memory. Of several hooks the first is run.
fn run_on(
    catalog: &Catalog,
    (event, via): (&str, Via),
    wanted: fn(&PlannedStrategy) -> bool,
    contexts: &[Vec<u8>],
    fill: impl Fn(&mut Machine),
) -> Printed {
    let options = kestrel::plan::Options {
        via,
        buffer_bytes: Some(64 << 10),
        ..kestrel::plan::Options::default()
    };
    let plan = plan(Source::Events(&[event.to_owned()]), &options, catalog)
        .unwrap_or_else(|error| panic!("{error}: {error:?}"));
    let hook = &plan.hooks[0];
    let way = hook.strategies.iter().find(|way| wanted(way)).unwrap();
    let program = hook.compile(way, &plan, None).unwrap();

    let mut machine = Machine::new();
    machine.environment.clock = support::BEGIN;
    machine.environment.cpu = 1;
    machine.direct_kernel_reads = way.context.direct_loads;
    kernel::fill(&mut machine);
    fill(&mut machine);
    let mut ring = None;
    for used in &program.maps {
        match used {
            MapUse::External(name) if *name == map_name(BUFFER) => {
                let kind = interp::MapKind::Array { entries: 2 };
                ring = Some(machine.add_map(kind, 4, plan.buffers[0].geometry.region()));
            }
            MapUse::External(name) => {
                assert_eq!(name, control::MAP);
                let map = machine.add_map(interp::MapKind::Array { entries: 1 }, 4, control::SIZE);
                let mut page = vec![0; control::SIZE as usize];
                page[0] = 1;
                assert_eq!(machine.set_value(map, &[0; 4], 0, &page), 0);
            }
            MapUse::Private(spec) => {
                assert_eq!(spec.kind, MapKind::PerCpuArray);
                let entries = spec.entries;
                machine.add_map(interp::MapKind::PerCpuArray { entries }, spec.key, spec.value);
            }
        }
    }
    let ring: MapRef = ring.unwrap();
    let mut reader = Reader::over(&mut machine, ring, plan.buffers[0].geometry, 2);
    for context in contexts {
        if let Err(fault) = machine.run(&program.code, context) {
            panic!(
                "{fault}\n{}",
                kestrel_bpf::text::listing(&program.code, &["0", "1", "2"])
            );
        }
    }

    let table = EventTable::new(hook.classes(way));
    let mut pages = Vec::new();
    let now = machine.environment.clock;
    let rest = reader.with(&mut machine, |ring| rest(ring, 1, now, &table, &mut pages));
    assert_eq!(rest.unfinished, 0);
    print(&table, &pages)
}

fn print(table: &EventTable, pages: &[u8]) -> Printed {
    let symbols = || {
        let functions = [("vfs_read", 0x1000, None), ("ksys_read", 0x2000, Some("demo"))];
        let all = functions.map(|(name, at, module)| (0xffff_ffff_8100_0000 + at, 0x100, name, module));
        Symbols::new(all)
    };
    let mut processes = Processes::default();
    processes.insert(1234, "worker".to_owned());
    let mut text = Text::new(
        Style {
            nanoseconds: true,
            ..Style::default()
        },
        symbols(),
        processes.clone(),
    );
    let mut json = Json::new(symbols(), processes);
    let (mut lines, mut objects) = (Vec::new(), Vec::new());
    for page in pages.chunks(PAGE as usize) {
        for record in Packet::parse(page).unwrap().records(table) {
            text.record(&record.as_ref().unwrap().clone(), &mut lines);
            json.record(&record.unwrap(), &mut objects);
        }
    }
    Printed {
        text: String::from_utf8(lines).unwrap(),
        json: String::from_utf8(objects).unwrap(),
    }
}

fn classic(way: &PlannedStrategy) -> bool {
    matches!(way.mechanism, Mechanism::Tracepoint(attach::Tracepoint { .. }))
}

fn typed(way: &PlannedStrategy) -> bool {
    matches!(
        way.mechanism,
        Mechanism::TypedTracepoint(attach::TypedTracepoint { .. })
    ) && way.context.direct_loads
}

fn probing(way: &PlannedStrategy) -> bool {
    matches!(
        way.mechanism,
        Mechanism::TypedTracepoint(attach::TypedTracepoint { .. })
    ) && !way.context.direct_loads
}

const SWITCH: &str =
    "sched:sched_switch /args.prev_pid == 42/ { record(args.prev_comm, x = args.next_pid + 1) }";

/// The raw arguments of a switch from the one task to the other, and back.
fn raw_switches() -> [Vec<u8>; 2] {
    [words(&[0, PREV, NEXT, 1]), words(&[1, NEXT, PREV, 0])]
}

fn classic_switches() -> [Vec<u8>; 2] {
    let (prev, next) = (("prev task", 42, 120), ("next/0", 77, 98));
    [switch_entry(prev, 1, next), switch_entry(next, 0x100, prev)]
}

#[test]
fn a_filtered_switch_reads_the_same_on_every_way() {
    let ways = [
        run(SWITCH, Via::Classic, classic, &classic_switches()),
        run(SWITCH, Via::Raw, typed, &raw_switches()),
        run(SWITCH, Via::Auto, probing, &raw_switches()),
    ];
    for printed in ways {
        assert_eq!(
            printed.text,
            "          worker-1234    [001]      1.000000000: sched:sched_switch: prev_comm=prev task x=78\n"
        );
        assert_eq!(
            printed.json,
            "{\"time\":1000000000,\"cpu\":1,\"pid\":1200,\"tid\":1234,\"comm\":\"worker\",\"event\":\"sched:sched_switch\",\
             \"fields\":{\"prev_comm\":\"prev task\",\"x\":78}}\n"
        );
    }
}

#[test]
fn all_fields_of_a_switch_read_the_same_on_every_way() {
    let ways = [
        run("sched:sched_switch", Via::Classic, classic, &classic_switches()),
        run("sched:sched_switch", Via::Raw, typed, &raw_switches()),
        run("sched:sched_switch", Via::Raw, probing, &raw_switches()),
    ];
    let expected = [
        "prev_comm=prev task prev_pid=42 prev_prio=120 prev_state=S next_comm=next/0 next_pid=77 next_prio=98",
        "prev_comm=next/0 prev_pid=77 prev_prio=98 prev_state=R+ next_comm=prev task next_pid=42 next_prio=120",
    ];
    for printed in ways {
        let fields: Vec<&str> = printed
            .text
            .lines()
            .filter_map(|line| line.split_once("sched_switch: "))
            .map(|(_, fields)| fields)
            .collect();
        assert_eq!(fields, expected);
        assert_eq!(printed.json.lines().count(), 2);
    }
}

#[test]
fn a_function_with_a_string_of_the_process_and_a_stack() {
    let mut registers = [0; 21];
    // di, si, dx: file, buf, count (arch/x86/include/asm/ptrace.h).
    (registers[14], registers[13], registers[12]) = (0xffff_8880_0000_1000, USER, 500);
    let wanted = words(&registers);
    registers[12] = 5;
    let filtered = words(&registers);
    let printed = run(
        "kprobe:vfs_read /args.count > 100/ { record(args.count, s = str(args.buf), kstack) }",
        Via::Auto,
        |_| true,
        &[filtered, wanted],
    );
    assert_eq!(
        printed.text,
        "          worker-1234    [001]      1.000000000: kprobe:vfs_read: count=500 s=hello, user\n\
         \x20               ffffffff81001000 vfs_read+0x0\n\
         \x20               ffffffff81002000 ksys_read+0x0 [demo]\n"
    );
    assert_eq!(
        printed.json,
        "{\"time\":1000000000,\"cpu\":1,\"pid\":1200,\"tid\":1234,\"comm\":\"worker\",\"event\":\"kprobe:vfs_read\",\"fields\":\
         {\"count\":500,\"s\":\"hello, user\",\"kstack\":[\"vfs_read+0x0\",\"ksys_read+0x0 [demo]\"]}}\n"
    );
}

/// Rejections and the like underline the part of the text that an instruction comes from; what `-p` and `-g` add comes from none of it.
#[test]
fn code_that_options_add_comes_from_no_part_of_the_text() {
    let tree = tempfile::tempdir().unwrap();
    let catalog = kernel::build(tree.path());
    let predicate = "args.prev_pid == 77";
    for (text, parts) in [
        ("sched:sched_switch", ""),
        ("sched:sched_switch /args.prev_pid == 77/", predicate),
    ] {
        let options = kestrel::plan::Options {
            target: kestrel::session::process_filter::ProcessFilter::Processes(vec![42]),
            kernel_stack: true,
            ..kestrel::plan::Options::default()
        };
        let plan = plan(Source::Events(&[text.to_owned()]), &options, &catalog).unwrap();
        for way in &plan.hooks[0].strategies {
            let code = plan.hooks[0].compile(way, &plan, None).unwrap().code;
            let sources = code.lines.iter().map(|line| line.source);
            let inside: Vec<&str> = sources
                .filter(|s| s.start < s.end)
                .filter_map(|s| text.get(s.start as usize..s.end as usize))
                .filter(|part| *part != text)
                .collect();
            assert!(
                inside.iter().all(|part| parts.contains(part)),
                "{way}: {inside:?}"
            );
            assert!(
                parts.is_empty() || inside.contains(&"args.prev_pid"),
                "{way}: {inside:?}"
            );
        }
    }
}
