//! Command lines of the pages that are not run as they stand.

use super::RunMode;

/// Command lines that are not run as they stand: the page, how the line begins, how it is run, and why.
pub(super) const EXCEPTIONS: &[(&str, &str, RunMode, &str)] = &[
    (
        "imports.md",
        "perf record",
        RunMode::With("-- make", "-- sh -c 'sleep 0.1; sleep 0.1'"),
        "guests have nothing to make",
    ),
    (
        "imports.md",
        "kestrel print --where",
        RunMode::With(
            "kestrel print",
            "trace-cmd record -q -e sched:sched_switch -o trace.dat sleep 0.1 && kestrel print",
        ),
        "the reader's recording; that of LTTng in the line after it is one that the test brings",
    ),
    (
        "exports.md",
        "duckdb",
        RunMode::Skip,
        "Debian has no package of DuckDB; the tests of `convert` read Parquet by it",
    ),
    (
        "live.md",
        "kestrel top scheduler events",
        RunMode::Skip,
        "the picture of a view",
    ),
    (
        "live.md",
        "kestrel top -e",
        RunMode::Until("@prio"),
        "it goes on until Ctrl-C, as do the next two",
    ),
    (
        "live.md",
        "kestrel top 'sched:*'",
        RunMode::Until("per second"),
        "it goes on",
    ),
    (
        "live.md",
        "kestrel top -n 3",
        RunMode::With("-n 3", "-n 1"),
        "batches take time",
    ),
    (
        "live.md",
        "kestrel top -n 2",
        RunMode::With("-n 2", "-n 1"),
        "batches take time",
    ),
    (
        "live.md",
        "kestrel top",
        RunMode::Until("per second"),
        "it goes on",
    ),
    (
        "live.md",
        "kestrel run --live",
        RunMode::Until("@["),
        "it goes on",
    ),
    (
        "small-files.md",
        "kestrel record -e 'sched:*,raw_syscalls:*,kmem:*'",
        RunMode::With("--duration 60", "--duration 1"),
        "a minute is long",
    ),
    (
        "small-files.md",
        "kestrel record -e 'sched:*' -a --switch-output=1G",
        RunMode::With("=1G", "=1G --duration 1"),
        "it goes on",
    ),
    (
        "small-files.md",
        "kestrel record -e 'sched:*' -a --switch-output &",
        RunMode::Skip,
        "it goes on; the test `switching` of the command sends the signal",
    ),
    (
        "small-files.md",
        "kill -USR2",
        RunMode::Skip,
        "to the recording before it",
    ),
    (
        "small-files.md",
        "kestrel merge",
        RunMode::Skip,
        "these are recordings of the reader's; the test `switching` of the command merges its own",
    ),
    (
        "small-files.md",
        "kestrel print --from",
        RunMode::With("12.5", "0.2"),
        "the recording is short",
    ),
    (
        "small-files.md",
        "kestrel cut --from",
        RunMode::With("12.5", "0.2"),
        "the recording is short",
    ),
    (
        "small-files.md",
        "kestrel cut -e",
        RunMode::With(" my.trace", ""),
        "the recording of the first line",
    ),
    (
        "small-files.md",
        "kestrel export --to ctf",
        RunMode::With(" small.trace", ""),
        "the recording of the first line",
    ),
    (
        "README.md",
        "kestrel record -e 'sched:sched_switch,sys",
        FIND,
        "the reader's files",
    ),
    (
        "README.md",
        "kestrel agent --dumps",
        RunMode::Until("listening"),
        "it listens until it is interrupted",
    ),
    (
        "tutorial.md",
        "kestrel record -e 'sched:sched_switch,sys",
        FIND,
        "the reader's files",
    ),
    (
        "tutorial.md",
        "kestrel print big | less",
        RunMode::With("less", "cat"),
        "guests have no pager",
    ),
    (
        "tutorial.md",
        "kestrel print big --format json",
        RunMode::With("jq …", "cat"),
        "guests have no jq",
    ),
    (
        "tutorial.md",
        "kestrel trace -e 'sched:sched_switch /args.prev_pidd",
        RunMode::Fails(2),
        "the mistake that is shown",
    ),
    (
        "system-calls.md",
        "kestrel trace --syscalls -- cat /etc/hostname",
        RunMode::Fails(1),
        "the call that fails is shown",
    ),
    (
        "ask-later.md",
        "kestrel report -e 'sched:sched_switch { @[kstack]",
        RunMode::Fails(2),
        "the mistake that is shown",
    ),
    (
        "tables-and-sessions.md",
        "kestrel agent --dumps",
        RunMode::Until("listening"),
        "it listens until it is interrupted",
    ),
    (
        "marks.md",
        "kestrel record",
        RunMode::Beside("deploy.trace/metadata"),
        "a job of the reader's shell",
    ),
    (
        "marks.md",
        "kill -INT $!",
        RunMode::Kill,
        "a job of the reader's shell",
    ),
    (
        "objects.md",
        "clang",
        RunMode::Skip,
        "guests have no compiler: the host's made the objects",
    ),
    (
        "objects.md",
        "kestrel bpf run count.o",
        RunMode::Until("Running"),
        "it runs until it is interrupted",
    ),
    (
        "objects.md",
        "kestrel bpf run tools.o #",
        RunMode::Until("Running"),
        "it runs until it is interrupted",
    ),
    (
        "objects.md",
        "kestrel bpf run tools.o on_open",
        RunMode::Until("Running"),
        "it runs until it is interrupted",
    ),
    (
        "README.md, tables",
        "kestrel record -F 99 -g -a",
        RunMode::With("-a", "-a --duration 1"),
        "it goes on until Ctrl-C",
    ),
    (
        "README.md, tables",
        "kestrel stat -e …",
        RunMode::With("… -- COMMAND", "sched:sched_switch -- true"),
        "the reader's event and command",
    ),
    (
        "README.md, tables",
        "kestrel record -e 'sched:*' -e 'irq:*'",
        RunMode::With("'irq:*'", "'irq:*' -a --duration 1"),
        "it goes on until Ctrl-C",
    ),
    (
        "README.md, tables",
        "kestrel sched record",
        RunMode::As(
            "kestrel sched record sleep 0.2 && for of in latency timehist map wakeups; do kestrel sched $of || exit; done",
        ),
        "the words behind it are its siblings",
    ),
    (
        "README.md, tables",
        "kestrel record --overwrite -e …",
        RunMode::With("…", "'sched:*' -a --duration 1"),
        "the reader's events, and Ctrl-C",
    ),
    (
        "README.md, tables",
        "kestrel run -e PROGRAM",
        RunMode::With("PROGRAM", "'begin { exit() }'"),
        "the reader's program",
    ),
    (
        "README.md, tables",
        "kestrel run -e",
        RunMode::As(
            "kestrel run -e 'kprobe:vfs_read /pid == 42/ { printf(\"%d\\n\", arg2) } interval:ms:100 { exit() }'",
        ),
        "the program beside it, which goes on until Ctrl-C",
    ),
    (
        "README.md, tables",
        "kestrel trace -e 'kprobe:vfs_read",
        RunMode::With("kestrel trace", "kestrel trace --duration 1"),
        "it goes on until Ctrl-C",
    ),
    (
        "README.md, tables",
        "kestrel trace -e …",
        RunMode::With("…", "sched:sched_switch --duration 1"),
        "the reader's events",
    ),
    (
        "README.md, tables",
        "kestrel trace -e",
        RunMode::As("kestrel trace --duration 1 -e 'kprobe:vfs_read { @[arg2] = count() }'"),
        "the same program; guests have the library only where probes of programs are tested",
    ),
    (
        "README.md, tables",
        "kestrel trace --syscalls",
        RunMode::With("--syscalls", "--syscalls -- true"),
        "it goes on until Ctrl-C",
    ),
    (
        "README.md, tables",
        "kestrel report --syscalls",
        RunMode::As("kestrel record --syscalls -- true && kestrel report --syscalls"),
        "of a recording of system calls",
    ),
    (
        "README.md, tables",
        "kestrel probe add 'p:x vfs_read …'",
        RunMode::With(" …", ""),
        "the reader's arguments",
    ),
    (
        "README.md, tables",
        "kestrel mark text",
        RunMode::As(
            "kestrel record -a -e mark --duration 3 & until [ -e /dev/kestrel-mark ]; do sleep 0.1; done; kestrel mark text; code=$?; wait; exit $code",
        ),
        "somebody must listen",
    ),
    (
        "README.md, tables",
        "kestrel start FILE",
        RunMode::With("FILE", "other table.kst"),
        "the reader's table, beside the session of the row before",
    ),
    (
        "tracepoints.md",
        "kestrel trace -p PID -e 'usdt:./server:server:answered",
        RunMode::As(
            "./server 1000000000 1 & kestrel trace -p $! --duration 1 -e 'usdt:./server:server:answered /args.status >= 400 && args.number > 1000/ { record(args) }'; code=$?; kill $! && exit $code",
        ),
        "guests have a server without the field took_us",
    ),
    (
        "tracepoints.md",
        "kestrel trace -p PID -e 'usdt:./server:answered",
        RunMode::As(
            "./server 1000000000 1 & kestrel trace -p $! --duration 1 -e 'usdt:./server:answered { @[args.status] = hist(args.number) }'; code=$?; kill $! && exit $code",
        ),
        "guests have a server without the field took_us",
    ),
    (
        "tracepoints.md",
        "kestrel record -a -e sched:sched_switch",
        RunMode::With("-- ./server", "-- ./server 200 1"),
        "how many requests the guest's server answers",
    ),
    (
        "tracepoints-in-detail.md",
        "kestrel recover core",
        RunMode::Skip,
        "the images are of a program that ended; the crate's test `recorder` recovers such ones",
    ),
    (
        "tracepoints-in-detail.md",
        "kestrel recover rings",
        RunMode::Skip,
        "the images are of a program that ended; the crate's test `recorder` recovers such ones",
    ),
    (
        "tracepoints-in-detail.md",
        "kestrel record -e 'usdt:./shop",
        RunMode::With("-- ./shop", "-- ./shop 50 5"),
        "how many orders the guest's shop takes",
    ),
];

const FIND: RunMode = RunMode::With("find …", "find /bin -name sh");
