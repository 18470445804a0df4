//! The system calls that threads are in before their records begin.

use kestrel_kernel::{Error, Host, procfs};
use kestrel_trace::calls::{Abi, EXIT_TEXT, Signatures};
use kestrel_trace::export::CallInProgress;
use kestrel_trace::syscall::ArgumentKind;

/// Stacks of 32-bit programs lie below.
const ADDRESSES_OF_32_BITS: u64 = 1 << 32;

/// The calls that threads of processes are in.
#[derive(Debug, Default)]
pub struct CallsInProgress {
    /// By process and thread.
    pub calls: Vec<CallInProgress>,
    /// Processes with threads whose call cannot be read, and why.
    pub unread: Vec<(u32, Error)>,
}

impl CallsInProgress {
    /// Reads the calls that the threads of a process are in.
    pub fn read(&mut self, host: &Host, pid: u32, signatures: &Signatures) {
        let mut unread = None;
        for tid in procfs::threads(host, pid).unwrap_or_default() {
            match procfs::current_call(host, pid, tid) {
                Ok(Some(call)) => self.calls.push(in_progress((pid, tid), &call, host, signatures)),
                Ok(None) => {}
                // It has ended meanwhile.
                Err(_) if !host.path(format!("/proc/{pid}/task/{tid}")).exists() => {}
                Err(error) => unread = Some(error),
            }
        }
        self.unread.extend(unread.map(|error| (pid, error)));
    }
}

fn in_progress(
    (pid, tid): (u32, u32),
    call: &procfs::CurrentCall,
    host: &Host,
    signatures: &Signatures,
) -> CallInProgress {
    let abi = match call.stack_pointer < ADDRESSES_OF_32_BITS {
        true => Abi::Compat,
        false => Abi::Native,
    };
    let parameters = signatures
        .known(abi, call.number)
        .map_or(&[][..], |it| &it.parameters);
    let arguments = parameters.iter().zip(call.arguments).enumerate();
    let texts = arguments.filter(|(_, (parameter, _))| parameter.kind == Some(ArgumentKind::Text));
    let texts = texts.filter_map(|(place, (_, address))| {
        let text = procfs::text(host, pid, address, EXIT_TEXT).ok()?;
        Some((place, text))
    });
    CallInProgress {
        pid,
        tid,
        abi,
        number: call.number,
        arguments: call.arguments,
        texts: texts.collect(),
    }
}
