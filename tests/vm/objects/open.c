/* Maps whose sizes the object leaves to whoever loads it. */
#include "kernel.h"

struct {
	__uint(type, HASH);
	__type(key, u32);
	__type(value, u64);
} first SEC(".maps");

struct {
	__uint(type, RINGBUF);
} second SEC(".maps");

SEC("kprobe/vfs_read") int opens(struct pt_regs *regs)
{
	u32 key = 0;
	u64 *record = bpf_ringbuf_reserve(&second, 8, 0);
	if (record)
		bpf_ringbuf_submit(record, 0);
	return bpf_map_lookup_elem(&first, &key) != 0;
}

char LICENSE[] SEC("license") = "GPL";
