//! Programs on a clock: so many times a second on each CPU, as the target says (`99`); 99 where the section leaves it open.

use super::request::AttachRequest;
use kestrel_catalog::Result;
use kestrel_catalog::attach::{Counter, Links};
use kestrel_kernel::bpf::{Program, ProgramKind};
use kestrel_kernel::perf::Software;

const FREQUENCY: u64 = 99;

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    let frequency = match request.target {
        "" => FREQUENCY,
        text => text
            .parse()
            .ok()
            .filter(|f| (1..=100_000).contains(f))
            .ok_or_else(|| request.wrong(format!("`{text}` is not a number of times a second")))?,
    };
    let clock = Counter {
        counter: Software::CpuClock.into(),
        period: 1_000_000_000 / frequency,
        every_cpu: true,
        process: None,
    };
    request.attach((program, kind), &clock, &[])
}
