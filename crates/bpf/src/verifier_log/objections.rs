//! The verifier's most frequent objections: what each means, in plain words, and what an author of C can do about it. One table, first match wins.

/// A frequent objection.
struct Objection {
    /// Alternatives; all parts of one must occur in one line of the message.
    needles: &'static [&'static [&'static str]],
    /// The meaning.
    meaning: Option<&'static str>,
    /// Advice to authors of C programs.
    advice: Option<&'static str>,
}

// Advice of several objections.
const NO_SUCH_TYPE: &str = "this kernel's types have no such field, enumerator or type: ask with bpf_core_field_exists() first, or declare the older name as a second struct NAME___old";
const BOUND_INDEX: &str =
    "bound the index where the compiler cannot move the check away: `if (i >= N) return 0;` or `i &= N - 1;`";
const BOUND_LOOPS: &str =
    "bound loops lower, split the work with bpf_loop() or into several programs and tail calls";
const UNLOCK: &str = "call bpf_spin_unlock() on every path, and nothing that may fail before it";
const GPL: &str = "declare a GPL-compatible license: `char LICENSE[] SEC(\"license\") = \"GPL\";`";

/// Sorted from the particular to the general where one message matches several.
const OBJECTIONS: &[Objection] = &[
    Objection {
        needles: &[&["failed to resolve CO-RE relocation"]],
        meaning: None,
        advice: Some(NO_SUCH_TYPE),
    },
    Objection {
        needles: &[&["!read_ok"]],
        meaning: Some("a register is used that was never set, or was lost in a call"),
        advice: Some(
            "give the variable a value on every path; after a call only r0 and r6 to r9 keep theirs",
        ),
    },
    Objection {
        needles: &[&["invalid mem access", "map_value_or_null"]],
        meaning: Some("a pointer that may be null is followed without a test for null"),
        advice: Some("test what bpf_map_lookup_elem() returned for NULL before following it"),
    },
    Objection {
        needles: &[&["invalid mem access", "_or_null'"]],
        meaning: Some("a pointer that may be null is followed without a test for null"),
        advice: Some("test the pointer for NULL before following it: `if (!p) return 0;`"),
    },
    Objection {
        needles: &[
            &["invalid mem access", "'scalar'"],
            &["invalid mem access", "'inv'"],
        ],
        meaning: Some("a plain number is followed as a pointer; it needs a probe read"),
        advice: Some(
            "read kernel memory with BPF_CORE_READ() or bpf_probe_read_kernel(), user memory with bpf_probe_read_user()",
        ),
    },
    Objection {
        needles: &[&["invalid mem access"]],
        meaning: Some("memory is accessed through something that does not allow it"),
        advice: None,
    },
    Objection {
        needles: &[&["pointer arithmetic on", "_or_null"]],
        meaning: Some("a pointer that may be null is moved before it is tested for null"),
        advice: Some("test the pointer for NULL before computing with it"),
    },
    Objection {
        needles: &[&["invalid access to map value"]],
        meaning: Some("the access may lie outside of the map's value; its offset needs a bound"),
        advice: Some(BOUND_INDEX),
    },
    Objection {
        needles: &[&["outside of the allowed memory range"]],
        meaning: Some("the access may lie outside of the memory; its offset needs a bound"),
        advice: Some(BOUND_INDEX),
    },
    Objection {
        needles: &[&["unbounded memory access"]],
        meaning: Some("the offset or size has no upper bound that the verifier can see"),
        advice: Some(
            "give the size or the index an upper bound first: `if (n > sizeof(buf)) n = sizeof(buf);`, `if (i >= N) return 0;`",
        ),
    },
    Objection {
        needles: &[&["unbounded min value"]],
        meaning: Some("a pointer is moved by a number that has no bounds the verifier can see"),
        advice: Some("bound the number on both sides before adding it to a pointer, or make it unsigned"),
    },
    Objection {
        needles: &[&["makes", "pointer be out of bounds"]],
        meaning: Some(
            "a pointer is moved by a number that may be far too large, or negative; it needs bounds",
        ),
        advice: Some(
            "bound the number on both sides before adding it to a pointer, or make it unsigned: `if (i < 0 || i >= N) return 0;`",
        ),
    },
    Objection {
        needles: &[&["pointer offset", "is not allowed"]],
        meaning: Some("a pointer is moved further than the verifier follows it; the number needs bounds"),
        advice: Some(
            "bound the number on both sides before adding it to a pointer: `if (i < 0 || i >= N) return 0;`",
        ),
    },
    Objection {
        needles: &[&["min value is negative"]],
        meaning: Some("a size or offset may be negative; it needs a mask or an unsigned bound"),
        advice: Some("make the size unsigned, or mask it: `n &= 0xff;`"),
    },
    Objection {
        needles: &[&["invalid zero-sized read"]],
        meaning: Some("a helper is given a size that may be zero"),
        advice: Some("make sure that the size is at least 1: `if (n < 1) return 0;`"),
    },
    Objection {
        needles: &[&["invalid indirect read from stack"]],
        meaning: Some("a helper is given stack bytes that were not all written"),
        advice: Some("clear the whole variable first, padding too: `__builtin_memset(&x, 0, sizeof(x));`"),
    },
    Objection {
        needles: &[&["invalid read from stack"]],
        meaning: Some("stack bytes are read that were never written or lie outside of the 512"),
        advice: Some("write all of the variable before reading it: `struct x v = {};`"),
    },
    Objection {
        needles: &[&["invalid write to stack"]],
        meaning: Some("a write reaches outside of the 512 bytes of stack"),
        advice: None,
    },
    Objection {
        needles: &[&["invalid stack"]],
        meaning: Some("the access reaches outside of the 512 bytes of stack"),
        advice: None,
    },
    Objection {
        needles: &[&["combined stack size"]],
        meaning: Some("the functions called one inside the other need more than 512 bytes of stack together"),
        advice: Some(
            "the stack has 512 bytes, callers included: put large variables into a per-CPU array map",
        ),
    },
    Objection {
        needles: &[&["stack depth"]],
        meaning: Some("the program needs more than 512 bytes of stack"),
        advice: Some("the stack has 512 bytes: put large variables into a per-CPU array map"),
    },
    Objection {
        needles: &[&["corrupted spill"]],
        meaning: Some("a pointer saved on the stack was overwritten in part"),
        advice: None,
    },
    Objection {
        needles: &[&["invalid bpf_context access"]],
        meaning: Some("the context has no such field, or not of this size, for this kind of program"),
        advice: Some(
            "the context has no such field for this kind of section: compare SEC(\"…\") with the type of the parameter; arguments of kprobes are PT_REGS_PARM1(ctx) and so on",
        ),
    },
    Objection {
        needles: &[&["dereference of modified ctx"]],
        meaning: Some("the context's pointer was moved before it was followed"),
        advice: Some(
            "follow the context's pointer itself, without moving it: ctx->field, not (ctx + n)->field",
        ),
    },
    Objection {
        needles: &[&["misaligned"]],
        meaning: Some("the access is not aligned to its size"),
        advice: Some(
            "access it with a type no larger than its alignment, or copy it with __builtin_memcpy()",
        ),
    },
    Objection {
        needles: &[&["pointer arithmetic with", "prohibited"]],
        meaning: None,
        advice: Some(
            "only add bounded numbers to pointers, or take them away; to compute with an address, copy it with bpf_probe_read_kernel() first",
        ),
    },
    Objection {
        needles: &[&["pointer", "prohibited"]],
        meaning: Some("arithmetic on a pointer that is not allowed on pointers"),
        advice: None,
    },
    Objection {
        needles: &[&["math between"]],
        meaning: Some("a pointer is moved by a number that may be too large"),
        advice: Some("bound the number before adding it to a pointer"),
    },
    Objection {
        needles: &[&["value is outside"]],
        meaning: Some("a number may lie outside of its allowed range"),
        advice: None,
    },
    Objection {
        needles: &[&["leaks addr"]],
        meaning: Some("a kernel address would leave the program"),
        advice: None,
    },
    Objection {
        needles: &[&["unreachable insn"]],
        meaning: Some("an instruction can never be reached"),
        advice: Some(
            "a call of a function that never returns, or an undefined value (a division by 0, an uninitialised variable) made the compiler drop what follows",
        ),
    },
    Objection {
        needles: &[&["back-edge"]],
        meaning: Some(
            "the program has a loop, or a function calls itself, which this kernel does not accept here",
        ),
        advice: Some(
            "unroll the loop (`#pragma unroll`) or bound it, or use bpf_loop(); a function may not call itself",
        ),
    },
    Objection {
        needles: &[&["infinite loop"]],
        meaning: Some("a loop never changes anything and so never ends"),
        advice: Some("let the loop count up to a constant"),
    },
    Objection {
        needles: &[&["program is too large"]],
        meaning: Some("checking the program takes more than a million steps"),
        advice: Some(BOUND_LOOPS),
    },
    Objection {
        needles: &[&["too complex"]],
        meaning: Some("checking the program takes too many branches"),
        advice: Some(BOUND_LOOPS),
    },
    Objection {
        needles: &[&["jump out of range"]],
        meaning: Some("a jump leaves the program"),
        advice: None,
    },
    Objection {
        needles: &[&["last insn is not an exit"]],
        meaning: Some("execution runs off the end of the program"),
        advice: None,
    },
    Objection {
        needles: &[&["div by zero"]],
        meaning: Some("a division by the constant zero"),
        advice: None,
    },
    Objection {
        needles: &[&["invalid shift"]],
        meaning: Some("a shift by more bits than the register has"),
        advice: None,
    },
    Objection {
        needles: &[&["frame pointer is read only"]],
        meaning: Some("r10, the frame pointer, is written"),
        advice: None,
    },
    Objection {
        needles: &[&["invalid func unknown#195896080"]],
        meaning: Some("it uses a field, type or value that this kernel does not have (CO-RE)"),
        advice: Some(NO_SUCH_TYPE),
    },
    Objection {
        needles: &[&["invalid func unknown"]],
        meaning: Some("this kernel has no helper of that number"),
        advice: None,
    },
    Objection {
        needles: &[&["not supported for program type"], &["cannot use helper"]],
        meaning: Some("this kernel does not offer the helper to this kind of program"),
        advice: Some(
            "this kind of program may not call that helper on this kernel; the manual page bpf-helpers(7) says which may",
        ),
    },
    Objection {
        needles: &[&["write into map forbidden"]],
        meaning: Some("a map is written that programs may only read"),
        advice: Some(
            "programs only read `const volatile` variables and maps with BPF_F_RDONLY_PROG: drop the `const`, or write elsewhere",
        ),
    },
    Objection {
        needles: &[&["tracing progs cannot use bpf_spin_lock"]],
        meaning: Some("programs that trace cannot take a lock in a map's value on this kernel"),
        advice: Some("count with __sync_fetch_and_add(), or in a per-CPU map, which needs no lock"),
    },
    Objection {
        needles: &[&["bpf_spin_unlock is missing"]],
        meaning: Some("a lock that was taken is not given back on every path"),
        advice: Some(UNLOCK),
    },
    Objection {
        needles: &[&["bpf_spin_lock-ed region"]],
        meaning: Some("a lock that was taken is not given back before this"),
        advice: Some(UNLOCK),
    },
    Objection {
        needles: &[&["might sleep in a non-sleepable"]],
        meaning: Some("the helper may sleep, and programs of this kind may not"),
        advice: Some(
            "only programs that may sleep call that: SEC(\"fentry.s/…\"), SEC(\"uprobe.s/…\"); elsewhere bpf_probe_read_user() reads what is in memory",
        ),
    },
    Objection {
        needles: &[&["unknown func"]],
        meaning: Some("this kernel does not offer the helper to this kind of program"),
        advice: Some(
            "this kind of program may not call that helper on this kernel; `kestrel doctor` and the manual page bpf-helpers(7) say which may",
        ),
    },
    Objection {
        needles: &[&["cannot pass map_type"]],
        meaning: Some("the helper does not take a map of this type"),
        advice: None,
    },
    Objection {
        needles: &[&["kernel function", "not allowed"]],
        meaning: Some("this kind of program may not call that kernel function"),
        advice: None,
    },
    Objection {
        needles: &[&["not a kernel function"]],
        meaning: Some("the kernel has no function of that name that programs may attach to or call"),
        advice: None,
    },
    Objection {
        needles: &[&["GPL-restricted function"]],
        meaning: Some("the helper asks for a program with a GPL-compatible licence"),
        advice: None,
    },
    Objection {
        needles: &[&["must be called from GPL"]],
        meaning: Some("the helper asks for a program with a GPL-compatible licence"),
        advice: Some(GPL),
    },
    Objection {
        needles: &[&["GPL compatible"]],
        meaning: None,
        advice: Some(GPL),
    },
    Objection {
        needles: &[&["has no valid kptr"]],
        meaning: Some("a stored kernel pointer is of another type"),
        advice: None,
    },
    Objection {
        needles: &[&["cannot access ptr member"]],
        meaning: Some("a pointer inside a kernel struct is accessed with the wrong size"),
        advice: None,
    },
    Objection {
        needles: &[&["access beyond struct"]],
        meaning: Some("the access reaches beyond the end of the kernel struct"),
        advice: None,
    },
    Objection {
        needles: &[&["only read is supported"]],
        meaning: Some("kernel memory is written"),
        advice: Some("kernel memory can only be read through such pointers"),
    },
    Objection {
        needles: &[&["cannot write into"]],
        meaning: Some("memory is written that the program may only read"),
        advice: Some("that memory can only be read: write to a copy"),
    },
    Objection {
        needles: &[&["Unreleased reference"]],
        meaning: Some("something that was acquired is not released on every path"),
        advice: Some(
            "release it on every path: bpf_ringbuf_submit() or _discard() for what bpf_ringbuf_reserve() gave, and so on",
        ),
    },
    Objection {
        needles: &[&["preempt_disable"]],
        meaning: Some("preemption is switched off and not on again on every path"),
        advice: None,
    },
    Objection {
        needles: &[&["doesn't have", "argument"]],
        meaning: None,
        advice: Some("the function has fewer arguments than the program asks for on this kernel"),
    },
    Objection {
        needles: &[&["At program exit"]],
        meaning: Some("the program returns a value that this kind of program must not return"),
        advice: Some("return a value that this kind of program may return, mostly 0"),
    },
    Objection {
        needles: &[&["type=", "expected="]],
        meaning: Some("a helper or function is given an argument of the wrong kind"),
        advice: Some(
            "pass the kind of pointer that the helper is declared with: a map by its address, memory on the stack or in a map's value",
        ),
    },
    Objection {
        needles: &[&["attach_btf_id"]],
        meaning: Some("the function or tracepoint to attach to is not known to this kernel"),
        advice: None,
    },
];

/// A plain sentence for a message of the verifier, where it is one of the frequent ones.
///
/// ```
/// use kestrel_bpf::verifier_log::explain;
/// assert_eq!(explain("div by zero"), Some("a division by the constant zero"));
/// assert_eq!(explain("something new"), None);
/// ```
pub fn explain(message: &str) -> Option<&'static str> {
    objections(message).find_map(|objection| objection.meaning)
}

/// Advice on a message of the verifier, where it is one of the frequent ones.
///
/// ```
/// use kestrel_bpf::verifier_log::advice;
/// assert!(advice("R1 invalid mem access 'scalar'").is_some_and(|text| text.contains("bpf_probe_read_kernel")));
/// assert_eq!(advice("something new"), None);
/// ```
pub fn advice(message: &str) -> Option<&'static str> {
    objections(message).find_map(|objection| objection.advice)
}

fn objections(message: &str) -> impl Iterator<Item = &'static Objection> {
    OBJECTIONS.iter().filter(|objection| objection.matches(message))
}

impl Objection {
    fn matches(&self, message: &str) -> bool {
        let contains = |line: &str| {
            self.needles
                .iter()
                .any(|parts| parts.iter().all(|part| line.contains(part)))
        };
        message.lines().any(contains)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_particular_row_wins() {
        let row = |message| (explain(message), advice(message).unwrap_or_default());
        let (meaning, what) = row("R0 invalid mem access 'map_value_or_null'");
        assert_eq!(meaning, explain("R0 invalid mem access 'mem_or_null'"));
        assert!(what.contains("bpf_map_lookup_elem()"), "{what}");
        assert!(!advice("R0 invalid mem access 'mem_or_null'").is_some_and(|what| what.contains("lookup")));
    }

    #[test]
    fn no_row_stands_behind_one_that_matches_all_of_its_messages() {
        for (index, row) in OBJECTIONS.iter().enumerate() {
            for parts in row.needles {
                let message = parts.join(" ");
                let meaning = explain(&message);
                let first = &OBJECTIONS[..index];
                let hidden = first.iter().find(|before| before.matches(&message));
                assert!(
                    hidden.is_none(),
                    "{message:?} is taken by a row before its own: {meaning:?}"
                );
            }
        }
    }
}
