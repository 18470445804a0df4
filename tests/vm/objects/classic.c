/* The classic object of tc's style: one map that stays, one program in the section `prog`, no types. Counts calls whose first argument is 57. */
#include "kernel.h"

struct bpf_elf_map {
	u32 type, size_key, size_value, max_elem, flags, id, pinning, inner_id, inner_idx;
};

struct bpf_elf_map SEC("maps") calls_of_57 = { .type = ARRAY, .size_key = 4, .size_value = 8, .max_elem = 2, .pinning = 2 };

SEC("prog") int count(struct pt_regs *regs)
{
	u32 key = 0;
	u64 *all = bpf_map_lookup_elem(&calls_of_57, &key), *ours;

	key = 1;
	ours = bpf_map_lookup_elem(&calls_of_57, &key);
	if (all)
		__sync_fetch_and_add(all, 1);
	if (ours && regs->di == 57)
		__sync_fetch_and_add(ours, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
