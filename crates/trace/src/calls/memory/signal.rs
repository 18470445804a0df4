//! Why a signal came: `siginfo_t`, whose members depend on the signal and the code.

use super::number::{number, signal};
use crate::syscall::Meaning;
use crate::syscall::shape::Show;

const SIGCHLD: i64 = 17;
const SI_QUEUE: i64 = -1;
const SI_TIMER: i64 = -2;
const SI_MESGQ: i64 = -3;
const SI_TKILL: i64 = -6;

/// `{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=7, si_uid=0, si_status=3, si_utime=0, si_stime=0}`.
pub(super) fn information(bytes: &[u8], out: &mut String) -> Option<()> {
    let int = |at: usize| Some(i64::from(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
    let (signo, errno, code) = (int(0)?, int(4)?, int(8)?);
    // Nothing came: a wait that does not wait.
    if signo == 0 {
        out.push_str("{}");
        return Some(());
    }
    out.push_str("{si_signo=");
    signal(signo, out);
    out.push_str(", si_code=");
    let of_child = signo == SIGCHLD && code > 0;
    match of_child {
        true => Meaning::ChildCode.write(code, out),
        false => Meaning::SignalCode.write(code, out),
    }
    if errno != 0 {
        let name = crate::syscall::Errno::of(-errno).and_then(|errno| errno.name);
        out.push_str(&format!(
            ", si_errno={}",
            name.map_or_else(|| errno.to_string(), str::to_owned)
        ));
    }
    let sender = |out: &mut String| {
        out.push_str(&format!(", si_pid={}, si_uid={}", int(16)?, int(20)? as u32));
        Some(())
    };
    let value = |at: usize, out: &mut String| {
        out.push_str(&format!(", si_int={}, si_ptr=", int(at)?));
        number(bytes.get(at..at + 8)?, Show::Pointer, out);
        Some(())
    };
    match code {
        _ if of_child => {
            sender(out)?;
            out.push_str(", si_status=");
            match (code, int(24)?) {
                // An exit has a status, other ends have a signal.
                (1, status) => out.push_str(&status.to_string()),
                (_, number) => signal(number, out),
            }
            let time = |at: usize| Some(i64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
            out.push_str(&format!(", si_utime={}, si_stime={}", time(32)?, time(40)?));
        }
        SI_QUEUE | SI_MESGQ => {
            sender(out)?;
            value(24, out)?;
        }
        SI_TIMER => {
            out.push_str(&format!(", si_timerid={:#x}, si_overrun={}", int(16)?, int(20)?));
            value(24, out)?;
        }
        0 | SI_TKILL => sender(out)?,
        _ => out.push_str(", ..."),
    }
    out.push('}');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &[i32]) -> String {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(48, 0);
        let mut out = String::new();
        information(&bytes, &mut out).unwrap();
        out
    }

    #[test]
    fn members_depend_on_the_code() {
        assert_eq!(text(&[0]), "{}");
        assert_eq!(
            text(&[17, 0, 1, 0, 7, 0, 3]),
            "{si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=7, si_uid=0, si_status=3, si_utime=0, si_stime=0}"
        );
        assert_eq!(
            text(&[10, 2, -1, 0, 7, 0, 5]),
            "{si_signo=SIGUSR1, si_code=SI_QUEUE, si_errno=ENOENT, si_pid=7, si_uid=0, si_int=5, si_ptr=0x5}"
        );
        assert_eq!(
            text(&[9, 0, 0, 0, 7, 1]),
            "{si_signo=SIGKILL, si_code=SI_USER, si_pid=7, si_uid=1}"
        );
    }
}
