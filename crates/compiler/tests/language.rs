//! Text all the way: what people write is parsed, checked, compiled, run in the interpreter, and what was recorded is what
//! C would have computed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;
mod support;

use kestrel_bpf::helper;
use kestrel_bpf::interp::{Arguments, Space as Memory};
use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::context::{Context, EventField, Source};
use kestrel_compiler::lang::diag::{Style, render};
use kestrel_compiler::lang::parse_events;
use support::run::{Bench, Seen};

const PREV: u64 = 0xffff_8880_0000_1000;
const NEXT: u64 = 0xffff_8880_0000_2000;
const SIGNAL: u64 = 0xffff_8880_0000_3000;
const FILE: u64 = 0xffff_8880_0000_4000;
const DENTRY: u64 = 0xffff_8880_0000_5000;
const NAME: u64 = 0xffff_8880_0000_6000;
const BUFFER: u64 = 0x7f00_0000_1000;

/// A program for `text` on an event.
#[track_caller]
fn bench(text: &str, context: &Context) -> Bench {
    let text = format!("e:x {text}");
    let (probe, found) = parse_events(&text);
    assert!(found.is_empty(), "{text}: {found:?}");
    let (checked, found) = check(&probe, context, true, &mut Globals::default());
    let Some(checked) = checked else {
        panic!("{}", render(&found, "x", &text, Style::default()));
    };
    let mut bench = Bench::new(&checked, context);
    bench.machine.direct_kernel_reads = context.direct_loads;
    bench
}

/// A struct in memory: values at offsets.
fn bytes(size: usize, values: &[(usize, &[u8])]) -> Vec<u8> {
    let mut all = vec![0; size];
    for (at, value) in values {
        all[*at..at + value.len()].copy_from_slice(value);
    }
    all
}

/// Two tasks with what they point to, laid out as `kernel::types` says.
fn with_tasks(bench: &mut Bench) {
    for (at, pid, comm) in [(PREV, 42_i32, b"bash\0junk"), (NEXT, -7, b"kworker/0")] {
        let task = bytes(
            136,
            &[
                (0, &0x1002_u32.to_le_bytes()),
                (4, &pid.to_le_bytes()),
                (12, comm),
                (32, &SIGNAL.to_le_bytes()),
                (40, &NEXT.to_le_bytes()),
                (56, &99_u64.to_le_bytes()),
                // low 5, mid 1000, sign -3, last 1
                (64, &(5_u64 | 1000 << 3 | 0b11101 << 32 | 1 << 63).to_le_bytes()),
                (72, &[10, 0, 0, 0, 11, 0, 0, 0, 12, 0, 0, 0, 13, 0, 0, 0]),
                (88, &1_u32.to_le_bytes()),
            ],
        );
        bench.machine.add_memory(Memory::Kernel, at, &task);
    }
    let limit = (8 + 7 * 16, 77_u64.to_le_bytes());
    let signal = bytes(264, &[(0, &3_i32.to_le_bytes()), (limit.0, &limit.1)]);
    bench.machine.add_memory(Memory::Kernel, SIGNAL, &signal);
}

/// The record of `record(x = EXPRESSION)` when `sched_switch` happens, directly and by probe reads.
#[track_caller]
fn switched(expression: &str) -> Seen {
    let direct = kernel::switch();
    let probed = Context {
        direct_loads: false,
        ..kernel::switch()
    };
    let [first, second] = [direct, probed].map(|context| {
        let mut bench = bench(&format!("{{ $two = 2; record(x = {expression}) }}"), &context);
        with_tasks(&mut bench);
        bench.run(&[0, PREV, NEXT, 5]).row().get("x").clone()
    });
    assert_eq!(first, second, "{expression}");
    first
}

#[test]
fn walks_read_the_members() {
    for (expression, expected) in [
        ("args.prev->pid", 42),
        ("args.next->pid", -7),
        ("args.prev->parent->pid", -7),
        ("args.prev->signal->nr_threads", 3),
        ("args.prev->signal->rlim[7].rlim_cur", 77),
        ("args.prev->stime", 99),
        ("args.prev->flags.low", 5),
        ("args.prev->flags.mid", 1000),
        ("args.prev->flags.sign", -3),
        ("args.prev->flags.last", 1),
        ("args.prev->numbers[3]", 13),
        ("args.prev->numbers[$two]", 12),
        ("args.prev->numbers[$two + 2]", 0),
        ("args.prev->signal->rlim[$two + 5].rlim_cur", 77),
        ("args.prev->kind == PIDTYPE_TGID", 1),
        ("args.prev->kind == \"PIDTYPE_PID\"", 0),
        ("args.prev_state + 0", 2),
        ("args.next_prio", 125),
        ("(args.prev->pid ? args.next : args.prev)->pid", -7),
        ("*&args.prev->pid", 42),
        ("((struct task_struct *)0)->pid", 0),
    ] {
        assert_eq!(switched(expression), Seen::Number(expected), "{expression}");
    }
    assert_eq!(switched("args.prev->comm"), Seen::String("bash".to_owned()));
    assert_eq!(switched("args.next_comm"), Seen::String("kworker/0".to_owned()));
}

#[test]
fn strings_compare_as_c_strings() {
    for (expression, expected) in [
        ("args.prev->comm == \"bash\"", 1),
        ("args.prev->comm == \"bas\"", 0),
        ("args.prev->comm == \"bashx\"", 0),
        ("args.prev->comm != \"bash\"", 0),
        ("args.next->comm == \"kworker/0\"", 1),
        ("args.prev->comm == args.prev_comm", 1),
        ("args.prev->comm == args.next->comm", 0),
        ("\"kworker/0\" == args.prev->parent->comm", 1),
        ("args.prev->comm == \"bash\" && args.prev->pid == 42 || 0", 1),
        ("probe == \"sched:sched_switch\"", 1),
    ] {
        assert_eq!(switched(expression), Seen::Number(expected), "{expression}");
    }
}

#[test]
fn a_text_that_could_not_be_read_equals_none() {
    for (expression, expected) in [
        ("kstr(0) == \"\"", 0),
        ("kstr(0) != \"\"", 1),
        ("kstr(0) == \"(fault)\"", 0),
        ("kstr(0, 3) == \"\"", 0),
        ("kstr(0) == kstr(0)", 0),
        ("kstr(0) != kstr(0)", 1),
        ("kstr(0) == args.prev->comm", 0),
        ("args.prev->comm == kstr(0, 4)", 0),
        ("kstr(args.prev->comm) == \"bash\"", 1),
        ("kstr(&args.prev->comm[4]) == \"\"", 1),
        ("($two ? kstr(0, 7) : \"x\") == \"\"", 0),
        ("($two ? kstr(&args.prev->comm[4], 7) : \"x\") == \"\"", 1),
        ("($two == 2 ? ($two ? kstr(0, 7) : \"x\") : \"y\") != \"\"", 1),
    ] {
        assert_eq!(switched(expression), Seen::Number(expected), "{expression}");
    }
    assert_eq!(switched("kstr(0)"), Seen::Fault);
    // The kernel's memory is not the process's.
    assert_eq!(called("kstr(arg1)"), Seen::Fault);
    assert_eq!(switched("$two ? kstr(0, 7) : \"x\""), Seen::Fault);
    assert_eq!(
        switched("$two ? \"x\" : kstr(0, 7)"),
        Seen::String("x".to_owned())
    );
}

#[test]
fn addresses_move_by_the_size_of_their_type() {
    let pointer = |ty: &str| format!("(({ty} *)0x1000)");
    for (ty, size) in [
        ("int8", 1),
        ("char", 1),
        ("uint16", 2),
        ("int32", 4),
        ("uint64", 8),
        ("struct task_struct", 136),
        ("void", 1),
        ("int16 *", 8),
        ("struct rlimit", 16),
        ("enum pid_type", 4),
        ("pid_t", 4),
    ] {
        let p = pointer(ty);
        for (expression, expected) in [
            (format!("(uint64)({p} + 3)"), 0x1000 + 3 * size),
            (format!("(uint64)(3 + {p})"), 0x1000 + 3 * size),
            (format!("(uint64)({p} - 3)"), 0x1000 - 3 * size),
            (format!("(uint64)({p} + (int32)-$two)"), 0x1000 - 2 * size),
            (format!("({p} + 7) - {p}"), 7),
            (format!("{p} - ({p} + $two)"), -2),
            (format!("{p} < {p} + 1"), 1),
        ] {
            assert_eq!(switched(&expression), Seen::Number(expected), "{expression}");
        }
        for (statement, expected) in [
            ("$p += 3", 3),
            ("$p -= 3", -3),
            ("$p++", 1),
            ("++$p", 1),
            ("$p--", -1),
            ("--$p", -1),
            ("$p = $p + 1", 1),
            ("$p += (int8)-1", -1),
        ] {
            let text = format!("{{ $p = {p}; {statement}; record(x = (uint64)$p) }}");
            let seen = bench(&text, &kernel::switch())
                .run(&[0, PREV, NEXT, 5])
                .row()
                .number("x");
            assert_eq!(seen, 0x1000 + expected * size, "{text}");
        }
    }
    assert_eq!(switched("(args.prev + 1)->pid - 0"), Seen::Number(0));
    assert_eq!(switched("*(&args.prev->numbers[1] + 2)"), Seen::Number(13));
    assert_eq!(switched("(&args.prev->numbers[1])[-1]"), Seen::Number(10));
    assert_eq!(
        switched("&args.prev->numbers[3] - &args.prev->numbers[1]"),
        Seen::Number(2)
    );
}

/// The record of `record(x = EXPRESSION)` when `vfs_read(FILE, BUFFER, 10, 0x12345)` is called.
#[track_caller]
fn called(expression: &str) -> Seen {
    let mut bench = bench(&format!("{{ record(x = {expression}) }}"), &kernel::kprobe());
    let file = bytes(
        40,
        &[
            (16, &DENTRY.to_le_bytes()),
            (24, &4096_u64.to_le_bytes()),
            (34, b"tail\0"),
        ],
    );
    bench.machine.add_memory(Memory::Kernel, FILE, &file);
    let name = NAME.to_le_bytes();
    bench.machine.add_memory(
        Memory::Kernel,
        DENTRY,
        &bytes(16, &[(0, &6_u32.to_le_bytes()), (8, &name)]),
    );
    bench.machine.add_memory(Memory::Kernel, NAME, b"passwd\0");
    bench.machine.add_memory(Memory::User, BUFFER, b"hello\0");
    let mut registers = [0; 21];
    (registers[14], registers[13], registers[12], registers[11]) = (FILE, BUFFER, 10, 0x12345);
    (registers[9], registers[8]) = (u64::MAX - 4, 1 << 63);
    bench.run(&registers).row().get("x").clone()
}

#[test]
fn arithmetic_is_that_of_bpftrace_in_64_bits() {
    for (expression, expected) in [
        ("arg2", 10),
        ("args.flags", 0x2345),
        ("(uint8)arg3", 0x45),
        ("(int8)(arg3 | 0x80)", -59),
        ("arg2 - 11 > 0", 0),
        ("(int64)arg2 - 11 > 0", 0),
        ("args.flags - 0x2346", -1),
        ("(int64)arg4", -5),
        ("(int64)arg4 / 2", -2),
        ("(int64)arg4 % 3", -2),
        ("(int64)arg4 >> 1", (1 << 63) - 3),
        ("arg4 >> 1", (1 << 63) - 3),
        ("arg4 / 2", (1 << 63) - 3),
        ("arg4 < 5", 0),
        ("(int64)arg4 < 5", 1),
        ("(int32)arg4 < 0", 1),
        ("(uint32)arg4", 0xffff_fffb),
        ("arg2 / (arg2 - 10)", 0),
        ("~arg2 & 0xff", 0xf5),
        ("-arg2", (1 << 64) - 10),
        ("-(int64)arg2", -10),
        ("arg2 - 11", -1),
        ("(int64)arg4 >> 63", 1),
        ("!arg2", 0),
        ("!!arg2", 1),
        ("arg2 == 10 ? 3 : 4", 3),
        ("arg2 ?: 4", 10),
        ("arg5 ?: 4", 1 << 63),
        ("(arg2 == 11) ?: 4", 4),
        ("arg2 && 0 || arg2 > 9 && arg3 != 0", 1),
        ("1 + 2 * arg2 << 1 | 1", 43),
        ("arg2 == 10 == 1", 1),
        ("(bool)arg2", 1),
        ("arg0 + 8", i128::from(FILE) + 8),
        ("(uint64)(args.file + 1)", i128::from(FILE) + 40),
        ("(uint64)&args.file->f_pos", i128::from(FILE) + 24),
        ("*(uint64 *)(arg0 + 24)", 4096),
        ("((uint64 *)arg0)[3]", 4096),
        ("((struct file *)arg0)->f_path.dentry->d_name.len", 6),
        ("sizeof(struct file) + offsetof(struct file, f_path.dentry)", 56),
        ("args.file->tail[1]", 0x61),
        ("func == \"vfs_read\"", 1),
        ("str(arg1) == \"hello\"", 1),
        ("str(arg1, 3) == \"hel\"", 1),
        ("str(arg1, arg2 - 7) == \"hel\"", 1),
        ("str(arg1, arg2 - 6) == \"hel\"", 0),
        ("(arg2 > 5 ? str(arg1, arg2 - 8) : comm) == \"he\"", 1),
        ("str(arg1) == \"hel\"", 0),
        ("str(args.file->f_path.dentry->d_name.name) != \"passwd\"", 0),
        ("(arg2 > 5 ? \"big\" : \"small\") == \"big\"", 1),
        ("(arg2 > 5 ? str(arg1) : comm) == \"hello\"", 1),
        ("(arg2 < 5 ? str(arg1, 9) : comm) == comm", 1),
        ("4k + 1ms", 1_004_096),
    ] {
        assert_eq!(called(expression), Seen::Number(expected), "{expression}");
    }
    for (expression, expected) in [
        ("str(arg1)", "hello"),
        ("str(args.buf, 2)", "he"),
        ("str(args.buf, arg2 - 7)", "hel"),
        (
            "str(args.file->f_path.dentry->d_name.name, args.file->f_path.dentry->d_name.len - 4)",
            "pa",
        ),
        ("str((char *)arg1)", "hello"),
        ("str(uptr(arg1))", "hello"),
        ("str(args.file->f_path.dentry->d_name.name)", "passwd"),
        ("str(args.file->tail)", "tail"),
        ("func", "vfs_read"),
        ("\"fixed\"", "fixed"),
        ("arg2 > 5 ? str(arg1) : \"no\"", "hello"),
        ("arg2 < 5 ? str(arg1) : \"no\"", "no"),
        ("arg2 < 5 ? \"a\" : arg2 > 5 ? str(arg1, 4) : \"b\"", "hell"),
        ("arg2 > 5 ? arg2 > 50 ? \"x\" : \"much\" : str(arg1)", "much"),
        ("str(arg2 > 5 ? str(arg1) : \"no\", 2)", "he"),
    ] {
        assert_eq!(
            called(expression),
            Seen::String(expected.to_owned()),
            "{expression}"
        );
    }
}

#[test]
fn variables_branches_and_kinds_of_record() {
    let text = "/arg2 > 1/ {
        $n = arg2;
        unroll(3) { $n += 2 }
        if ($n > 20) { record(big = $n) } else if ($n == 16) { $n--; record(small = $n, arg3) } else { return }
        let $k: uint8 = $n * 100;
        record(wrapped = $k)
    }";
    let mut bench = bench(text, &kernel::kprobe());
    let mut registers = [0; 21];
    let mut run = |count: u64| {
        registers[12] = count;
        let rows = bench.run(&registers).rows();
        let shown = rows
            .iter()
            .map(|r| (r.number, r.fields[0].0.clone(), r.fields[0].1.clone()));
        shown
            .map(|(number, name, value)| format!("{number} {name} {value:?}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1), [""; 0]);
    assert_eq!(run(10), ["2 small Number(15)", "3 wrapped Number(220)"]);
    assert_eq!(run(11), [""; 0]);
    assert_eq!(run(50), ["1 big Number(56)", "3 wrapped Number(224)"]);
}

#[test]
fn a_signal_is_sent_where_the_handler_says_so() {
    let text = "/arg2 > 1/ { if (arg2 == 5) { signal(\"STOP\") } signal(arg2 + 1); record(arg2) }";
    let mut bench = bench(text, &kernel::kprobe());
    for (count, sent) in [(1, &[][..]), (5, &[19, 6]), (9, &[19, 6, 10])] {
        let mut registers = [0; 21];
        registers[12] = count;
        bench.run(&registers);
        assert_eq!(bench.machine.environment.signals, sent);
    }
}

/// Where an event is of no process, a signal would meet the tracer or a bystander.
#[test]
fn a_signal_needs_an_event_of_the_process_that_is_meant() {
    let named = |name: &str, context: Context| Context {
        name: name.to_owned(),
        ..context
    };
    for (context, kind, whom) in [
        (named("begin", kernel::kprobe()), "special", "the tracer itself"),
        (named("test:it", kernel::kprobe()), "special", "the tracer itself"),
        (
            named("self:signal:SIGUSR1", kernel::kprobe()),
            "special",
            "the tracer itself",
        ),
        (
            named("interval:s:1", kernel::kprobe()),
            "interval",
            "whatever process happens to run",
        ),
        (
            named("iter:task", kernel::iterator()),
            "iter",
            "the process that reads the iterator",
        ),
    ] {
        let (probe, _) = parse_events("e:x { signal(9) }");
        let (_, found) = check(&probe, &context, true, &mut Globals::default());
        let message = format!("signal() can not be used for this probetype {kind}");
        assert_eq!(found[0].message, message);
        assert!(found[0].hints.concat().contains(whom), "{found:?}");
    }
}

/// A walk gives its objects as pointers of the context, and comes once more without one; what was read of the context is no address then.
#[test]
fn iterators_read_the_objects_of_their_context() {
    let direct = kernel::iterator();
    let probed = Context {
        direct_loads: false,
        ..kernel::iterator()
    };
    for context in [direct, probed] {
        let text = "/ctx.task != 0/ { record(x = ctx.task.pid, y = args.task->parent->pid, fd = ctx.fd) }";
        let mut bench = bench(text, &context);
        with_tasks(&mut bench);
        // The kernel leaves the upper half of a smaller parameter as it was.
        let row = bench.run(&[BUFFER, PREV, 0xdead_beef_0000_0007]).row();
        assert_eq!((row.number("x"), row.number("y"), row.number("fd")), (42, -7, 7));
        assert!(bench.run(&[BUFFER, 0, 0]).rows().is_empty());
    }
}

/// Output in the file of a pinned iterator: text as it is, formats with their numbers and the strings that their addresses mean.
#[test]
fn a_pinned_iterator_has_the_kernel_write_its_output() {
    let walk = kernel::iterator();
    let mut fields = walk.fields.clone();
    fields.push(EventField {
        name: "file".to_owned(),
        source: Source::Argument {
            index: 0,
            trusted: true,
        },
        ..fields[0].clone()
    });
    let context = Context {
        fields,
        seq_file: Some("file".to_owned()),
        ..walk
    };
    let run = |text: &str| {
        let mut bench = bench(text, &context);
        with_tasks(&mut bench);
        bench
            .machine
            .set_helper(helper::SEQ_WRITE, |m, Arguments([file, from, size, ..])| {
                assert_eq!(file, BUFFER);
                let bytes = m.read_program_memory(from, size)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                m.environment.printed.push(text);
                Ok(0)
            });
        bench.machine.set_helper(
            helper::SEQ_PRINTF,
            |m, Arguments([file, format, size, from, bytes])| {
                assert_eq!(file, BUFFER);
                let format = m.read_program_memory(format, size)?;
                assert_eq!(format.last(), Some(&0));
                let format = String::from_utf8_lossy(&format[..format.len() - 1]).into_owned();
                let mut line = format.clone();
                for word in m.read_program_memory(from, bytes)?.chunks(8) {
                    let word = u64::from_le_bytes(word.try_into().unwrap());
                    line += &match format.contains('s') {
                        true => {
                            let text = m.read_program_memory(word, 16)?;
                            let text: Vec<u8> = text.into_iter().take_while(|byte| *byte != 0).collect();
                            format!(" <{}>", String::from_utf8_lossy(&text))
                        }
                        false => format!(" <{}>", word.cast_signed()),
                    };
                }
                m.environment.printed.push(line);
                Ok(0)
            },
        );
        bench.run(&[BUFFER, PREV, 7]);
        assert!(bench.rows().is_empty(), "nobody reads records");
        bench.machine.environment.printed.clone()
    };
    assert_eq!(
        run("{ printf(\"%-16s|%5d|%hd\\n\", ctx.task.comm, ctx.task.pid, ctx.fd + 0x18000); }"),
        ["%-16s <bash>", "|%5d|%d\n <42> <-32761>"]
    );
    assert_eq!(
        run("{ print(ctx.fd); printf(\"µ%c\", 65) }"),
        ["%llu\n <7>", "µ", "A"]
    );
    for (text, why) in [
        ("{ printf(\"%s\", kstack) }", "cannot write"),
        ("{ printf(\"%#x\", ctx.fd) }", "write 0x%x"),
        (
            "{ printf(\"%d\", ctx.task.comm) }",
            "unsupported format specifier",
        ),
        ("{ print((1, 2)) }", "cannot write"),
        ("{ exit() }", "a pinned iterator outlives this command"),
        ("{ record(pid) }", "a pinned iterator outlives this command"),
    ] {
        let text = format!("e:x {text}");
        let (probe, _) = parse_events(&text);
        let (checked, found) = check(&probe, &context, true, &mut Globals::default());
        let shown = render(&found, "x", &text, Style::default());
        assert!(checked.is_none() && shown.contains(why), "{text}: {shown}");
    }
}
