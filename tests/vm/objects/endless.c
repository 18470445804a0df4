/* A loop that nothing ends: the verifier says no after a page about states, and its one sentence should be told. */
#include "kernel.h"

SEC("kprobe/vfs_read") int endless(struct pt_regs *regs)
{
	for (;;)
		asm volatile("" ::: "memory");
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
