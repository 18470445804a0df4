/* A field that was renamed twice: the time of a file's last change. Which name it has is asked of the kernel's types when the object is loaded. */
#include "kernel.h"

#define EXISTS(field) __builtin_preserve_field_info(field, 2)
#define READ(to, from) bpf_probe_read_kernel(&(to), sizeof(to), &(from))

struct timespec64 {
	long long tv_sec;
} CORE;

struct inode {
	long long i_ctime_sec; /* from 6.11 on */
} CORE;

struct inode___between {
	struct timespec64 __i_ctime; /* 6.6 to 6.10 */
} CORE;

struct inode___before {
	struct timespec64 i_ctime;
} CORE;

struct file {
	struct inode *f_inode;
} CORE;

const volatile u32 wanted = 0;
long long changed;
u32 name;

SEC("kprobe/vfs_read") int on_read(struct pt_regs *regs)
{
	struct file *file = (void *)regs->di;
	struct inode *inode;
	struct inode___between *between;
	struct inode___before *before;

	if (bpf_get_current_pid_tgid() >> 32 != wanted || regs->dx != 1)
		return 0;
	READ(inode, file->f_inode);
	between = (void *)inode;
	before = (void *)inode;
	if (EXISTS(inode->i_ctime_sec)) {
		READ(changed, inode->i_ctime_sec);
		name = 3;
	} else if (EXISTS(between->__i_ctime)) {
		READ(changed, between->__i_ctime.tv_sec);
		name = 2;
	} else if (EXISTS(before->i_ctime)) {
		READ(changed, before->i_ctime.tv_sec);
		name = 1;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
