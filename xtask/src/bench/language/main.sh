# Does what is asked for; stands behind the others.
work=$(mktemp -d)
echo 1 > /proc/sys/kernel/bpf_stats_enabled 2> /dev/null
for part in $parts; do $part; done
echo 0 > /proc/sys/kernel/bpf_stats_enabled 2> /dev/null
rm -rf "$work"
