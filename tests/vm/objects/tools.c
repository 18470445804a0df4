/* Programs whose sections say where they belong, one without a place, and a global that is set: docs/objects.md runs them. */
#include "kernel.h"

volatile const u32 wanted = 1;
u64 reads, switches, opens;

SEC("fentry/vfs_read") int on_read(u64 *args)
{
	__sync_fetch_and_add(&reads, 1);
	return 0;
}

SEC("tp/sched/sched_switch") int on_switch(void *entry)
{
	__sync_fetch_and_add(&switches, 1);
	return 0;
}

SEC("kprobe") int on_open(struct pt_regs *regs)
{
	if (wanted)
		__sync_fetch_and_add(&opens, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
