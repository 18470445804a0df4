/* A pointer that may be null is followed: the verifier says no, and the line should be told. */
#include "kernel.h"

struct {
	__uint(type, HASH);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} values SEC(".maps");

SEC("raw_tp/sys_enter") int careless(void *context)
{
	u32 key = 1;
	u64 *value = bpf_map_lookup_elem(&values, &key);

	return *value;
}

char LICENSE[] SEC("license") = "GPL";
