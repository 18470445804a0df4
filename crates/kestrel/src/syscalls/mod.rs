//! Recording of system calls: the handlers that record a set of calls with the memory that arguments point to, and the files that processes have open
//! before the session begins.

mod handlers;
mod in_progress;
mod numbers;
mod reads;

use crate::user_stack::UserStack;
pub use in_progress::CallsInProgress;

use handlers::{arguments, number_and_result};
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::catalog::tracepoint::call_arguments;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::procfs;
use kestrel_trace::calls::{Abi, Descriptors, Signatures};
use kestrel_trace::syscall::{CLASSES, Set, usual_name};
use std::collections::BTreeSet;

/// Amount of each call that is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The number and the result.
    NumberAndResult,
    /// Arguments, and the strings that they point to; also the calls that change what descriptors mean.
    ArgumentsToo,
}

/// Call stacks to be recorded with the entry of each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryStacks {
    /// The kernel's stack.
    pub kernel: bool,
    /// The process's stack.
    pub user: UserStack,
}

/// Frames of the kernel's stack: at the entry of a call it has about five.
const KERNEL_FRAMES: u32 = 16;
/// Frames of the process's stack beside the arguments and the environment of a program, which leave no room for more.
const FEW_FRAMES: u32 = 32;

impl EntryStacks {
    /// The fields of a record, in the language; `many` bytes of memory beside leave less room for the process's.
    fn fields(self, many: bool) -> impl Iterator<Item = String> {
        let kernel = self.kernel.then(|| format!("kstack = kstack({KERNEL_FRAMES})"));
        let user = match self.user {
            UserStack::FramePointers if many => Some(format!("ustack = ustack({FEW_FRAMES})")),
            user => user.text(),
        };
        kernel.into_iter().chain(user)
    }
}

/// The calls to be recorded.
#[derive(Clone, Debug)]
pub struct Calls {
    /// The events with their handlers.
    pub events: Vec<String>,
    /// All calls of the kernel.
    pub signatures: Signatures,
    set: Set,
}

impl Calls {
    /// Finds the calls of a set in this kernel.
    ///
    /// # Errors
    /// When no call matches a word of the set, or the kernel has no tracefs.
    pub fn of(catalog: &Catalog, set: &Set, detail: Detail, stacks: EntryStacks) -> Result<Self> {
        let mut signatures = Signatures::default();
        let mut names = Vec::new();
        for (number, signature) in call_arguments::signatures(catalog)? {
            let arguments = signature.names().into_iter().map(str::to_owned).collect();
            let name = match signature.abi {
                Abi::Native => signature.call.clone(),
                Abi::Compat => signature.shown(),
            };
            names.push((name, arguments));
            signatures.insert(u64::from(number), signature);
        }
        if let Some(word) = set.unmatched(&names).first() {
            return Err(unknown(word, &names));
        }
        let events = match detail {
            Detail::NumberAndResult => number_and_result(set, &signatures),
            Detail::ArgumentsToo => arguments(set, &signatures, stacks),
        };
        Ok(Self {
            events,
            signatures,
            set: set.clone(),
        })
    }

    /// Whether some calls are left out.
    pub fn is_subset(&self) -> bool {
        self.signatures.iter().any(|(_, it)| !it.is_in(&self.set))
    }

    /// Calls that are not in the set although they are later variants of calls that are: `openat` of `open`, `newfstatat` of `stat`.
    pub fn newer_variants(&self) -> Vec<String> {
        let names = |shown: bool| {
            let own = self.signatures.of(Abi::Native);
            let of = own.filter(move |(_, it)| it.is_in(&self.set) == shown);
            of.map(|(_, it)| usual_name(&it.call).to_owned())
        };
        let asked: BTreeSet<String> = names(true).collect();
        let later = names(false).filter(|name| asked.iter().any(|asked| is_later(name, asked)));
        later.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Whether a call's name is another's with a suffix of later variants.
fn is_later(name: &str, other: &str) -> bool {
    const SUFFIXES: [&str; 8] = ["at", "at2", "2", "3", "4", "64", "x", "_pwait"];
    let names = [Some(name), name.strip_prefix("new"), name.strip_prefix("newf")];
    let mut behind = names
        .into_iter()
        .flatten()
        .filter_map(|name| name.strip_prefix(other));
    behind.any(|behind| SUFFIXES.contains(&behind))
}

fn unknown(word: &str, calls: &[(String, Vec<String>)]) -> Error {
    /// Names that are shown.
    const NEAR: usize = 4;
    let bare = word.trim_start_matches('%');
    let calls = calls.iter().filter(|(call, _)| !call.contains('@'));
    let calls = calls.map(|(call, _)| usual_name(call));
    let names = CLASSES.iter().map(|class| class.name).chain(calls);
    let near = names
        .filter(|name| bare.len() >= 3 && (name.contains(bare) || name.len() >= 3 && bare.contains(name)));
    Error::NoSuchEvent {
        what: "system call, or class of system calls,".to_owned(),
        wanted: word.to_owned(),
        near: near.take(NEAR).map(str::to_owned).collect(),
    }
}

/// The files that one process, or all, have open: process, descriptor, path. What is opened while this is read may be missing.
pub fn open_files(host: &Host, pid: Option<u32>) -> Vec<(u32, i64, String)> {
    let pids = pid.map_or_else(|| procfs::processes(host).unwrap_or_default(), |pid| vec![pid]);
    let mut all = Vec::new();
    for pid in pids {
        let Ok(open) = procfs::open_files(host, pid) else {
            continue;
        };
        let files = open
            .files
            .into_iter()
            .map(|(number, path)| (i64::from(number), path));
        let current = open.current.map(|path| (Descriptors::CURRENT, path));
        let named = files
            .chain(current)
            .map(|(number, path)| (pid, number, path.display().to_string()));
        all.extend(named);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_calls_have_something_behind_the_names_of_others() {
        for (name, other) in [
            ("openat", "open"),
            ("openat2", "open"),
            ("newfstatat", "fstat"),
            ("newfstatat", "stat"),
            ("dup3", "dup"),
            ("accept4", "accept"),
            ("statx", "stat"),
        ] {
            assert!(is_later(name, other), "{name} {other}");
        }
        for (name, other) in [
            ("open", "openat"),
            ("open_tree", "open"),
            ("read", "read"),
            ("readlink", "read"),
        ] {
            assert!(!is_later(name, other), "{name} {other}");
        }
    }
}
