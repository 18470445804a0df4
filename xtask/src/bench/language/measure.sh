# Measures tracers of one language: prints rows of words, the first says what was measured. Runs in a guest and on this machine.
# Each tracer is a word and how it is called: kestrel='kestrel run'.
export PATH LC_ALL=C
ATTACHED=__BPFTRACE_NOTIFY_PROBES_ATTACHED

# Milliseconds since a moment of $EPOCHREALTIME.
since() { echo $(( (${EPOCHREALTIME/./} - ${1/./}) / 100 )); }

# begin TRACER... -- ARGUMENT...: starts a tracer, waits until it is attached; sets pid, tenths (of a millisecond) and open descriptor 3.
begin() {
    rm -f "$work/out"; mkfifo "$work/out"
    local at=$EPOCHREALTIME line
    env $ATTACHED=1 "$@" > "$work/out" 2> "$work/err" &
    pid=$!
    exec 3< "$work/out"
    tenths=
    while read -r -t 120 -u 3 line; do
        case $line in *$ATTACHED*) tenths=$(since "$at"); break;; esac
    done
}

end() {
    kill -TERM "$pid" 2> /dev/null
    cat <&3 > "$work/rest"
    exec 3<&-
    wait "$pid" 2> /dev/null
}

# What the process's programs cost: instructions that the verifier went through, nanoseconds and runs; each program once, however many descriptors it has.
programs() {
    awk '
        FNR == 1 { id = "" }
        $1 == "prog_id:" { id = $2 }
        $1 == "verified_insns:" { verified[FILENAME] = $2 }
        $1 == "run_time_ns:" { ns[FILENAME] = $2 }
        $1 == "run_cnt:" { runs[FILENAME] = $2 }
        id != "" { of[FILENAME] = id }
        END {
            # Of a link it is only said which program it has.
            for (file in of) if (file in verified && !(of[file] in seen)) {
                seen[of[file]] = 1; v += verified[file]; n += ns[file]; r += runs[file]
            }
            print v + 0, n + 0, r + 0
        }' /proc/"$pid"/fdinfo/* 2> /dev/null
}

# Something of everything that tools look at.
workload() {
    local n
    for n in $(seq "$1"); do
        : > "$work/file$n"; cat "$work/file$n" > /dev/null; sync "$work/file$n"; kill -0 $$
    done
    ls -lR /usr/share > /dev/null 2>&1
    rm -f "$work"/file*
}

# The middle one of the numbers that come, one a line.
middle() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

tools() {
    local tool tracer round peak row
    for tool in "$folder"/*.bt; do
        for tracer in $tracers; do
            local command=${!tracer} times=
            peak=0
            for round in $(seq "$rounds"); do
                begin $command "$tool"
                [ -n "$tenths" ] || { end; break; }
                times+="$tenths"$'\n'
                [ "$round" = "$rounds" ] && workload "$load"
                local now
                now=$(awk '$1 == "VmHWM:" { print $2 }' /proc/"$pid"/status)
                [ "${now:-0}" -gt "$peak" ] && peak=$now
                row=$(programs)
                end
            done
            if [ -n "$times" ]; then
                echo "tool $(basename "$tool") $tracer $(printf %s "$times" | middle) $peak $row"
            else
                echo "refused $(basename "$tool") $tracer $(cat "$work/err" "$work/rest" | tr '\n' ' ' | cut -c 1-160)"
            fi
        done
    done
}

# A block of a thousand lines, compiled and not run.
compile() {
    local n tracer round
    { echo 'begin {'
      for n in $(seq 250); do
          echo "  \$a$n = $n * 2 + 1;"
          echo "  if (\$a$n > pid) { @hits[$n] = count(); }"
          echo "  @last = \$a$n + nsecs;"
          echo "  @names[\$a$n] = comm;"
      done
      echo '}'; } > "$work/long.bt"
    for tracer in $tracers; do
        local command=${!tracer}
        for round in $(seq "$rounds"); do
            local at=$EPOCHREALTIME
            $command --dry-run "$work/long.bt" > "$work/rest" 2>&1 || { echo "refused long $tracer $(head -c 160 "$work/rest" | tr '\n' ' ')"; break; }
            echo "$(since "$at")"
        done > "$work/times"
        case $(head -c 7 "$work/times") in
            refused) cat "$work/times";;
            *) echo "compile $tracer $(middle < "$work/times")";;
        esac
    done
}

# Increments counted in short intervals that are printed and cleared: their sum, and how many there were.
exact() {
    local tracer
    for tracer in $tracers; do
        local command=${!tracer}
        begin $command -e 'tracepoint:syscalls:sys_enter_getpriority /comm == "calls"/ { @ = count(); } interval:ms:10 { print(@); clear(@); } end { print(@); clear(@); }'
        [ -n "$tenths" ] || { end; echo "refused exact $tracer $(head -c 160 "$work/err" | tr '\n' ' ')"; continue; }
        cat <&3 > "$work/lines" &
        local reader=$!
        $calls getpriority "$increments" "$threads" > /dev/null
        sleep 1
        kill -TERM "$pid"; wait "$pid"; exec 3<&-; wait "$reader"
        echo "exact $tracer $((increments * threads)) $(awk '/^@: [0-9]/ { sum += $2; shown++ } END { print sum + 0, shown + 0 }' "$work/lines")"
    done
}
