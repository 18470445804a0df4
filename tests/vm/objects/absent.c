/* Programs for which this kernel has nothing beside one for which it has: the others are left out. */
#include "kernel.h"

SEC("kprobe/vfs_read") int on_read(struct pt_regs *regs)
{
	return 0;
}

SEC("kprobe/no_such_function_of_any_kernel") int on_absent(struct pt_regs *regs)
{
	return 0;
}

SEC("struct_ops/operation") int on_operation(struct pt_regs *regs)
{
	return 0;
}

SEC("?fentry/no_such_function_of_any_kernel") int on_wish(u64 *args)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
