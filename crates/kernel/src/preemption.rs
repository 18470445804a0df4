//! Preemption inside BPF programs: whether this kernel does it, found by reading the preemption count in one, never by version.
//!
//! Linux 7 calls the programs of tracepoints with preemption on, older ones with preemption off; those of trampolines are called with preemption on by all
//! kernels since 5.13. Where the kernel preempts nothing of its own (`preempt=none`, `preempt=voluntary`) that does not matter.

use crate::bpf::{Link, Map, MapKind, MapSpec, Program, ProgramKind, ProgramSpec};
use crate::error::{Error, Result};
use crate::host::Host;
use crate::procfs;
use kestrel_bpf::asm::Assembler;
use kestrel_bpf::btf::{Btf, PreemptCountPlace, PreemptCountSource};
use kestrel_bpf::code::MapRef;
use kestrel_bpf::helper;
use kestrel_bpf::isa::{Reg, Size};
use std::os::fd::AsFd;

/// Preemption of threads inside programs: where it happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preemption {
    /// In programs on raw and typed tracepoints.
    pub tracepoints: bool,
    /// In programs that a function's trampoline calls (`__bpf_prog_enter_recur` in kernel/bpf/trampoline.c).
    pub trampolines: bool,
}

/// The preemption count as programs read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Where it is.
    pub place: PreemptCountPlace,
    /// Preempt count that the tracepoint and the program add in a program on a raw tracepoint.
    pub tracepoints: u8,
}

impl Count {
    /// Looks; none where the kernel's types have no way to it that this kernel lets programs go, or where what is there is no such count.
    pub fn of(types: &Btf) -> Option<Self> {
        let place = types.preempt_count().into_iter();
        place.filter_map(Self::at).next()
    }

    fn at(place: PreemptCountPlace) -> Option<Self> {
        let no_resched = match place.is_wide {
            true => NO_RESCHED_WIDE,
            false => NO_RESCHED,
        };
        // That bit is set unless rescheduling is needed, which it may be once. The others count what goes on around the program: little.
        let is_count = |seen: &u64| seen & no_resched != 0 && seen & !no_resched <= MAX;
        let look = |_| see(place).ok().flatten();
        let seen = (0..3).filter_map(look).find(is_count)?;
        Some(Self {
            place,
            tracepoints: (seen & OFF) as u8,
        })
    }
}

/// A tracepoint that fires where a thread is made, outside of all locks (`copy_process` in kernel/fork.c).
const TRACEPOINT: &str = "task_newtask";
/// Where the kernel says which of its models of preemption is in force: all of them, that one in parentheses. Under debugfs, which is not always mounted or allowed.
const MODEL: &str = "/sys/kernel/debug/sched/preempt";
/// The mark that the program leaves beside the count: it ran.
const RAN: u64 = 1;
/// The bits of the preemption count that count how often it was switched off (include/linux/preempt.h, `PREEMPT_MASK`).
const OFF: u64 = 0xff;
/// x86's bit that says that rescheduling is not needed (arch/x86/include/asm/preempt.h, `PREEMPT_NEED_RESCHED`).
const NO_RESCHED: u64 = 1 << 31;
/// The same flag where the count has 64 bits.
const NO_RESCHED_WIDE: u64 = 1 << 63;
/// The highest that a count is where no interrupt is handled: preemption and bottom halves are off.
const MAX: u64 = 0xffff;

impl Preemption {
    /// Looks. Where the kernel hides its preemption count, its tracepoints are taken for preempted if it preempts at all: that costs a little and loses nothing.
    pub fn of(host: &Host, types: Option<&Btf>) -> Self {
        if !preempts(host) {
            return Self::default();
        }
        let count = types.and_then(Count::of);
        Self {
            tracepoints: count.is_none_or(|count| count.tracepoints == 0),
            trampolines: true,
        }
    }
}

/// Whether the kernel preempts its own code.
fn preempts(host: &Host) -> bool {
    let read = |path: &str| std::fs::read_to_string(host.path(path)).unwrap_or_default();
    let model = read(MODEL);
    let model = model.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    if let Some((model, _)) = model {
        return is_preempting(model);
    }
    // `#1 SMP PREEMPT_DYNAMIC …`
    let version = read("/proc/sys/kernel/version");
    match version.contains("PREEMPT_DYNAMIC") {
        true => booted_model(host).is_none_or(|model| is_preempting(&model)),
        false => version.contains("PREEMPT"),
    }
}

fn is_preempting(model: &str) -> bool {
    !matches!(model, "none" | "voluntary")
}

/// The model that a kernel with several of them was booted with, where debugfs is out of reach: that of its command line, or the default that it was built with.
/// Another one can be chosen later, through debugfs alone; what is skipped then is counted as missed.
///
/// Linux 7.0 refuses `none` and `voluntary` on processors that have `lazy`, and cannot be built with them there: where they are not the default of such a
/// kernel, the command line is not believed.
fn booted_model(host: &Host) -> Option<String> {
    let config = procfs::config(host).ok().flatten()?;
    let built = [("PREEMPT_NONE", "none"), ("PREEMPT_VOLUNTARY", "voluntary")];
    let built = built.iter().find(|(option, _)| config.is_set(option));
    let built = built.map_or("full", |(_, model)| model);
    let has_all = !config.is_set("ARCH_HAS_PREEMPT_LAZY") || !is_preempting(built);
    let line = std::fs::read_to_string(host.path("/proc/cmdline")).unwrap_or_default();
    let mut asked = line
        .split_whitespace()
        .rev()
        .filter_map(|word| word.strip_prefix("preempt="));
    // The last one that the kernel takes counts.
    let taken = |model: &&str| match *model {
        "none" | "voluntary" => has_all,
        model => matches!(model, "full" | "lazy"),
    };
    Some(asked.find(taken).unwrap_or(built).to_owned())
}

/// A program that notes the preemption count, and what it notes it in; it is refused where the kernel's symbols do not have the variable.
fn program(place: PreemptCountPlace) -> Result<(Program, Map)> {
    let map = Map::create(&MapSpec::new(MapKind::ARRAY, "probe", 4, 16, 1))?;
    let size = if place.is_wide { Size::DW } else { Size::W };
    let mut asm = Assembler::new();
    match place.source {
        PreemptCountSource::Symbol { id, offset } => {
            asm.kernel_variable(Reg::R1, id.0)
                .call(helper::THIS_CPU_PTR)
                .load(size, Reg::R6, Reg::R0, offset.cast_signed());
        }
        PreemptCountSource::RunQueue {
            fair_queue,
            queue,
            distance,
        } => {
            asm.call(helper::GET_CURRENT_TASK);
            for offset in [fair_queue.cast_signed(), queue.cast_signed(), distance] {
                // Memory that cannot be read gives 0, which is no count.
                asm.mov(Reg::R3, Reg::R0)
                    .add(Reg::R3, offset)
                    .mov(Reg::R2, 8)
                    .mov(Reg::R1, Reg::R10)
                    .add(Reg::R1, -8)
                    .call(helper::PROBE_READ_KERNEL)
                    .load(Size::DW, Reg::R0, Reg::R10, -8);
            }
            asm.load(size, Reg::R6, Reg::R10, -8);
        }
    }
    asm.map_value(Reg::R1, MapRef(0), 0)
        .store(Size::DW, Reg::R1, 0, Reg::R6)
        .mov(Reg::R2, RAN as i32)
        .store(Size::DW, Reg::R1, 8, Reg::R2)
        .mov(Reg::R0, 0)
        .exit();
    let code = asm.finish().map_err(|error| Error::Argument {
        subject: "a program that reads the preemption count".to_owned(),
        why: error.to_string(),
    })?;
    let maps = [map.as_fd()];
    let spec = ProgramSpec::new("probe", ProgramKind::RawTracepoint, &code, &maps);
    Ok((Program::load(&spec)?, map))
}

/// Runs that program on [`TRACEPOINT`] and gives the word that it saw; none where it did not run.
fn see(place: PreemptCountPlace) -> Result<Option<u64>> {
    let (program, map) = program(place)?;
    let link = Link::raw_tracepoint(&program, TRACEPOINT, 0)?;
    let _made = std::thread::spawn(|| ()).join();
    drop(link);
    let value = map.lookup(&0_u32.to_ne_bytes())?.unwrap_or_default();
    let word = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    Ok(word(0).filter(|_| word(8) == Some(RAN)))
}

#[cfg(test)]
mod tests {
    use super::preempts;
    use crate::host::Host;
    use std::fs;

    /// Whether a kernel with such files preempts its own code.
    fn with(files: &[(&str, &str)]) -> bool {
        let tree = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        preempts(&Host::new(tree.path()))
    }

    #[test]
    fn the_model_in_force_is_debugfs_then_the_command_lines_then_the_default() {
        let model = "sys/kernel/debug/sched/preempt";
        let version = ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian\n");
        let release = ("proc/sys/kernel/osrelease", "6.18.1\n");
        let built = |text| ("boot/config-6.18.1", text);
        let line = |text| ("proc/cmdline", text);
        let voluntary = built("# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT_VOLUNTARY=y\n");
        assert!(with(&[
            (model, "none voluntary (full) lazy\n"),
            version,
            release,
            voluntary
        ]));
        assert!(!with(&[(model, "none (voluntary) full\n"), line("preempt=full")]));
        assert!(!with(&[version, release, voluntary, line("quiet")]));
        assert!(with(&[version, release, voluntary, line("quiet preempt=full\n")]));
        assert!(!with(&[
            version,
            release,
            built("CONFIG_PREEMPT=y\n"),
            line("preempt=none")
        ]));
        assert!(with(&[version, release, built("CONFIG_PREEMPT=y\n"), line("")]));
        assert!(with(&[version, release, built("CONFIG_PREEMPT_LAZY=y\n")]));
        let built_full = built("CONFIG_PREEMPT=y\nCONFIG_ARCH_HAS_PREEMPT_LAZY=y\n");
        assert!(
            with(&[version, release, built_full, line("preempt=voluntary")]),
            "Linux 7.0 refuses it"
        );
        let built_none = built("CONFIG_PREEMPT_NONE=y\nCONFIG_ARCH_HAS_PREEMPT_LAZY=y\n");
        assert!(!with(&[
            version,
            release,
            built_none,
            line("preempt=voluntary preempt=foo")
        ]));
        assert!(with(&[
            version,
            release,
            built_none,
            line("preempt=none preempt=lazy")
        ]));
        // It does not tell.
        assert!(with(&[version]));
        assert!(with(&[version, release, line("preempt=none")]));
        assert!(with(&[("proc/sys/kernel/version", "#1 SMP PREEMPT_RT\n")]));
        assert!(!with(&[("proc/sys/kernel/version", "#1 SMP Debian\n")]));
    }
}
