//! The verifier's most frequent objections in plain words: one table, first match wins.

/// What a message contains, and what it means. All parts must occur in one line of the message.
const MESSAGES: &[(&[&str], &str)] = &[
    (
        &["!read_ok"],
        "a register is used that was never set, or was lost in a call",
    ),
    (
        &["invalid mem access", "_or_null'"],
        "a pointer that may be null is followed without a test for null",
    ),
    (
        &["invalid mem access", "'scalar'"],
        "a plain number is followed as a pointer; it needs a probe read",
    ),
    (
        &["invalid mem access", "'inv'"],
        "a plain number is followed as a pointer; it needs a probe read",
    ),
    (
        &["invalid mem access"],
        "memory is accessed through something that does not allow it",
    ),
    (
        &["pointer arithmetic on", "_or_null"],
        "a pointer that may be null is moved before it is tested for null",
    ),
    (
        &["invalid access to map value"],
        "the access may lie outside of the map's value; its offset needs a bound",
    ),
    (
        &["outside of the allowed memory range"],
        "the access may lie outside of the memory; its offset needs a bound",
    ),
    (
        &["unbounded memory access"],
        "the offset or size has no upper bound that the verifier can see",
    ),
    (
        &["unbounded min value"],
        "a pointer is moved by a number that has no bounds the verifier can see",
    ),
    (
        &["makes", "pointer be out of bounds"],
        "a pointer is moved by a number that may be far too large, or negative; it needs bounds",
    ),
    (
        &["pointer offset", "is not allowed"],
        "a pointer is moved further than the verifier follows it; the number needs bounds",
    ),
    (
        &["min value is negative"],
        "a size or offset may be negative; it needs a mask or an unsigned bound",
    ),
    (
        &["invalid zero-sized read"],
        "a helper is given a size that may be zero",
    ),
    (
        &["invalid indirect read from stack"],
        "a helper is given stack bytes that were not all written",
    ),
    (
        &["invalid read from stack"],
        "stack bytes are read that were never written or lie outside of the 512",
    ),
    (
        &["invalid write to stack"],
        "a write reaches outside of the 512 bytes of stack",
    ),
    (
        &["invalid stack"],
        "the access reaches outside of the 512 bytes of stack",
    ),
    (
        &["combined stack size"],
        "the functions called one inside the other need more than 512 bytes of stack together",
    ),
    (&["stack depth"], "the program needs more than 512 bytes of stack"),
    (
        &["corrupted spill"],
        "a pointer saved on the stack was overwritten in part",
    ),
    (
        &["invalid bpf_context access"],
        "the context has no such field, or not of this size, for this kind of program",
    ),
    (
        &["dereference of modified ctx"],
        "the context's pointer was moved before it was followed",
    ),
    (&["misaligned"], "the access is not aligned to its size"),
    (
        &["pointer", "prohibited"],
        "arithmetic on a pointer that is not allowed on pointers",
    ),
    (
        &["math between"],
        "a pointer is moved by a number that may be too large",
    ),
    (
        &["value is outside"],
        "a number may lie outside of its allowed range",
    ),
    (&["leaks addr"], "a kernel address would leave the program"),
    (&["unreachable insn"], "an instruction can never be reached"),
    (
        &["back-edge"],
        "the program has a loop, or a function calls itself, which this kernel does not accept here",
    ),
    (
        &["infinite loop"],
        "a loop never changes anything and so never ends",
    ),
    (
        &["program is too large"],
        "checking the program takes more than a million steps",
    ),
    (&["too complex"], "checking the program takes too many branches"),
    (&["jump out of range"], "a jump leaves the program"),
    (
        &["last insn is not an exit"],
        "execution runs off the end of the program",
    ),
    (&["div by zero"], "a division by the constant zero"),
    (&["invalid shift"], "a shift by more bits than the register has"),
    (
        &["frame pointer is read only"],
        "r10, the frame pointer, is written",
    ),
    (
        &["invalid func unknown#195896080"],
        "it uses a field, type or value that this kernel does not have (CO-RE)",
    ),
    (
        &["invalid func unknown"],
        "this kernel has no helper of that number",
    ),
    (
        &["not supported for program type"],
        "this kernel does not offer the helper to this kind of program",
    ),
    (
        &["write into map forbidden"],
        "a map is written that programs may only read",
    ),
    (
        &["tracing progs cannot use bpf_spin_lock"],
        "programs that trace cannot take a lock in a map's value on this kernel",
    ),
    (
        &["bpf_spin_unlock is missing"],
        "a lock that was taken is not given back on every path",
    ),
    (
        &["bpf_spin_lock-ed region"],
        "a lock that was taken is not given back before this",
    ),
    (
        &["might sleep in a non-sleepable"],
        "the helper may sleep, and programs of this kind may not",
    ),
    (
        &["unknown func"],
        "this kernel does not offer the helper to this kind of program",
    ),
    (
        &["cannot use helper"],
        "this kernel does not offer the helper to this kind of program",
    ),
    (
        &["cannot pass map_type"],
        "the helper does not take a map of this type",
    ),
    (
        &["kernel function", "not allowed"],
        "this kind of program may not call that kernel function",
    ),
    (
        &["not a kernel function"],
        "the kernel has no function of that name that programs may attach to or call",
    ),
    (
        &["GPL-restricted function"],
        "the helper asks for a program with a GPL-compatible licence",
    ),
    (
        &["must be called from GPL"],
        "the helper asks for a program with a GPL-compatible licence",
    ),
    (
        &["has no valid kptr"],
        "a stored kernel pointer is of another type",
    ),
    (
        &["cannot access ptr member"],
        "a pointer inside a kernel struct is accessed with the wrong size",
    ),
    (
        &["access beyond struct"],
        "the access reaches beyond the end of the kernel struct",
    ),
    (&["only read is supported"], "kernel memory is written"),
    (
        &["cannot write into"],
        "memory is written that the program may only read",
    ),
    (
        &["Unreleased reference"],
        "something that was acquired is not released on every path",
    ),
    (
        &["preempt_disable"],
        "preemption is switched off and not on again on every path",
    ),
    (
        &["At program exit"],
        "the program returns a value that this kind of program must not return",
    ),
    (
        &["type=", "expected="],
        "a helper or function is given an argument of the wrong kind",
    ),
    (
        &["attach_btf_id"],
        "the function or tracepoint to attach to is not known to this kernel",
    ),
];

/// A plain sentence for a message of the verifier, where it is one of the frequent ones.
///
/// ```
/// use kestrel_bpf::verifier_log::explain;
/// assert_eq!(explain("div by zero"), Some("a division by the constant zero"));
/// assert_eq!(explain("something new"), None);
/// ```
pub fn explain(message: &str) -> Option<&'static str> {
    let says = |parts: &[&str]| {
        message
            .lines()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    };
    MESSAGES
        .iter()
        .find(|(parts, _)| says(parts))
        .map(|(_, sentence)| *sentence)
}
