//! The machine against an independent interpreter, against the standard's words, and at its own edges.

use super::*;
use crate::asm::{Assembler, Operand};
use crate::code::{Code, MapRef};
use crate::isa::{Alu, Cond, Order, Reg, Width};
use proptest::prelude::*;

fn code(text: &str) -> Code {
    crate::text::parse(text, &["m", "n"]).unwrap()
}

fn run(text: &str) -> Result<u64, Reason> {
    Machine::new()
        .run(&code(text), &[1, 2, 3, 4, 5, 6, 7, 8])
        .map_err(|fault| fault.reason)
}

/// One random operation on r0–r9 (negation apart: the other interpreter panics on the smallest number).
#[derive(Clone, Debug)]
enum Step {
    Alu(Alu, bool, u8, Result<u8, i32>),
    Endian(Order, u8, u8),
    Skip(Cond, bool, u8, Result<u8, i32>),
}

fn step() -> impl Strategy<Value = Step> {
    use Alu::*;
    let alu = prop::sample::select(vec![Add, Sub, Mul, Div, Or, And, Lsh, Rsh, Mod, Xor, Mov, Arsh]);
    let cond = prop::sample::select(vec![
        Cond::Eq,
        Cond::Ne,
        Cond::Gt,
        Cond::Ge,
        Cond::Lt,
        Cond::Le,
        Cond::Set,
        Cond::Sgt,
        Cond::Sge,
        Cond::Slt,
        Cond::Sle,
    ]);
    let number = prop_oneof![any::<i32>(), -3..4_i32, Just(i32::MIN), Just(i32::MAX)];
    let operand = prop_oneof![(0_u8..10).prop_map(Ok), number.prop_map(Err)].boxed();
    let order = prop::sample::select(vec![Order::Little, Order::Big]);
    prop_oneof![
        6 => (alu, any::<bool>(), 0_u8..10, operand.clone()).prop_map(|(op, wide, dst, b)| Step::Alu(op, wide, dst, b)),
        1 => (order, prop::sample::select(vec![16_u8, 32, 64]), 0_u8..10).prop_map(|(o, bits, dst)| Step::Endian(o, bits, dst)),
        2 => (cond, any::<bool>(), 0_u8..10, operand).prop_map(|(c, wide, dst, b)| Step::Skip(c, wide, dst, b)),
    ]
}

fn emit(asm: &mut Assembler, step: &Step) {
    let reg = |n: u8| Reg::ALL[usize::from(n)];
    let width = |wide| if wide { Width::W64 } else { Width::W32 };
    let operand = |b: &Result<u8, i32>| match b {
        Ok(n) => Operand::Reg(reg(*n)),
        Err(imm) => (*imm).into(),
    };
    // The other interpreter sign-extends some 32-bit results: bring both to the standard's zero-extension.
    let narrow = |asm: &mut Assembler, wide: bool, dst: u8| {
        if !wide {
            asm.mov32(reg(dst), reg(dst));
        }
    };
    match step {
        Step::Alu(op, wide, dst, b) => {
            let mut b = operand(b);
            if let Operand::Imm(imm) = &mut b {
                match op {
                    Alu::Div | Alu::Mod => *imm |= 1,
                    Alu::Lsh | Alu::Rsh | Alu::Arsh => *imm &= if *wide { 63 } else { 31 },
                    _ => {}
                }
            }
            asm.alu(*op, width(*wide), reg(*dst), b);
            narrow(asm, *wide, *dst);
        }
        Step::Endian(order, bits, dst) => _ = asm.endian(*order, *bits, reg(*dst)),
        Step::Skip(cond, wide, dst, b) => {
            let over = asm.label();
            // The other interpreter zero-extends the immediate of wide unsigned comparisons; the kernel does not.
            let b = match (operand(b), cond) {
                (
                    Operand::Imm(imm),
                    Cond::Gt | Cond::Ge | Cond::Lt | Cond::Le | Cond::Eq | Cond::Ne | Cond::Set,
                ) if *wide => Operand::Imm(imm & i32::MAX),
                (b, _) => b,
            };
            asm.branch(*cond, width(*wide), reg(*dst), b, over);
            asm.add(reg(*dst), 12345).bind(over);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn arithmetic_agrees_with_rbpf(seeds in prop::array::uniform10(any::<u64>()), steps in prop::collection::vec(step(), 0..60)) {
        let mut asm = Assembler::new();
        for (register, seed) in Reg::ALL.into_iter().zip(seeds) {
            asm.constant(register, seed);
        }
        for step in &steps {
            emit(&mut asm, step);
        }
        for register in Reg::ALL.into_iter().take(10).skip(1) {
            asm.alu(Alu::Mul, Width::W64, Reg::R0, 31).alu(Alu::Xor, Width::W64, Reg::R0, register);
        }
        asm.exit();
        let code = asm.finish().unwrap();
        let bytes: Vec<u8> = code.insns.iter().flat_map(|insn| insn.to_bytes()).collect();
        let theirs = rbpf::EbpfVmNoData::new(Some(&bytes)).unwrap().execute_program().unwrap();
        prop_assert_eq!(Machine::new().run(&code, &[]).unwrap(), theirs, "{}", crate::text::listing(&code, &[]));
    }

    /// Whatever the bytes, a run ends in a number or a fault.
    #[test]
    fn any_bytes_are_survived(insns in prop::collection::vec(any::<[u8; 8]>(), 1..30), known in prop::collection::vec((0..crate::isa::TABLE.len(), 0_u8..11, 0_u8..11, -3_i16..9, any::<i32>()), 0..30)) {
        let mut insns: Vec<_> = insns.into_iter().map(crate::insn::Insn::from_bytes).collect();
        insns.splice(0..0, known.into_iter().map(|(at, dst, src, off, imm)| crate::isa::TABLE[at].encode(dst, src, off, imm)));
        let mut machine = Machine::new();
        machine.max_steps = 2000;
        let _ = machine.run(&Code { insns, ..Code::default() }, &[0; 64]);
    }
}

#[test]
fn corners_of_arithmetic_as_the_standard_says() {
    for (text, expected) in [
        ("r0 = -1\nw0 += 1\nexit", 0),
        ("r0 = -1\nw0 = -1\nexit", 0xffff_ffff),
        ("r0 = -1\nr1 = 0\nw0 %= w1\nexit", 0xffff_ffff),
        ("r0 = -7\nr0 s/= 2\nexit", -3_i64 as u64),
        ("r0 = -7\nr0 s%= 2\nexit", -1_i64 as u64),
        ("r0 = 5\nr1 = 0\nr0 s/= r1\nexit", 0),
        ("w0 = -2147483648\nw0 s/= -1\nexit", 0x8000_0000),
        ("r1 = 128\nr0 = (s8)r1\nexit", -128_i64 as u64),
        ("r1 = 128\nw0 = (s8)w1\nexit", 0xffff_ff80),
        ("r0 = 0x1122334455667788 ll\nr0 = bswap32 r0\nexit", 0x8877_6655),
        ("r0 = -8\nw0 s>>= 1\nexit", 0xffff_fffc),
        (
            "r2 = 255\n*(u8 *)(r10 -1) = r2\nr0 = *(s8 *)(r10 -1)\nexit",
            u64::MAX,
        ),
        ("*(u64 *)(r10 -8) = -2\nr0 = *(u32 *)(r10 -4)\nexit", 0xffff_ffff),
        ("r0 = *(u16 *)(r1 +6)\nexit", 0x0807),
        ("r1 = -1\nr0 = 1\nif r1 == -1 goto pc+1\nr0 = 2\nexit", 1),
        ("r1 = 5\nr0 = 1\nif r1 < -1 goto pc+1\nr0 = 2\nexit", 1),
        ("r0 = 0x8000000000000000 ll\nr0 = -r0\nexit", 1 << 63),
        ("r0 = -5\nw0 = -w0\nexit", 5),
        ("r0 = 5\nw0 = -w0\nexit", 0xffff_fffb),
        ("gotol end\nr0 = 1\nend:\nr0 = 2\nexit", 2),
    ] {
        assert_eq!(run(text), Ok(expected), "{text}");
    }
}

#[test]
fn atomics_fetch_and_exchange() {
    let with = |operation: &str| {
        run(&format!(
            "r0 = 7\nr2 = 5\n*(u64 *)(r10 -8) = 7\n{operation}\nr0 <<= 16\nr2 <<= 8\nr0 |= r2\nr3 = *(u64 *)(r10 -8)\nr0 |= r3\nexit"
        ))
        .unwrap()
    };
    assert_eq!(with("lock *(u64 *)(r10 -8) += r2"), 0x07_05_0c);
    assert_eq!(with("r2 = atomic64_fetch_add((u64 *)(r10 -8), r2)"), 0x07_07_0c);
    assert_eq!(with("r2 = atomic64_fetch_or((u64 *)(r10 -8), r2)"), 0x07_07_07);
    assert_eq!(with("r2 = atomic64_fetch_and((u64 *)(r10 -8), r2)"), 0x07_07_05);
    assert_eq!(with("r2 = atomic64_fetch_xor((u64 *)(r10 -8), r2)"), 0x07_07_02);
    assert_eq!(with("r2 = atomic_xchg((u32 *)(r10 -8), r2)"), 0x07_07_05);
    assert_eq!(with("r0 = atomic64_cmpxchg((u64 *)(r10 -8), r0, r2)"), 0x07_05_05);
    assert_eq!(
        with("r0 = 9\nr0 = atomic64_cmpxchg((u64 *)(r10 -8), r0, r2)"),
        0x07_05_07
    );
}

#[test]
fn faults_say_what_the_verifier_would() {
    let out = |region, offset, size, length| Reason::OutOfBounds {
        region,
        offset,
        size,
        length,
    };
    for (text, expected) in [
        ("exit", Reason::UninitialisedRegister { register: 0 }),
        ("r0 = r5\nexit", Reason::UninitialisedRegister { register: 5 }),
        ("r0 = 0", Reason::LeftProgram),
        ("goto pc-5", Reason::LeftProgram),
        (".insn 0xff 0 0 0 0", Reason::NotAnInstruction),
        ("r10 = 5", Reason::WroteFramePointer),
        ("r0 = *(u64 *)(r1 +1)\nexit", out("the context", 1, 8, 8)),
        ("r0 = *(u8 *)(r1 -1)\nexit", out("the context", -1, 1, 8)),
        ("*(u64 *)(r10 -4) = 1", out("the stack", 508, 8, 512)),
        ("*(u8 *)(r10 -513) = 1", out("the stack", -1, 1, 512)),
        (
            "r2 = 0\nr0 = *(u8 *)(r2 +8)",
            Reason::NullPointer { address: 8, size: 1 },
        ),
        (
            "call #9999",
            Reason::UnknownHelper {
                number: 9999,
                name: "unknown",
            },
        ),
        (
            "call kfunc nothing",
            Reason::UnknownKfunc {
                name: "nothing".into(),
            },
        ),
        (
            "r1 = map[0]\nr2 = 0\nr0 = *(u64 *)(r1 +0)",
            Reason::BadAddress {
                address: 0xfffe_0000_0000_0000,
                size: 8,
            },
        ),
        ("l:\ngoto l", Reason::TooManySteps { limit: 1_000_000 }),
        ("l:\ncall func l", Reason::TooDeep),
        (
            "r0 = 0\ncall kfunc bpf_preempt_disable\nr0 = 0\nexit",
            Reason::PreemptionOff { depth: 1 },
        ),
        ("call kfunc bpf_preempt_enable", Reason::PreemptionOn),
    ] {
        assert_eq!(run(text), Err(expected), "{text}");
    }
    let stack = run("*(u32 *)(r10 -8) = 1\nr0 = *(u64 *)(r10 -8)\nexit");
    assert!(
        matches!(stack, Err(Reason::UninitialisedStack { offset: -4, .. })),
        "{stack:?}"
    );
    assert!(matches!(
        run("*(u8 *)(r1 +0) = 1"),
        Err(Reason::Forbidden { what: "writes", .. })
    ));
    assert!(matches!(
        run("r2 = r10\nr2 += -7\nr3 = 0\nlock *(u32 *)(r2 +0) += r3"),
        Err(Reason::Misaligned { .. })
    ));
    let fault = Machine::new()
        .run(&code("r0 = 0\nr0 = *(u8 *)(r1 +0)"), &[])
        .unwrap_err();
    assert_eq!((fault.insn, fault.text.as_str()), (1, "r0 = *(u8 *)(r1 +0)"));
}

#[test]
fn registers_are_lost_in_calls_and_saved_in_local_ones() {
    assert_eq!(
        run("r1 = 1\ncall bpf_ktime_get_ns\nr0 = r1\nexit"),
        Err(Reason::UninitialisedRegister { register: 1 })
    );
    let text = "r6 = 40\nr1 = 2\n*(u64 *)(r10 -8) = 3\ncall func f\nr0 += r6\nr1 = *(u64 *)(r10 -8)\nr0 -= r1\nexit\n
        f:\nr6 = r1\nr6 += 3\n*(u64 *)(r10 -8) = 9\nr0 = r6\nexit";
    assert_eq!(run(text), Ok(42));
}

#[test]
fn maps_of_every_kind() {
    let add = code(
        "*(u32 *)(r10 -4) = 1\nr2 = r10\nr2 += -4\nr1 = map[m]\ncall bpf_map_lookup_elem\nif r0 == 0 goto make
         r1 = 1\nlock *(u64 *)(r0 +0) += r1\nr0 = 0\nexit
         make:\n*(u64 *)(r10 -16) = 100\nr3 = r10\nr3 += -16\nr2 = r10\nr2 += -4\nr1 = map[m]\nr4 = 1\ncall bpf_map_update_elem\nexit",
    );
    let key = 1_u32.to_le_bytes();
    let on = |kind| {
        let mut machine = Machine::new();
        let map = machine.add_map(kind, 4, 8);
        for cpu in [0, 0, 3] {
            machine.environment.cpu = cpu;
            let answer = machine.run(&add, &[]).unwrap();
            assert!(answer == 0 || answer as i64 == -7, "{answer}");
        }
        let at = |cpu| {
            machine
                .value(map, &key, cpu)
                .map(|v| u64::from_le_bytes(v.try_into().unwrap()))
        };
        (at(0), at(3))
    };
    assert_eq!(on(MapKind::Array { entries: 4 }), (Some(3), Some(3)));
    assert_eq!(on(MapKind::PerCpuArray { entries: 4 }), (Some(2), Some(1)));
    assert_eq!(on(MapKind::Hash { entries: 4 }), (Some(102), Some(102)));
    assert_eq!(on(MapKind::PerCpuHash { entries: 4 }), (Some(101), Some(1)));
    assert_eq!(on(MapKind::Array { entries: 1 }), (None, None));
    assert_eq!(on(MapKind::Hash { entries: 0 }), (None, None));
    let mut machine = Machine::new();
    let map = machine.add_map(MapKind::ReadOnlyArray { entries: 1 }, 4, 8);
    assert_eq!(machine.set_value(map, &[0; 4], 0, &[9; 8]), 0);
    let write = code("r1 = map_value[0] +0\nr0 = *(u8 *)(r1 +7)\n*(u8 *)(r1 +0) = 1\nexit");
    let fault = machine.run(&write, &[]).unwrap_err();
    assert_eq!(fault.insn, 3);
    assert!(matches!(fault.reason, Reason::Forbidden { .. }));
}

#[test]
fn probe_reads_know_whose_memory_it_is() {
    const KERNEL: u64 = 0xffff_8880_0000_1000;
    const USER: u64 = 0x7fff_0000_1000;
    let read = |helper: &str, address: u64, size: u32| {
        let mut machine = Machine::new();
        machine.add_memory(Space::Kernel, KERNEL, b"kernel\0");
        machine.add_memory(Space::User, USER, b"user");
        let buffer = machine.add_map(MapKind::Array { entries: 1 }, 4, 8);
        let text = format!("r1 = map_value[0] +0\nr2 = {size}\nr3 = {address:#x} ll\ncall {helper}\nexit");
        let answer = machine.run(&code(&text), &[]).unwrap() as i64;
        (answer, machine.value(buffer, &[0; 4], 0).unwrap())
    };
    assert_eq!(
        read("bpf_probe_read_kernel", KERNEL, 6),
        (0, b"kernel\0\0".to_vec())
    );
    assert_eq!(read("bpf_probe_read_kernel", KERNEL, 8), (-14, vec![0; 8]));
    assert_eq!(read("bpf_probe_read_kernel", USER, 4), (-14, vec![0; 8]));
    assert_eq!(
        read("bpf_probe_read_user", USER, 4),
        (0, b"user\0\0\0\0".to_vec())
    );
    assert_eq!(read("bpf_probe_read_user", KERNEL, 4), (-14, vec![0; 8]));
    assert_eq!(read("bpf_probe_read", USER, 4).0, 0);
    assert_eq!(
        read("bpf_probe_read_kernel_str", KERNEL, 8),
        (7, b"kernel\0\0".to_vec())
    );
    assert_eq!(
        read("bpf_probe_read_kernel_str", KERNEL, 4),
        (4, b"ker\0\0\0\0\0".to_vec())
    );
    assert_eq!(read("bpf_probe_read_user_str", USER, 8).0, -14);
    let direct = code("r1 = 0xffff888000001000 ll\nr0 = *(u8 *)(r1 +1)\nr2 = 0\nr2 = *(u64 *)(r2 +8)\nexit");
    let mut machine = Machine::new();
    machine.add_memory(Space::Kernel, KERNEL, b"kernel\0");
    assert!(matches!(
        machine.run(&direct, &[]).unwrap_err().reason,
        Reason::Forbidden { .. }
    ));
    machine.direct_kernel_reads = true;
    assert_eq!(machine.run(&direct, &[]), Ok(u64::from(b'e')));
}

#[test]
fn helpers_report_the_environment() {
    let mut machine = Machine::new();
    let pair = machine
        .run(&code("call bpf_get_current_pid_tgid\nexit"), &[])
        .unwrap();
    assert_eq!(pair, 1200 << 32 | 1234);
    let clock = code("call bpf_ktime_get_ns\nr6 = r0\ncall bpf_ktime_get_ns\nr0 -= r6\nexit");
    machine.environment.clock_step = 33;
    assert_eq!(machine.run(&clock, &[]), Ok(33));
    let comm = code("r1 = r10\nr1 += -16\nr2 = 16\ncall bpf_get_current_comm\nr0 = *(u64 *)(r10 -16)\nexit");
    assert_eq!(machine.run(&comm, &[]), Ok(u64::from_le_bytes(*b"worker\0\0")));
    let stack = code(
        "r2 = r10\nr2 += -64\nr3 = 64\nr4 = 1\ncall bpf_get_stack\nr1 = *(u64 *)(r10 -64)\nr0 += r1\nexit",
    );
    assert_eq!(machine.run(&stack, &[]), Ok(8 + 0xffff_ffff_8100_2000));
    machine.set_helper(crate::helper::GET_SMP_PROCESSOR_ID, |_, _| Ok(77));
    assert_eq!(
        machine.run(&code("call bpf_get_smp_processor_id\nexit"), &[]),
        Ok(77)
    );
}

#[test]
fn tail_calls_replace_the_program_and_events_are_kept() {
    let mut machine = Machine::new();
    let programs = machine.add_map(MapKind::ProgramArray { entries: 2 }, 4, 4);
    let events = machine.add_map(MapKind::RingBuffer, 0, 0);
    let emit = "*(u32 *)(r10 -4) = 0x01020304\nr1 = map[1]\nr2 = r10\nr2 += -4\nr3 = 4\nr4 = 0\n";
    machine.set_program(
        programs,
        1,
        code(&format!("{emit}call bpf_ringbuf_output\nr0 = 42\nexit")),
    );
    let call = |index| {
        code(&format!(
            "r2 = map[0]\nr3 = {index}\ncall bpf_tail_call\nr0 = 7\nexit"
        ))
    };
    assert_eq!(machine.run(&call(1), &[]), Ok(42));
    assert_eq!(machine.run(&call(0), &[]), Ok(7));
    assert_eq!(machine.take_events(events), [vec![4, 3, 2, 1]]);
    machine.set_program(programs, 0, call(0));
    assert_eq!(machine.run(&call(0), &[]), Ok(7));
}

/// An interrupt between any two instructions of a read-modify-write loses an addition exactly where it must.
#[test]
fn programs_interrupt_each_other_anywhere() {
    let add = code("r1 = map_value[0] +0\nr0 = *(u64 *)(r1 +0)\nr0 += 1\n*(u64 *)(r1 +0) = r0\nexit");
    let safe = code("r1 = map_value[0] +0\nr0 = 1\nr0 = atomic64_fetch_add((u64 *)(r1 +0), r0)\nexit");
    let sum = |program: &Code, at: usize| {
        let mut machine = Machine::new();
        let map = machine.add_map(MapKind::Array { entries: 1 }, 4, 8);
        let mut interrupt = |machine: &mut Machine, insn: usize| {
            if insn == at {
                machine.run(program, &[]).unwrap();
            }
        };
        machine.run_hooked(program, &[], &mut interrupt).unwrap();
        machine.value_u64(map, 0).unwrap()
    };
    let starts = |program: &Code| -> Vec<usize> {
        let mut seen = Vec::new();
        let mut machine = Machine::new();
        assert_eq!(machine.add_map(MapKind::Array { entries: 1 }, 4, 8), MapRef(0));
        machine
            .run_hooked(program, &[], &mut |_, at| seen.push(at))
            .unwrap();
        seen
    };
    assert_eq!(
        starts(&add)
            .into_iter()
            .map(|at| sum(&add, at))
            .collect::<Vec<_>>(),
        [2, 2, 1, 1, 2]
    );
    assert!(starts(&safe).into_iter().all(|at| sum(&safe, at) == 2));
}

/// A function that `bpf_loop` calls is interrupted as the program itself is, and its instructions count for the limit.
#[test]
fn functions_that_helpers_call_are_part_of_the_run() {
    let looping = |times: i32| {
        let mut asm = Assembler::new();
        let body = asm.label();
        asm.mov(Reg::R1, times).function(Reg::R2, body);
        asm.mov(Reg::R3, 0).mov(Reg::R4, 0);
        asm.call(crate::helper::LOOP).exit();
        asm.callback(body).mov(Reg::R0, 0).exit();
        asm.finish().unwrap()
    };
    let program = looping(3);
    let mut seen = Vec::new();
    let done = Machine::new()
        .run_hooked(&program, &[], &mut |_, at| seen.push(at))
        .unwrap();
    assert_eq!(done, 3);
    assert_eq!(seen, [0, 1, 3, 4, 5, 7, 8, 7, 8, 7, 8, 6]);
    let mut machine = Machine::new();
    machine.max_steps = 1000;
    let fault = machine.run(&looping(1 << 23), &[]).unwrap_err();
    assert_eq!(fault.reason, Reason::TooManySteps { limit: 1000 });
}
