/* What an object leaves to its own loader: the size of a map, an option of the configuration; and an iterator over one map. */
#include "kernel.h"

extern int CONFIG_HZ __kconfig;

/* Without max_entries. */
struct {
	__uint(type, ARRAY);
	__type(key, u32);
	__type(value, u64);
} walked SEC(".maps");

/* Too small a value for who walks. */
struct {
	__uint(type, ARRAY);
	__uint(max_entries, 3);
	__type(key, u32);
	__type(value, u32);
} narrow SEC(".maps");

int hz;

struct seq_file;
struct bpf_map;
struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;
struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
} CORE;

SEC("iter/bpf_map_elem") int walk(struct bpf_iter__bpf_map_elem *context)
{
	u64 *value = context->value;
	u32 *key = context->key;
	char line[] = "entry a\n";

	hz = CONFIG_HZ;
	if (!key || !value)
		return 0;
	line[6] += (*key + *value) & 15;
	bpf_seq_write(context->meta->seq, line, sizeof(line) - 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
