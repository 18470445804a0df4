# Does what is asked for; stands behind the others.
work=$(mktemp -d)
echo 1 > /proc/sys/kernel/bpf_stats_enabled 2> /dev/null
# Of files that are in memory: a clock that counts instructions leaps to the next timer while a disk is waited for.
for tracer in $tracers; do ${!tracer} -e 'begin { exit(); }' > /dev/null 2>&1; done
for part in $parts; do $part; done
echo 0 > /proc/sys/kernel/bpf_stats_enabled 2> /dev/null
rm -rf "$work"
