//! Habits of users of perf, trace-cmd, bpftrace and strace, and the names that things have here: one row of [`HABITS`] each. The table is asked only when a command
//! line was refused or failed.

use std::ffi::OsString;

/// A habit, and its answer.
#[derive(Debug)]
pub(crate) struct Habit {
    /// The tools that taught it.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page of the documentation has it"))]
    of: &'static str,
    /// The command it is typed after; empty: it stands in a command's place.
    after: &'static str,
    /// What is typed.
    typed: Typed,
    /// An example, as it is typed.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page of the documentation has it"))]
    example: &'static str,
    /// What to type here, as a sentence; `{}` is what was typed.
    answer: &'static str,
}

/// Pattern by which a habit is recognised on a command line.
#[derive(Clone, Copy, Debug)]
enum Typed {
    /// One of these words, alone or with a value (`-m 128`, `-m128`, `--max=1`).
    One(&'static [&'static str]),
    /// A word for which this holds.
    Of(fn(&str) -> bool),
    /// A value of one of these options for which this holds.
    Value(&'static [&'static str], fn(&str) -> bool),
}

use Typed::{Of, One, Value};

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
    row("perf", "", One(&["bench", "test"]), "bench sched", "`kestrel doctor` tries what this kernel can do"),
    row("perf", "", One(&["perf"]), "perf trace -s ls", "leave its name out: `kestrel record`, `stat`, `top`, `report`, `sched`, `trace --syscalls` take what perf's take"),
    row("trace-cmd", "", One(&["trace-cmd"]), "trace-cmd record -e sched", "leave its name out: `kestrel record`, `report`, `list` and `stop` take what trace-cmd's take; `stream` is `kestrel trace`"),
    row("bpftrace", "", One(&["bpftrace"]), "bpftrace -e 'BEGIN { exit() }'", "`kestrel run` is bpftrace: `kestrel run script.bt`, `kestrel run -e PROGRAM`, `kestrel run -l PATTERN`"),
    row("perf", "", One(&["kwork"]), "kwork report", "`kestrel record -e 'irq:*,workqueue:*' -a`, then `kestrel report --latency irq:irq_handler_entry,irq:irq_handler_exit`, of softirqs and work items likewise"),
    row("perf", "", One(&["daemon"]), "daemon start", "sessions run on without a terminal: `kestrel start flight`, `kestrel status`, `kestrel buffer dump`, `kestrel stop`"),
    row("perf", "", One(&["version"]), "version", "`kestrel --version`"),
    row("perf", "", One(&["config"]), "config -l", "there is no configuration: options say what is to be done, and table files (`kestrel table`) what sessions do"),
    row("perf, trace-cmd", "", One(&["profile"]), "profile", "`kestrel record -F 99 -g -a --duration 10`, then `kestrel report -g`"),
    row("trace-cmd", "", One(&["stream"]), "stream -e sched", "`kestrel trace -e 'sched:*' -a` shows events as they happen"),
    row("trace-cmd", "", One(&["show"]), "show", "`kestrel trace -e EVENT` shows events live, `kestrel status` what sessions hold, `kestrel print` a recording"),
    row("trace-cmd", "", One(&["extract", "snapshot", "dump"]), "extract", "`kestrel buffer dump` writes what a running session holds into a trace"),
    row("trace-cmd", "", One(&["reset", "clear"]), "reset", "`kestrel stop` ends a session and takes its probes away; `kestrel record` leaves nothing behind"),
    row("trace-cmd", "", One(&["split"]), "split", "`kestrel cut --from TIME --to TIME -o DIR` writes a part of a recording"),
    row("trace-cmd", "", One(&["restore"]), "restore", "a recording that was cut off is read as it is, up to its last whole packet"),
    row("trace-cmd", "", One(&["hist"]), "hist", "`kestrel report --by EXPR --value EXPR` counts and sums, `kestrel report -g` does it by call chain"),
    row("trace-cmd", "", One(&["listen", "agent"]), "listen -p 1234", "a recording is a directory: record on the one machine, copy it to the other"),
    row("trace-cmd", "", One(&["options", "check-events"]), "check-events", "`kestrel list` shows the events there are, `kestrel doctor` what works"),
    row("trace-cmd", "", One(&["stack"]), "stack", "the depth of the kernel's stack is not measured; call stacks of events are `kestrel record -g -e EVENT`"),
    row("trace-cmd", "", One(&["set", "attach"]), "set -e sched", "sessions are changed by `kestrel table switch` and `kestrel table load`; events that are recorded now are chosen by `kestrel record -e EVENT`"),
    row("lttng", "", One(&["lttng"]), "lttng create", "leave its name out: `kestrel record -e 'sched:*' -o DIR` is create, enable-event and start in one; `kestrel print DIR` is view, also of a trace of LTTng's"),
    row("lttng", "", One(&["create", "enable-event", "enable-channel", "add-context", "destroy"]), "enable-event -k sched_switch", "`kestrel record -e sched:sched_switch -o DIR` needs no session: it records until it is interrupted, with time, CPU, process and thread in each record"),
    row("lttng", "", One(&["view"]), "view", "`kestrel print [DIR]` shows a recording as lines, also one of LTTng's"),
    row("strace, ltrace", "", One(&["strace", "ltrace"]), "strace -f ls", "`kestrel trace --syscalls -- ls` shows calls as strace does, `-s` beside it a table; functions of libraries are events: `-e uprobe:libc:malloc`"),
    row("bpftrace", "", Of(is_script), "script.bt", "`kestrel run {}` runs it"),
    row("bpftrace", "", One(&["-e"]), "-e 'BEGIN { exit() }'", "`kestrel run -e PROGRAM` runs a program"),
    row("bpftrace", "", One(&["-l"]), "-l 'tracepoint:sched:*'", "`kestrel list [PATTERN]` lists events"),
    row("bpftrace", "", One(&["--info"]), "--info", "`kestrel run --info`, and `kestrel doctor` with reasons"),
    row("bpftrace", "run", One(&["--emit-elf", "--emit-llvm"]), "run --emit-elf out.o script.bt", "Kestrel makes no object files: it loads what it compiles at once, so there is nothing to compile beforehand; `kestrel run --dry-run -v` shows the instructions"),
    row("bpftrace", "", One(&["-p", "-c", "-d", "-f", "--unsafe", "--dry-run", "--usdt-file-activation"]), "-p 1 script.bt", "`kestrel run` takes the options of bpftrace: `kestrel run -p PID script.bt`"),
    row("bpftrace", RECORDS, Of(is_script), "trace script.bt", "`kestrel run {}` runs a script"),
    row("perf, trace-cmd", READS, One(&["-i", "--input"]), "report -i DIR", "the recording stands alone: `kestrel report DIR`, `kestrel print DIR`"),
    row("perf", "record", One(&["-m", "--mmap-pages"]), "record -m 512 -e sched:sched_switch", "`--buffer-size 2M` is the size of each CPU's ring in bytes"),
    row("trace-cmd", "record", One(&["-b"]), "record -b 2048 -e sched:sched_switch", "`--buffer-size 2M` is the size of each CPU's ring; branch records of the processor are not read"),
    row("perf", "record", One(&["-j", "--branch-any", "--branch-filter"]), "record -j any -- make", "branch records of the processor are not read; `--call-graph dwarf` unwinds without frame pointers"),
    row("perf", "record", One(&["-z", "--compression-level"]), "record -z -e sched:sched_switch", "`--compress`, or `--compress=LEVEL`"),
    row("perf", "record", One(&["--switch-output-event", "--timestamp-filename", "--timestamp-boundary"]), "record --switch-output-event=syscalls:sys_enter_reboot -e sched:sched_switch", "`--switch-output` goes on in a new directory at SIGUSR2, by size or by time, each named by its time; what handlers ask for at an event is `dump`: docs/tables-and-sessions.md"),
    row("perf", RECORDS, One(&["-D", "--delay"]), "record -D 100 -e sched:sched_switch -- make", "start the command first and record it by `-p PID`; `--from 100ms` leaves the beginning out when reading"),
    row("perf", RECORDS, One(&["-u", "--uid"]), "record -u www-data -e sched:sched_switch", "a predicate chooses users: `-e 'sched:sched_switch /uid == 33/'`"),
    row("perf", RECORDS, One(&["-G", "--cgroup"]), "record -G web -e sched:sched_switch", "a predicate chooses groups: `-e 'sched:sched_switch /cgroup == cgroupid(\"/sys/fs/cgroup/web\")/'`; `kestrel stat --for-each-cgroup` counts by group"),
    row("perf", RECORDS, One(&["--no-inherit"]), "record --no-inherit -e sched:sched_switch -- make", "a command's children belong to it; `-t TID` is one thread alone"),
    row("perf", "record", One(&["-T", "--timestamp", "-P", "--period", "--sample-cpu", "-R", "--raw-samples", "-W", "--weight"]), "record -T -e sched:sched_switch", "leave it out: each record has its time, CPU, process, thread and all fields"),
    row("perf", "record", One(&["--all-user", "--all-kernel", "--no-buffering", "--switch-events", "--namespaces", "--no-bpf-event", "--aio", "--call-graph-depth"]), "record --all-user -- make", "leave it out: stacks say what was the kernel's and what the process's, and switches are `-e sched:sched_switch`"),
    row("perf", "record", One(&["-d", "--data", "--phys-data"]), "record -d -e page-faults", "leave it out: fields that are addresses are in each record; those of page faults are of `-e 'exceptions:*'`"),
    row("perf", "record", One(&["-s", "--stat", "-N", "--no-buildid-cache", "-B", "--no-buildid"]), "record -N -e sched:sched_switch", "leave it out: counts and names are in each recording, and nothing is kept elsewhere"),
    row("perf", "record", One(&["-r", "--realtime", "-k", "--clockid"]), "record -k mono -e sched:sched_switch", "leave it out: the clock is CLOCK_MONOTONIC, `kestrel print --time wall` shows the time of day, and the recorder has its priority"),
    row("perf", "record", One(&["--tail-synthesize", "--synth", "--snapshot", "-S"]), "record -S -e sched:sched_switch", "`--overwrite` keeps the newest events until the end; `kestrel start flight` and `kestrel buffer dump` take them at any time"),
    row("perf", "record", One(&["--off-cpu"]), "record --off-cpu -- make", "`kestrel record -g -e sched:sched_switch -- make`, then `kestrel report --off-cpu` shows where it waited"),
    row("perf", "trace", One(&["-s", "-S", "--summary", "--with-summary"]), "trace -s ls", "calls are asked for: `kestrel trace --syscalls -s COMMAND`; one recording of them is `kestrel record --syscalls`"),
    row("perf", RECORDS, Value(&["-e", "--event"], has_modifier), "record -e cycles:u -- make", "counters have no modifiers here: write `{}` without what is behind the last colon; samples of the kernel and of processes are told apart by their stacks"),
    row("trace-cmd", RECORDS, Value(&["-p"], |value| value.starts_with("function")), "record -p function -l vfs_read", "functions are events: `-e 'kprobe:vfs_*'`, with return values `-e 'kretprobe:vfs_*'`; -p takes processes"),
    row("trace-cmd", RECORDS, Value(&["-p"], |value| ["irqsoff", "preemptoff", "preemptirqsoff", "wakeup", "wakeup_rt", "nop", "blk"].contains(&value)), "record -p wakeup", "tracers of ftrace are answered by events: `kestrel sched record` and `kestrel sched latency` for wakeups; -p takes processes"),
    row("trace-cmd", RECORDS, Value(&["-e", "--event"], |value| value == "all"), "record -e all", "`-e '*:*'` is all tracepoints; groups are `-e 'sched:*,irq:*'`"),
    row("perf, trace-cmd", RECORDS, Value(&["-e", "--event"], is_plain), "record -e openat -- ls", "an event has its group before its name: the system call is `syscalls:sys_enter_{}` (`--syscalls={}` shows whole calls), a function `kprobe:{}`; `kestrel list '*{}*'` finds more"),
    row("strace", "trace", Value(&["-e"], |value| value.starts_with("trace=")), "trace -e trace=openat -- ls", "system calls are chosen by `--syscalls=SET`, with the names and classes of strace's sets"),
    row("strace", "trace", Value(&["-e"], |value| value.starts_with("signal=") || value.starts_with("signals=")), "trace -e signal=none -- ls", "`--syscalls --signal=SET` chooses the signals that stand between calls"),
    row("strace", "trace", Of(|word| word.starts_with("--quiet=")), "trace --syscalls --quiet=exit -- ls", "`--no-exits` leaves the ends of threads out, `--signal=none` the signals"),
    row("strace", "trace", One(&["-f", "-ff", "--follow-forks"]), "trace -f -- ls", "leave it out: `kestrel trace --syscalls -- COMMAND` follows all threads and children; events are filtered by `--filter` behind them"),
    row("strace", "trace", Value(&["-c"], |value| value.parse::<u64>().is_err()), "trace --syscalls -c ls", "strace's table of calls is `--syscalls --summary`, or `-s`; `-c N` samples every N-th event"),
    row("strace", "trace", One(&["-T", "-tt", "-ttt", "-r", "-y", "-yy", "-i", "-x"]), "trace -tt -T -y -- ls", "leave it out: lines of `--syscalls` have the time, how long the call took, and the files behind descriptors"),
    row("strace", "trace", One(&["-z", "-Z"]), "trace --syscalls -Z -- ls", "`--failed-only` shows the calls that fail"),
    row("strace", "trace", One(&["-o"]), "trace --syscalls -o calls -- ls", "`kestrel record --syscalls -o DIR` keeps calls, `kestrel print DIR` shows them; lines go to standard output, which `> FILE` takes"),
    row("perf", "trace", One(&["--pf"]), "trace --pf=all -- ls", "page faults are events: `-e 'exceptions:*'`"),
    row("trace-cmd", "record", Value(&["-F"], |value| value.parse::<u32>().is_err()), "record -F ls", "the command stands behind the options, and it and its children are followed: `kestrel record -e 'sched:*' -- ls`; -F takes samples a second"),
    row("trace-cmd", RECORDS, One(&["-l"]), "record -l vfs_read", "functions are events: `-e kprobe:vfs_read`, patterns `-e 'kprobe:vfs_*'`"),
    row("trace-cmd", RECORDS, One(&["-n"]), "record -e 'sched:*' -n sched_switch", "name what you want: `-e 'sched:sched_wak*,sched:sched_switch'`; `kestrel print -e` chooses when reading"),
    row("trace-cmd", RECORDS, One(&["-f"]), "record -e sched:sched_switch -f 'prev_pid == 1'", "`--filter 'prev_pid == 1'` behind its event, or `-e 'sched:sched_switch /args.prev_pid == 1/'`"),
    row("trace-cmd", RECORDS, One(&["-P"]), "trace -P 1234 -e sched:sched_switch", "processes are chosen by `-p PID,…`, threads by `-t TID,…`"),
    row("trace-cmd", RECORDS, One(&["-M"]), "record -M 3 -e sched:sched_switch", "CPUs are chosen by `-C 0,1`"),
    row("trace-cmd", RECORDS, One(&["-O"]), "record -O stacktrace -e sched:sched_switch", "`-g` records call stacks"),
    row("perf", "stat", One(&["-d", "--detailed"]), "stat -d -- make", "name the counters: `-e cycles,instructions,cache-references,cache-misses,branches,branch-misses`"),
    row("perf", "stat", One(&["--per-core", "--per-socket", "--per-die", "--per-node"]), "stat --per-core -a", "`-A` counts by CPU, `--per-thread` by thread"),
    row("perf", "stat", One(&["-M", "--metrics", "--topdown", "-T"]), "stat -M IPC -- make", "name the counters: `-e cycles,instructions` prints instructions per cycle, too"),
    row("perf", "stat", Of(|word| word == "record" || word == "report"), "stat report", "counts are not kept in a file: `kestrel stat --format json -I 1000 -o FILE` writes them as they come"),
    row("perf", "stat", One(&["-v", "--verbose", "--table"]), "stat -v -- make", "leave it out: each line says how much of the time its counter counted; `--format json` has all numbers"),
    row("perf", "stat", One(&["-b", "--bpf-prog", "--bpf-counters"]), "stat --bpf-counters -a", "leave it out; how often programs of sessions run and how long is in `kestrel status`"),
    row("perf", "stat", One(&["-B", "--big-num", "--no-big-num"]), "stat -B -- make", "leave it out: numbers have separators, those of `-x,` and `--format json` have none"),
    row("perf", "report", One(&["--tui", "--gtk"]), "report --tui", "leave it out: `kestrel report` fills a terminal; `--html FILE` writes a page"),
    row("perf", "top", One(&["-g", "-F", "-K", "-U", "-s", "--sort", "--call-graph"]), "top -g", "`kestrel record -F 99 -g -a --duration 10 && kestrel report -g` shows which code runs; `kestrel top` shows events and who causes them"),
    row("perf", "report", One(&["-s"]), "report -s comm,dso", "`--by comm,event` makes the groups, `--sort COLUMN` puts them in order; `-g` has the call chains"),
    row("perf", "report", One(&["--sort"]), "report --sort comm,dso", "`--by comm,event` makes the groups, `--sort COLUMN` puts them in order; `-g` has the call chains"),
    row("perf", "report", Of(|word| ["caller", "callee", "graph", "fractal", "flat"].contains(&word.split(',').next().unwrap_or_default())), "report -g caller perf.data", "the order stands behind `=`: `--call-graph=caller`, `--call-graph=callee`"),
    row("perf", "report", One(&["--inline", "--no-inline", "--stdio-color", "-k", "--vmlinux", "--kallsyms", "--demangle", "--no-demangle", "-v", "--show-total-period"]), "report --no-inline", "leave it out: names of code are in the recording; `--lines` shows inlined functions and source lines"),
    row("trace-cmd", "report", Value(&["-t"], |value| value.parse::<u32>().is_err()), "report -t trace.dat", "`kestrel print --ns` shows times with nanoseconds; -t takes threads"),
    row("perf", "report", One(&["-n", "--show-nr-samples", "--header", "--header-only"]), "report -n", "leave it out: tables have counts, and where a recording is from stands above them"),
    row("perf", "report", One(&["-D", "--dump-raw-trace"]), "report -D", "`kestrel print --format json` has each record with all fields"),
    row("perf", "report", One(&["-F", "--fields"]), "report -F overhead,sym", "`--by EXPR,…` and `--value EXPR` choose columns"),
    row("perf", "report", One(&["-S", "--symbols", "-d", "--dsos"]), "report -S vfs_read", "`--where` chooses records by any field: `--where 'comm == \"make\"'`"),
    row("trace-cmd", "report", One(&["-l", "-R", "-r", "-w"]), "report -R", "`kestrel print` shows records as lines, `--format json` with raw values; `kestrel sched latency` has wakeup latencies"),
    row("perf", "print", One(&["-F", "--fields"]), "print -F comm,tid,time", "`--format json` and `--format csv` have each field by its name"),
    row("perf", "report|cut|export", One(&["--time"]), "report --time 10.5,11.5", "`--from TIME --to TIME` choose times: seconds since the start, a time of day, or `@` and a time as lines show it"),
    row("perf", "print", Value(&["--time"], |value| value.starts_with(|c: char| c.is_ascii_digit())), "print --time 10.5,11.5", "`--from TIME --to TIME` choose times; `--time` says from when they are counted"),
    row("perf", "sched", One(&["script", "replay"]), "sched script", "`kestrel print [DIR]` shows the records as lines, `kestrel sched timehist` the steps of each task"),
    row("perf", "probe", One(&["-a", "--add"]), "probe --add vfs_read", "a probe needs no preparation: `kestrel trace -e kprobe:vfs_read`; named ones are `kestrel probe add`"),
    row("perf", "probe", One(&["-x", "--exec"]), "probe -x /bin/bash readline", "functions of programs are events: `kestrel trace -e uprobe:/bin/bash:readline`"),
    row("perf", "probe", One(&["-l", "--list"]), "probe -l", "`kestrel probe list`"),
    row("perf", "probe", One(&["-d", "--del"]), "probe -d vfs_read", "`kestrel probe remove NAME`"),
    row("perf", "probe", One(&["-L", "--line", "-V", "--vars", "-F", "--funcs"]), "probe -V vfs_read", "`kestrel probe show FUNCTION` shows where a function can be probed; `kestrel list -v EVENT` its parameters"),
    row("trace-cmd", "start", One(&["-e", "-p"]), "start -e sched", "sessions that run on are table files: `kestrel start flight`, `kestrel table list --shipped`; `kestrel record -e EVENT` records now"),
    row("perf", "export", Value(&["--to"], |value| ["csv", "json", "text", "lines", "txt"].contains(&value)), "export --to csv", "`kestrel print --format csv` writes a table, `--format json` an object a line, and so on: `> FILE` takes it"),
    row("perf", "export", Value(&["--to"], |value| ["html", "svg", "flamegraph"].contains(&value)), "export --to html", "`kestrel report --html FILE` writes a page for browsers, `--flame-graph FILE` an SVG of call stacks"),
    row("trace-cmd", "list", One(&["-e", "-f", "-t", "-o", "-s", "-B"]), "list -e sched", "`kestrel list 'sched:*'` lists events, `kestrel list 'kprobe:vfs_*'` functions"),
];

/// The answer to a command line that was refused, if it is a known habit. Of one that was taken and failed later, options were right.
pub(crate) fn answer(words: &[OsString], taken: bool) -> Option<String> {
    let words: Vec<&str> = words.iter().skip(1).map_while(|word| word.to_str()).collect();
    let asked = HABITS.iter().filter(|habit| !(taken && habit.is_refused()));
    let habit = asked
        .filter_map(|habit| Some((habit, habit.typed_in(&words)?)))
        .next();
    habit.map(|(habit, typed)| habit.answer.replace("{}", typed))
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
        // What stands behind `--` is another program's.
        let end = candidates.iter().position(|word| *word == "--");
        let candidates = &candidates[..end.unwrap_or(candidates.len())];
        match self.typed {
            One(names) => candidates
                .iter()
                .copied()
                .find(|word| names.iter().any(|name| is_option(word, name))),
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
    let short = name.len() == 2 && name.starts_with('-');
    rest.is_empty() || rest.starts_with('=') && name.starts_with("--") || short
}

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

/// Whether an event is a bare word.
fn is_plain(event: &str) -> bool {
    !event.is_empty()
        && event
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arguments;
    use clap::Parser as _;

    /// Habits that work as they are.
    const WORK: &[(&str, &str, &str)] = &[
        ("perf", "record -F 99 -a", "a profile of all CPUs"),
        ("perf", "record -F 99 sleep 5", "a command without `--`"),
        ("perf", "record -p 1,2 -e sched:sched_switch", "several processes"),
        ("perf", "record -t 1 -e sched:sched_switch", "threads"),
        (
            "perf",
            "record --call-graph dwarf -F 99 -- make",
            "stacks without frame pointers",
        ),
        ("perf", "record -g -e sched:sched_switch -- make", "call stacks"),
        (
            "perf",
            "record -e cycles -c 100000 -- make",
            "one sample of so many",
        ),
        (
            "perf",
            "record -e cycles,instructions -- make",
            "counters by their names",
        ),
        (
            "perf",
            "record --all-cpus -e sched:sched_switch sleep 5",
            "everybody's events",
        ),
        ("perf", "record -C 0,1 -e sched:sched_switch", "CPUs"),
        (
            "perf",
            "record -e sched:sched_switch --filter 'prev_pid == 1' -a",
            "the kernel's filters",
        ),
        (
            "perf",
            "record -o perf.data -e sched:sched_switch",
            "the recording's name: a directory",
        ),
        (
            "perf",
            "record --overwrite -e sched:sched_switch",
            "the newest events",
        ),
        (
            "perf",
            "record --max-size 1G -e sched:sched_switch",
            "an end by size",
        ),
        ("perf", "record -q -e sched:sched_switch", "less said"),
        ("perf", "record -v -e sched:sched_switch", "more said"),
        ("perf", "top", "events and who causes them, as they happen"),
        ("perf", "top -d 5", "every five seconds"),
        ("perf", "top -e sched:sched_switch", "one event"),
        ("perf", "top -p 1", "a process"),
        ("perf", "stat -- make", "counts of a command"),
        ("perf", "stat -I 1000 -a", "counts every second"),
        ("perf", "stat -r 5 -- make", "mean and deviation"),
        ("perf", "stat -x, -- make", "fields with separators"),
        ("perf", "stat -e cycles,instructions -a -A sleep 5", "by CPU"),
        ("perf", "stat -p 1", "a process"),
        ("perf", "report --stdio", "text, also on a terminal"),
        ("perf", "report -g", "call chains"),
        ("perf", "report perf.data", "perf's own recording"),
        ("trace-cmd", "print trace.dat", "trace-cmd's own recording"),
        ("perf", "report --no-children", "by the code itself"),
        ("perf", "report --percent-limit 1", "what matters"),
        ("perf", "sched record", "the scheduler"),
        ("perf", "sched latency", "delays"),
        ("perf", "sched map", "which CPU had which task"),
        ("perf", "sched timehist", "the scheduler's steps"),
        ("perf", "trace --syscalls -s ls", "a summary of system calls"),
        (
            "strace",
            "trace --syscalls=%file,read --signal=!CHLD -- ls",
            "system calls and signals",
        ),
        ("perf, trace-cmd", "list 'sched:*'", "events"),
        ("perf", "help record", "help of a command"),
        ("trace-cmd", "record -e sched:sched_switch ls", "a command"),
        ("trace-cmd", "stop", "the end of a session"),
        ("bpftrace", "run script.bt", "a script"),
        ("bpftrace", "run -e 'BEGIN { exit() }'", "a program"),
        ("bpftrace", "run -c 'sleep 1' script.bt", "with a command"),
        ("bpftrace", "run -p 1 script.bt", "of a process"),
        ("bpftrace", "run -f json script.bt", "JSON"),
        ("bpftrace", "run -o out script.bt", "into a file"),
        ("bpftrace", "run -l 'tracepoint:sched:*'", "events"),
        ("bpftrace", "run --unsafe script.bt", "what changes the system"),
    ];

    fn words(line: &str) -> Vec<OsString> {
        let mut words = vec![OsString::from("kestrel")];
        for (number, part) in line.split('\'').enumerate() {
            match number % 2 {
                0 => words.extend(part.split_whitespace().map(OsString::from)),
                _ => words.push(part.into()),
            }
        }
        words
    }

    #[test]
    fn every_habit_is_answered_where_it_is_refused() {
        for habit in HABITS {
            let words = words(habit.example);
            let given = answer(&words, false).unwrap_or_default();
            let expected = habit.answer.split("{}").next().unwrap_or_default();
            assert!(given.starts_with(expected), "{}: {given}", habit.example);
            assert!(!given.contains("{}"), "{given}");
            if habit.is_refused() {
                let parsed = Arguments::try_parse_from(crate::spelled(words));
                assert!(parsed.is_err(), "{} works: its row is to go", habit.example);
            }
        }
        assert!(HABITS.len() + WORK.len() > 50);
    }

    #[test]
    fn what_is_said_to_work_is_taken() {
        for (_, line, _) in WORK {
            let parsed = Arguments::try_parse_from(crate::spelled(words(line)));
            let help = |error: &clap::Error| error.kind() == clap::error::ErrorKind::DisplayHelp;
            assert!(parsed.as_ref().err().is_none_or(help), "{line}: {parsed:?}");
        }
    }

    #[test]
    fn what_is_no_habit_is_not_answered() {
        for line in [
            "record",
            "",
            "record -e sched:sched_switch -- top -m 1",
            "report mine",
            "nosuch",
        ] {
            assert_eq!(answer(&words(line), false), None, "{line}");
        }
    }

    #[test]
    fn the_page_has_them_all() {
        let mut page = String::from(
            "# Coming from perf, trace-cmd and bpftrace\n\nCommand lines of perf, trace-cmd and bpftrace that work unchanged, and what others are called here. The rows are made from the table that answers (`crates/cli/src/habits.rs`).\n\n## Works as it is\n\n| from | `kestrel …` | |\n|---|---|---|\n",
        );
        let cell = |text: &str| text.replace('|', "\\|");
        for (tool, line, what) in WORK {
            page.push_str(&format!("| {tool} | `{}` | {what} |\n", cell(line)));
        }
        page.push_str(
            "\n## Has another spelling\n\n| from | typed as `kestrel …` | answer |\n|---|---|---|\n",
        );
        for habit in HABITS {
            let typed = answer(&words(habit.example), false).unwrap_or_default();
            page.push_str(&format!(
                "| {} | `{}` | {} |\n",
                habit.of,
                cell(habit.example),
                cell(&typed)
            ));
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/habits.md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == page, "docs/habits.md is old: BLESS=1 writes it anew");
    }
}
