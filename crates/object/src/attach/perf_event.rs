//! Programs on a clock: so many times a second on each CPU, as the target says (`99`); 99 where the section leaves it open.

use super::request::Request;
use kestrel_catalog::Result;
use kestrel_catalog::attach::Links;
use kestrel_kernel::bpf::{Program, ProgramKind};
use kestrel_kernel::perf::{PerfEvent, Rate, Software, Target};
use kestrel_kernel::procfs;

const FREQUENCY: u64 = 99;

pub(super) fn attach(request: &Request<'_>, program: &Program, _: ProgramKind) -> Result<Links> {
    let frequency = match request.target {
        "" => FREQUENCY,
        text => text
            .parse()
            .ok()
            .filter(|f| (1..=100_000).contains(f))
            .ok_or_else(|| request.wrong(format!("`{text}` is not a number of times a second")))?,
    };
    let mut links = Links::default();
    for cpu in procfs::online_cpus(request.kernel.host())?.iter() {
        let event = PerfEvent::software(Software::CpuClock, Rate::Frequency(frequency), Target::Cpu(cpu))?;
        event.enable()?;
        links.perf_event(program, event, 0)?;
    }
    Ok(links)
}
