/* Programs that handle events of tables: each counts in one map that all share, under its own key. */
#include "kernel.h"

struct seen {
	u64 hits;
	u32 pid;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, struct seen);
} seen SEC(".maps");

u64 all;

static __noinline int saw(u32 key)
{
	struct seen *here = bpf_map_lookup_elem(&seen, &key);

	if (here) {
		__sync_fetch_and_add(&here->hits, 1);
		here->pid = bpf_get_current_pid_tgid() >> 32;
	}
	__sync_fetch_and_add(&all, 1);
	return 0;
}

SEC("kprobe") int at_entry(struct pt_regs *regs) { return saw(0); }
SEC("kretprobe") int at_return(struct pt_regs *regs) { return saw(1); }
SEC("raw_tp") int raw(u64 *args) { return saw(2); }
SEC("tp/sched/sched_process_exec") int classic(void *entry) { return saw(3); }
SEC("fentry") int before(u64 *args) { return saw(4); }
SEC("perf_event") int sampled(void *context) { return saw(5); }

/* What this one calls is in its own array. */
int next(struct pt_regs *regs);
struct {
	__uint(type, PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__array(values, int(struct pt_regs *));
} chain SEC(".maps") = { .values = { (void *)&next } };

SEC("kprobe") int next(struct pt_regs *regs) { return saw(7); }

SEC("kprobe") int first(struct pt_regs *regs)
{
	saw(6);
	bpf_tail_call(regs, &chain, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
