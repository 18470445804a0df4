/* An index that comes from outside and is not bounded. */
#include "kernel.h"

u64 counts[16];

SEC("kprobe/vfs_read") int unbounded(struct pt_regs *regs)
{
	counts[regs->dx]++;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
