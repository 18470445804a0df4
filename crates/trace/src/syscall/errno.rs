//! Errors of system calls: their names, and what they say.

/// The kernel returns errors as numbers from here to -1 (include/linux/err.h).
const LOWEST: i64 = -4095;

/// Names of those that only tracers see: the kernel restarts the call or gives EINTR instead.
const RESTARTS: &[(i64, &str, &str)] = &[
    (512, "ERESTARTSYS", "To be restarted if SA_RESTART is set"),
    (513, "ERESTARTNOINTR", "To be restarted"),
    (514, "ERESTARTNOHAND", "To be restarted if no handler"),
    (516, "ERESTART_RESTARTBLOCK", "Interrupted by signal"),
];

/// Errors that the kernel's headers (include/uapi/asm-generic/errno.h) describe in other words than the C library.
#[rustfmt::skip]
const KERNEL_TEXTS: &[(i64, &str)] = &[
    (5, "I/O error"), (9, "Bad file number"), (11, "Try again (operation would block)"), (12, "Out of memory"), (18, "Cross-device link"),
    (23, "File table overflow"), (25, "Not a typewriter"), (33, "Math argument out of domain of func"), (34, "Math result not representable"),
    (35, "Resource deadlock would occur"), (37, "No record locks available"), (38, "Invalid system call number"),
    (40, "Too many symbolic links encountered"), (74, "Not a data message"), (84, "Illegal byte sequence"),
    (95, "Operation not supported on transport endpoint"), (102, "Network dropped connection because of reset"), (122, "Quota exceeded"),
    (125, "Operation Canceled"),
];

/// An error number of the kernel with its name and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errno {
    /// The error's number, positive.
    pub number: i64,
    /// `ENOENT`; none where the number has no name.
    pub name: Option<&'static str>,
    /// `No such file or directory`.
    pub text: String,
    /// Whether the call was interrupted, and whoever made it is not given this number.
    pub interrupted: bool,
}

macro_rules! names {
    ($($name:ident)*) => { &[$((linux_raw_sys::errno::$name as i64, stringify!($name)),)*] };
}

/// Numbers and names.
const NAMES: &[(i64, &str)] = names!(
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL
    ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENOMSG EIDRM
    ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT EBFONT ENOSTR ENODATA ETIME ENOSR ENONET
    ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX
    ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP
    EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN
    ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM
    EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON
);

/// The names of errors and their numbers.
pub fn error_numbers() -> impl Iterator<Item = (&'static str, i64)> {
    NAMES.iter().map(|(number, name)| (*name, *number))
}

/// The number of an error's name: `ENOENT` is 2.
pub fn error_number(name: &str) -> Option<i64> {
    let restarts = RESTARTS.iter().map(|(number, name, _)| (*number, *name));
    let mut all = NAMES.iter().copied().chain(restarts);
    all.find(|(_, own)| *own == name).map(|(number, _)| number)
}

impl Errno {
    /// The error that a returned number stands for; `None` where it stands for itself.
    pub fn of(returned: i64) -> Option<Self> {
        if !(LOWEST..0).contains(&returned) {
            return None;
        }
        let number = -returned;
        if let Some((_, name, text)) = RESTARTS.iter().find(|(own, ..)| *own == number) {
            return Some(Self {
                number,
                name: Some(name),
                text: (*text).to_owned(),
                interrupted: true,
            });
        }
        let name = NAMES.iter().find(|(own, _)| *own == number);
        Some(Self {
            number,
            name: name.map(|(_, name)| *name),
            text: text(number),
            interrupted: false,
        })
    }
}

/// The text of an error in scripts, whatever its sign, as bpftrace has it: the kernel's, which differs from the C library's for some.
pub fn error_text(number: i32) -> String {
    let number = i64::from(number).abs();
    if let Some((_, text)) = KERNEL_TEXTS.iter().find(|(own, _)| *own == number) {
        return (*text).to_owned();
    }
    match NAMES.iter().any(|(own, _)| *own == number) {
        true => text(number),
        false if number == 0 => "Success".to_owned(),
        false => "Unknown error".to_owned(),
    }
}

/// The C library's text for an error.
fn text(number: i64) -> String {
    let number = i32::try_from(number).unwrap_or_default();
    let text = std::io::Error::from_raw_os_error(number).to_string();
    match text.rsplit_once(" (os error ") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_names_and_words() {
        let missing = Errno::of(-2).unwrap();
        assert_eq!(missing.name, Some("ENOENT"));
        assert_eq!(missing.text, "No such file or directory");
        assert!(Errno::of(-512).unwrap().interrupted);
        for value in [0, 3, -4096, i64::MIN] {
            assert_eq!(Errno::of(value), None);
        }
        assert_eq!(Errno::of(-4000).unwrap().name, None);
    }
}
