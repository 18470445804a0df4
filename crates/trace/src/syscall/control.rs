//! Arguments that another argument explains: what commands of fcntl(2) and requests of ioctl(2) take.

use super::Meaning;
use super::pointed::When;
use super::shape::{self, Shape, Show};

/// Argument type of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandArgument {
    /// No argument.
    Nothing,
    /// A number, shown so.
    Number(Show),
    /// The address of this.
    Pointer(Shape, When),
}

const INT: Shape = Shape::Number(4, Show::Signed);
const LOCK: Shape = Shape::Members(&shape::FILE_LOCK);
const HELD: Shape = Shape::Members(&shape::FILE_LOCK_HELD);
const OWNER: Shape = Shape::Members(&shape::FILE_OWNER);
const WINDOW: Shape = Shape::Members(&shape::WINDOW);
const TERMINAL: Shape = Shape::Members(&shape::TERMINAL);

use CommandArgument::{Nothing, Number, Pointer};
use When::{After, Before};

/// A command of fcntl(2) with what it takes; others take a number.
#[rustfmt::skip]
const FILE: &[(u32, CommandArgument)] = &{
    use linux_raw_sys::general::*;
    [
        (F_DUPFD, Number(Show::Signed)),
        (F_DUPFD_CLOEXEC, Number(Show::Signed)),
        (F_GETFD, Nothing),
        (F_SETFD, Number(Show::Named(Meaning::DescriptorFlags))),
        (F_GETFL, Nothing),
        (F_SETFL, Number(Show::Named(Meaning::Open))),
        (F_GETLK, Pointer(HELD, After)),
        (F_SETLK, Pointer(LOCK, Before)),
        (F_SETLKW, Pointer(LOCK, Before)),
        (F_OFD_GETLK, Pointer(HELD, After)),
        (F_OFD_SETLK, Pointer(LOCK, Before)),
        (F_OFD_SETLKW, Pointer(LOCK, Before)),
        (F_SETOWN, Number(Show::Signed)),
        (F_GETOWN, Nothing),
        (F_SETOWN_EX, Pointer(OWNER, Before)),
        (F_GETOWN_EX, Pointer(OWNER, After)),
        (F_SETSIG, Number(Show::Named(Meaning::Signal))),
        (F_GETSIG, Nothing),
        (F_SETLEASE, Number(Show::Named(Meaning::LockType))),
        (F_GETLEASE, Nothing),
        (F_SETPIPE_SZ, Number(Show::Signed)),
        (F_GETPIPE_SZ, Nothing),
        (F_ADD_SEALS, Number(Show::Named(Meaning::Seals))),
        (F_GET_SEALS, Nothing),
    ]
};

/// Commands of fcntl(2) that 32-bit programs give other structures, with numbers of their own for locks of 64 bits (include/uapi/asm-generic/fcntl.h).
#[rustfmt::skip]
const FILE_32: &[(u32, CommandArgument)] = &{
    use linux_raw_sys::general::*;
    const SHORT: Shape = Shape::Members(&shape::FILE_LOCK_32);
    const LONG: Shape = Shape::Members(&shape::FILE_LOCK_64);
    const F_GETLK64: u32 = 12;
    const F_SETLK64: u32 = 13;
    const F_SETLKW64: u32 = 14;
    [
        (F_GETLK, Pointer(SHORT, After)),
        (F_SETLK, Pointer(SHORT, Before)),
        (F_SETLKW, Pointer(SHORT, Before)),
        (F_GETLK64, Pointer(LONG, After)),
        (F_SETLK64, Pointer(LONG, Before)),
        (F_SETLKW64, Pointer(LONG, Before)),
        (F_OFD_GETLK, Pointer(LONG, After)),
        (F_OFD_SETLK, Pointer(LONG, Before)),
        (F_OFD_SETLKW, Pointer(LONG, Before)),
    ]
};

/// A request of ioctl(2) with what it takes; others take a number or an address.
#[rustfmt::skip]
const DEVICE: &[(u32, CommandArgument)] = &{
    use linux_raw_sys::ioctl::*;
    [
        (FIOCLEX, Nothing),
        (FIONCLEX, Nothing),
        (TIOCNOTTY, Nothing),
        (TIOCEXCL, Nothing),
        (TIOCNXCL, Nothing),
        (TCGETS, Pointer(TERMINAL, After)),
        (TCSETS, Pointer(TERMINAL, Before)),
        (TCSETSW, Pointer(TERMINAL, Before)),
        (TCSETSF, Pointer(TERMINAL, Before)),
        (TIOCGWINSZ, Pointer(WINDOW, After)),
        (TIOCSWINSZ, Pointer(WINDOW, Before)),
        (FIONREAD, Pointer(INT, After)),
        (FIONBIO, Pointer(INT, Before)),
        (FIOASYNC, Pointer(INT, Before)),
        (TIOCGPGRP, Pointer(INT, After)),
        (TIOCSPGRP, Pointer(INT, Before)),
        (TIOCGSID, Pointer(INT, After)),
        (TIOCOUTQ, Pointer(INT, After)),
        (TIOCGPTN, Pointer(INT, After)),
        (TIOCGETD, Pointer(INT, After)),
        (TIOCSETD, Pointer(INT, Before)),
        (TIOCSPTLCK, Pointer(INT, Before)),
        (BLKSSZGET, Pointer(INT, After)),
        (BLKROGET, Pointer(INT, After)),
        (BLKGETSIZE64, Pointer(Shape::Number(8, Show::Unsigned), After)),
        (FS_IOC_GETFLAGS, Pointer(Shape::Number(4, Show::Bits), After)),
        (FS_IOC_SETFLAGS, Pointer(Shape::Number(4, Show::Bits), Before)),
        (SIOCATMARK, Pointer(INT, After)),
        (FICLONE, Number(Show::Signed)),
        (TCSBRK, Number(Show::Signed)),
        (TCXONC, Number(Show::Signed)),
        (TCFLSH, Number(Show::Signed)),
        (TIOCSCTTY, Number(Show::Signed)),
    ]
};

/// Operations of prctl(2) that take fewer arguments than five, with how many.
#[rustfmt::skip]
const PROCESS: &[(u32, usize)] = &{
    use linux_raw_sys::prctl::*;
    [
        (PR_SET_NAME, 2), (PR_GET_NAME, 2), (PR_SET_PDEATHSIG, 2), (PR_GET_PDEATHSIG, 2), (PR_GET_DUMPABLE, 1), (PR_SET_DUMPABLE, 2),
        (PR_GET_KEEPCAPS, 1), (PR_SET_KEEPCAPS, 2), (PR_GET_SECCOMP, 1), (PR_SET_SECCOMP, 3), (PR_CAPBSET_READ, 2), (PR_CAPBSET_DROP, 2),
        (PR_GET_SECUREBITS, 1), (PR_SET_SECUREBITS, 2), (PR_GET_TIMERSLACK, 1), (PR_SET_TIMERSLACK, 2), (PR_SET_CHILD_SUBREAPER, 2),
        (PR_GET_CHILD_SUBREAPER, 2), (PR_SET_PTRACER, 2),
    ]
};

/// Number of arguments of an operation of prctl(2).
pub fn process_control_arguments(operation: i64) -> usize {
    let found = PROCESS.iter().find(|(own, _)| i64::from(*own) == operation);
    found.map_or(5, |(_, arguments)| *arguments)
}

/// Number of arguments of an operation of futex(2): further ones mean nothing.
pub fn futex_arguments(operation: i64) -> usize {
    // Without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME.
    match operation & 0x7f {
        // FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI.
        7 | 8 => 2,
        // FUTEX_WAKE, FUTEX_FD.
        1 | 2 => 3,
        // FUTEX_WAIT, FUTEX_LOCK_PI and its successor.
        0 | 6 | 13 => 4,
        // FUTEX_REQUEUE, FUTEX_WAIT_REQUEUE_PI.
        3 | 11 => 5,
        _ => 6,
    }
}

/// Argument of a command of fcntl(2).
pub fn file_control(command: i64) -> CommandArgument {
    find(FILE, command)
}

/// Argument of a command of fcntl(2) in a 32-bit program.
pub fn file_control_32(command: i64) -> CommandArgument {
    match FILE_32.iter().any(|(own, _)| i64::from(*own) == command) {
        true => find(FILE_32, command),
        false => file_control(command),
    }
}

/// Argument of a request of ioctl(2).
pub fn device_control(request: i64) -> CommandArgument {
    find(DEVICE, request)
}

fn find(table: &[(u32, CommandArgument)], command: i64) -> CommandArgument {
    let found = table.iter().find(|(own, _)| i64::from(*own) == command);
    found.map_or(Number(Show::Bits), |(_, taken)| *taken)
}
