//! The machine code of a place that emits an event: one instruction more while there is no listener, which reads no memory.
#![cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(miri),
    not(feature = "flag-keys")
))]
#![allow(clippy::unwrap_used, unsafe_code, reason = "a test that reads code")]

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register,
};

kestrel_tracepoint::events! {
    group code;

    event hot(a: u32, b: u64) { a: u32 = a, b: u64 = b } print "{a} {b}";
}

/// The key is the program's, and its tests run side by side.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[inline(never)]
fn without(a: u32, b: u64) -> u64 {
    std::hint::black_box(b).wrapping_mul(u64::from(a))
}

#[inline(never)]
fn with(a: u32, b: u64) -> u64 {
    let b = std::hint::black_box(b);
    trace_hot(a, b);
    b.wrapping_mul(u64::from(a))
}

#[inline(never)]
fn with_costly_arguments(a: u32, b: u64) -> u64 {
    let b = std::hint::black_box(b);
    trace_hot!(
        a,
        std::fs::read("/proc/self/stat").map_or(0, |bytes| bytes.len() as u64)
    );
    b.wrapping_mul(u64::from(a))
}

/// A function's instructions from its entry to its return, straight on.
fn straight(function: fn(u32, u64) -> u64) -> Vec<Instruction> {
    let at = function as usize;
    // SAFETY: code of this program, followed by more of it.
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, 256) };
    let mut decoder = Decoder::with_ip(64, bytes, at as u64, DecoderOptions::NONE);
    let mut all = Vec::new();
    loop {
        let instruction = decoder.decode();
        all.push(instruction);
        match instruction.flow_control() {
            FlowControl::Return => return all,
            FlowControl::UnconditionalBranch => panic!("{all:?} leads away"),
            _ => {}
        }
    }
}

fn codes(instructions: &[Instruction]) -> Vec<Code> {
    instructions.iter().map(Instruction::code).collect()
}

/// The codes but for those that make room on the stack and keep registers there.
fn without_frame(instructions: &[Instruction]) -> Vec<Code> {
    let is_frame = |instruction: &&Instruction| {
        let of_stack = instruction.op0_register() == Register::RSP;
        of_stack || matches!(instruction.code(), Code::Push_r64 | Code::Pop_r64)
    };
    let rest = instructions.iter().filter(|instruction| !is_frame(instruction));
    rest.map(Instruction::code).collect()
}

/// With optimization: without it an inlined function is one more call.
#[test]
fn a_place_is_one_instruction_that_reads_no_memory() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let plain = without_frame(&straight(without));
    for function in [with as fn(u32, u64) -> u64, with_costly_arguments] {
        let code = straight(function);
        let at = code
            .iter()
            .position(|instruction| instruction.code() == Code::Test_EAX_imm32)
            .unwrap_or_else(|| panic!("no key in {code:?}"));
        let key = code[at];
        let mut info = InstructionInfoFactory::new();
        let used = info.info(&key);
        assert!(used.used_memory().is_empty());
        let writes = |access| matches!(access, OpAccess::Write | OpAccess::ReadWrite);
        assert!(
            !used
                .used_registers()
                .iter()
                .any(|register| writes(register.access())),
            "{key:?}"
        );
        assert!(!code.iter().any(|instruction| matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        )));
        // A function that may call has a frame, whatever it calls, and keeps a value in another register.
        let mut ours = without_frame(&code);
        ours.retain(|code| *code != Code::Test_EAX_imm32);
        assert!(ours.len() <= plain.len() + 1, "{ours:?}\n{plain:?}");
    }
}

#[test]
fn an_enabled_key_is_a_jump_and_a_disabled_one_the_first_instruction_again() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = codes(&straight(with));
    let calls = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let registration = hot::register_with(
        std::sync::Arc::clone(&calls),
        |calls, _, b| {
            calls.fetch_add(b, std::sync::atomic::Ordering::Relaxed);
        },
        0,
    );
    let at = with as *const () as usize;
    // SAFETY: as above.
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, 256) };
    let mut decoder = Decoder::with_ip(64, bytes, at as u64, DecoderOptions::NONE);
    let jump = decoder
        .iter()
        .find(|instruction| instruction.code() == Code::Jmp_rel32_64);
    assert!(jump.is_some());
    assert_eq!(with(2, 21), 42);
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 21);
    drop(registration);
    assert_eq!(codes(&straight(with)), before);
    assert_eq!(with(2, 21), 42);
    assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 21);
}
