//! A peer: the same call with a kprobe event of three arguments, recorded into the tracefs ring.

use super::row::Row;

pub(super) const ROW: Row = Row {
    name: "tracefs-kprobe",
    about: "+ kprobe event with three arguments in the tracefs ring",
    baseline: Some("getppid"),
    limit: None,
    command: "cd /sys/kernel/tracing && echo 1 > options/overwrite \
           && echo 'p:bench/getppid __do_sys_getppid a=%di b=%si c=%dx' >> kprobe_events \
           && echo 1 > events/bench/getppid/enable && cost getppid",
};
