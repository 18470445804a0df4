//! Advice on the verifier's most frequent refusals, for authors of C programs: one row each, first match wins.

/// What a message contains, and what to do. All parts must occur in one line of the message.
const ADVICE: &[(&[&str], &str)] = &[
    (
        &["failed to resolve CO-RE relocation"],
        "this kernel's types have no such field, enumerator or type: ask with bpf_core_field_exists() first, or declare the older name as a second struct NAME___old",
    ),
    (
        &["invalid func unknown#195896080"],
        "this kernel's types have no such field, enumerator or type: ask with bpf_core_field_exists() first, or declare the older name as a second struct NAME___old",
    ),
    (
        &["invalid mem access", "_or_null'"],
        "test the pointer for NULL before following it: `if (!p) return 0;`",
    ),
    (
        &["invalid mem access", "map_value_or_null"],
        "test what bpf_map_lookup_elem() returned for NULL before following it",
    ),
    (
        &["pointer arithmetic on", "_or_null"],
        "test the pointer for NULL before computing with it",
    ),
    (
        &["invalid mem access", "'scalar'"],
        "read kernel memory with BPF_CORE_READ() or bpf_probe_read_kernel(), user memory with bpf_probe_read_user()",
    ),
    (
        &["invalid mem access", "'inv'"],
        "read kernel memory with BPF_CORE_READ() or bpf_probe_read_kernel(), user memory with bpf_probe_read_user()",
    ),
    (
        &["invalid access to map value"],
        "bound the index where the compiler cannot move the check away: `if (i >= N) return 0;` or `i &= N - 1;`",
    ),
    (
        &["outside of the allowed memory range"],
        "bound the index where the compiler cannot move the check away: `if (i >= N) return 0;` or `i &= N - 1;`",
    ),
    (
        &["unbounded memory access"],
        "give the size or the index an upper bound first: `if (n > sizeof(buf)) n = sizeof(buf);`, `if (i >= N) return 0;`",
    ),
    (
        &["min value is negative"],
        "make the size unsigned, or mask it: `n &= 0xff;`",
    ),
    (
        &["invalid zero-sized read"],
        "make sure that the size is at least 1: `if (n < 1) return 0;`",
    ),
    (
        &["unbounded min value"],
        "bound the number on both sides before adding it to a pointer, or make it unsigned",
    ),
    (
        &["makes", "pointer be out of bounds"],
        "bound the number on both sides before adding it to a pointer, or make it unsigned: `if (i < 0 || i >= N) return 0;`",
    ),
    (
        &["pointer offset", "is not allowed"],
        "bound the number on both sides before adding it to a pointer: `if (i < 0 || i >= N) return 0;`",
    ),
    (
        &["math between"],
        "bound the number before adding it to a pointer",
    ),
    (
        &["!read_ok"],
        "give the variable a value on every path; after a call only r0 and r6 to r9 keep theirs",
    ),
    (
        &["invalid indirect read from stack"],
        "clear the whole variable first, padding too: `__builtin_memset(&x, 0, sizeof(x));`",
    ),
    (
        &["invalid read from stack"],
        "write all of the variable before reading it: `struct x v = {};`",
    ),
    (
        &["stack depth"],
        "the stack has 512 bytes: put large variables into a per-CPU array map",
    ),
    (
        &["combined stack size"],
        "the stack has 512 bytes, callers included: put large variables into a per-CPU array map",
    ),
    (
        &["back-edge"],
        "unroll the loop (`#pragma unroll`) or bound it, or use bpf_loop(); a function may not call itself",
    ),
    (&["infinite loop"], "let the loop count up to a constant"),
    (
        &["program is too large"],
        "bound loops lower, split the work with bpf_loop() or into several programs and tail calls",
    ),
    (
        &["too complex"],
        "bound loops lower, split the work with bpf_loop() or into several programs and tail calls",
    ),
    (
        &["not supported for program type"],
        "this kind of program may not call that helper on this kernel; the manual page bpf-helpers(7) says which may",
    ),
    (
        &["write into map forbidden"],
        "programs only read `const volatile` variables and maps with BPF_F_RDONLY_PROG: drop the `const`, or write elsewhere",
    ),
    (
        &["pointer arithmetic with", "prohibited"],
        "only add bounded numbers to pointers, or take them away; to compute with an address, copy it with bpf_probe_read_kernel() first",
    ),
    (
        &["tracing progs cannot use bpf_spin_lock"],
        "count with __sync_fetch_and_add(), or in a per-CPU map, which needs no lock",
    ),
    (
        &["bpf_spin_unlock is missing"],
        "call bpf_spin_unlock() on every path, and nothing that may fail before it",
    ),
    (
        &["bpf_spin_lock-ed region"],
        "call bpf_spin_unlock() on every path, and nothing that may fail before it",
    ),
    (
        &["might sleep in a non-sleepable"],
        "only programs that may sleep call that: SEC(\"fentry.s/…\"), SEC(\"uprobe.s/…\"); elsewhere bpf_probe_read_user() reads what is in memory",
    ),
    (
        &["unknown func"],
        "this kind of program may not call that helper on this kernel; `kestrel doctor` and the manual page bpf-helpers(7) say which may",
    ),
    (
        &["cannot use helper"],
        "this kind of program may not call that helper on this kernel; the manual page bpf-helpers(7) says which may",
    ),
    (
        &["program of this type cannot use helper"],
        "this kind of program may not call that helper on this kernel; the manual page bpf-helpers(7) says which may",
    ),
    (
        &["must be called from GPL"],
        "declare a GPL-compatible license: `char LICENSE[] SEC(\"license\") = \"GPL\";`",
    ),
    (
        &["GPL compatible"],
        "declare a GPL-compatible license: `char LICENSE[] SEC(\"license\") = \"GPL\";`",
    ),
    (
        &["Unreleased reference"],
        "release it on every path: bpf_ringbuf_submit() or _discard() for what bpf_ringbuf_reserve() gave, and so on",
    ),
    (
        &["invalid bpf_context access"],
        "the context has no such field for this kind of section: compare SEC(\"…\") with the type of the parameter; arguments of kprobes are PT_REGS_PARM1(ctx) and so on",
    ),
    (
        &["dereference of modified ctx"],
        "follow the context's pointer itself, without moving it: ctx->field, not (ctx + n)->field",
    ),
    (
        &["doesn't have", "argument"],
        "the function has fewer arguments than the program asks for on this kernel",
    ),
    (
        &["At program exit"],
        "return a value that this kind of program may return, mostly 0",
    ),
    (
        &["misaligned"],
        "access it with a type no larger than its alignment, or copy it with __builtin_memcpy()",
    ),
    (
        &["unreachable insn"],
        "a call of a function that never returns, or an undefined value (a division by 0, an uninitialised variable) made the compiler drop what follows",
    ),
    (
        &["only read is supported"],
        "kernel memory can only be read through such pointers",
    ),
    (
        &["cannot write into"],
        "that memory can only be read: write to a copy",
    ),
    (
        &["type=", "expected="],
        "pass the kind of pointer that the helper is declared with: a map by its address, memory on the stack or in a map's value",
    ),
];

/// Advice on a message of the verifier, where it is one of the frequent ones.
///
/// ```
/// use kestrel_bpf::verifier_log::advice;
/// assert!(advice("R1 invalid mem access 'scalar'").is_some_and(|text| text.contains("bpf_probe_read_kernel")));
/// assert_eq!(advice("something new"), None);
/// ```
pub fn advice(message: &str) -> Option<&'static str> {
    let says = |parts: &[&str]| {
        message
            .lines()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    };
    ADVICE
        .iter()
        .find(|(parts, _)| says(parts))
        .map(|(_, sentence)| *sentence)
}
