//! `--info`: what this kernel can do, in the layout of bpftrace's report.

use crate::exit::{Exit, Failure};
use kestrel::btf::Btf;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::kernel::feature::{Feature, Features};
use kestrel::kernel::procfs;
use std::io::Write;
use std::sync::Arc;

/// Lines under "Kernel features" and "Probe types": bpftrace's word, and the feature that is tried for it.
const KERNEL: &[(&str, Feature)] = &[
    ("btf", Feature::Btf),
    ("ringbuf", Feature::Ringbuf),
    ("atomics", Feature::Atomics),
    ("raw_tp_cookie", Feature::RawTracepointCookie),
    ("perf_link", Feature::PerfLink),
];
/// Helpers of the kernel that scripts can make use of.
const HELPERS: &[&str] = &[
    "probe_read",
    "probe_read_str",
    "probe_read_user",
    "probe_read_user_str",
    "probe_read_kernel",
    "probe_read_kernel_str",
    "get_current_cgroup_id",
    "send_signal",
    "override_return",
    "get_boot_ns",
    "dpath",
    "skboutput",
    "get_tai_ns",
    "get_func_ip",
    "jiffies64",
    "for_each_map_elem",
    "get_ns_current_pid_tgid",
    "lookup_percpu_elem",
    "loop",
];
const PROBES: &[(&str, Feature)] = &[
    ("kprobe", Feature::Kprobe),
    ("kretprobe", Feature::Kretprobe),
    ("tracepoint", Feature::Tracepoint),
    ("rawtracepoint", Feature::RawTracepoint),
    ("perf_event", Feature::PerfLink),
    ("fentry", Feature::Fentry),
    ("fexit", Feature::Fexit),
    ("kprobe_multi", Feature::KprobeMulti),
    ("uprobe_multi", Feature::UprobeMulti),
    ("kprobe_session", Feature::KprobeSession),
];
/// Features that Kestrel itself brings, on every kernel.
const BUILT_IN: &[&str] = &["blazesym", "dwarf", "libpath_resolv", "usdt"];

/// Prints what `run --info` says of this machine.
pub(super) fn run() -> Result<Exit, Failure> {
    let host = Host::default();
    let release = procfs::kernel_release(&host).unwrap_or_default();
    let types = Catalog::new(host.clone()).types().ok();
    let features = Features::new(host);
    let mut out = Vec::new();
    writeln!(
        out,
        "System\n  OS: Linux {release}\n  Arch: {}\n",
        std::env::consts::ARCH
    )?;
    writeln!(out, "Build\n  version: Kestrel {}", env!("CARGO_PKG_VERSION"))?;
    for name in BUILT_IN {
        writeln!(out, "  {name}: yes")?;
    }
    writeln!(out, "\nKernel helpers")?;
    for name in HELPERS {
        // bpftrace's names of helpers; the kernel calls some of them otherwise.
        let kernels = match *name {
            "dpath" => "d_path",
            "skboutput" => "skb_output",
            "get_boot_ns" => "ktime_get_boot_ns",
            "get_tai_ns" => "ktime_get_tai_ns",
            "lookup_percpu_elem" => "map_lookup_percpu_elem",
            name => name,
        };
        let named = |types: &Arc<Btf>| types.enumerator(&format!("BPF_FUNC_{kernels}")).is_some();
        let there = types.as_ref().is_some_and(named);
        writeln!(out, "  {name}: {}", yes_or_no(there))?;
    }
    for (title, rows) in [("Kernel features", KERNEL), ("Probe types", PROBES)] {
        writeln!(out, "\n{title}")?;
        for (name, feature) in rows {
            let works = features.check(*feature).works();
            writeln!(out, "  {name}: {}", yes_or_no(works))?;
        }
    }
    let walks = types.is_some_and(|types| types.function("bpf_iter_task").is_some());
    writeln!(out, "  iter: {}", yes_or_no(walks))?;
    crate::screen::out().write_all(&out)?;
    Ok(Exit::Done)
}

fn yes_or_no(is: bool) -> &'static str {
    match is {
        true => "yes",
        false => "no",
    }
}
