//! The files behind descriptors: what processes had open when the records began, and what they opened, copied and closed since. What is not sure
//! has no name.

use super::call::{Call, End};
use std::collections::HashMap;

/// Calls that return a new descriptor.
const MAKERS: &[&str] = &[
    "open",
    "openat",
    "openat2",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "socket",
    "accept",
    "accept4",
    "epoll_create",
    "epoll_create1",
    "eventfd",
    "eventfd2",
    "inotify_init",
    "inotify_init1",
    "signalfd",
    "signalfd4",
    "timerfd_create",
    "memfd_create",
    "memfd_secret",
    "pidfd_open",
    "pidfd_getfd",
    "perf_event_open",
    "userfaultfd",
    "fanotify_init",
    "open_tree",
    "open_by_handle_at",
    "fsopen",
    "fsmount",
    "fspick",
    "io_uring_setup",
    "mq_open",
    "landlock_create_ruleset",
];

/// Other calls that change what descriptors mean.
const CHANGERS: &[&str] = &[
    "close",
    "close_range",
    "fcntl",
    "chdir",
    "fchdir",
    "execve",
    "execveat",
    "unshare",
    "chroot",
];

/// AF_NETLINK.
const NETLINK: i64 = 16;
/// F_DUPFD and F_DUPFD_CLOEXEC.
const DUPLICATES: [i64; 2] = [0, 1030];

/// Descriptors of processes, and the files behind them.
#[derive(Clone, Debug, Default)]
pub struct Descriptors {
    of: HashMap<u32, HashMap<i64, String>>,
    /// Netlink sockets by process and descriptor, with their protocols.
    netlink: HashMap<u32, HashMap<i64, i64>>,
}

impl Descriptors {
    /// The current directory, among a process's descriptors.
    pub const CURRENT: i64 = -100;

    /// The calls that must be seen so that names are right.
    pub fn needs(call: &str) -> bool {
        MAKERS.contains(&call) || CHANGERS.contains(&call)
    }

    /// Whether what a call returns is a descriptor.
    pub(crate) fn is_made_by(call: &Call) -> bool {
        let name = call.signature.own_name();
        MAKERS.contains(&name)
            || name == "fcntl" && call.argument(1).is_some_and(|cmd| DUPLICATES.contains(&cmd))
    }

    /// The file behind a descriptor of a process, or its current directory.
    pub fn name(&self, pid: u32, number: i64) -> Option<&str> {
        self.of.get(&pid)?.get(&number).map(String::as_str)
    }

    /// The protocol of the netlink socket that a call is about, by its first argument.
    pub fn netlink(&self, call: &Call) -> Option<i64> {
        let sockets = self.netlink.get(&call.pid)?;
        sockets.get(&call.argument(0)?).copied()
    }

    /// Gives a descriptor a name.
    pub fn insert(&mut self, pid: u32, number: i64, name: impl Into<String>) {
        self.of.entry(pid).or_default().insert(number, name.into());
    }

    /// A process was made: it has what its parent has.
    pub fn fork(&mut self, parent: u32, child: u32) {
        if let Some(files) = self.of.get(&parent).cloned() {
            self.of.insert(child, files);
        }
        if let Some(sockets) = self.netlink.get(&parent).cloned() {
            self.netlink.insert(child, sockets);
        }
    }

    /// Forgets everything: records were lost.
    pub fn clear(&mut self) {
        self.of.clear();
        self.netlink.clear();
    }

    /// A process has ended.
    pub fn remove(&mut self, pid: u32) {
        self.of.remove(&pid);
        self.netlink.remove(&pid);
    }

    /// Follows a call that has returned.
    pub fn follow(&mut self, call: &Call) {
        let End::Returned(value) = call.end else { return };
        if value < 0 {
            return;
        }
        let pid = call.pid;
        if Self::is_made_by(call) {
            let name = self.made(call);
            self.set(pid, value, name);
            let of_netlink = call.signature.own_name() == "socket" && call.argument(0) == Some(NETLINK);
            if let (true, Some(protocol)) = (of_netlink, call.argument(2)) {
                self.netlink.entry(pid).or_default().insert(value, protocol);
            }
            return;
        }
        let name = call.signature.own_name();
        if !CHANGERS.contains(&name) {
            return;
        }
        match (name, call.argument(0)) {
            ("close", Some(number)) => self.set(pid, number, None),
            ("chdir", _) => {
                let path = self.path(pid, Self::CURRENT, call.text(0));
                self.set(pid, Self::CURRENT, path);
            }
            ("fchdir", Some(number)) => {
                let path = self.name(pid, number).map(str::to_owned);
                self.set(pid, Self::CURRENT, path);
            }
            // Those that are closed on exec are not known.
            ("execve" | "execveat", _) => self.keep(pid, |number| number <= 2),
            ("close_range", Some(first)) => {
                let last = call.argument(1).unwrap_or(i64::MAX);
                self.keep(pid, |number| number < first || number > last);
            }
            ("fcntl", _) => {}
            // A call that began before the records did, or one that changes the meaning of paths.
            _ => self.remove(pid),
        }
    }

    /// Sets the meaning of a descriptor from now on: nothing that is known, where it has no name.
    fn set(&mut self, pid: u32, number: i64, name: Option<String>) {
        if let Some(sockets) = self.netlink.get_mut(&pid) {
            sockets.remove(&number);
        }
        match name {
            Some(name) => self.insert(pid, number, name),
            None => {
                if let Some(files) = self.of.get_mut(&pid) {
                    files.remove(&number);
                }
            }
        }
    }

    fn keep(&mut self, pid: u32, keep: impl Fn(i64) -> bool) {
        if let Some(files) = self.of.get_mut(&pid) {
            files.retain(|number, _| keep(*number));
        }
        if let Some(sockets) = self.netlink.get_mut(&pid) {
            sockets.retain(|number, _| keep(*number));
        }
    }

    /// The file behind the descriptor that a call has returned.
    pub fn made(&self, call: &Call) -> Option<String> {
        match call.signature.own_name() {
            // A file without a name.
            "open" | "openat" if Self::is_nameless(call) => None,
            "open" | "creat" => self.path(call.pid, Self::CURRENT, call.text(0)),
            "openat" => self.path(call.pid, call.argument(0)?, call.text(1)),
            "dup" | "dup2" | "dup3" | "fcntl" => self.name(call.pid, call.argument(0)?).map(str::to_owned),
            _ => None,
        }
    }

    fn is_nameless(call: &Call) -> bool {
        /// `__O_TMPFILE`
        const NAMELESS: i64 = 0o20_000_000;
        let place = if call.signature.call == "open" { 1 } else { 2 };
        call.argument(place).is_none_or(|flags| flags & NAMELESS != 0)
    }

    /// A path from the directory behind a descriptor.
    fn path(&self, pid: u32, directory: i64, text: Option<&[u8]>) -> Option<String> {
        let text = text.filter(|text| !text.is_empty() && text.len() < super::EXIT_TEXT)?;
        let path = String::from_utf8_lossy(text);
        if path.starts_with('/') {
            return Some(path.into_owned());
        }
        let directory = self.name(pid, directory)?;
        Some(match path.trim_start_matches("./") {
            "." | "" => directory.to_owned(),
            path => format!("{}/{path}", directory.trim_end_matches('/')),
        })
    }
}
