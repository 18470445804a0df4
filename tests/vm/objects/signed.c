/* An index with a sign that is not bounded. */
#include "kernel.h"

u64 counts[16];

SEC("kprobe/vfs_read") int negative(struct pt_regs *regs)
{
	int index = regs->dx;

	counts[index]++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
