/* The form before that: struct bpf_map_def, a map of the object's own pinning is unknown to it; no license, a version. */
#include "kernel.h"

struct bpf_map_def {
	u32 type, key_size, value_size, max_entries, map_flags;
};

struct bpf_map_def SEC("maps") hits = { .type = HASH, .key_size = 4, .value_size = 8, .max_entries = 16 };

SEC("kprobe/vfs_read") int on_read(struct pt_regs *regs)
{
	u32 key = bpf_get_current_pid_tgid() >> 32;
	u64 one = 1, *count = bpf_map_lookup_elem(&hits, &key);

	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&hits, &key, &one, 0);
	return 0;
}

u32 VERSION SEC("version") = 0xfffffffe;
