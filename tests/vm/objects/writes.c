/* A kprobe program that writes what it may only read: some kernels' verifiers say no, others load it and refuse to attach it. */
#include "kernel.h"

SEC("kprobe/vfs_read") int writes(struct pt_regs *regs)
{
	((volatile char *)regs)[8] = 1;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
