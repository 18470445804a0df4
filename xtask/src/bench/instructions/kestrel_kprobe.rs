//! Ours: the same call with a recorded kprobe: time, pid, tid and three arguments.

use super::{Promise, Row};

pub(super) const ROW: Row = Row {
    name: "kestrel-kprobe",
    about: "+ kprobe with three arguments recorded by kestrel",
    over: Some("getppid"),
    promise: Some(Promise::Ratio(0.65, "tracefs-kprobe")),
    line: "kestrel record -o /tmp/trace -e 'kprobe:__do_sys_getppid { record(arg0, arg1, arg2) }' \
           -- cost getppid",
};
