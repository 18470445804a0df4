//! Terminals: the modes of termios(3).

use super::row::{Family, flags, rows};
use crate::syscall::meaning::Meaning;

pub(super) const FAMILIES: &[(Meaning, Family)] = &[
    (
        Meaning::InputModes,
        flags(rows!(bit general [
            IGNBRK, BRKINT, IGNPAR, PARMRK, INPCK, ISTRIP, INLCR, IGNCR, ICRNL, IUCLC, IXON, IXANY, IXOFF, IMAXBEL, IUTF8,
        ])),
    ),
    (
        Meaning::OutputModes,
        flags(rows!(
            & 0x100 general [NL0, NL1]
            & 0x600 general [CR0, CR1, CR2, CR3]
            & 0x1800 general [TAB0, TAB1, TAB2, TAB3]
            & 0x2000 general [BS0, BS1]
            & 0x4000 general [VT0, VT1]
            & 0x8000 general [FF0, FF1]
            bit general [OPOST, OLCUC, ONLCR, OCRNL, ONOCR, ONLRET, OFILL, OFDEL]
        )),
    ),
    (
        Meaning::ControlModes,
        flags(rows!(
            & 0x100f general [
                B0, B50, B75, B110, B134, B150, B200, B300, B600, B1200, B1800, B2400, B4800, B9600, B19200, B38400, B57600, B115200, B230400, B460800,
                B500000, B576000, B921600, B1000000, B1152000, B1500000, B2000000, B2500000, B3000000, B3500000, B4000000, BOTHER,
            ]
            & 0x30 general [CS5, CS6, CS7, CS8]
            bit general [CSTOPB, CREAD, PARENB, PARODD, HUPCL, CLOCAL, CMSPAR, CRTSCTS]
        )),
    ),
    (
        Meaning::LocalModes,
        flags(rows!(bit general [
            ISIG, ICANON, XCASE, ECHO, ECHOE, ECHOK, ECHONL, NOFLSH, TOSTOP, IEXTEN, ECHOCTL, ECHOPRT, ECHOKE, FLUSHO, PENDIN, EXTPROC,
        ])),
    ),
];
