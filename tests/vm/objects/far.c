/* A section that asks for a place behind the end of its function. */
#include "kernel.h"

SEC("kprobe/vfs_read+0x100000") int far(struct pt_regs *regs)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
