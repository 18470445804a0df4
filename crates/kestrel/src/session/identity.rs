//! Identity of a session's trace: its uuid, its clock, where it was made.

use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::Buffer;
use kestrel_kernel::Host;
use kestrel_kernel::procfs;
use kestrel_trace::info::{ClockOffset, TraceInfo, Uuid};

pub(super) fn new_uuid() -> Result<Uuid> {
    let mut bytes = [0; 16];
    let mut read = || std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes);
    read().map_err(Error::io("read", "/dev/urandom"))?;
    // Version 4, variant 1 (RFC 9562).
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Uuid(bytes))
}

pub(super) fn trace_info(host: &Host, buffers: &[Buffer], uuid: Uuid, command: &str) -> TraceInfo {
    let info = |(number, buffer): (u32, &Buffer)| buffer.ring().geometry().info(number, buffer.name());
    TraceInfo {
        uuid,
        clock: clock_offset(),
        hostname: procfs::hostname(host).unwrap_or_default(),
        kernel_release: procfs::kernel_release(host).unwrap_or_default(),
        machine: std::env::consts::ARCH.to_owned(),
        tracer_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_owned(),
        session: String::new(),
        boot: procfs::boot_id(host).unwrap_or_default(),
        buffers: (0..).zip(buffers).map(info).collect(),
        events: Vec::new(),
    }
}

fn clock_offset() -> ClockOffset {
    let offset = procfs::ClockPair::now().offset().max(0).cast_unsigned();
    ClockOffset {
        seconds: offset / 1_000_000_000,
        nanoseconds: (offset % 1_000_000_000) as u32,
    }
}
