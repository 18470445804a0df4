/* A map in which each CPU has values of its own. */
#include "kernel.h"

struct seen {
	u64 calls;
	u32 pid;
};

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct seen);
} by_cpu SEC(".maps");

SEC("kprobe") int count(struct pt_regs *regs)
{
	u32 key = 1;
	struct seen *here = bpf_map_lookup_elem(&by_cpu, &key);

	if (here) {
		here->calls++;
		here->pid = bpf_get_current_pid_tgid() >> 32;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
