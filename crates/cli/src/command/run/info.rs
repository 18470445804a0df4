//! `--info`: what this kernel can do, in the layout of bpftrace's report.

use crate::exit::{Exit, Failure};
use kestrel::kernel::Host;
use kestrel::kernel::feature::{Feature, Features};
use kestrel::kernel::procfs;
use std::io::Write;

/// What stands under "Kernel features" and "Probe types": bpftrace's word, and what is tried for it.
const KERNEL: &[(&str, Feature)] = &[
    ("btf", Feature::Btf),
    ("ringbuf", Feature::Ringbuf),
    ("atomics", Feature::Atomics),
    ("raw_tp_cookie", Feature::RawTracepointCookie),
    ("perf_link", Feature::PerfLink),
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
/// What Kestrel itself brings, on every kernel.
const BUILT_IN: &[&str] = &["blazesym", "dwarf", "dwunwind", "libpath_resolv", "usdt"];

/// Prints it.
pub(super) fn run() -> Result<Exit, Failure> {
    let host = Host::default();
    let release = procfs::kernel_release(&host).unwrap_or_default();
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
    for (title, rows) in [("Kernel features", KERNEL), ("Probe types", PROBES)] {
        writeln!(out, "\n{title}")?;
        for (name, feature) in rows {
            let works = features.check(*feature).works();
            writeln!(out, "  {name}: {}", if works { "yes" } else { "no" })?;
        }
    }
    crate::screen::out().write_all(&out)?;
    Ok(Exit::Done)
}
