//! Expressions of any type in maps: what is accepted runs.

use crate::kernel;
use crate::sharing::{KERNEL, Maps};
use kestrel_bpf::interp::Space;
use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::parse_events;
use proptest::prelude::*;

/// Expressions that may be of any type, most of them of none.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "arg0",
        "arg2",
        "(int8)arg2",
        "(uint16)arg2",
        "(int32)arg2",
        "1",
        "-3",
        "0",
        "0xffffffff",
        "comm",
        "\"\"",
        "\"worker\"",
        "\"a text of some length\"",
        "kstr(arg0)",
        "kstr(arg0, 1)",
        "kstr(arg0, 7)",
        "kstr(arg1, 13)",
        "kstr(0, 3)",
        "@n",
        "@n[arg2]",
        "@t",
        "@t[comm]",
        "@p",
        "(int16 *)arg0",
        "(int64 *)arg1",
        "(char *)arg0",
        "(struct task_struct *)arg0",
        "((struct task_struct *)arg0)->comm",
        "((struct task_struct *)arg0)->numbers[1]",
        "((struct task_struct *)arg0)->pid",
        "PIDTYPE_TGID",
        "arg2 > 3",
        "$v",
        "nsecs",
        "tid",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", "&&", "||",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(l, op, r)| format!("({l} {op} {r})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, t, o)| format!("({c} ? {t} : {o})")),
            inner.clone().prop_map(|e| format!("!({e})")),
            inner.clone().prop_map(|e| format!("-({e})")),
            inner.clone().prop_map(|e| format!("*({e})")),
            (inner.clone(), inner.clone()).prop_map(|(e, i)| format!("({e})[{i}]")),
            inner.clone().prop_map(|e| format!("kstr({e}, 9)")),
            inner.prop_map(|e| format!("(uint8)({e})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(900))]

    /// Programs that the checker accepts compile, and run without a fault: in records, in keys and values of maps, in conditions.
    #[test]
    fn accepted_programs_run(one in expression(), two in expression(), shape in 0..9usize) {
        let statement = match shape {
            0 => format!("record(x = {one})"),
            1 => format!("@k[{one}]++"),
            2 => format!("@w = {one}"),
            3 => format!("@w[{one}] = {two}"),
            4 => format!("@k[{one}, {two}] = count()"),
            5 => format!("if ({one}) {{ record({two}) }}"),
            6 => format!("@p += {one}; $v = {two}; $v += 1; record($v)"),
            7 => format!("$w = {one}; $w++; @q = $w; @q -= 1; delete(@q[{two}])"),
            _ => format!("@h = hist({one}); @s = sum({two}); record({one}, {two})"),
        };
        let text = format!("e:x {{ $v = arg2; @n = 1; @n[arg2] = 2; @t = comm; @p = (int32 *)arg0; {statement} }}");
        let text = text.replace("@n[arg2]", "@m[arg2]").replace("@t[comm]", "@u[comm]").replace("@n = 1;", "@n = 1; @u[comm] = comm;");
        let (probe, found) = parse_events(&text);
        prop_assert!(found.is_empty(), "{text}: {found:?}");
        let (checked, _) = check(&probe, &kernel::kprobe(), true, &mut Globals::default());
        if checked.is_some() {
            let handler = text.strip_prefix("e:x ").unwrap_or_default();
            let mut maps = Maps::accepted(&[handler]);
            maps.machine.add_memory(Space::Kernel, KERNEL, &[0x41; 512]);
            maps.run(0, 0, &[KERNEL, KERNEL + 64, 7]);
            maps.run(0, 1, &[0, 3, u64::MAX]);
            for map in maps.globals.maps.clone() {
                maps.text(&map.name);
            }
        }
    }
}
