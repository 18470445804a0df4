//! Records: numbers of events, layouts, what the sink asks for.

use crate::KERNEL;
use crate::support::bump::Bump;
use crate::support::run::{Bench, SELECTED};
use crate::support::tree::*;
use kestrel_bpf::interp::Space as Memory;
use kestrel_compiler::context::{EventNumber, Selector};
use kestrel_trace::layout::{FieldType, Space};

#[test]
fn a_record_carries_number_pid_tid_and_arguments() {
    let body = vec![record(vec![
        ("nr", int(8, true), arg(1)),
        ("regs", int(8, false), arg(0)),
    ])];
    let mut bench = Bench::new(&probe(None, body), &context());
    let row = bench.run(&[0xffff_ffff_0000_0001, -5i64 as u64]).row();
    assert_eq!((row.number, row.pid, row.tid), (7, 1200, 1234));
    assert_eq!(row.number("nr"), -5);
    assert_eq!(row.number("regs"), 0xffff_ffff_0000_0001);
}

#[test]
fn a_set_of_events_is_distinguished_by_a_value() {
    let mut context = context();
    context.number = EventNumber::Selected { first: 1, stride: 1 };
    context.selector = Some(Selector {
        value: "id".to_owned(),
        map: "numbers".to_owned(),
    });
    let mut checked = probe(None, vec![record(vec![("x", int(8, false), arg(0))])]);
    checked.selector = Some(arg(1));
    let mut bench = Bench::new(&checked, &context);
    let numbers = bench.numbers.unwrap();
    bench
        .machine
        .set_value(numbers, &5u32.to_le_bytes(), 0, &SELECTED.to_le_bytes());
    // Wanted, known but not wanted, beyond the map.
    let row = bench.run(&[9, 5]).row();
    assert_eq!((row.number, row.number("x")), (SELECTED, 9));
    assert!(bench.run(&[9, 4]).rows().is_empty());
    assert!(bench.run(&[9, 16]).rows().is_empty());
}

#[test]
fn the_number_may_come_from_the_attachment() {
    let mut context = context();
    context.number = EventNumber::Cookie {
        first: 100,
        stride: 1,
    };
    let body = vec![record(vec![("x", int(8, false), arg(0))])];
    let mut bench = Bench::new(&probe(None, body), &context);
    bench.machine.environment.cookie = 21;
    let row = bench.run(&[5]).row();
    assert_eq!((row.number, row.number("x")), (121, 5));
}

#[test]
fn preemption_is_off_only_while_it_matters() {
    let mut context = context();
    context.preemptible = true;
    let sink = Bump {
        preemption_off: true,
        ..Bump::default()
    };
    let body = vec![record(vec![("x", int(8, false), arg(0))])];
    let tree = probe(Some(eq(arg(0), num(1))), body);
    let mut bench = Bench::with_sink(&tree, &context, sink);
    bench.run(&[0]);
    assert_eq!(bench.machine.preemption(), (0, 0));
    bench.run(&[1]);
    assert_eq!(bench.machine.preemption(), (1, 0));
    // Also where the sink refuses.
    for _ in 0..2000 {
        bench.run(&[1]);
    }
    assert_eq!(bench.machine.preemption(), (2001, 0));
    context.features.preempt_disable = false;
    let bench = Bench::with_sink(&tree, &context, sink);
    assert!(bench.program.uses.kfuncs.is_empty());
}

#[test]
fn a_record_too_large_for_the_sink_is_an_error() {
    let strings = |count: usize, max| {
        let names = [
            "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        ];
        let fields = names.iter().take(count);
        let fields = fields.map(|n| (*n, FieldType::String { max }, string(arg(0), Space::User, max)));
        probe(None, vec![record(fields.collect())])
    };
    let refused = kestrel_compiler::compile(&strings(14, 300), &context(), &Bump::default());
    assert!(refused.is_err_and(|e| e.to_string().contains("4248")));
    let tail = kestrel_compiler::compile(&strings(18, 512), &context(), &Bump::default());
    assert!(tail.is_err_and(|e| e.to_string().contains("at most")));
}

#[test]
fn records_of_different_fields_have_numbers_of_their_own() {
    let body = vec![
        record(vec![("x", int(8, false), arg(0))]),
        record(vec![
            (
                "s",
                FieldType::String { max: 9 },
                string(arg(1), Space::Kernel, 9),
            ),
            ("y", int(1, true), arg(0)),
        ]),
    ];
    let mut bench = Bench::new(&probe(None, body), &context());
    bench.machine.add_memory(Memory::Kernel, KERNEL, b"second\0");
    let rows = bench.run(&[0xfe, KERNEL]).rows();
    assert_eq!(rows.iter().map(|r| r.number).collect::<Vec<_>>(), [7, 8]);
    assert_eq!(rows[0].number("x"), 0xfe);
    assert_eq!((rows[1].text("s"), rows[1].number("y")), ("second", -2));
}

#[test]
fn preemption_is_off_from_the_first_instruction_to_the_last_where_the_sink_asks_for_it() {
    let mut context = context();
    context.preemptible = true;
    let sink = Bump {
        preemption_off: true,
        whole: true,
        ..Bump::default()
    };
    let body = vec![record(vec![("x", int(8, false), arg(0))])];
    let tree = probe(Some(eq(arg(0), num(1))), body);
    let mut bench = Bench::with_sink(&tree, &context, sink);
    // The interpreter refuses an end with preemption or interrupts off; records do not switch it once more.
    bench.run(&[0]);
    assert_eq!(bench.machine.preemption(), (1, 0));
    assert_eq!(bench.run(&[1]).row().number("x"), 1);
    assert_eq!(bench.machine.preemption(), (2, 0));
    for _ in 0..2000 {
        bench.run(&[1]);
    }
    assert_eq!(bench.machine.preemption(), (2002, 0));
    let called: Vec<&str> = bench.program.uses.kfuncs.iter().map(String::as_str).collect();
    assert_eq!(
        called,
        [
            "bpf_local_irq_restore",
            "bpf_local_irq_save",
            "bpf_preempt_disable",
            "bpf_preempt_enable"
        ]
    );
}
