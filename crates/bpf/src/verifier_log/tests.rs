//! Logs that a 6.18 kernel wrote about programs made wrong on purpose (`rejected.txt`), and older spellings.

use super::*;

/// The log of that name.
fn sample(name: &str) -> VerifierLog {
    let all = include_str!("rejected.txt");
    let start = all.find(&format!("=== {name} ")).unwrap();
    let (_, body) = all[start..].split_once('\n').unwrap();
    parse(body.split("\n===").next().unwrap())
}

#[test]
fn the_offending_instruction_and_the_reason() {
    for (name, insn, text, message) in [
        ("uninit", Some(0), "r0 = r3", "R3 !read_ok"),
        (
            "scalar",
            Some(1),
            "r0 = *(u64 *)(r1 +16)",
            "R1 invalid mem access 'scalar'",
        ),
        (
            "ornull",
            Some(6),
            "r0 = *(u64 *)(r0 +0)",
            "R0 invalid mem access 'map_value_or_null'",
        ),
        (
            "beyond",
            Some(7),
            "r0 = *(u64 *)(r0 +8)",
            "invalid access to map value, value_size=8 off=8 size=8\nR0 min value is outside of the allowed memory range",
        ),
        ("loop", Some(2), "", "unreachable insn 2"),
        ("range", Some(0), "", "jump out of range from insn 0 to 21"),
        ("unreachable", None, "", "last insn is not an exit or jmp"),
        (
            "probe",
            Some(4),
            "call bpf_probe_read_kernel#113",
            "invalid write to stack R1 off=-8 size=16",
        ),
        ("branch", Some(5), "r0 = r7", "R7 !read_ok"),
        (
            "level2",
            Some(1),
            "r0 = *(u64 *)(r1 +16)",
            "R1 invalid mem access 'scalar'",
        ),
        ("good", None, "", ""),
    ] {
        let log = sample(name);
        assert_eq!(
            (log.insn, log.text.as_str(), log.message.as_str()),
            (insn, text, message),
            "{name}"
        );
        assert!(log.stats.is_some(), "{name}");
        assert_eq!(log.explanation().is_none(), name == "good", "{name}: {message}");
    }
    assert_eq!(
        sample("good").stats.map(|s| (s.processed, s.limit)),
        Some((2, 1_000_000))
    );
}

#[test]
fn the_state_is_that_before_the_instruction() {
    let log = sample("negative");
    assert_eq!(log.register(0), Some("map_value(ks=4,vs=8)"));
    assert_eq!(log.register(6), Some("scalar(id=1)"));
    let log = sample("branch");
    assert_eq!(
        (log.register(6), log.register(8), log.register(7)),
        (Some("0"), Some("1"), None)
    );
    assert_eq!(sample("uninit").register(10), Some("fp0"));
}

#[test]
fn every_sample_of_a_refusal_is_explained() {
    let names: Vec<&str> = include_str!("rejected.txt")
        .lines()
        .filter_map(|l| l.strip_prefix("=== "))
        .filter_map(|l| l.split(' ').next())
        .collect();
    assert!(names.len() > 20);
    for name in names.into_iter().filter(|name| *name != "good") {
        let log = sample(name);
        assert!(log.explanation().is_some(), "{name}: {}", log.message);
    }
}

/// The one sentence, wherever kernels put it, and not the states that they write behind it.
#[test]
fn a_loop_without_end() {
    for between in ["\n", " ", "\n; for (;;) @ endless.c:8\n"] {
        let log = format!(
            "0: R1=ctx() R10=fp0\n0: (b7) r1 = 0                        ; R1=0\n6: (05) goto pc-7{between}infinite loop detected at insn 6\ncur state: R1=0 R10=fp0 fp-8=mmmmmmmm\nold state: R1=0 R10=fp0 fp-8=mmmmpppp\nprocessed 9 insns (limit 1000000) max_states_per_insn 0 total_states 1 peak_states 1 mark_read 0\n"
        );
        let log = parse(&log);
        assert_eq!(log.message, "infinite loop detected at insn 6");
        assert_eq!((log.insn, log.text.as_str()), (Some(6), "goto pc-7"));
        assert!(log.explanation().is_some_and(|why| why.contains("loop")));
        assert!(log.advice().is_some());
    }
}

#[test]
fn indices_without_bounds() {
    for message in [
        "math between map_value pointer and register with unbounded min value is not allowed",
        "value -17179869184 makes map_value pointer be out of bounds",
        "map_value pointer offset 4294967296 is not allowed",
        "R1 unbounded memory access, make sure to bounds check any such access",
        "invalid access to map value, value_size=128 off=248 size=8\nR1 max value is outside of the allowed memory range",
    ] {
        let log = parse(&format!(
            "4: (0f) r1 += r2\n{message}\nprocessed 5 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0\n"
        ));
        assert_eq!(log.message, message);
        assert!(log.explanation().is_some(), "{message}");
        assert!(
            log.advice().is_some_and(|advice| advice.contains("bound")),
            "{message}"
        );
    }
}

/// As 5.15 writes it.
#[test]
fn older_kernels() {
    let log = parse(
        "func#0 @0\n0: R1=ctx(id=0,off=0,imm=0) R10=fp0\n; int x = 5;\n0: (b7) r2 = 5\n1: R1=ctx(id=0,off=0,imm=0) R2_w=inv5 R10=fp0\n1: (61) r0 = *(u32 *)(r2 +0)\nR2 invalid mem access 'inv'\nprocessed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0\n",
    );
    assert_eq!((log.insn, log.register(2)), (Some(1), Some("inv5")));
    assert_eq!(log.message, "R2 invalid mem access 'inv'");
    assert!(log.explanation().is_some());
}

proptest::proptest! {
    /// Cut, doubled and overwritten logs.
    #[test]
    fn any_text_is_survived(from in 0_usize..8000, length in 0_usize..3000, junk in "[ -~\nαR=:;()0-9]{0,40}", at in 0_usize..3000) {
        let all = include_str!("rejected.txt");
        let cut: String = all.chars().skip(from).take(length).collect();
        let mut damaged: Vec<char> = cut.chars().collect();
        let at = at.min(damaged.len());
        damaged.splice(at..at, junk.chars());
        let log = parse(&damaged.into_iter().collect::<String>());
        let _ = (log.explanation(), log.register(1));
    }
}

#[test]
fn a_use_after_release_is_explained_as_such() {
    // As a 6.1 kernel writes it; what the release does to the register stands nowhere.
    let log = "\
5: (15) if r6 == 0x0 goto pc+5        ; R6_w=alloc_mem(ref_obj_id=2,off=0,imm=0) refs=2
6: (bf) r1 = r6                       ; R1_w=alloc_mem(ref_obj_id=2,off=0,imm=0) R6_w=alloc_mem(ref_obj_id=2,off=0,imm=0) refs=2
7: (b7) r2 = 0                        ; R2_w=0 refs=2
8: (85) call bpf_ringbuf_submit#132   ;
9: (79) r0 = *(u64 *)(r6 +0)
R6 invalid mem access 'scalar'
processed 10 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
";
    let printed = parse(log);
    assert!(
        printed.explanation().unwrap().contains("given back"),
        "{printed:?}"
    );
    assert!(printed.advice().unwrap().contains("released"));
    let number = parse(&log.replace("R6_w=alloc_mem(ref_obj_id=2,off=0,imm=0)", "R6_w=scalar()"));
    assert!(number.advice().unwrap().contains("BPF_CORE_READ"), "{number:?}");
}
