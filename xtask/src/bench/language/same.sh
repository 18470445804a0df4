# Tools under both tracers at once, so that both see the very same events, processes and all: what each says of the workload's, with times and what is measured
# taken out. Prints rows: said TOOL TRACER LINE…. Runs behind measure.sh.

# What a line keeps: no times of the day, spaces as one. What tracers say of themselves is none of the script's.
plain() { grep -vE "$ATTACHED|^Attached [0-9]+ probes?$" "$1" | sed -E 's/[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?/TIME/g; s/[[:space:]]+/ /g; s/^ //; s/ $//'; }

# compare TOOL WORKLOAD FILTER: starts all tracers, does the workload, prints what they say as the filter leaves it.
compare() {
    local tool=$1 workload=$2 filter=$3 tracer n
    [ -e "$folder/$tool.bt" ] || return
    local pids= command ready=yes
    for tracer in $tracers; do
        command=${!tracer}
        env $ATTACHED=1 $command "$folder/$tool.bt" > "$work/said.$tracer" 2> "$work/err.$tracer" &
        pids+=" $!"
    done
    for tracer in $tracers; do
        for n in $(seq 600); do
            grep -q "$ATTACHED" "$work/said.$tracer" && continue 2
            sleep 0.1
        done
        ready=
        echo "refused $tool $tracer $(cat "$work/err.$tracer" "$work/said.$tracer" | tr '\n' ' ' | cut -c 1-160)"
    done
    if [ -n "$ready" ]; then
        cd "$work"
        $workload > "$work/done" 2>&1
        cd /
        sleep 2
    fi
    kill -TERM $pids 2> /dev/null
    wait $pids 2> /dev/null
    [ -n "$ready" ] || return
    for tracer in $tracers; do
        plain "$work/said.$tracer" | $filter | sed "s/^/said $tool $tracer /"
    done
}

# A shell of a name that nobody else has, so that its lines can be told from those of others.
traced() { "$work/tracedsh" -c "$1"; }
of_traced() { grep -E 'TIME PID|^Tracing|tracedsh' | cut -d ' ' -f "$1"; }

killing() { traced 'kill -0 $$; trap : USR1; kill -USR1 $$; kill -URG $$; kill -0 999999; kill -CHLD $PPID'; }
syncing() { echo x > a; sync a; sync -d a; sync -f a; sync; }
looking() { traced 'for n in 1 2 3 4 5; do [ -e "/no/such_$n" ]; done; cd /usr; cd share; echo /usr/sh*; : > "$PWD/../../tmp/traced"'; }
connecting() { traced 'for n in 1 7 9; do : <> /dev/tcp/127.0.0.1/$n; done; : <> /dev/tcp/::1/13'; }
serving() { perl -MSocket -e 'socket(S,PF_INET,SOCK_STREAM,0); bind(S,sockaddr_in(7777,INADDR_LOOPBACK)); listen(S,3); for (1..3) { socket($c[$_],PF_INET,SOCK_STREAM,0); connect($c[$_],sockaddr_in(7777,INADDR_LOOPBACK)); } for (1..3) { accept(A,S); close A }'; }
receiving() { perl -MSocket -e '$0 = "traced"; for $kind (SOCK_STREAM, SOCK_DGRAM) { socketpair(A,B,AF_UNIX,$kind,0); for ("a", "some text\n", "\x00\x01\xffz", "x" x 90) { send(A,$_,0); recv(B,$x,100,0) } }'; }
starving() {
    mkdir -p /sys/fs/cgroup/starved
    echo +memory > /sys/fs/cgroup/cgroup.subtree_control
    echo 20M > /sys/fs/cgroup/starved/memory.max
    traced 'echo $$ > /sys/fs/cgroup/starved/cgroup.procs; a=xxxxxxxx; while :; do a=$a$a; done'
    rmdir /sys/fs/cgroup/starved
}
reading() { traced 'n=0; while [ $n -lt 300 ]; do : < /dev/null; n=$((n + 1)); done'; }
forking() { traced 'for n in 1 2 3 4 5 6 7 8; do (:); done'; sleep 1.2; }

# Names of the keys that the workload is sure to have, and no counts: others' calls are counted, too, from when each tracer was attached.
keys() { grep -E "$1" | sed -E 's/: [0-9]+$/: N/' | sort -u; }
counted_calls() { keys '^Counting|^Top|process.tracedsh'; }
counted_files() { keys '^Tracing|vfs_(open|read|write|fsync|statx)\]'; }
forks() { keys '^Tracing|PIDs/sec'; }

same() {
    [ "${tracers#* }" != "$tracers" ] || return
    cp "$(command -v bash)" "$work/tracedsh"
    compare killsnoop killing 'of_traced 1-'
    compare syncsnoop syncing 'grep -E TIME|^Tracing'
    # Behind the milliseconds since the start.
    compare dcsnoop looking 'of_traced 2-'
    compare tcpconnect connecting 'of_traced 1-'
    compare tcpsynbl serving cat
    compare undump receiving 'grep -E TIME|Dump|traced|perl'
    # Without the load, which changes.
    compare oomkill starving 'sed -n -E s/^(Tracing|TIME)(.*loadavg:)?.*/\1\2/p'
    compare syscount reading counted_calls
    compare vfscount reading counted_files
    compare pidpersec forking forks
}
