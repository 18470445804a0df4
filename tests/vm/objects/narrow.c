/* An index of 32 bits that is not bounded. */
#include "kernel.h"

u64 counts[16];

SEC("kprobe/vfs_read") int narrow(struct pt_regs *regs)
{
	u32 index = regs->dx;

	counts[index]++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
