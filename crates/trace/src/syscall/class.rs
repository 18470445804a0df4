//! Classes of system calls (`file`, `net`, …), and sets of calls as people write them: `openat,read*,%file,!stat`.

use super::argument::{ArgumentKind, kind};
use super::compat;
use super::meaning::Meaning;

/// A class of calls.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// `file`; strace's `%file` and `network` are accepted, too.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// One line for help.
    pub about: &'static str,
    /// The calls by the kernel's names; in addition to those whose arguments say so.
    calls: &'static [&'static str],
    /// Whether an argument makes a call one of the class.
    argument: fn(&str, &str) -> bool,
}

fn never(_: &str, _: &str) -> bool {
    false
}

/// A path of a file, as far as names tell: descriptions of keys and names of attributes are not meant.
fn is_path(call: &str, argument: &str) -> bool {
    let is_text = kind(call, argument) == Some(ArgumentKind::Text);
    is_text
        && !matches!(
            argument,
            "name" | "_type" | "_description" | "_key" | "_fs_name" | "uname" | "u_name" | "type"
        )
}

fn is_descriptor(call: &str, argument: &str) -> bool {
    matches!(
        kind(call, argument),
        Some(ArgumentKind::Descriptor | ArgumentKind::Named(Meaning::Directory))
    )
}

/// The classes, as strace has them.
#[rustfmt::skip]
pub const CLASSES: &[Class] = &[
    Class {
        name: "file",
        aliases: &[],
        about: "calls that take the name of a file",
        calls: &["acct", "umount", "name_to_handle_at", "getcwd"],
        argument: is_path,
    },
    Class {
        name: "desc",
        aliases: &["descriptor"],
        about: "calls that take or make a descriptor",
        calls: &[
            "open", "creat", "socket", "socketpair", "pipe", "pipe2", "epoll_create", "epoll_create1", "eventfd", "eventfd2", "inotify_init",
            "inotify_init1", "memfd_create", "memfd_secret", "timerfd_create", "signalfd", "perf_event_open", "select", "pselect6", "poll", "ppoll",
            "pidfd_open", "close_range", "mq_open", "userfaultfd", "fanotify_init", "bpf", "fsopen", "io_uring_setup", "dup",
        ],
        argument: is_descriptor,
    },
    Class {
        name: "net",
        aliases: &["network"],
        about: "calls of sockets",
        calls: &[
            "socket", "socketpair", "bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername", "sendto", "recvfrom", "sendmsg",
            "recvmsg", "sendmmsg", "recvmmsg", "setsockopt", "getsockopt", "shutdown",
        ],
        argument: never,
    },
    Class {
        name: "process",
        aliases: &[],
        about: "calls that begin, end or wait for processes",
        calls: &[
            "fork", "vfork", "clone", "clone3", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "kill", "tkill", "tgkill", "unshare",
            "setns", "arch_prctl", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open", "pidfd_send_signal",
        ],
        argument: never,
    },
    Class {
        name: "signal",
        aliases: &[],
        about: "calls about signals",
        calls: &[
            "kill", "tkill", "tgkill", "pause", "sigaltstack", "signalfd", "signalfd4", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
            "rt_sigqueueinfo", "rt_tgsigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "pidfd_send_signal",
        ],
        argument: never,
    },
    Class {
        name: "ipc",
        aliases: &[],
        about: "calls of System V IPC",
        calls: &[
            "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt", "shmget",
        ],
        argument: never,
    },
    Class {
        name: "memory",
        aliases: &[],
        about: "calls about mappings of memory",
        calls: &[
            "brk", "mmap", "munmap", "mremap", "mprotect", "pkey_mprotect", "madvise", "process_madvise", "msync", "mincore", "mlock", "mlock2",
            "mlockall", "munlock", "munlockall", "mbind", "set_mempolicy", "get_mempolicy", "migrate_pages", "move_pages", "remap_file_pages",
            "shmat", "shmdt", "mseal", "set_mempolicy_home_node", "io_setup", "io_destroy",
        ],
        argument: never,
    },
];

/// The name of a call that the kernel's tracepoints know by another: strace and libc say `fstat`.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("stat", "newstat"),
    ("fstat", "newfstat"),
    ("lstat", "newlstat"),
    ("fstatat", "newfstatat"),
    ("uname", "newuname"),
    ("sendfile", "sendfile64"),
    ("umount2", "umount"),
    ("pread", "pread64"),
    ("pwrite", "pwrite64"),
    ("prlimit", "prlimit64"),
    ("fadvise", "fadvise64"),
];

/// The name by which people know a call: `fstat`, not `newfstat`.
pub fn usual_name(call: &str) -> &str {
    match call {
        "newstat" | "newfstat" | "newlstat" | "newuname" => call.trim_start_matches("new"),
        "sendfile64" => "sendfile",
        "umount" => "umount2",
        _ => call,
    }
}

/// A set of calls: what is wanted, less what is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

impl Set {
    /// Reads `openat,read*,%file,!stat`; `all` and an empty text are all calls.
    pub fn parse(text: &str) -> Self {
        let mut set = Self::default();
        let (mut all, mut text) = (false, text.trim());
        // strace's `-e '!read,write'` excludes both.
        if let Some(rest) = text.strip_prefix('!').filter(|rest| !rest.contains('!')) {
            (all, text) = (true, rest);
        }
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (list, word) = match word.strip_prefix('!') {
                Some(word) => (&mut set.unwanted, word),
                None if all => (&mut set.unwanted, word),
                None => (&mut set.wanted, word),
            };
            list.push(word.to_owned());
        }
        set
    }

    /// Whether a call, with the names of its arguments, is in the set. One of 32-bit programs is called `openat@32`: it is in the set where `openat` is, too.
    pub fn has(&self, call: &str, arguments: &[&str]) -> bool {
        let any = |words: &[String]| words.iter().any(|word| matches(word, call, arguments));
        (self.wanted.is_empty() || any(&self.wanted)) && !any(&self.unwanted)
    }

    /// The words that no call of these matches: misspelt ones.
    pub fn unmatched(&self, calls: &[(String, Vec<String>)]) -> Vec<&str> {
        let words = self.wanted.iter().chain(&self.unwanted);
        let known = |word: &str| {
            calls.iter().any(|(call, arguments)| {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                matches(word, call, &arguments)
            })
        };
        words.map(String::as_str).filter(|word| !known(word)).collect()
    }
}

fn matches(word: &str, call: &str, arguments: &[&str]) -> bool {
    if word == "all" || word == "%all" {
        return true;
    }
    let whole = call;
    let (call, is_compat) = match call.split_once('@') {
        Some((call, _)) => (compat::like(call).0, true),
        None => (call, false),
    };
    if is_compat && word.contains('@') {
        return glob(word, whole);
    }
    let (name, must) = match word.strip_prefix('%') {
        Some(name) => (name, true),
        None => (word, false),
    };
    let class = CLASSES
        .iter()
        .find(|class| class.name == name || class.aliases.contains(&name));
    if let Some(class) = class {
        let by_argument = arguments.iter().any(|argument| (class.argument)(call, argument));
        return by_argument || class.calls.contains(&call);
    }
    let other = OTHER_NAMES.iter().find(|(usual, _)| *usual == word);
    let own = whole.split_once('@').map_or(whole, |(own, _)| own);
    !must
        && (glob(word, own)
            || glob(word, call)
            || glob(word, usual_name(call))
            || other.is_some_and(|(_, own)| *own == call))
}

/// Whether a name matches a pattern with `*` and `?`.
fn glob(pattern: &str, name: &str) -> bool {
    let (mut rest, mut pattern) = (name, pattern);
    loop {
        let Some(first) = pattern.chars().next() else {
            return rest.is_empty();
        };
        let behind = &pattern[first.len_utf8()..];
        if first == '*' {
            let mut starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            return starts.any(|at| glob(behind, &rest[at..]));
        }
        match rest.chars().next() {
            Some(next) if first == '?' || next == first => rest = &rest[next.len_utf8()..],
            _ => return false,
        }
        pattern = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(set: &str, call: &str, arguments: &[&str]) -> bool {
        Set::parse(set).has(call, arguments)
    }

    #[test]
    fn sets_are_names_globs_and_classes() {
        let openat = &["dfd", "filename", "flags", "mode"][..];
        for (set, expected) in [
            ("", true),
            ("all", true),
            ("openat", true),
            ("open*", true),
            ("read*", false),
            ("%file", true),
            ("file", true),
            ("%desc", true),
            ("%net", false),
            ("!openat", false),
            ("!read,write", true),
            ("!read,openat", false),
            ("%file,!openat", false),
            ("open??", true),
        ] {
            assert_eq!(has(set, "openat", openat), expected, "{set}");
        }
        assert!(has("fstat", "newfstat", &["fd", "statbuf"]));
        assert!(has("%network", "connect", &["fd"]));
        assert!(!has("%file", "getxattr", &["name"]));
        assert!(!has("%read", "read", &["fd"]));
        for (set, expected) in [
            ("stat64", true),
            ("fstat", false),
            ("stat", true),
            ("*@32", true),
            ("stat64@32", true),
            ("openat@32", false),
            ("%file", true),
        ] {
            assert_eq!(has(set, "stat64@32", &["filename", "statbuf"]), expected, "{set}");
        }
        assert!(!has("*@32", "newstat", &["filename"]));
    }

    #[test]
    fn misspelt_words_are_found() {
        let calls = [("openat".to_owned(), vec!["dfd".to_owned()])];
        assert_eq!(
            Set::parse("openat,opnat,!%fil").unmatched(&calls),
            ["opnat", "%fil"]
        );
    }
}
