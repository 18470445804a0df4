//! Predicates, variables, branches, and more values than registers.

use crate::support::run::Bench;
use crate::support::tree::*;
use crate::{KERNEL, text};
use kestrel_bpf::interp::Space as Memory;
use kestrel_compiler::check::tree::*;
use kestrel_trace::layout::FieldType;

#[test]
fn predicates_decide_and_share_the_identity_call() {
    let is = |n| eq(pid(), num(n));
    let cases = [
        (is(1200), true),
        (is(1), false),
        (not(is(1)), true),
        (and(is(1200), eq(arg(0), num(3))), true),
        (and(is(1200), eq(arg(0), num(4))), false),
        (or(is(1), eq(arg(0), num(3))), true),
        (or(is(1), eq(arg(0), num(4))), false),
        (
            or(and(is(1), is(1200)), and(is(1200), not(eq(arg(0), num(9))))),
            true,
        ),
        (num(0), false),
        (num(2), true),
    ];
    for (predicate, expected) in cases {
        let body = vec![record(vec![("x", int(4, false), arg(0))])];
        let mut bench = Bench::new(&probe(Some(predicate.clone()), body), &context());
        let rows = bench.run(&[3]).rows();
        assert_eq!(!rows.is_empty(), expected, "{predicate:?}");
    }
    let body = vec![record(vec![("x", int(4, false), arg(0))])];
    let bench = Bench::new(&probe(Some(is(1200)), body), &context());
    assert_eq!(
        bench.listing().matches("call bpf_get_current_pid_tgid").count(),
        1
    );
}

#[test]
fn more_live_values_than_registers() {
    let value = |i: u64| {
        binary(
            BinaryOp::Multiply,
            load(arg(0), i as i32 * 8, 8, false, Access::Kernel),
            num(i + 1),
        )
    };
    let names: Vec<String> = (0..20).map(|i| format!("f{i}")).collect();
    let fields = names
        .iter()
        .zip(0..)
        .map(|(name, i)| (name.as_str(), int(8, false), value(i)));
    let sum = (0..20)
        .map(value)
        .reduce(|a, b| binary(BinaryOp::Add, a, b))
        .expect("some");
    let nested = (0..20)
        .rev()
        .map(value)
        .reduce(|a, b| binary(BinaryOp::Subtract, b, a))
        .expect("some");
    let mut fields: Vec<_> = fields.collect();
    fields.push(("sum", int(8, false), sum));
    fields.push(("nested", int(8, false), nested));
    let mut bench = Bench::new(&probe(None, vec![record(fields)]), &context());
    let memory: Vec<u8> = (0..20u64).flat_map(|i| (i * 1000 + 7).to_le_bytes()).collect();
    bench.machine.add_memory(Memory::Kernel, KERNEL, &memory);
    let row = bench.run(&[KERNEL]).row();
    let expected = |i: u64| (i * 1000 + 7) * (i + 1);
    for (name, i) in names.iter().zip(0..) {
        assert_eq!(row.number(name), expected(i).into(), "{name}");
    }
    assert_eq!(row.number("sum"), (0..20).map(expected).sum::<u64>().into());
    let nested = (0..20)
        .rev()
        .map(expected)
        .reduce(|a, b| b.wrapping_sub(a))
        .expect("some");
    assert_eq!(row.number("nested"), nested.into());
}

#[test]
fn arrays_and_large_bytes() {
    let array = FieldType::Array {
        element: Box::new(int(4, false)),
        count: 3,
    };
    let body = vec![record(vec![
        ("big", text(100), bytes(arg(0), 0, 100, Access::Kernel)),
        ("small", text(13), bytes(arg(0), 1, 13, Access::Kernel)),
        ("inside", text(7), bytes(ctx(), 9, 7, Access::Context)),
        (
            "known",
            text(10),
            expr(ExprKind::ConstantBytes(b"constant\0\0".to_vec())),
        ),
        ("after", int(4, false), num(0x0102_0304)),
    ])];
    assert_eq!(array.tail_max(), 0);
    let mut bench = Bench::new(&probe(None, body), &context());
    let memory: Vec<u8> = (0..100).map(|i| b'a' + i % 26).collect();
    bench.machine.add_memory(Memory::Kernel, KERNEL, &memory);
    let mut words = KERNEL.to_le_bytes().to_vec();
    words.extend(b"_context");
    let row = bench.run_bytes(&words).row();
    assert_eq!(row.text("big").as_bytes(), memory);
    assert_eq!(
        (row.text("small"), row.text("inside"), row.text("known")),
        ("bcdefghijklmn", "context", "constant")
    );
    assert_eq!(row.number("after"), 0x0102_0304);
}

#[test]
fn variables_branches_and_returns() {
    let variable = VariableId(0);
    let at = |kind| Statement {
        kind,
        span: Default::default(),
    };
    let get = || expr(ExprKind::Variable(variable));
    let set = |value| at(StatementKind::Set { variable, value });
    let greater = |n| compare(CompareOp::Greater, true, arg(0), num(n));
    let body = vec![
        at(StatementKind::If {
            condition: greater(10),
            then: vec![set(num(100)), set(binary(BinaryOp::Add, get(), arg(0)))],
            otherwise: vec![at(StatementKind::If {
                condition: greater(5),
                then: vec![at(StatementKind::Return)],
                otherwise: vec![],
            })],
        }),
        record(vec![("x", int(8, true), get())]),
    ];
    let mut tree = probe(None, body);
    tree.variables.push(Variable {
        name: "x".to_owned(),
        ty: Type::I64,
        size: 8,
    });
    let mut bench = Bench::new(&tree, &context());
    assert_eq!(bench.run(&[11]).row().number("x"), 111);
    assert!(bench.run(&[7]).rows().is_empty());
    assert_eq!(bench.run(&[-3i64 as u64]).row().number("x"), 0);
}
