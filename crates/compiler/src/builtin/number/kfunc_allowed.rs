//! The built-in `kfunc_allowed`: whether programs of the event may call a kfunc.

use super::kfunc_exist::existing;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::Type;
use crate::check::value::constant;

pub(crate) static KFUNC_ALLOWED: Builtin = Builtin {
    name: "kfunc_allowed",
    numbered: false,
    usage: "kfunc_allowed(\"function\")",
    about: "whether programs of this event may call a function of the kernel's for programs (kfunc): those of fentry, fexit, iterators and typed raw tracepoints may, all others those that the kernel has for programs of every kind",
    kind: BuiltinKind::Value(|checker, usage| {
        let name = existing(checker, usage)?;
        let tracing = checker.context.program.is_tracing();
        let may = name.is_some_and(|name| tracing || is_for_all(&name));
        Ok(constant(u64::from(may), Type::Bool, usage.span))
    }),
};

/// Whether the kernel registers a kfunc for programs of all kinds (`BPF_PROG_TYPE_UNSPEC`): its types do not say so.
fn is_for_all(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("bpf_") else {
        return false;
    };
    let is_member = |family: &str, members: &[&str]| {
        rest.strip_prefix(family)
            .is_some_and(|member| members.contains(&member))
    };
    FOR_ALL.contains(&rest)
        || FAMILIES
            .iter()
            .any(|(family, members)| is_member(family, members))
}

/// The functions that every iterator in programs has.
const STEPS: &[&str] = &["new", "next", "destroy"];

// A table: families of kfuncs for all programs, and what stands behind the family's name, without `bpf_`.
const FAMILIES: &[(&str, &[&str])] = &[
    ("iter_num_", STEPS),
    ("iter_task_", STEPS),
    ("iter_task_vma_", STEPS),
    ("iter_css_", STEPS),
    ("iter_css_task_", STEPS),
    ("iter_bits_", STEPS),
    ("iter_kmem_cache_", STEPS),
    ("iter_dmabuf_", STEPS),
    (
        "dynptr_",
        &[
            "slice",
            "slice_rdwr",
            "adjust",
            "is_null",
            "is_rdonly",
            "size",
            "clone",
            "copy",
            "memset",
        ],
    ),
    (
        "probe_read_",
        &[
            "user_dynptr",
            "kernel_dynptr",
            "user_str_dynptr",
            "kernel_str_dynptr",
        ],
    ),
    (
        "copy_from_user_",
        &[
            "str",
            "task_str",
            "dynptr",
            "str_dynptr",
            "task_dynptr",
            "task_str_dynptr",
        ],
    ),
    ("wq_", &["init", "set_callback_impl", "start"]),
    ("preempt_", &["disable", "enable"]),
    ("local_irq_", &["save", "restore"]),
    (
        "res_spin_",
        &["lock", "unlock", "lock_irqsave", "unlock_irqrestore"],
    ),
    ("arena_", &["alloc_pages", "free_pages", "reserve_pages"]),
    (
        "str",
        &[
            "cmp", "casecmp", "chr", "chrnul", "nchr", "rchr", "len", "nlen", "spn", "cspn", "str", "nstr",
        ],
    ),
];

// A table: the others.
const FOR_ALL: &[&str] = &[
    "cast_to_kern_ctx",
    "rdonly_cast",
    "rcu_read_lock",
    "rcu_read_unlock",
    "get_kmem_cache",
    "map_sum_elem_count",
    "cgroup_read_xattr",
    "stream_vprintk_impl",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_kfuncs_are_for_programs_of_all_kinds() {
        let all = [
            "bpf_map_sum_elem_count",
            "bpf_iter_num_new",
            "bpf_strnstr",
            "bpf_dynptr_size",
        ];
        for name in all {
            assert!(is_for_all(name), "{name}");
        }
        for name in [
            "bpf_task_acquire",
            "bpf_iter_num_old",
            "map_sum_elem_count",
            "bpf_str",
        ] {
            assert!(!is_for_all(name), "{name}");
        }
    }
}
