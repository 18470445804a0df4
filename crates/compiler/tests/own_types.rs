//! The running kernel's own types, where it publishes them: typical walks compile on a real kernel, and every
//! member of every struct can be read.

#![allow(clippy::unwrap_used, reason = "a test")]

mod kernel;

use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_compiler::check::{check, globals::Globals};
use kestrel_compiler::context::{Context, EventField, Source, ValueType};
use kestrel_compiler::lang::diag::{Style, has_errors, render};
use kestrel_compiler::lang::parse_events;
use kestrel_trace::syscall::{MEANINGS, family};
use std::sync::Arc;

/// `sched_switch` with its `prev`, and `vfs_read`'s registers, on the running kernel.
fn context() -> Option<Context> {
    let blob = std::fs::read("/sys/kernel/btf/vmlinux").ok()?;
    let btf = Arc::new(Btf::parse(blob).unwrap());
    let task = btf.function("wake_up_process")?.proto.parameters().next()?.ty;
    let prev = EventField {
        name: "prev".into(),
        ty: ValueType::Btf(task),
        source: Source::Argument {
            index: 1,
            trusted: true,
        },
        recorded: false,
    };
    let base = kernel::kprobe();
    Some(Context {
        types: Some(btf),
        fields: vec![prev],
        ..base
    })
}

/// Prefixes of the names of the kernel's enumerations for user space.
const ENUMERATIONS: [&str; 5] = ["BPF_", "FSCONFIG_", "MEMBARRIER_CMD_", "MPOL_", "RTM_"];

#[test]
fn names_of_numbers_in_calls_are_the_kernels_enumerators() {
    let Ok(blob) = std::fs::read("/sys/kernel/btf/vmlinux") else {
        return;
    };
    let btf = Btf::parse(blob).unwrap();
    let mut found = 0;
    for (meaning, word) in MEANINGS {
        for row in family(*meaning).unwrap().rows {
            let is_enumerator = ENUMERATIONS.iter().any(|prefix| row.name.starts_with(prefix));
            // Newer ones may not be there yet.
            if let Some(own) = btf.enumerator(row.name).filter(|_| is_enumerator) {
                assert_eq!(own.value, row.value, "{word} {}", row.name);
                found += 1;
            }
        }
    }
    assert!(found > 50, "{found}");
}

#[test]
fn walks_that_people_write() {
    let Some(context) = context() else { return };
    for text in [
        "args.prev->pid == 1 && args.prev->comm == \"x\"",
        "((struct task_struct *)curtask)->signal->rlim[7].rlim_cur > 5",
        "curtask->mm->pgd != 0 && curtask->real_parent->tgid == curtask->group_leader->pid",
        "str(((struct file *)arg0)->f_path.dentry->d_name.name, 32) == \"passwd\"",
        "((struct file *)arg0)->f_inode->i_sb->s_dev == 5",
        "curtask->in_execve || curtask->sched_reset_on_fork || curtask->no_cgroup_migration",
        "curtask->nsproxy->pid_ns_for_children->level > 0 && curtask->cred->uid.val == 0",
        "PIDTYPE_PID == 0 && curtask->se.vruntime > 100 && curtask->cpus_mask.bits[0] & 1",
        "((struct sk_buff *)arg0)->len > 100 && ((struct sk_buff *)arg0)->pkt_type == 1",
        "sizeof(struct task_struct) > 1000 && offsetof(struct task_struct, se.vruntime) > 0",
    ] {
        let text = format!("kprobe:f /{text}/");
        let (probe, found) = parse_events(&text);
        assert!(found.is_empty(), "{text}");
        let (checked, found) = check(&probe, &context, true, &mut Globals::default());
        assert!(
            checked.is_some(),
            "{}",
            render(&found, "x", &text, Style::default())
        );
    }
}

#[test]
fn every_member_of_a_thousand_structs() {
    let Some(context) = context() else { return };
    let btf = context.types.clone().unwrap();
    let mut reads = 0;
    let structs = btf
        .ids()
        .filter(|id| btf.kind(*id) == Some(BtfKind::Struct) && !btf.name(*id).is_empty());
    for id in structs.step_by(5).take(1000) {
        let name = btf.name(id);
        if btf.find(BtfKind::Struct, name) != Some(id) {
            continue; // another struct of that name comes first
        }
        for member in btf.member_names(id) {
            let text = format!("k:f {{ $p = (struct {name} *)arg0; record($p->{member}) }}");
            let (probe, found) = parse_events(&text);
            assert!(!has_errors(&found), "{text}: {found:?}");
            let (checked, found) = check(&probe, &context, true, &mut Globals::default());
            let refused = found.iter().any(|d| {
                ["cannot be recorded", "cannot be read", "larger than a record"]
                    .iter()
                    .any(|m| d.message.contains(m))
            });
            assert!(
                checked.is_some() || refused,
                "{}",
                render(&found, "x", &text, Style::default())
            );
            reads += u32::from(checked.is_some());
        }
    }
    assert!(reads > 1000, "{reads}");
}
