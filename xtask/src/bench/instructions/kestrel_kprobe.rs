//! Ours: the same call with a recorded kprobe: time, pid, tid and three arguments.

use super::row::{Limit, Row};

pub(super) const ROW: Row = Row {
    name: "kestrel-kprobe",
    about: "+ kprobe with three arguments recorded by kestrel",
    baseline: Some("getppid"),
    limit: Some(Limit::Ratio(0.65, "tracefs-kprobe")),
    command: "kestrel record -o /tmp/trace -e 'kprobe:__do_sys_getppid { record(arg0, arg1, arg2) }' \
           -- cost getppid",
};
