//! Hits of kprobes and returns that did not reach a hook's program, as the kernel counts them: in links, in tracefs, or in its memory.

use kestrel_catalog::attach::{Mechanism, own_event};
use kestrel_catalog::code::misses;
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{LinkDetail, LinkInfo, LinkType, ProgramInfo, ProgramType};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The kernel's counts, asked for once where one answer is for all hooks.
pub(in crate::session) struct Misses {
    host: Host,
    /// Of kprobes whose links do not tell, by program.
    memory: OnceCell<Result<HashMap<u32, u64>, String>>,
}

/// The note about runs that are counted nowhere where perf links do not tell what they are of: `trace_call_bpf` in kernel/trace/bpf_trace.c, which runs the programs of
/// kprobes and those that read a tracepoint's formatted entry, counts none there.
pub const UNCOUNTED: &str = "this kernel counts nowhere the hits of kprobes and formatted tracepoints that another BPF program's run on that CPU hid";

/// Whether a program's links leave open how many of its hits were hidden.
pub(in crate::session) fn hides(
    mechanism: Option<&Mechanism>,
    mut links: impl Iterator<Item = LinkInfo>,
) -> bool {
    mechanism.is_some_and(|mechanism| mechanism.is_guarded()) && links.any(|link| is_silent(&link))
}

/// The note about runs that no kernel counts: `perf_trace_buf_alloc`, which makes the entry that the program of a formatted tracepoint reads, gives none while it has given one
/// at the same level (process, softirq, interrupt, NMI) of that CPU. Linux 7 rearms a timer at the end of an interrupt, at the level of what was interrupted.
pub(in crate::session) const NESTED: &str = "perf brings no formatted tracepoint to its program while it brings another one of that CPU to its own, as may happen at the end of an interrupt, and counts none of these";

/// Whether programs of several formatted tracepoints are at work, which may hide each other's hits.
pub(in crate::session) fn nest<L: Iterator<Item = LinkInfo>>(
    hooks: impl Iterator<Item = (ProgramInfo, L)>,
) -> bool {
    let formatted = hooks.filter(|(program, _)| program.kind == ProgramType::TRACEPOINT);
    let links = formatted.flat_map(|(_, links)| links);
    links
        .filter(|link| link.kind == LinkType::PERF_EVENT)
        .nth(1)
        .is_some()
}

/// Perf links say more where the kernel counts.
fn is_silent(link: &LinkInfo) -> bool {
    link.kind == LinkType::PERF_EVENT && matches!(link.detail, LinkDetail::Other)
}

impl Misses {
    pub(in crate::session) fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            memory: OnceCell::new(),
        }
    }

    /// Misses of a hook's program: because it (or one sharing its guard) was running already on that CPU, because the handler of
    /// another kprobe was, or because more calls were on their way than the kernel follows; less what second chances have `taken` of that.
    ///
    /// # Errors
    /// Why there is no way to know.
    pub(in crate::session) fn of<'n>(
        &self,
        mechanism: Option<&Mechanism>,
        program: &ProgramInfo,
        links: impl Iterator<Item = LinkInfo>,
        own_events: impl ExactSizeIterator<Item = &'n str>,
        taken: Option<i64>,
    ) -> Result<u64, String> {
        let nested = program
            .recursion_misses
            .saturating_add_signed(-taken.unwrap_or(0));
        if own_events.len() > 0 {
            let own = own_event::missed(&self.host, own_events).map_err(|error| error.to_string())?;
            return Ok(nested + own);
        }
        let (mut counted, mut silent) = (0, false);
        for link in links {
            silent |= is_silent(&link);
            if let LinkDetail::KprobeMulti { missed, .. } | LinkDetail::Kprobe { missed, .. } = link.detail {
                counted += missed;
            }
        }
        let is_kprobe = program.kind == ProgramType::KPROBE && mechanism.is_some_and(|it| it.is_guarded());
        if silent && is_kprobe {
            counted += self.in_memory(program.id)?;
        }
        Ok(nested + counted)
    }

    fn in_memory(&self, program: u32) -> Result<u64, String> {
        let read = || misses::by_program(&self.host).map_err(|error| error.to_string());
        match self.memory.get_or_init(read) {
            Ok(all) => Ok(all.get(&program).copied().unwrap_or(0)),
            Err(why) => Err(why.clone()),
        }
    }
}
