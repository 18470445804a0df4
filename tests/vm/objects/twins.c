/* One function seen in two ways, as objects have programs for kernels that know only one of them; a perf event array that is too small; and a
 * program on a function that a test names, whose name takes the place of the one here. */
#include "kernel.h"

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} seen SEC(".maps");

struct {
	__uint(type, PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

static int count(void *context, u32 key)
{
	u64 *value = bpf_map_lookup_elem(&seen, &key);
	if (value) {
		__sync_fetch_and_add(value, 1);
		/* BPF_F_CURRENT_CPU */
		bpf_perf_event_output(context, &events, 0xffffffffULL, value, sizeof(*value));
	}
	return 0;
}

SEC("kprobe/vfs_read") int by_kprobe(struct pt_regs *regs)
{
	return count(regs, 0);
}

SEC("fentry/vfs_read") int by_fentry(u64 *context)
{
	return count(context, 1);
}

SEC("?fentry/a_name_with_room_for_that_of_any_function_that_the_kernel_may_have_in_its_types") int somewhere(u64 *context)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
