//! Kprobes and kretprobes on functions, places in functions and system calls: by a perf kprobe, or by an event of tracefs.

use super::request::{AttachRequest, Binding};
use kestrel_bpf::object::Hook;
use kestrel_catalog::attach::{Kprobe, Links};
use kestrel_catalog::code::{Code, LocationSpec};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Program, ProgramKind};
use kestrel_kernel::perf::ProbePlace;
use kestrel_kernel::{Errno, Interface};

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    let (function, offset) = split(request)?;
    if at_return(request) && offset != 0 {
        return Err(request.wrong(format!(
            "a return has no place inside of {function}: leave out +{offset:#x}"
        )));
    }
    if offset != 0 {
        check_instruction(request, &function, offset)?;
    }
    Ok(Binding::default())
}

/// Makes sure that an instruction begins at a place in a function, and may be probed: behind the function's end the kernel would probe another one.
fn check_instruction(request: &AttachRequest<'_>, function: &str, offset: u64) -> Result<()> {
    let kernel = request.kernel;
    if !kernel.has_function(plain(function)) {
        return Err(kernel.no_function(plain(function)));
    }
    let (module, symbol) = match function.split_once(':') {
        Some((module, symbol)) => (Some(module.to_owned()), symbol),
        None => (None, function),
    };
    let symbols = kernel.symbols()?;
    let places = || symbols.named(symbol).filter(|found| found.is_text());
    let first = places().next().map(|found| found.address);
    if module.is_none() && places().any(|found| Some(found.address) != first) {
        return Err(ambiguous(function, offset));
    }
    let wanted = LocationSpec::Symbol {
        module,
        symbol: symbol.to_owned(),
        offset: Some(offset),
    };
    let probeable = Code::new(&kernel.known).and_then(|code| code.probeable(&wanted));
    match probeable {
        Ok(_) => Ok(()),
        Err(error @ (Error::NoPlace { .. } | Error::NoSuchEvent { .. })) => Err(error),
        // Memory cannot be read: how long the function is can still be known, and the kernel looks at the rest.
        Err(_) => {
            let inside = |address: u64| {
                let end = symbols.next_address(address);
                end.is_none_or(|end| address.checked_add(offset).is_some_and(|place| place < end))
            };
            match places().all(|found| inside(found.address)) {
                true => Ok(()),
                false => Err(Error::NoPlace {
                    wanted: wanted.to_string(),
                    why: "the function is not that long".to_owned(),
                }),
            }
        }
    }
}

fn ambiguous(function: &str, offset: u64) -> Error {
    Error::Unsupported {
        what: format!("cannot probe {}", ProbePlace::Symbol(function, offset)),
        why: "several functions have this name: `kestrel bpf run` cannot know which is meant".to_owned(),
    }
}

/// A function's name without its module's.
fn plain(function: &str) -> &str {
    function.split_once(':').map_or(function, |(_, name)| name)
}

fn at_return(request: &AttachRequest<'_>) -> bool {
    request.at_return || matches!(request.kind.hook, Hook::Kretprobe | Hook::Kretsyscall)
}

/// Function and offset of a target: `vfs_read+0x12`, `ext4:ext4_sync`, `openat` (a system call).
fn split(request: &AttachRequest<'_>) -> Result<(String, u64)> {
    let target = request.target()?;
    if matches!(request.kind.hook, Hook::Ksyscall | Hook::Kretsyscall) {
        return Ok((syscall(request, target), 0));
    }
    let Some((function, offset)) = target.split_once('+') else {
        return Ok((target.to_owned(), 0));
    };
    let number = match offset.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => offset.parse().ok(),
    };
    let number = number.ok_or_else(|| {
        request.wrong(format!(
            "`{offset}` is not an offset: FUNCTION+0x12 or FUNCTION+18"
        ))
    })?;
    Ok((function.to_owned(), number))
}

/// The function behind a system call: wrapped on this architecture, plain on others.
fn syscall(request: &AttachRequest<'_>, name: &str) -> String {
    let wrapped = format!("__x64_sys_{name}");
    if request.kernel.has_function(&wrapped) {
        wrapped
    } else {
        format!("__se_sys_{name}")
    }
}

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, _: ProgramKind) -> Result<Links> {
    let (function, offset) = split(request)?;
    one(request, program, &function, offset, at_return(request))
}

/// Attaches to one function, through the interface that was chosen (`request.via`).
pub(super) fn one(
    request: &AttachRequest<'_>,
    program: &Program,
    function: &str,
    offset: u64,
    at_return: bool,
) -> Result<Links> {
    let mut links = Links::default();
    let kprobe = Kprobe {
        at_return,
        counted: false,
        via: request.via,
        ..Kprobe::at(function, offset)
    };
    let attached = links.kprobe(program, &kprobe, &request.kernel.known);
    attached.map_err(|error| explain(request, error, function, offset))?;
    Ok(links)
}

/// Error with the meaning of the kernel's number.
fn explain(request: &AttachRequest<'_>, error: Error, function: &str, offset: u64) -> Error {
    let plain = plain(function);
    let refused = |why: &str| Error::Unsupported {
        what: format!("cannot probe {}", ProbePlace::Symbol(function, offset)),
        why: why.to_owned(),
    };
    match error.errno() {
        Some(Errno::ENOENT | Errno::EINVAL | Errno::EADDRNOTAVAIL) if !request.kernel.has_function(plain) => {
            request.kernel.no_function(plain)
        }
        Some(Errno::EADDRNOTAVAIL) => ambiguous(function, offset),
        Some(Errno::EINVAL) if is_of_program(&error) => Error::Unsupported {
            what: format!(
                "the kernel takes a probe on {}, but does not attach the program {} to it",
                ProbePlace::Symbol(function, offset),
                request.name
            ),
            why: REFUSED_PROGRAM.to_owned(),
        },
        Some(Errno::EINVAL | Errno::EILSEQ) if offset != 0 => refused(
            "no instruction begins there, or the function is not that long (`objdump -d` shows where they do)",
        ),
        Some(Errno::EINVAL) => refused("the kernel bars this function from being probed"),
        _ => error,
    }
}

/// The reason why `perf_event_set_bpf_prog` and `perf_event_attach_bpf_prog` answer EINVAL (kernel/events/core.c, kernel/trace/bpf_trace.c of 6.1 to 7.2), where
/// the type is right.
const REFUSED_PROGRAM: &str = "it writes its context (struct pt_regs), which newer kernels refuse here, or it overrides what the function returns \
(bpf_override_return) and is not at the beginning of one that the kernel marks for that; the kernel does not say which";

/// Whether the probe could be made, and it is the program that was refused.
fn is_of_program(error: &Error) -> bool {
    matches!(error, Error::Kernel(error) if error.interface() == Interface::Attach)
}
