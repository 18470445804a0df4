/* The smallest useful object, as docs/objects.md has it: one program without a place of its own, and a map. */
#include "kernel.h"

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} calls SEC(".maps");

SEC("kprobe") int count(struct pt_regs *regs)
{
	u32 key = 0;
	u64 *here = bpf_map_lookup_elem(&calls, &key);

	if (here)
		__sync_fetch_and_add(here, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
