//! Habits of users of perf, trace-cmd, bpftrace and strace, and the names that things have here: one row of [`HABITS`] each. The table is asked only when a command
//! line was refused or failed.

use crate::sessions::store;
use kestrel::kernel::Host;
use kestrel::session::named::SESSION;
use kestrel_trace::event_kind;
use std::ffi::OsString;

/// A habit, and its answer.
#[derive(Debug)]
pub(crate) struct Habit {
    /// The tools that taught it.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page of the documentation has it"))]
    of: &'static str,
    /// The command it is typed after; empty: it stands in a command's place.
    after: &'static str,
    /// The command line as typed.
    typed: Typed,
    /// An example, as it is typed.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page of the documentation has it"))]
    example: &'static str,
    /// Advice as a sentence; `{}` is the text that was typed.
    answer: &'static str,
}

/// Pattern by which a habit is recognised on a command line.
#[derive(Clone, Copy, Debug)]
enum Typed {
    /// One of these words, alone or with a value (`-m 128`, `-m128`, `--max=1`).
    One(&'static [&'static str]),
    /// A word for which this holds.
    Of(fn(&str) -> bool),
    /// The word right behind the command, where this holds for it.
    First(fn(&str) -> bool),
    /// A value of one of these options for which this holds.
    Value(&'static [&'static str], fn(&str) -> bool),
}

use Typed::{First, Of, One, Value};

/// Commands that record.
const RECORDS: &str = "record|trace";
/// Commands that read a trace.
const READS: &str = "report|print|sched";

const fn row(
    of: &'static str,
    after: &'static str,
    typed: Typed,
    example: &'static str,
    answer: &'static str,
) -> Habit {
    Habit {
        of,
        after,
        typed,
        example,
        answer,
    }
}

/// The habits of users of other tools, and what to type instead.
#[rustfmt::skip]
const HABITS: &[Habit] = &[
    row("perf", "", One(&["script"]), "script -i perf.data", "`kestrel print [DIR]` shows a recording as lines; `--format perf-script` those that scripts for `perf script` read, `kestrel export --to perf-data` what perf itself opens"),
    row("perf", "", One(&["annotate"]), "annotate", "`kestrel report -g --lines` shows source lines in call chains; instructions are not annotated"),
    row("perf", "", One(&["diff"]), "diff a b", "`kestrel report --format json` of both recordings can be compared by jq"),
    row("perf", "", One(&["mem", "c2c"]), "mem record", "memory accesses are sampled by the processor, which Kestrel does not ask; page faults are events: `kestrel record -e 'exceptions:*'`"),
    row("perf", "", One(&["lock"]), "lock record", "`kestrel record -e 'lock:contention_*' -g` records who waits, `kestrel report --latency 'lock:contention_*'` how long"),
    row("perf", "", One(&["kmem"]), "kmem stat", "`kestrel record -e 'kmem:*'`, then `kestrel report --by event,comm --value bytes_alloc -e '*alloc*'`"),
    row("perf", "", One(&["kvm"]), "kvm stat", "`kestrel record -e 'kvm:*' -a`, then `kestrel report --latency kvm:kvm_exit,kvm:kvm_entry`"),
    row("perf", "", One(&["timechart"]), "timechart", "`kestrel report --html FILE` draws what each thread and CPU did; `kestrel sched timehist` lists the steps of each task"),
    row("perf", "", One(&["ftrace"]), "ftrace -G vfs_read", "functions are events: `kestrel trace -e 'kprobe:vfs_*'`, with return values `-e 'kretprobe:vfs_*'`"),
    row("perf", "", One(&["evlist"]), "evlist", "`kestrel report [DIR]` begins with the events of a recording"),
    row("perf", "", One(&["convert", "data"]), "data convert --to-ctf", "a recording already is Common Trace Format, which babeltrace2 opens (of a compressed one what `kestrel export --to ctf` makes); `kestrel export --to` writes perf.data, trace.dat, Perfetto, Parquet and more"),
    row("perf", "", One(&["inject"]), "inject", "a recording needs nothing afterwards: names of threads, processes and code are in it"),
    row("perf", "", One(&["buildid-list", "buildid-cache", "archive"]), "buildid-list", "a recording holds the names of its addresses and is read on any machine"),
    row("perf", "", One(&["bench", "test"]), "bench sched", "Kestrel has no workloads: `kestrel stat -- COMMAND` and `kestrel sched record -- COMMAND` measure yours"),
    row("perf", "", One(&["perf"]), "perf record -F 99 -g -a", "leave its name out: `kestrel record`, `stat`, `top`, `report`, `sched`, `trace --syscalls` take what perf's take"),
    row("trace-cmd", "", One(&["trace-cmd"]), "trace-cmd list", "leave its name out: `kestrel record`, `report`, `list` and `stop` take what trace-cmd's take; `stream` is `kestrel trace`"),
    row("bpftrace", "", One(&["bpftrace"]), "bpftrace -e 'BEGIN { exit() }'", "`kestrel run` is bpftrace: `kestrel run script.bt`, `kestrel run -e PROGRAM`, `kestrel run -l PATTERN`"),
    row("perf", "", One(&["kwork"]), "kwork report", "`kestrel record -e 'irq:*,workqueue:*' -a`, then `kestrel report --latency irq:irq_handler_entry,irq:irq_handler_exit`, of softirqs and work items likewise"),
    row("perf", "", One(&["daemon"]), "daemon start", "sessions run on without a terminal: `kestrel start flight`, `kestrel status`, `kestrel buffer dump`, `kestrel stop`"),
    row("perf", "", One(&["version"]), "version", "`kestrel --version`"),
    row("perf", "", One(&["config"]), "config -l", "there is no configuration: options say what is to be done, and table files (`kestrel table`) what sessions do"),
    row("perf", "", One(&["check"]), "check feature bpf", "`kestrel doctor` says what this kernel can do, and why not"),
    row("perf", "", One(&["kallsyms"]), "kallsyms vfs_read", "`kestrel list 'kprobe:*vfs_read*'` finds functions of the kernel; scripts have `kaddr(\"vfs_read\")` and `ksym(ADDRESS)`"),
    row("perf", "", One(&["--list-cmds"]), "--list-cmds", "`kestrel help` lists the commands"),
    row("perf, trace-cmd", "", One(&["profile"]), "profile", "`kestrel record -F 99 -g -a --duration 10`, then `kestrel report -g`"),
    row("trace-cmd", "", One(&["stream"]), "stream -e sched", "`kestrel trace -e 'sched:*' -a` shows events as they happen"),
    row("trace-cmd", "", One(&["show"]), "show", "`kestrel trace -e EVENT` shows events live, `kestrel status` what sessions hold, `kestrel print` a recording"),
    row("trace-cmd", "", One(&["extract", "snapshot", "dump"]), "extract", "`kestrel buffer dump` writes what a running session holds into a trace"),
    row("trace-cmd", "", One(&["reset", "clear"]), "reset", "`kestrel stop` ends a session and takes its probes away; `kestrel record` leaves nothing behind"),
    row("trace-cmd", "", One(&["split"]), "split", "`kestrel cut --from TIME --to TIME -o DIR` writes a part of a recording"),
    row("trace-cmd", "", One(&["restore"]), "restore", "a recording that was cut off is read as it is, up to its last whole packet"),
    row("trace-cmd", "", One(&["hist"]), "hist", "`kestrel report --by EXPR --value EXPR` counts and sums, `kestrel report -g` does it by call chain"),
    row("trace-cmd", "", One(&["listen", "agent", "setup-guest"]), "listen -p 1234", "a recording is a directory: record on the one machine, copy it to the other"),
    row("trace-cmd", "", One(&["options", "check-events"]), "check-events", "`kestrel list` shows the events there are, `kestrel doctor` what works"),
    row("trace-cmd", "", One(&["stack"]), "stack", "the depth of the kernel's stack is not measured; call stacks of events are `kestrel record -g -e EVENT`"),
    row("trace-cmd", "", One(&["set", "attach", "save", "load"]), "set -e sched", "sessions are changed by `kestrel table use` and `kestrel table load`; events that are recorded now are chosen by `kestrel record -e EVENT`"),
    row("lttng", "", One(&["lttng"]), "lttng start", "leave its name out: `kestrel record -e 'sched:*' -o DIR` is create, enable-event and start in one; `kestrel print DIR` is view, also of a trace of LTTng's"),
    row("lttng", "", One(&["create", "enable-event", "enable-channel", "add-context", "destroy", "disable-event", "disable-channel", "set-session", "regenerate", "metadata"]), "enable-event -k sched_switch", "`kestrel record -e sched:sched_switch -o DIR` needs no session: it records until it is interrupted, with time, CPU, process and thread in each record"),
    row("lttng", "", One(&["rotate", "enable-rotation"]), "rotate", "`kestrel record --rotate 1G -e EVENT` goes on in a new directory by size or by time; of a session, `kestrel buffer dump` writes what it holds"),
    row("lttng", "", One(&["track", "untrack"]), "track -k --pid 1", "processes are chosen as recording begins: `kestrel record -p PID,… -e EVENT`"),
    row("lttng", "", One(&["add-trigger", "list-triggers", "remove-trigger"]), "add-trigger --condition event-rule-matches", "handlers of a session act at an event, as `oom:mark_victim { dump(\"10s\") }` does: `kestrel table show before`"),
    row("lttng", "", One(&["view"]), "view", "`kestrel print [DIR]` shows a recording as lines, also one of LTTng's"),
    row("strace", "strace", Value(&["-p"], |value| value.parse::<u32>().is_ok()), "strace -p 1", "`kestrel trace --syscalls -p {}` shows the calls of a process that runs"),
    row("strace, ltrace", "", One(&["strace", "ltrace"]), "strace ls", "`kestrel trace --syscalls -- ls` shows calls as strace does, `-s` beside it a table; functions of libraries are events: `-e uprobe:libc:malloc`"),
    row("SystemTap", "", One(&["stap"]), "stap script.stp", "`kestrel run -e PROGRAM` runs bpftrace's language; what `stap -F` leaves running, `kestrel start FILE` does"),
    row("babeltrace, KernelShark", "", One(&["babeltrace", "babeltrace2", "kernelshark"]), "babeltrace2 kestrel.trace", "`kestrel print [DIR]` shows a recording as lines; babeltrace2 itself opens its directory, and KernelShark what `kestrel export --to trace-dat` makes"),
    row("bcc", "", One(&["opensnoop", "execsnoop", "biolatency", "biosnoop", "offcputime", "funclatency", "funccount", "runqlat", "tcpconnect"]), "execsnoop", "bpftrace's scripts of that name run: `kestrel run {}.bt`; one event is `kestrel trace -e sched:sched_process_exec`"),
    row("trace-cmd", "", One(&["restart"]), "restart", "`kestrel buffer thaw` lets frozen buffers take records again; `kestrel start FILE` begins a session"),
    row("trace-cmd", "", One(&["sqlhist"]), "sqlhist -e 'SELECT start.pid FROM sched_waking AS start'", "`kestrel report --latency BEGIN,END` measures from event to event, `--by EXPR` groups"),
    row("trace-cmd", "", One(&["analyze"]), "analyze trace.dat", "`kestrel report [DIR]` counts events and processes, `kestrel sched latency` run times and delays"),
    row("bpftrace", "", Of(is_script), "script.bt", "`kestrel run {}` runs it"),
    row("bpftrace", "", One(&["-e"]), "-e 'BEGIN { exit() }'", "`kestrel run -e PROGRAM` runs a program"),
    row("bpftrace", "", One(&["-l"]), "-l 'tracepoint:sched:*'", "`kestrel list [PATTERN]` lists events"),
    row("bpftrace", "", One(&["--info"]), "--info", "`kestrel run --info`, and `kestrel doctor` with reasons"),
    row("bpftrace", "run", One(&["--emit-elf", "--emit-llvm", "--aot"]), "run --emit-elf out.o script.bt", "Kestrel makes no object files: it loads what it compiles at once, so there is nothing to compile beforehand; `kestrel run --dry-run -v` shows the instructions"),
    row("perf, bpftrace", "", One(&["-v"]), "-v", "the version is `kestrel -V`; commands have their own `-v`, as `kestrel run -v script.bt`"),
    row("bpftrace", "", One(&["-p", "-c", "-d", "-f", "-q", "-o", "-k", "-B", "-I", "--no-warnings", "--unsafe", "--dry-run", "--usdt-file-activation"]), "-p 1 script.bt", "`kestrel run` takes the options of bpftrace: `kestrel run -p PID script.bt`"),
    row("bpftrace", RECORDS, Of(is_script), "trace script.bt", "`kestrel run {}` runs a script"),
    row("perf", "sched", One(&["-i", "--input"]), "sched latency -i DIR", "the recording stands behind the view: `kestrel sched latency DIR`, `kestrel sched timehist DIR`"),
    row("perf, trace-cmd", READS, One(&["-i", "--input"]), "report -i DIR", "the recording stands alone: `kestrel report DIR`, `kestrel print DIR`"),
    row("perf", RECORDS, One(&["-m", "--mmap-pages", "--subbuf-size"]), "record -m 512 -e sched:sched_switch", "`--buffer-size 2M` is the size of each CPU's ring in bytes"),
    row("trace-cmd", "record", One(&["-b"]), "record -b 2048 -e sched:sched_switch", "`--buffer-size 2M` is the size of each CPU's ring; branch records of the processor are not read"),
    row("perf", "record", One(&["-j", "--branch-any", "--branch-filter"]), "record -j any -- make", "branch records of the processor are not read; `--call-graph dwarf` unwinds without frame pointers"),
    row("perf", "record", One(&["-z", "--compression-level"]), "record -z -e sched:sched_switch", "`--compress`, or `--compress=LEVEL`"),
    row("perf", "record", One(&["--switch-output-event", "--timestamp-filename", "--timestamp-boundary"]), "record --switch-output-event=syscalls:sys_enter_reboot -e sched:sched_switch", "`--switch-output` goes on in a new directory at SIGUSR2, by size or by time, each named by its time; what handlers ask for at an event is `dump`: docs/tables-and-sessions.md"),
    row("perf", "record|trace|stat|sched", One(&["--freq"]), "record --freq=99 -- make", "`-F 99` or `--frequency 99` is a rate of samples"),
    row("perf", RECORDS, Value(&["-F"], |value| value == "max"), "record -F max -- make", "`-F` takes a number: /proc/sys/kernel/perf_event_max_sample_rate has the greatest"),
    row("perf, bpftrace", "top|stat|list", Of(|word| ["-vv", "-vvv"].contains(&word)), "stat -vv -e cycles -- make", "once is all there is: `-v`"),
    row("perf", "record", One(&["-A", "--append"]), "record -A -e sched:sched_switch -- make", "each recording has its own directory, `-o DIR`; `kestrel merge DIR DIR -o DIR` makes one of several"),
    row("perf", "record", One(&["--force"]), "record --force -e sched:sched_switch -- make", "leave it out: what lies there is kept as DIR.old"),
    row("perf", RECORDS, One(&["--exclude-perf"]), "record --exclude-perf -a -e 'syscalls:*'", "leave it out: the recorder's own calls and switches are only recorded with `--include-self`"),
    row("perf", "record", One(&["--user-regs", "--intr-regs", "-I"]), "record --user-regs=ip,sp -e sched:sched_switch", "registers are read by handlers of probes: `-e 'kprobe:vfs_read { record(reg(\"ip\")) }'`"),
    row("perf", "record", One(&["--user-callchains", "--kernel-callchains"]), "record -g --user-callchains -F 99 -- make", "a handler says which stacks: `-e 'profile:hz:99 { record(ustack) }'` records those of processes alone, `record(kstack)` the kernel's"),
    row("perf", "record", One(&["--debuginfod"]), "record --debuginfod -g -F 99 -- make", "names are looked up in the binaries of this machine and their debug files; perf asks a server about what `kestrel export --to perf-data` writes"),
    row("perf", "record", Value(&["-g"], |value| ["fp", "dwarf", "lbr"].contains(&value.split(',').next().unwrap_or_default())), "record -g dwarf -F 99 -- make", "-g takes no value: `--call-graph {}`"),
    row("perf", RECORDS, Value(&["-e", "--event"], |value| ["intel_pt", "intel_bts", "cs_etm", "arm_spe"].iter().any(|unit| value.starts_with(unit))), "record -e intel_pt// -- make", "what the processor traces itself is not read: functions are `-e 'uprobe:./program:*'`, samples of code `-F 999 -g`"),
    row("perf", "record", One(&["-i", "--per-thread"]), "record --per-thread -p 1 -e page-faults", "records say which thread they are of; `-t TID` is one thread alone, `-p PID` a process without its children"),
    row("perf", "record", One(&["--threads", "--affinity", "--strict-freq", "--proc-map-timeout", "--num-thread-synthesize", "--raise-fd-limit", "--clang-opt", "--clang-path", "--mmap-flush", "--setup-filter", "--index", "--nosplice", "--file-version", "--proxy"]), "record --threads -a -e 'sched:*'", "leave it out: all there is to tune is the size of each CPU's ring, `--buffer-size`"),
    row("perf", RECORDS, One(&["--control"]), "record --control fifo:ctl -e sched:sched_switch", "a COMMAND begins when all is attached, which says so to a script (`kestrel record -a -e EVENT -- sh -c 'echo > READY; sleep 10'`); what is recorded can be changed in sessions: `kestrel start flight`, then `kestrel table use` and `kestrel buffer freeze`"),
    row("perf", "record|trace|report|print|sched", One(&["--max-stack", "--min-stack"]), "report --max-stack 5", "stacks are kept and shown whole; `kestrel report -g --percent-limit 2` leaves out what is rare"),
    row("perf", RECORDS, Value(&["-e", "--event"], |value| value.starts_with('{')), "record -e '{cycles,instructions}:S' -- make", "groups of counters are counted, not sampled: `kestrel stat -e '{cycles,instructions}' -- COMMAND`; samples are `-e cycles,instructions`"),
    row("perf", RECORDS, Value(&["-e", "--event"], is_raw_counter), "record -e r01c2 -- make", "a counter by its number is counted, not sampled: `kestrel stat -e {} -- COMMAND`"),
    row("perf", RECORDS, Value(&["-e", "--event"], |value| value.starts_with("mem:")), "record -e mem:0x1000:w -p 1", "an address that is watched is `-e watchpoint:ADDRESS:LENGTH:MODE`, as `-e watchpoint:0x1000:8:w -p PID`"),
    row("perf", RECORDS, Value(&["-e", "--event"], |value| value.starts_with("probe:")), "record -e probe:vfs_read -- make", "probes need no preparation: functions are `-e kprobe:vfs_read`, those of programs `-e uprobe:libc:malloc`"),
    row("perf", RECORDS, Value(&["-e", "--event"], is_group), "record -e sched -e irq", "the events of a group are `-e '{}:*'`"),
    row("perf, trace-cmd", RECORDS, Value(&["-e", "--event"], |value| value.starts_with("sched_")), "record -e sched_switch", "an event has its group before its name: `-e 'sched:{}'`"),
    row("trace-cmd", "record", Value(&["-P"], |value| value.parse::<u32>().is_ok()), "record -P 1234 -e sched:sched_switch", "`-p PID,…` chooses processes, `-t TID,…` threads"),
    row("trace-cmd", "record", Value(&["-N"], |value| value.contains(':')), "record -N host:1234 -e sched:sched_switch", "recordings are not sent: copy the directory when it is complete"),
    row("trace-cmd", "record", Value(&["-C"], |value| value.starts_with(|c: char| c.is_ascii_alphabetic())), "record -C mono -e sched:sched_switch", "the clock is always CLOCK_MONOTONIC; `kestrel print --time` says from when times are counted, and -C takes CPUs"),
    row("trace-cmd", "record", One(&["--profile"]), "record --profile -- make", "`kestrel sched record -g -- COMMAND`, then `kestrel sched latency` and `kestrel report --off-cpu -g`"),
    row("trace-cmd", "record", One(&["-H", "-X", "--module"]), "record -H sched_waking -e sched:sched_switch", "times between two events are taken afterwards: `kestrel report --latency BEGIN,END`; events of a module are `-e 'GROUP:*'`"),
    row("perf", RECORDS, One(&["-D", "--delay"]), "record -D 100 -e sched:sched_switch -- make", "start the command first and record it by `-p PID`; `--from 100ms` leaves the beginning out when reading"),
    row("perf", RECORDS, One(&["-u", "--uid"]), "record -u www-data -e sched:sched_switch", "a predicate chooses users: `-e 'sched:sched_switch /uid == 33/'`"),
    row("perf", RECORDS, One(&["-G", "--cgroup"]), "record -G web -e sched:sched_switch", "a predicate chooses groups: `-e 'sched:sched_switch /cgroup == cgroupid(\"/sys/fs/cgroup/web\")/'`; `kestrel stat -G web` counts one"),
    row("perf", RECORDS, One(&["--no-inherit"]), "record --no-inherit -e sched:sched_switch -- make", "a command's children belong to it; `-t TID` is one thread alone"),
    row("perf", "record", One(&["-T", "--timestamp", "-P", "--period", "--sample-cpu", "-R", "--raw-samples", "-W", "--weight", "--sample-identifier", "--running-time", "--transaction", "--data-page-size", "--code-page-size", "--all-cgroups", "--latency"]), "record -T -e sched:sched_switch", "leave it out: each record has its time, CPU, process, thread and all fields"),
    row("perf", "record", One(&["--all-user", "--all-kernel", "--no-buffering", "--switch-events", "--namespaces", "--no-bpf-event", "--aio", "--call-graph-depth"]), "record --all-user -- make", "leave it out: stacks say what was the kernel's and what the process's, and switches are `-e sched:sched_switch`"),
    row("perf", "record", One(&["-d", "--data", "--phys-data", "--phys-addr"]), "record -d -e page-faults", "leave it out: fields that are addresses are in each record; those of page faults are of `-e 'exceptions:*'`"),
    row("perf", "record", One(&["-s", "--stat", "-N", "--no-buildid-cache", "-B", "--no-buildid", "--buildid-all", "--buildid-mmap", "--kcore", "--vmlinux", "--proc-map", "--cmdlines-size"]), "record -N -e sched:sched_switch", "leave it out: counts and names are in each recording, and nothing is kept elsewhere"),
    row("perf", "record", One(&["-r", "--realtime", "-k", "--clockid", "--date", "--tsync-interval"]), "record -k mono -e sched:sched_switch", "leave it out: the clock is CLOCK_MONOTONIC, `kestrel print --time wall` shows the time of day, and the recorder has its priority"),
    row("perf", "record", One(&["--tail-synthesize", "--synth", "--snapshot", "-S"]), "record -S -e sched:sched_switch", "`--overwrite` keeps the newest events until the end; `kestrel start flight` and `kestrel buffer dump` take them at any time"),
    row("perf", "record", One(&["--off-cpu"]), "record --off-cpu -- make", "`kestrel record -g -e sched:sched_switch -- make`, then `kestrel report --off-cpu` shows where it waited"),
    row("strace", "trace", Value(&["-s"], |value| value.parse::<u32>().is_ok()), "trace --syscalls -s 200 -- ls", "leave it out: strings are shown up to 255 bytes, of buffers 32; -s is the table of `--summary`"),
    row("strace", "trace", Value(&["-S"], |value| ["time", "calls", "errors", "name", "nothing", "count", "avg", "min", "max"].iter().any(|column| value.starts_with(column))), "trace --syscalls -S calls -- ls", "the table of `--summary` is sorted by time; `--format json` lets others sort it"),
    row("perf", "trace", One(&["-s", "-S", "--summary", "--with-summary", "--bpf-summary"]), "trace -s ls", "calls are asked for: `kestrel trace --syscalls -s COMMAND`; one recording of them is `kestrel record --syscalls`"),
    row("perf", RECORDS, Value(&["-e", "--event"], has_modifier), "record -e cycles:u -- make", "counters have no modifiers here: write `{}` without what is behind the last colon; samples of the kernel and of processes are told apart by their stacks"),
    row("trace-cmd", RECORDS, Value(&["-p"], |value| value.starts_with("function")), "record -p function -l vfs_read", "functions are events: `-e 'kprobe:vfs_*'`, with return values `-e 'kretprobe:vfs_*'`; -p takes processes"),
    row("trace-cmd", RECORDS, Value(&["-p"], |value| ["irqsoff", "preemptoff", "preemptirqsoff", "wakeup", "wakeup_rt", "nop", "blk"].contains(&value)), "record -p wakeup", "tracers of ftrace are answered by events: `kestrel sched record` and `kestrel sched latency` for wakeups; -p takes processes"),
    row("trace-cmd", RECORDS, Value(&["-e", "--event"], |value| value == "all"), "record -e all", "`-e '*:*'` is all tracepoints; groups are `-e 'sched:*,irq:*'`"),
    row("perf, trace-cmd", RECORDS, Value(&["-e", "--event"], is_plain), "record -e openat -- ls", "an event has its group before its name: the system call is `syscalls:sys_enter_{}` (`--syscalls={}` shows whole calls), a function `kprobe:{}`; `kestrel list '*{}*'` finds more"),
    row("perf", "trace", One(&["--switch-on", "--switch-off", "--show-on-off-events"]), "trace --switch-on sched:sched_process_exec -e 'sched:*'", "a script goes on and off by itself: `kestrel run -e 'sched:sched_process_exec { @on = 1 } sched:sched_switch /@on/ { printf(\"%s\\n\", comm) }'`"),
    row("perf", "trace", One(&["--tool_stats", "--tool-stats", "--map-dump"]), "trace --tool_stats -- ls", "leave it out: what was lost and missed stands at the end"),
    row("perf", "trace", One(&["--no-syscalls"]), "trace --no-syscalls -e sched:sched_switch", "leave it out: calls are shown when `--syscalls` asks for them, else only the events of `-e`"),
    row("perf", "trace", One(&["--expr", "--trace"]), "trace --expr openat -- ls", "calls are chosen by `--syscalls=openat,close`, events by `-e`"),
    row("perf", "trace", Value(&["-F"], |value| ["all", "maj", "min"].contains(&value)), "trace -F all -- ls", "page faults are `-e 'exceptions:*'` or the counter `-e page-faults`"),
    row("perf", "trace", One(&["--filter-pids"]), "trace --filter-pids 1 -e sched:sched_switch", "a predicate leaves processes out: `-e 'sched:sched_switch /pid != 1/'`"),
    row("perf", "trace", One(&["--max-events"]), "trace --max-events 5 -e sched:sched_switch", "`kestrel trace -e EVENT | head -n 5` ends after so many lines, `--duration TIME` after a time"),
    row("perf", "trace", One(&["--errno-summary"]), "trace --errno-summary -- ls", "`--syscalls --summary --by thread` counts errors by their names, too"),
    row("perf", "trace", One(&["--kernel-syscall-graph"]), "trace --kernel-syscall-graph -- ls", "`--syscalls --kernel-stack` shows the kernel's stack at each call"),
    row("perf", "trace", One(&["--sched"]), "trace --sched -- ls", "`kestrel sched record -- COMMAND`, then `kestrel sched latency` has the times of each task"),
    row("perf", "trace", One(&["--input"]), "trace --input perf.data", "a recording's calls are `kestrel print --syscalls DIR`"),
    row("perf", "trace", Value(&["-i"], |value| [".data", ".dat", ".trace"].iter().any(|end| value.ends_with(end))), "trace -i perf.data", "calls of a recording are `kestrel print --syscalls DIR`"),
    row("perf", "trace", Of(|word| word == "record"), "trace record ls", "`kestrel record --syscalls -- COMMAND` keeps system calls"),
    row("strace, perf", "trace", Value(&["-e"], |value| value.starts_with(['!', '%'])), "trace -e %file -- ls", "sets of calls are `--syscalls=SET`: `--syscalls='{}'`"),
    row("strace", "trace", Value(&["-e"], |value| ["read=", "write=", "abbrev=", "verbose=", "raw=", "decode-fds=", "decode-pids=", "kvm=", "namespace="].iter().any(|start| value.starts_with(start))), "trace -e abbrev=none -- ls", "leave it out: lines of `--syscalls` show structures by their fields, texts up to 255 bytes, and the first 32 bytes of buffers"),
    row("strace", "trace", Value(&["-e"], |value| value.starts_with("status=")), "trace -e status=failed -- ls", "`--syscalls --failed-only` shows what failed; of a recording `kestrel print --where 'args.ret >= 0'` what succeeded"),
    row("strace", "trace", Value(&["-e"], |value| value.starts_with("quiet=")), "trace -e quiet=exit -- ls", "`--syscalls --no-exits` leaves the ends of threads out"),
    row("strace", "trace", Value(&["-e"], |value| value.starts_with("fault=") || value.starts_with("inject=")), "trace -e fault=openat -- ls", "calls are watched, not changed: a script may, `override(RETURN)` in `kestrel run --unsafe`"),
    row("strace", "trace", One(&["--fault", "--inject"]), "trace --syscalls --inject=openat:error=ENOENT -- ls", "calls are watched, not changed: `kestrel run --unsafe` has `override(RETURN)` for scripts"),
    row("strace", "trace", One(&["--string-limit"]), "trace --syscalls --string-limit=200 -- ls", "leave it out: up to 255 bytes of strings are shown, 32 of buffers"),
    row("strace", "trace", Value(&["-a"], |value| value.parse::<u32>().is_ok()), "trace --syscalls -a 80 -- ls", "leave it out: results follow the arguments; -a is all processes"),
    row("strace", "trace", Value(&["-t"], |value| value.parse::<u32>().is_err() && !value.trim_matches('t').is_empty()), "trace --syscalls -t ls", "leave it out: each line has its time, and `kestrel print --time wall` the time of day; -t takes threads"),
    row("strace", "trace", Value(&["-C"], |value| !value.starts_with(|c: char| c.is_ascii_digit())), "trace --syscalls -C ls", "lines are `--syscalls`, the table `--syscalls --summary`; both of one run: `kestrel record --syscalls`, then `print` and `report --syscalls`"),
    row("strace", "trace", One(&["-w", "-U", "--summary-only", "--summary-sort-by", "--summary-wall-clock", "--summary-columns", "--summary-syscall-overhead"]), "trace --syscalls -w -- ls", "`--syscalls --summary` is the table of calls, with the time that each took from its entry to its return"),
    row("strace", "trace", One(&["-z", "--successful-only"]), "trace --syscalls -z -- ls", "`--failed-only` is its opposite; calls that succeed are `kestrel print --where 'args.ret >= 0'` of a recording"),
    row("strace", "trace", One(&["-k", "--stack-traces", "--stack-trace"]), "trace --syscalls -k -- ls", "`--syscalls -g` shows the stacks at each call"),
    row("strace", "trace", Value(&["-P"], |value| value.starts_with('/')), "trace --syscalls -P /etc/passwd -- ls", "calls of a file are found by its name: `-e 'syscalls:sys_enter_openat /str(args.filename) == \"{}\"/'`"),
    row("strace", "trace", One(&["--trace-path"]), "trace --syscalls --trace-path=/etc/passwd -- ls", "calls of a file are found by a predicate: `-e 'syscalls:sys_enter_openat /str(args.filename) == \"/etc/passwd\"/'`"),
    row("strace", "trace", One(&["--attach"]), "trace --syscalls --attach=1", "`-p PID,…` or `-p NAME` are processes that run"),
    row("strace", "trace", One(&["-E", "--env"]), "trace --syscalls -E LANG=C ls", "env sets variables: `-- env NAME=VALUE COMMAND`"),
    row("strace", "trace", One(&["-b", "--detach-on", "-I", "-N", "-d", "--debug", "--tips", "--secontext", "-X", "--const-print-style"]), "trace --syscalls -X verbose -- ls", "leave it out: nothing is stopped or attached to, and numbers with names are shown by name; `--format json` has both"),
    row("strace", "trace", Value(&["-e"], |value| value.starts_with("trace=")), "trace -e trace=openat -- ls", "system calls are chosen by `--syscalls=SET`, with the names and classes of strace's sets"),
    row("strace", "trace", Value(&["-e"], |value| value.starts_with("signal=") || value.starts_with("signals=")), "trace -e signal=none -- ls", "`--syscalls --signal=SET` chooses the signals that stand between calls"),
    row("strace", "trace", Of(|word| ["--quiet=", "--silent=", "-qq"].iter().any(|start| word.starts_with(start))), "trace --syscalls --quiet=exit -- ls", "`--no-exits` leaves the ends of threads out, `--signal=none` the signals"),
    row("strace", "trace", One(&["-f", "-ff", "--follow-forks", "--seccomp-bpf", "--daemonize", "--kill-on-exit", "--interruptible"]), "trace -f -- ls", "leave it out: `kestrel trace --syscalls -- COMMAND` follows all threads and children; events are filtered by `--filter` behind them"),
    row("strace", "trace", Value(&["-c"], |value| value.parse::<u64>().is_err()), "trace --syscalls -c ls", "strace's table of calls is `--syscalls --summary`, or `-s`; `-c N` samples every N-th event"),
    row("strace", "trace", One(&["-T", "-tt", "-ttt", "-r", "-y", "-yy", "-i", "-x", "--time", "--timestamps", "--absolute-timestamps", "--relative-timestamps", "--syscall-times", "--decode-fds", "--decode-pids", "--instruction-pointer", "--syscall-number", "--no-abbrev", "--strings-in-hex", "--libtraceevent_print", "--print-sample", "--force-btf", "--comm", "--no-comm", "--sort-events", "--columns"]), "trace -tt -T -y -- ls", "leave it out: lines of `--syscalls` have the time, how long the call took, and the files behind descriptors"),
    row("strace", "trace", One(&["-Z", "--failure", "--status"]), "trace --syscalls -Z -- ls", "`--failed-only` shows the calls that fail"),
    row("strace", "trace", One(&["-o", "--output", "--output-separately"]), "trace --syscalls -o calls -- ls", "`kestrel record --syscalls -o DIR` keeps calls, `kestrel print DIR` shows them; lines go to standard output, which `> FILE` takes"),
    row("perf", "trace", One(&["--pf"]), "trace --pf=all -- ls", "page faults are events: `-e 'exceptions:*'`"),
    row("trace-cmd", "record", Value(&["-F"], |value| value.parse::<u32>().is_err()), "record -F ls", "the command stands behind the options, and it and its children are followed: `kestrel record -e 'sched:*' -- ls`; -F takes samples a second"),
    row("trace-cmd", RECORDS, One(&["-l"]), "record -l vfs_read", "functions are events: `-e kprobe:vfs_read`, patterns `-e 'kprobe:vfs_*'`"),
    row("trace-cmd", RECORDS, One(&["-n"]), "record -e 'sched:*' -n sched_switch", "name what you want: `-e 'sched:sched_wak*,sched:sched_switch'`; `kestrel print -e` chooses when reading"),
    row("trace-cmd", RECORDS, One(&["-f"]), "record -e sched:sched_switch -f 'prev_pid == 1'", "`--filter 'prev_pid == 1'` behind its event, or `-e 'sched:sched_switch /args.prev_pid == 1/'`"),
    row("trace-cmd", RECORDS, One(&["-P"]), "trace -P 1234 -e sched:sched_switch", "processes are chosen by `-p PID,…`, threads by `-t TID,…`"),
    row("trace-cmd", RECORDS, One(&["-M"]), "record -M 3 -e sched:sched_switch", "CPUs are chosen by `-C 0,1`"),
    row("trace-cmd", RECORDS, One(&["-O"]), "record -O stacktrace -e sched:sched_switch", "`-g` records call stacks"),
    row("trace-cmd", "record", One(&["--compression"]), "record --compression zstd -e sched:sched_switch", "`--compress`, or `--compress=LEVEL`: it is zstd"),
    row("trace-cmd", "record", One(&["--temp"]), "record --temp /tmp -e sched:sched_switch", "leave it out: records are written to the recording at once"),
    row("trace-cmd", "record", One(&["--by-comm", "--stderr"]), "record --by-comm -e sched:sched_switch", "leave it out: only messages stand on standard error; `kestrel report --by comm` counts by name"),
    row("trace-cmd", "record", One(&["--func-stack"]), "record --func-stack", "`kestrel record -g -e kprobe:vfs_read` records the call stack at each call of a function"),
    row("trace-cmd", "record", One(&["--max-graph-depth"]), "record --max-graph-depth 2 -e sched:sched_switch", "functions are named, not followed to a depth: `-e 'kprobe:vfs_*,kretprobe:vfs_*'`, and `kestrel report --latency kprobe:vfs_read,kretprobe:vfs_read` how long they took"),
    row("trace-cmd", "record", One(&["--no-filter"]), "record --no-filter -e 'sched:*'", "`--include-self` records what Kestrel does itself, too"),
    row("perf", "stat", One(&["-i", "--no-inherit"]), "stat -i -- make", "a command is counted with its children; `-t TID` is one thread"),
    row("perf", "stat", One(&["-n", "--null"]), "stat --null -- make", "the elapsed time stands below any counts: `-e task-clock`"),
    row("perf", "stat", One(&["--interval-print"]), "stat --interval-print 1000 -a", "`-I 1000`, or `--interval 1000`"),
    row("perf", "stat", One(&["--interval-count", "--timeout", "--interval-clear"]), "stat -I 100 --interval-count 3 -a", "`--duration TIME` ends counting, `--live` redraws in place"),
    row("perf", "stat", One(&["--no-aggr"]), "stat --no-aggr -a", "`-A`, or `--per-cpu`"),
    row("perf", "stat", One(&["-D", "--delay"]), "stat -D 100 -- make", "begin when it runs: `-p PID`; the shell can wait, `sleep 0.1; kestrel stat -p PID`"),
    row("perf", "stat", One(&["--summary"]), "stat --summary -I 100 -- make", "`--format json -I 100` can be added up; without -I counts are of the whole time"),
    row("perf", "stat", One(&["-S", "--sync", "--pre", "--post"]), "stat --sync -r 3 -- make", "the shell does what stands before and after: `sync; kestrel stat -- COMMAND`"),
    row("perf", "stat", One(&["-j", "--json", "--json-output"]), "stat -j -- make", "`--format json`"),
    row("perf", "stat", One(&["--all-user", "--all-kernel"]), "stat --all-user -- make", "a counter's modifier says so: `-e cycles:u` or `-e cycles:k`"),
    row("perf", "stat", One(&["--for-each-cgroup"]), "stat --for-each-cgroup web,db -a", "`-G web` counts one cgroup; several are counted side by side by as many commands"),
    row("perf", "stat", One(&["--control"]), "stat --control fd:10 -- make", "a part of a run is counted by its process, from when the command is given: `kestrel stat -p PID --duration TIME`"),
    row("perf", "stat", One(&["--iostat"]), "stat --iostat -a", "name the unit's counters: `kestrel list '*/*/'` has those of this machine; requests of block devices are `kestrel stat -e 'block:*'`"),
    row("perf", "stat", One(&["--percore-show-thread", "-u", "--unset-affinity"]), "stat --percore-show-thread -a", "leave it out: counts are of each CPU (`-A`) or of all"),
    row("perf", "stat", One(&["--group"]), "stat --group -e cycles,instructions", "counters of a group stand in braces: `-e '{cycles,instructions}'`"),
    row("trace-cmd", "stat", First(|word| word.ends_with(".dat")), "stat trace.dat", "`kestrel report {}` counts the events of a recording; `kestrel stat -- COMMAND` counts those of a command"),
    row("perf", "stat", One(&["--cputype"]), "stat --cputype core -- make", "the unit stands before the counter: `-e cpu_core/cycles/`"),
    row("perf", "stat", One(&["-d", "--detailed"]), "stat -d -- make", "name the counters: `-e cycles,instructions,cache-references,cache-misses,branches,branch-misses`"),
    row("perf", "stat", One(&["--per-core", "--per-socket", "--per-die", "--per-node", "--per-cache", "--per-cluster"]), "stat --per-core -a", "`-A` counts by CPU, `--per-thread` by thread"),
    row("perf", "stat", One(&["-M", "--metrics", "--topdown", "-T", "--td-level", "--metric-only", "--metric-no-group", "--smi-cost", "--transaction"]), "stat -M IPC -- make", "name the counters: `-e cycles,instructions` prints instructions per cycle, too"),
    row("perf", "stat", Of(|word| word == "record" || word == "report"), "stat report", "counts are not kept in a file: `kestrel stat --format json -I 1000 -o FILE` writes them as they come"),
    row("perf", "stat", One(&["-v", "--verbose", "--table", "-c", "--scale", "--no-scale", "--no-merge", "--hybrid-merge", "--no-csv-summary"]), "stat -v -- make", "leave it out: each line says how much of the time its counter counted; `--format json` has all numbers"),
    row("perf", "stat", One(&["-b", "--bpf-prog", "--bpf-counters"]), "stat --bpf-counters -a", "leave it out; how often programs of sessions run and how long is in `kestrel status`"),
    row("perf", "stat", One(&["-B", "--big-num", "--no-big-num"]), "stat -B -- make", "leave it out: numbers have separators, those of `-x,` and `--format json` have none"),
    row("perf", "report", One(&["--tui", "--gtk"]), "report --tui", "leave it out: `kestrel report` fills a terminal; `--html FILE` writes a page"),
    row("perf", "top", One(&["-a", "--all", "--all-cpus"]), "top -a", "leave it out: without -p, -t or -C all processes are counted"),
    row("perf", "top", One(&["-E", "--entries"]), "top -E 10", "`--rows 10`"),
    row("perf", "top", One(&["-u", "--uid"]), "top -u root", "`-p PID,…` or `-p NAME` choose processes; a predicate users: `-e 'sched:sched_switch /uid == 33/'`"),
    row("perf", "top", One(&["-z", "--zero", "-r", "-f", "-m", "-D", "-k", "-w", "-i", "-v", "--tui"]), "top -z", "leave it out: `kestrel top` counts anew each interval (`-I TIME`) and draws no samples"),
    row("perf", "top", Value(&["-e", "--event"], |value| is_plain(&value.replace('-', "_"))), "top -e cycles", "`kestrel stat -e {} -a --live` shows a counter as it counts; `kestrel top` takes events with their groups"),
    row("perf", "top", One(&["-g", "-F", "--freq", "-c", "-K", "-U", "-s", "--sort", "--call-graph", "--children", "--no-children", "--percent-limit", "--fields", "-j", "--hide_kernel_symbols", "--hide_user_symbols", "--max-stack"]), "top -g", "`kestrel record -F 99 -g -a --duration 10 && kestrel report -g` shows which code runs; `kestrel top` shows events and who causes them"),
    row("perf", "report", One(&["-s"]), "report -s comm,dso", "`--by comm,event` makes the groups, `--sort COLUMN` puts them in order; `-g` has the call chains"),
    row("perf", "report", One(&["--sort"]), "report --sort comm,dso", "`--by comm,event` makes the groups, `--sort COLUMN` puts them in order; `-g` has the call chains"),
    row("perf", "report", Of(|word| ["caller", "callee", "graph", "fractal", "flat", "none"].contains(&word.split(',').next().unwrap_or_default())), "report -g caller perf.data", "the order stands behind `=`: `--call-graph=caller`, `--call-graph=callee`"),
    row("perf", "report|print|cut|export", One(&["-c", "--comms"]), "report -c make", "`--comm NAME,…` chooses threads by name"),
    row("perf", "report|print|cut|export", One(&["-C"]), "report -C 0", "`--cpu 0-3` chooses CPUs"),
    row("perf", "report", One(&["-T", "--threads", "--tasks"]), "report -T", "`--also threads` counts by thread, `--by thread,event` by both"),
    row("perf", "report", One(&["--hierarchy", "--percentage", "--group", "--socket-filter", "--by-comm", "--profile"]), "report --hierarchy", "`--by comm,event` makes groups of any expressions, with their shares"),
    row("perf", "report|print", One(&["--mem-mode", "--branch-history", "--branch-stack", "-b", "--total-cycles", "--itrace", "--insn-trace", "--xed", "--call-trace", "--call-ret-trace", "--max-blocks"]), "report --mem-mode", "what the processor traces itself (branches, memory accesses, instructions) is not in recordings"),
    row("perf", "report", One(&["--mmaps"]), "report --mmaps", "names of code are found when recording ends; where programs were mapped is not shown"),
    row("perf", "report", One(&["--ns"]), "report --ns", "`kestrel print --ns` shows nanoseconds; tables have as many digits as they need"),
    row("perf", "report", One(&["--field-separator", "--column-widths"]), "report --field-separator=,", "`--format json` is for programs, `kestrel print --format csv` for tables"),
    row("trace-cmd", "report", One(&["--ts-diff", "--ts-offset", "--ts2secs", "--raw-ts", "--nodate", "--ts-check", "--align-ts", "-1", "-2"]), "report --ts-diff", "`kestrel print --time delta` counts from the record before; it takes `start`, `wall` and `mono`, too"),
    row("trace-cmd", "report", One(&["--events", "--check-events", "-E"]), "report --events", "`kestrel list -v EVENT` shows the fields of an event"),
    row("trace-cmd", "report", Value(&["-F"], |value| value.contains([':', '=', '<', '>', '&'])), "report -F 'sched_switch: prev_pid == 1'", "`kestrel print -e sched:sched_switch --where 'prev_pid == 1'` filters records"),
    row("perf", "report", One(&["--children"]), "report --children", "leave it out: that is how it is; `--no-children` counts only a function's own"),
    row("perf", "report", One(&["-f", "--force", "-q", "--quiet", "--skip-empty", "--stitch-lbr", "--show-ref-call-graph", "--debug", "--boundary", "-a"]), "report --force perf.data", "leave it out: anyone who can read a recording can report it, and tables show only what was recorded"),
    row("perf", "report", One(&["--inline", "--no-inline", "--ignore-vmlinux", "--demangle-kernel", "--disable-order", "--stdio-color", "-k", "--vmlinux", "--kallsyms", "--demangle", "--no-demangle", "-v", "--show-total-period", "--symfs", "--objdump", "--source", "--no-source", "--full-source-path", "-M", "-U", "--hide-unresolved"]), "report --no-inline", "leave it out: names of code are in the recording; `--lines` shows inlined functions and source lines"),
    row("trace-cmd", "report", Value(&["-t"], |value| value.parse::<u32>().is_err()), "report -t trace.dat", "`kestrel print --ns` shows times with nanoseconds; -t takes threads"),
    row("perf", "report", One(&["-n", "--show-nr-samples", "--header", "--header-only", "-I", "--show-info", "--uname", "--version", "--first-event", "--last-event", "--stat", "--stats"]), "report -n", "leave it out: tables have counts, and where a recording is from stands above them"),
    row("perf", "report", One(&["-D", "--dump-raw-trace", "--raw-trace", "--pretty", "-N", "-V", "-P", "-O", "-L"]), "report -D", "`kestrel print --format json` has each record with all fields"),
    row("perf", "report", One(&["--time-quantum", "--samples", "--show-cpu-utilization", "--parallelism"]), "report --time-quantum 100ms", "`--by EXPR,…` makes groups of any expressions: `--by 'nsecs / 100000000,comm'` of every tenth of a second, `--by cpu` of CPUs"),
    row("perf", "report|print", One(&["--switch-on", "--switch-off"]), "report --switch-on sched:sched_process_exec", "a program over the recording goes on and off by itself: `kestrel run -e 'EVENT { @on = 1 } EVENT /@on/ { @[comm] = count() }' --trace DIR`"),
    row("trace-cmd", "report", One(&["-B"]), "report -B main trace.dat", "`kestrel print --buffer NAME` shows the records of one buffer"),
    row("perf", "print", One(&["--max-events"]), "print --max-events 5", "`kestrel print | head -n 5` ends after so many lines; with -g a record has several"),
    row("perf", "print", One(&["--dlfilter", "--dlarg"]), "print --dlfilter filter.so", "`--where` chooses records by any fields, `kestrel run --trace DIR script.bt` runs a program over them"),
    row("perf", "report", One(&["-F", "--fields"]), "report -F overhead,sym", "`--by EXPR,…` and `--value EXPR` choose columns"),
    row("perf", "report", One(&["-S", "--symbols", "-d", "--dsos", "--dso", "--filter", "--symbol-filter", "--ignore-callees", "--parent", "-x", "--exclude-other"]), "report -S vfs_read", "`--where` chooses records by any field: `--where 'comm == \"make\"'`"),
    row("trace-cmd", "report", One(&["-l", "-R", "-r", "-w", "-W"]), "report -R", "`kestrel print` shows records as lines, `--format json` with raw values; `kestrel sched latency` has wakeup latencies"),
    row("perf", "print", One(&["-G", "--hide-call-graph"]), "print -G", "stacks are shown where they were recorded with -g; `--format csv | cut -d, -f1-6` has none"),
    row("perf", "print", One(&["-D", "--dump-raw-trace", "-v", "--show-kernel-path"]), "print -D", "`--format json` has all that is in a record"),
    row("perf", "print", One(&["--header", "--header-only", "-I"]), "print --header", "`kestrel report [DIR]` begins with where and when it was recorded"),
    row("perf", "print", Of(|word| word.starts_with("--show-")), "print --show-task-events", "begins, ends and names of tasks are events: `kestrel record -e 'task:*,sched:sched_process_*'`; losses stand at the end"),
    row("perf", "print", One(&["-s", "--script", "-g", "--gen-script", "-l", "--list"]), "print -s script.py", "`kestrel run --trace DIR script.bt` runs a program over a recording; for scripts of other languages there is `--format json`"),
    row("perf", "print", One(&["--deltatime"]), "print --deltatime", "`--time delta`"),
    row("babeltrace2", "print", One(&["--clock-seconds", "--clock-cycles", "--no-delta"]), "print --clock-seconds DIR", "leave it out: times are seconds of the recording's clock, `--time wall`, `start` or `delta` others"),
    row("babeltrace2", "print", One(&["--clock-gmt", "--clock-date", "--clock-offset", "--clock-offset-ns"]), "print --clock-date DIR", "`--time wall` is the time of day; with `--format json` ns since 1970"),
    row("babeltrace2", "print", One(&["--names"]), "print --names all DIR", "leave it out: fields have their names; `--format json` and `csv` have all of a record"),
    row("babeltrace2", "print", One(&["--begin", "-b", "--end", "--timerange"]), "print --begin 10 DIR", "`--from TIME --to TIME` choose times: seconds since the start, a time of day, or `@` and a time as lines show it"),
    row("babeltrace2", "print", One(&["--stream-intersection"]), "print --stream-intersection DIR", "leave it out: all streams are read in the order of time; `--from` and `--to` choose a part"),
    row("babeltrace2", "print", One(&["-o", "--output", "--output-format"]), "print -o ctf DIR", "lines go to standard output, which `> FILE` takes; `kestrel export --to ctf -o DIR` writes a trace"),
    row("babeltrace2", "print", One(&["--input-format", "--component", "--params", "--connect", "--plugin-path", "--log-level"]), "print --input-format ctf DIR", "leave it out: a recording is recognised by what it holds, and there are no plugins"),
    row("perf", "print", One(&["--reltime"]), "print --reltime", "`--time start`"),
    row("perf, babeltrace2", "print", One(&["--inline", "--full-source-path", "--addr2line", "--debug-info"]), "print --inline perf.data", "`--lines` shows inlined functions and source lines, where binaries are still the same"),
    row("perf", "print", One(&["-S", "--symbols", "--stop-bt", "--graph-function", "--symbol-filter", "--addr-range", "--dsos"]), "print -S vfs_read", "`kestrel report -g` adds stacks up, and its full-screen view searches them; `--where` chooses by fields"),
    row("perf", "print", One(&["--per-event-dump"]), "print --per-event-dump", "one event at a time: `-e sched:sched_switch > FILE`; `kestrel export --to parquet` makes a table for each"),
    row("perf", "print", One(&["-a", "-f", "-q", "-L", "-d", "-k", "--demangle", "--no-demangle", "--merge-callchains", "--vmlinux", "--kallsyms", "--symfs", "--guestmount", "--debug-mode", "--latency"]), "print -f", "leave it out: a recording has the names of its code, and all CPUs are shown"),
    row("trace-cmd", "print", One(&["-R", "-r", "-w", "-N", "-V"]), "print -R", "`--format json` has fields as numbers, `--format tracefs` is the kernel's own layout"),
    row("perf", "print", One(&["-F", "--fields"]), "print -F comm,tid,time", "`--format json` and `--format csv` have each field by its name"),
    row("perf", "report|cut", One(&["--time"]), "report --time 10.5,11.5", "`--from TIME --to TIME` choose times: seconds since the start, a time of day, or `@` and a time as lines show it"),
    row("perf", "export", One(&["--time"]), "export --time 10.5,11.5 --to perf-data", "`--from TIME --until TIME` choose times, as `--from` and `--to` do elsewhere"),
    row("perf", "print", Value(&["--time"], |value| value.starts_with(|c: char| c.is_ascii_digit())), "print --time 10.5,11.5", "`--from TIME --to TIME` choose times; `--time` says from when they are counted"),
    row("perf", "sched", One(&["stats"]), "sched stats record", "`kestrel sched record`, then `kestrel sched latency` counts switches, run times and delays"),
    row("perf", "sched", One(&["--CPU"]), "sched latency --CPU 0", "`-C 0` chooses CPUs"),
    row("perf", "sched", One(&["--comms", "--comm"]), "sched timehist --comms make", "`-p PID,…` and `-t TID,…` choose tasks, names are `sched map --task-name NAME` and `kestrel print -e 'sched:*' --comm NAME`"),
    row("perf", "sched", One(&["-v", "--verbose"]), "sched -v latency", "leave it out: notes about a recording stand on standard error"),
    row("perf", "sched", One(&["--color-pids", "--color-cpus", "--fuzzy-name"]), "sched map --color-pids 1", "`--task-name NAME` and `--cpus CPUS` choose what the map shows"),
    row("perf", "sched", One(&["-V", "--cpu-visual"]), "sched timehist -V", "`kestrel sched map` has a column for each CPU"),
    row("perf", "sched", One(&["--show-prio", "--prio"]), "sched timehist --prio 0-9", "`kestrel print -e sched:sched_switch --where 'prev_prio < 10'` chooses switches by priority"),
    row("perf", "sched", One(&["--idle-hist", "--pre-migrations"]), "sched timehist --idle-hist", "`-I` shows idle times, `-M` migrations"),
    row("perf", "sched", One(&["-g", "--call-graph", "-k", "--vmlinux", "--kallsyms", "-D", "-f", "--force", "--no-call-graph", "--symfs", "-n", "--per-cpu"]), "sched timehist -g", "leave it out: call chains and names are shown where they were recorded, by `kestrel sched record -g`; `-G` leaves them out"),
    row("perf", "sched", One(&["script", "replay"]), "sched script", "`kestrel print [DIR]` shows the records as lines, `kestrel sched timehist` the steps of each task"),
    row("perf", "sched", One(&["--pids", "-p"]), "sched latency --pids", "`--by thread` has a row for each, `--by comm` one for each name"),
    row("perf", "probe", One(&["-a", "--add"]), "probe --add vfs_read", "a probe needs no preparation: `kestrel trace -e kprobe:vfs_read`; named ones are `kestrel probe add`"),
    row("perf", "probe", One(&["-x", "--exec"]), "probe -x /bin/bash readline", "functions of programs are events: `kestrel trace -e uprobe:/bin/bash:readline`"),
    row("perf", "probe", One(&["-l", "--list"]), "probe -l", "`kestrel probe list`"),
    row("perf", "probe", One(&["-d", "--del"]), "probe -d vfs_read", "`kestrel probe remove NAME`"),
    row("perf", "probe", One(&["-L", "--line", "-V", "--vars", "-F", "--funcs"]), "probe -V vfs_read", "`kestrel probe show FUNCTION` shows where a function can be probed; `kestrel list -v EVENT` its parameters"),
    row("perf", "probe", First(|word| word.contains("%return") || word.contains("$retval")), "probe 'vfs_read%return $retval'", "a probe needs no preparation: `kestrel trace -e kretprobe:vfs_read` shows returns with their values"),
    row("perf", "probe", First(|word| word.starts_with(|c: char| c.is_ascii_lowercase() || c == '_') && word.contains(['_', ' ', ':', '='])), "probe vfs_read", "a probe needs no preparation: `kestrel trace -e kprobe:vfs_read` shows its arguments too; named ones are `kestrel probe add`"),
    row("perf", "probe", One(&["-n", "-q", "-m", "-k", "-s", "-v", "-f"]), "probe -n vfs_read", "a probe needs no preparation: functions of the kernel and its modules are events, `kestrel trace -e kprobe:vfs_read`; `--dry-run` shows what would be attached"),
    row("trace-cmd", "start", One(&["-e", "-p", "-b", "-O", "-B", "-C", "-d", "-s", "-f"]), "start -e sched", "sessions that run on are table files: `kestrel start flight`, `kestrel table list --shipped`; `kestrel record -e EVENT` records now"),
    row("perf", "export", Value(&["--to"], |value| ["csv", "json", "text", "lines", "txt"].contains(&value)), "export --to csv", "`kestrel print --format csv` writes a table, `--format json` an object a line, and so on: `> FILE` takes it"),
    row("perf", "export", Value(&["--to"], |value| ["html", "svg", "flamegraph"].contains(&value)), "export --to html", "`kestrel report --html FILE` writes a page for browsers, `kestrel report --flame FILE` an SVG of call stacks"),
    row("trace-cmd", "stop", One(&["-a", "-B", "-s"]), "stop -a", "`kestrel stop --all` ends every session, `--session NAME` one"),
    row("bpftrace", "run", One(&["-V", "--version"]), "run -V", "`kestrel --version`; what this kernel can do is `kestrel run --info`"),
    row("perf", "list", One(&["--details", "--long-desc", "-F", "--full", "-d", "--desc", "--no-desc"]), "list --details", "`-v` shows fields and parameters, `--format-of EVENT` the kernel's description"),
    row("perf", "list", One(&["-j", "--json", "--raw-dump", "--unit", "--deprecated"]), "list -j", "`--format json` is for programs; names alone are what `kestrel list` prints"),
    row("perf", "list", Of(|word| ["hw", "sw", "cache", "hwcache", "pmu", "pfm", "metric", "metricgroup"].contains(&word)), "list hw", "counters are named as perf names them (`kestrel stat -e cycles,cache-misses`); those of software are `kestrel list 'software:*'`"),
    row("perf", "list", Of(|word| word == "sdt" || word == "uprobe"), "list sdt", "probes of a program or library are found by its name or path: `kestrel list 'usdt:libc:*'`, functions `kestrel list 'uprobe:/bin/bash:*'`"),
    row("lttng", "list", One(&["-k", "--kernel", "-u", "--userspace", "--syscall"]), "list -k", "`kestrel list` lists what the kernel has, `kestrel list 'syscalls:*'` system calls, `kestrel list 'usdt:libc:*'` a library's or program's probes"),
    row("trace-cmd", "list", One(&["-R", "-O", "-C", "-p", "-P", "-c"]), "list -p", "there are no tracers, clocks or options to choose: `kestrel doctor` says what this kernel has, `kestrel list` its events"),
    row("trace-cmd", "list", One(&["-e", "-f", "-t", "-o", "-s", "-B"]), "list -e sched", "`kestrel list 'sched:*'` lists events, `kestrel list 'kprobe:vfs_*'` functions"),
    row("perf, trace-cmd", "list", Of(is_group), "list sched", "a group's events are `kestrel list '{}:*'`"),
];

/// The answer to a command line that was refused, if it is a known habit. Of one that was taken and failed later, options were right.
pub(crate) fn answer(words: &[OsString], taken: bool) -> Option<String> {
    let words: Vec<&str> = words.iter().skip(1).map_while(|word| word.to_str()).collect();
    if let Some((tool, rest)) = words.split_first()
        && let Some((_, command)) = TOOLS.iter().find(|(name, _)| name == tool)
        && let Some((typed, answer)) = found(&[*command, rest].concat(), taken)
    {
        return Some(match command {
            [] => format!("leave `{tool}` out; `{typed}`: {answer}"),
            _ => format!("`{tool}` is `kestrel {}`; `{typed}`: {answer}", command.join(" ")),
        });
    }
    found(&words, taken).map(|(_, answer)| answer)
}

/// The hint where an event that was asked for and is none is a named probe: by its name alone, or with a group before it.
pub(crate) fn of_named_probe(words: &[OsString]) -> Option<String> {
    let words = words.iter().map_while(|word| word.to_str());
    let words: Vec<&str> = words.take_while(|word| *word != "--").collect();
    let asked: Vec<&str> = values(&words, &["-e", "--event"]).collect();
    if asked.is_empty() {
        return None;
    }
    let session = store(&Host::default()).ok()?.session(Some(SESSION)).ok()?;
    let names = session.state().probes.each.iter().map(|probe| &probe.name);
    let found = names.into_iter().find(|name| {
        let mut asked = asked.iter().map(|event| event.trim().rsplit([':', '/']).next());
        asked.any(|event| event == name.rsplit('/').next())
    })?;
    Some(format!(
        "`{found}` is a named probe, which records into the session {SESSION}: `kestrel trace --session {SESSION}` shows its records, `kestrel buffer dump --session {SESSION}` writes them to a trace, `kestrel probe list` shows its hits"
    ))
}

/// Tools, and the command that takes what theirs take: none, where they have commands of their own.
const TOOLS: &[(&str, &[&str])] = &[
    ("perf", &[]),
    ("trace-cmd", &[]),
    ("lttng", &[]),
    ("strace", &["trace", "--syscalls"]),
    ("babeltrace2", &["print"]),
    ("babeltrace", &["print"]),
];

/// The first habit found in words that begin with a command: the text typed, and its answer.
fn found<'w>(words: &[&'w str], taken: bool) -> Option<(&'w str, String)> {
    let asked = HABITS.iter().filter(|habit| !(taken && habit.is_refused()));
    let habit = asked
        .filter_map(|habit| Some((habit, habit.typed_in(words)?)))
        .next();
    habit.map(|(habit, typed)| (typed, habit.answer.replace("{}", typed)))
}

impl Habit {
    /// Whether the command line refuses it; others are found wrong later.
    fn is_refused(&self) -> bool {
        matches!(self.typed, One(_))
    }

    /// The typed form in a command line.
    fn typed_in<'w>(&self, words: &[&'w str]) -> Option<&'w str> {
        let (first, rest) = words.split_first()?;
        let candidates = match self.after {
            "" => std::slice::from_ref(first),
            after if after.split('|').any(|command| command == *first) => rest,
            _ => return None,
        };
        // Words behind `--` are another program's.
        let end = candidates.iter().position(|word| *word == "--");
        let candidates = &candidates[..end.unwrap_or(candidates.len())];
        match self.typed {
            One(names) => candidates.iter().copied().find(|word| {
                names
                    .iter()
                    .any(|name| is_option(word, name) || is_in_cluster(word, name))
            }),
            First(holds) => candidates.first().copied().filter(|word| holds(word)),
            Of(holds) => candidates.iter().copied().find(|word| holds(word)),
            Value(options, holds) => values(candidates, options).find(|value| holds(value)),
        }
    }
}

/// Whether a word is that name, alone or with its value.
fn is_option(word: &str, name: &str) -> bool {
    let Some(rest) = word.strip_prefix(name) else {
        return false;
    };
    rest.is_empty() || rest.starts_with('=') && name.starts_with("--") || is_short(name)
}

fn is_short(name: &str) -> bool {
    name.len() == 2 && name.starts_with('-')
}

/// Whether a word is a short option behind others that take no value: `-R` of `-aR`.
fn is_in_cluster(word: &str, name: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    let before = letters
        .split_once(|letter| name.ends_with(letter))
        .map(|(before, _)| before);
    is_short(name)
        && before
            .is_some_and(|before| !before.is_empty() && before.chars().all(|letter| FLAGS.contains(letter)))
}

/// Short options without values that stand first in such words.
const FLAGS: &str = "agqv";

/// The values of options, one by one where they are lists.
fn values<'w>(words: &[&'w str], options: &[&str]) -> impl Iterator<Item = &'w str> {
    let values = words.iter().enumerate().filter_map(move |(at, word)| {
        let option = options.iter().find(|option| is_option(word, option))?;
        match word.strip_prefix(option)? {
            "" => words.get(at + 1).copied(),
            rest => Some(rest.strip_prefix('=').unwrap_or(rest)),
        }
    });
    let values: Vec<&str> = values.collect();
    values.into_iter().flat_map(|value| value.split(','))
}

fn is_script(word: &str) -> bool {
    word.ends_with(".bt") && !word.starts_with('-')
}

/// Whether an event is a counter with perf's modifiers.
fn has_modifier(event: &str) -> bool {
    event.rsplit_once(':').is_some_and(|(counter, modifiers)| {
        !counter.is_empty()
            && !counter.contains(':')
            && !modifiers.is_empty()
            && modifiers.chars().all(|letter| "ukhGHpPSDIWeb".contains(letter))
    })
}

/// Whether an event is a counter by its number, as the processor's manual has it.
fn is_raw_counter(event: &str) -> bool {
    let number = event.strip_prefix('r').unwrap_or_default();
    let hexadecimal = |digits: &str| digits.chars().all(|digit| digit.is_ascii_hexdigit());
    let described = event
        .split_once('/')
        .is_some_and(|(unit, rest)| !unit.contains([':', ' ']) && rest.contains('='));
    hexadecimal(number) && number.contains(|digit: char| digit.is_ascii_digit()) || described
}

/// Whether a word is a group of tracepoints that most kernels have.
fn is_group(word: &str) -> bool {
    let groups = "sched irq irq_vectors timer block net skb sock tcp udp kmem vmscan writeback filemap workqueue power signal task syscalls \
        raw_syscalls ext4 xfs btrfs nfs kvm module rcu napi oom lock exceptions cgroup compaction migrate scsi nvme xdp bpf_trace";
    groups.split(' ').any(|group| group == word)
}

/// Whether an event is a bare word, and none that is an event by itself (`mark`).
fn is_plain(event: &str) -> bool {
    !event.is_empty()
        && event_kind::find(event).is_none()
        && event
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests;
