//! Why a signal came: `siginfo_t`, whose members depend on the signal and the code.

use super::number::{number, signal};
use crate::syscall::shape::{Show, Width};
use crate::syscall::{Errno, Meaning, system_call};

const SIGCHLD: i64 = 17;
const SIGIO: i64 = 29;
const SIGSYS: i64 = 31;
/// Signals of faults, which have an address: SIGILL, SIGBUS, SIGFPE, SIGSEGV.
const FAULTS: [i64; 4] = [4, 7, 8, 11];
/// `AUDIT_ARCH_X86_64`, whose calls have names here.
const X86_64: u32 = 0xc000_003e;
const SI_USER: i64 = 0;
const SI_TIMER: i64 = -2;
const SI_TKILL: i64 = -6;
const SI_KERNEL: i64 = 128;

/// Names of the kernel's own codes, which depend on the signal.
const CODES: [(i64, Meaning); 8] = [
    (SIGCHLD, Meaning::ChildCode),
    (4, Meaning::IllegalCode),
    (5, Meaning::TrapCode),
    (7, Meaning::BusCode),
    (8, Meaning::ArithmeticCode),
    (11, Meaning::SegmentCode),
    (SIGIO, Meaning::PollCode),
    (SIGSYS, Meaning::SystemCallCode),
];

/// The members behind signal, error and code. Both interfaces have the same, at places that depend on the size of an address.
#[derive(Clone, Copy, Debug)]
struct Members<'b> {
    bytes: &'b [u8],
    width: Width,
}

impl<'b> Members<'b> {
    /// The `int` that lies behind so many words and `int`s.
    fn int(self, words: usize, ints: usize) -> Option<i64> {
        let at = words * self.width.bytes() + 4 * ints;
        Some(i64::from(i32::from_le_bytes(
            *self.bytes.get(at..)?.first_chunk()?,
        )))
    }

    /// The word that lies behind so many words and `int`s.
    fn word(self, words: usize, ints: usize) -> Option<&'b [u8]> {
        // Words lie at multiples of their size.
        let at = (words * self.width.bytes() + 4 * ints).next_multiple_of(self.width.bytes());
        self.bytes.get(at..at + self.width.bytes())
    }
}

/// `{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=7, si_uid=0, si_status=3, si_utime=0, si_stime=0}`, of a program of one of the kernel's interfaces.
pub(in crate::calls) fn information(bytes: &[u8], width: Width, out: &mut String) -> Option<()> {
    let int = |at: usize| Some(i64::from(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
    let (signo, errno, code) = (int(0)?, int(4)?, int(8)?);
    // Nothing came: a wait that does not wait.
    if signo == 0 {
        out.push_str("{}");
        return Some(());
    }
    // Behind three numbers, at a multiple of an address's size.
    let members = Members {
        bytes: bytes.get(12_usize.next_multiple_of(width.bytes())..)?,
        width,
    };
    out.push_str("{si_signo=");
    signal(signo, out);
    out.push_str(", si_code=");
    let codes = CODES.iter().find(|(own, _)| *own == signo);
    match codes {
        Some((_, codes)) if code > 0 && code != SI_KERNEL => codes.write(code, out),
        _ => Meaning::SignalCode.write(code, out),
    }
    if errno != 0 {
        let name = Errno::of(-errno).and_then(|errno| errno.name);
        let name = name.map_or_else(|| errno.to_string(), str::to_owned);
        out.push_str(&format!(", si_errno={name}"));
    }
    match code {
        1.. => of_kernel(members, (signo, code), out)?,
        SI_TIMER => {
            let (timer, overrun) = (members.int(0, 0)?, members.int(0, 1)?);
            out.push_str(&format!(", si_timerid={timer}, si_overrun={overrun}"));
            value(members, out)?;
        }
        SI_USER | SI_TKILL => sender(members, out)?,
        _ => {
            sender(members, out)?;
            value(members, out)?;
        }
    }
    out.push('}');
    Some(())
}

/// Writes the members of a signal that the kernel sends itself.
fn of_kernel(members: Members<'_>, (signo, code): (i64, i64), out: &mut String) -> Option<()> {
    match signo {
        SIGCHLD => {
            sender(members, out)?;
            out.push_str(", si_status=");
            match (code, members.int(0, 2)?) {
                // An exit has a status, other ends have a signal.
                (1, status) => out.push_str(&status.to_string()),
                (_, number) => signal(number, out),
            }
            out.push_str(", si_utime=");
            number(members.word(0, 3)?, Show::Signed, out);
            out.push_str(", si_stime=");
            number(members.word(1, 3)?, Show::Signed, out);
        }
        SIGIO => {
            out.push_str(", si_band=");
            number(members.word(0, 0)?, Show::Signed, out);
            out.push_str(&format!(", si_fd={}", members.int(1, 0)?));
        }
        SIGSYS => {
            out.push_str(", si_call_addr=");
            number(members.word(0, 0)?, Show::Pointer, out);
            let (number, arch) = (members.int(1, 0)?, members.int(1, 1)? as u32);
            match i32::try_from(number) {
                Ok(number) if arch == X86_64 => {
                    out.push_str(&format!(", si_syscall=__NR_{}", system_call(number)))
                }
                _ => out.push_str(&format!(", si_syscall={number}")),
            }
        }
        _ if FAULTS.contains(&signo) => {
            out.push_str(", si_addr=");
            number(members.word(0, 0)?, Show::Pointer, out);
        }
        _ if (members.int(0, 0), members.int(0, 1)) == (Some(0), Some(0)) => {}
        _ => sender(members, out)?,
    }
    Some(())
}

fn sender(members: Members<'_>, out: &mut String) -> Option<()> {
    let (pid, uid) = (members.int(0, 0)?, members.int(0, 1)? as u32);
    out.push_str(&format!(", si_pid={pid}, si_uid={uid}"));
    Some(())
}

/// The value that the sender gave, behind its numbers.
fn value(members: Members<'_>, out: &mut String) -> Option<()> {
    out.push_str(&format!(", si_int={}, si_ptr=", members.int(0, 2)?));
    number(members.word(0, 2)?, Show::Pointer, out);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(width: Width, words: &[i32]) -> String {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(48, 0);
        let mut out = String::new();
        information(&bytes, width, &mut out).unwrap();
        out
    }

    #[test]
    fn members_depend_on_the_signal_and_the_code() {
        for (words, expected) in [
            (&[0][..], "{}"),
            (
                &[17, 0, 1, 0, 7, 0, 3, 0, 5, 0, 6],
                "{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=7, si_uid=0, si_status=3, si_utime=5, si_stime=6}",
            ),
            (
                &[10, 2, -1, 0, 7, 0, 5],
                "{si_signo=SIGUSR1, si_code=SI_QUEUE, si_errno=ENOENT, si_pid=7, si_uid=0, si_int=5, si_ptr=0x5}",
            ),
            (
                &[9, 0, 0, 0, 7, 1],
                "{si_signo=SIGKILL, si_code=SI_USER, si_pid=7, si_uid=1}",
            ),
            (
                &[11, 0, 1, 0, 16],
                "{si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=0x10}",
            ),
            (
                &[11, 0, 128],
                "{si_signo=SIGSEGV, si_code=SI_KERNEL, si_addr=NULL}",
            ),
            (&[14, 0, 128], "{si_signo=SIGALRM, si_code=SI_KERNEL}"),
            (
                &[29, 0, 1, 0, 65, 0, 3],
                "{si_signo=SIGIO, si_code=POLL_IN, si_band=65, si_fd=3}",
            ),
        ] {
            assert_eq!(text(Width::Wide, words), expected);
        }
    }

    #[test]
    fn members_of_32_bit_programs_lie_closer() {
        for (words, expected) in [
            (
                &[17, 0, 1, 7, 0, 3, 5, 6][..],
                "{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=7, si_uid=0, si_status=3, si_utime=5, si_stime=6}",
            ),
            (
                &[10, 0, -1, 7, 0, -5],
                "{si_signo=SIGUSR1, si_code=SI_QUEUE, si_pid=7, si_uid=0, si_int=-5, si_ptr=0xfffffffb}",
            ),
            (
                &[11, 0, 2, 16],
                "{si_signo=SIGSEGV, si_code=SEGV_ACCERR, si_addr=0x10}",
            ),
        ] {
            assert_eq!(text(Width::Narrow, words), expected);
        }
    }

    #[test]
    fn information_that_is_cut_off_has_no_text() {
        let whole: Vec<u8> = [17, 0, 1, 0, 7, 0, 3, 0, 5, 0, 6, 0]
            .iter()
            .flat_map(|word: &i32| word.to_le_bytes())
            .collect();
        for length in 0..whole.len() {
            let mut out = String::new();
            assert_eq!(information(&whole[..length], Width::Wide, &mut out), None);
        }
    }
}
