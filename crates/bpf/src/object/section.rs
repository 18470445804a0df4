//! Program types by section name (`SEC(…)`): one row per kind, in the spelling of libbpf and of tc's objects.
//!
//! Names: the kernel's `Documentation/bpf/libbpf/program_types.rst`; numbers: `uapi/linux/bpf.h`.

/// The hook that runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the sections")]
pub enum Hook {
    /// Kernel function named at load, for a classic object's `prog`.
    Classic,
    Kprobe,
    Kretprobe,
    KprobeMulti,
    KretprobeMulti,
    KprobeSession,
    Ksyscall,
    Kretsyscall,
    Uprobe,
    Uretprobe,
    UprobeMulti,
    UretprobeMulti,
    UprobeSession,
    Usdt,
    Tracepoint,
    RawTracepoint,
    RawTracepointWritable,
    TypedTracepoint,
    Fentry,
    Fexit,
    FmodRet,
    PerfEvent,
    Iter,
    Lsm,
    Syscall,
    /// Hooks that Kestrel does not attach to, such as networking and cgroups, which are left to other loaders.
    Foreign,
    /// Programs that Kestrel does not load, because they belong to something that must be created first or is replaced (`struct_ops`, `freplace`).
    Left,
}

/// A kind of section, and the programs in such sections.
#[derive(Clone, Copy, Debug)]
pub struct SectionKind {
    /// The names up to the first `/`, one for each spelling.
    pub names: &'static [&'static str],
    /// How such a section is written, for messages.
    pub shape: &'static str,
    /// The hook that runs the program.
    pub hook: Hook,
    /// `enum bpf_prog_type`.
    pub program: u32,
    /// `enum bpf_attach_type`, as expected at load; 0 for none.
    pub attach: u32,
    /// Prefix of the target's name in the kernel's types (`btf_trace_`), for kinds that are bound to a target when they are loaded.
    pub prefix: Option<&'static str>,
    /// Whether `.s` may follow the name: a program that may sleep.
    pub sleeps: bool,
}

const KPROBE: u32 = 2;
const TRACING: u32 = 26;

const fn row(
    names: &'static [&'static str],
    shape: &'static str,
    hook: Hook,
    program: u32,
    attach: u32,
) -> SectionKind {
    SectionKind {
        names,
        shape,
        hook,
        program,
        attach,
        prefix: None,
        sleeps: false,
    }
}

const fn bound(kind: SectionKind, prefix: &'static str) -> SectionKind {
    SectionKind {
        prefix: Some(prefix),
        ..kind
    }
}

const fn sleepy(kind: SectionKind) -> SectionKind {
    SectionKind { sleeps: true, ..kind }
}

/// All kinds of sections.
pub const KINDS: &[SectionKind] = &[
    row(&["prog"], "prog", Hook::Classic, KPROBE, 0),
    row(&["kprobe"], "kprobe/FUNCTION[+OFFSET]", Hook::Kprobe, KPROBE, 0),
    row(&["kretprobe"], "kretprobe/FUNCTION", Hook::Kretprobe, KPROBE, 0),
    row(
        &["kprobe.multi"],
        "kprobe.multi/PATTERN",
        Hook::KprobeMulti,
        KPROBE,
        42,
    ),
    row(
        &["kretprobe.multi"],
        "kretprobe.multi/PATTERN",
        Hook::KretprobeMulti,
        KPROBE,
        42,
    ),
    row(
        &["kprobe.session"],
        "kprobe.session/PATTERN",
        Hook::KprobeSession,
        KPROBE,
        56,
    ),
    row(&["ksyscall"], "ksyscall/SYSCALL", Hook::Ksyscall, KPROBE, 0),
    row(
        &["kretsyscall"],
        "kretsyscall/SYSCALL",
        Hook::Kretsyscall,
        KPROBE,
        0,
    ),
    sleepy(row(
        &["uprobe"],
        "uprobe/FILE:FUNCTION[+OFFSET]",
        Hook::Uprobe,
        KPROBE,
        0,
    )),
    sleepy(row(
        &["uretprobe"],
        "uretprobe/FILE:FUNCTION[+OFFSET]",
        Hook::Uretprobe,
        KPROBE,
        0,
    )),
    sleepy(row(
        &["uprobe.multi"],
        "uprobe.multi/FILE:PATTERN",
        Hook::UprobeMulti,
        KPROBE,
        48,
    )),
    sleepy(row(
        &["uretprobe.multi"],
        "uretprobe.multi/FILE:PATTERN",
        Hook::UretprobeMulti,
        KPROBE,
        48,
    )),
    sleepy(row(
        &["uprobe.session"],
        "uprobe.session/FILE:PATTERN",
        Hook::UprobeSession,
        KPROBE,
        57,
    )),
    sleepy(row(&["usdt"], "usdt/FILE:PROVIDER:NAME", Hook::Usdt, KPROBE, 0)),
    row(
        &["tracepoint", "tp"],
        "tracepoint/GROUP/NAME",
        Hook::Tracepoint,
        5,
        0,
    ),
    row(
        &["raw_tracepoint", "raw_tp"],
        "raw_tracepoint/NAME",
        Hook::RawTracepoint,
        17,
        0,
    ),
    row(
        &["raw_tracepoint.w", "raw_tp.w"],
        "raw_tracepoint.w/NAME",
        Hook::RawTracepointWritable,
        24,
        0,
    ),
    bound(
        row(&["tp_btf"], "tp_btf/NAME", Hook::TypedTracepoint, TRACING, 23),
        "btf_trace_",
    ),
    bound(
        sleepy(row(&["fentry"], "fentry/FUNCTION", Hook::Fentry, TRACING, 24)),
        "",
    ),
    bound(
        sleepy(row(&["fexit"], "fexit/FUNCTION", Hook::Fexit, TRACING, 25)),
        "",
    ),
    bound(
        sleepy(row(
            &["fmod_ret"],
            "fmod_ret/FUNCTION",
            Hook::FmodRet,
            TRACING,
            26,
        )),
        "",
    ),
    row(&["perf_event"], "perf_event", Hook::PerfEvent, 7, 0),
    bound(
        sleepy(row(&["iter"], "iter/NAME", Hook::Iter, TRACING, 28)),
        "bpf_iter_",
    ),
    bound(sleepy(row(&["lsm"], "lsm/HOOK", Hook::Lsm, 29, 27)), "bpf_lsm_"),
    // The kernel takes these as sleepable programs only; see `SectionName::parse`.
    row(&["syscall"], "syscall", Hook::Syscall, 31, 0),
    row(&["socket"], "socket", Hook::Foreign, 1, 0),
    row(&["classifier", "tc", "tcx", "netkit"], "tc", Hook::Foreign, 3, 0),
    row(&["action"], "action", Hook::Foreign, 4, 0),
    row(&["xdp", "xdp.frags"], "xdp", Hook::Foreign, 6, 37),
    row(&["cgroup_skb"], "cgroup_skb/ingress", Hook::Foreign, 8, 0),
    row(&["cgroup"], "cgroup/HOOK", Hook::Left, 0, 0),
    row(&["lwt_in"], "lwt_in", Hook::Foreign, 10, 0),
    row(&["lwt_out"], "lwt_out", Hook::Foreign, 11, 0),
    row(&["lwt_xmit"], "lwt_xmit", Hook::Foreign, 12, 0),
    row(&["sockops"], "sockops", Hook::Foreign, 13, 3),
    row(&["sk_skb"], "sk_skb", Hook::Foreign, 14, 0),
    row(&["sk_msg"], "sk_msg", Hook::Foreign, 16, 7),
    row(&["lwt_seg6local"], "lwt_seg6local", Hook::Foreign, 19, 0),
    row(&["lirc_mode2"], "lirc_mode2", Hook::Foreign, 20, 11),
    row(&["sk_reuseport"], "sk_reuseport", Hook::Foreign, 21, 39),
    row(&["flow_dissector"], "flow_dissector", Hook::Foreign, 22, 17),
    row(&["sk_lookup"], "sk_lookup", Hook::Foreign, 30, 36),
    row(&["netfilter"], "netfilter", Hook::Foreign, 32, 45),
    sleepy(row(&["struct_ops"], "struct_ops", Hook::Left, 27, 0)),
    row(&["freplace"], "freplace/FUNCTION", Hook::Left, 28, 0),
    row(&["lsm_cgroup"], "lsm_cgroup/HOOK", Hook::Left, 29, 43),
];

/// The parts of a section's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionName {
    /// The whole name, as in the object.
    pub text: String,
    /// The target to attach to, behind the first `/`; empty where the object leaves that open.
    pub target: String,
    /// Whether the program may sleep: the name has `.s`.
    pub sleepable: bool,
    /// Whether the program is only loaded when it is asked for by name: the name begins with `?`.
    pub optional: bool,
    kind: Option<usize>,
}

impl SectionName {
    /// Parses a section's name. An unknown kind is an error only when its programs are loaded.
    pub fn parse(text: &str) -> Self {
        let optional = text.starts_with('?');
        let bare = text.strip_prefix('?').unwrap_or(text);
        let (name, target) = bare.split_once('/').unwrap_or((bare, ""));
        let find = |name: &str| KINDS.iter().position(|kind| kind.names.contains(&name));
        let (kind, sleepable) = match (find(name), name.strip_suffix(".s").and_then(find)) {
            (Some(kind), _) => (
                Some(kind),
                KINDS.get(kind).is_some_and(|kind| kind.hook == Hook::Syscall),
            ),
            (None, Some(kind)) if KINDS.get(kind).is_some_and(|kind| kind.sleeps) => (Some(kind), true),
            _ => (None, false),
        };
        Self {
            text: text.to_owned(),
            target: target.to_owned(),
            sleepable,
            optional,
            kind,
        }
    }

    /// The kind of the section, if it is known.
    pub fn kind(&self) -> Option<&'static SectionKind> {
        KINDS.get(self.kind?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let name = SectionName::parse("?fentry.s/vfs_read");
        assert_eq!(
            (name.target.as_str(), name.sleepable, name.optional),
            ("vfs_read", true, true)
        );
        assert_eq!(name.kind().map(|kind| kind.hook), Some(Hook::Fentry));
        assert_eq!(
            SectionName::parse("tp/sched/sched_switch").target,
            "sched/sched_switch"
        );
        assert_eq!(
            SectionName::parse("kprobe.s/x").kind().map(|kind| kind.hook),
            None,
            "kprobes cannot sleep"
        );
        assert_eq!(
            SectionName::parse("kprobe.multi/tcp_*")
                .kind()
                .map(|kind| kind.attach),
            Some(42)
        );
        assert!(SectionName::parse("no_such_kind/x").kind().is_none());
        assert!(
            SectionName::parse("syscall").sleepable,
            "it is never anything else"
        );
        assert_eq!(
            SectionName::parse("struct_ops.s/x").kind().map(|kind| kind.hook),
            Some(Hook::Left)
        );
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<_> = KINDS.iter().flat_map(|kind| kind.names).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
