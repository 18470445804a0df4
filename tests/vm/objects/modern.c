/* Every kind of section, BTF maps, global data, functions shared between sections, a ring buffer, a perf array, a program array, maps in maps. */
#include "kernel.h"

struct task_struct {
	int pid, tgid;
	char comm[16];
} CORE;

struct hit {
	u32 pid;
	u32 which;
	char comm[16];
};

const volatile u32 wanted = 0;
u64 runs[32];
u32 start = 7;
extern u32 LINUX_KERNEL_VERSION __kconfig;
extern int CONFIG_HZ __kconfig __weak;
extern const void init_task __ksym;
extern void no_such_function_anywhere(void) __ksym __weak;
u32 version_seen;
u32 hz_seen;
u64 init_task_at;

struct {
	__uint(type, HASH);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, struct hit);
} last SEC(".maps");

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 65536);
	__type(value, struct hit);
} ring SEC(".maps");

struct {
	__uint(type, PERF_EVENT_ARRAY);
	__type(value, struct hit);
} perf SEC(".maps");

struct inner {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} inner_one SEC(".maps");

struct {
	__uint(type, ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, struct inner);
} outer SEC(".maps") = { .values = { [1] = &inner_one } };

int tail(struct pt_regs *regs);

struct {
	__uint(type, PROG_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, int(void *));
} jumps SEC(".maps") = { .values = { [1] = (void *)&tail } };

static __noinline int mine(void)
{
	return bpf_get_current_pid_tgid() >> 32 == wanted;
}

__noinline int count(u32 which)
{
	if (which >= 24 || !mine())
		return 0;
	/* The compiler may keep the bound in another register than the one it counts with. */
	asm volatile("%0 &= 31" : "+r"(which));
	__sync_fetch_and_add(&runs[which], 1);
	return 1;
}

static __noinline void tell(void *context, u32 which)
{
	struct hit hit = { .which = which }, *there;
	struct task_struct *task = (void *)bpf_get_current_task();
	u32 key = which;

	bpf_probe_read_kernel(&hit.pid, sizeof(hit.pid), &task->tgid);
	bpf_get_current_comm(hit.comm, sizeof(hit.comm));
	bpf_map_update_elem(&last, &key, &hit, 0);
	bpf_perf_event_output(context, &perf, 0xffffffffULL, &hit, sizeof(hit));
	there = bpf_ringbuf_reserve(&ring, sizeof(hit), 0);
	if (there) {
		*there = hit;
		bpf_ringbuf_submit(there, 0);
	}
}

SEC("kprobe/vfs_read") int on_kprobe(struct pt_regs *regs)
{
	u32 key = 1;
	void *map;
	u64 *value;

	if (!count(0))
		return 0;
	version_seen = LINUX_KERNEL_VERSION;
	hz_seen = CONFIG_HZ;
	init_task_at = (u64)&init_task;
	if (no_such_function_anywhere)
		no_such_function_anywhere();
	map = bpf_map_lookup_elem(&outer, &key);
	key = 0;
	if (map && (value = bpf_map_lookup_elem(map, &key)))
		*value += 1;
	tell(regs, 0);
	bpf_tail_call(regs, &jumps, 1);
	runs[23]++; /* only if the tail call failed */
	return 0;
}

SEC("kprobe") int tail(struct pt_regs *regs)
{
	count(1);
	return 0;
}

SEC("kretprobe/vfs_read") int on_kretprobe(struct pt_regs *regs)
{
	if (regs->ax == 1)
		count(2);
	return 0;
}

SEC("kprobe.multi/vfs_rea[dv]") int on_multi(struct pt_regs *regs)
{
	count(3);
	return 0;
}

SEC("kretprobe.multi/vfs_read") int on_multi_return(struct pt_regs *regs)
{
	count(4);
	return 0;
}

SEC("ksyscall/getppid") int on_syscall(struct pt_regs *regs)
{
	count(5);
	return 0;
}

SEC("tracepoint/syscalls/sys_enter_getppid") int on_tracepoint(void *context)
{
	count(6);
	return 0;
}

SEC("tp/syscalls/sys_exit_getppid") int on_exit(void *context)
{
	count(7);
	return 0;
}

SEC("raw_tp/sys_enter") int on_raw(u64 *args)
{
	if (args[1] == 110)
		count(8);
	return 0;
}

SEC("tp_btf/sys_enter") int on_typed(u64 *args)
{
	if (args[1] == 110)
		count(9);
	return 0;
}

SEC("fentry/vfs_read") int on_entry(u64 *args)
{
	if (args[2] == 1)
		count(10);
	return 0;
}

SEC("fexit/vfs_read") int on_fexit(u64 *args)
{
	if (args[4] == 1)
		count(11);
	return 0;
}

SEC("perf_event") int on_clock(void *context)
{
	__sync_fetch_and_add(&runs[12], 1);
	return 0;
}

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

SEC("iter/task") int on_iter(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	char line[] = "one task\n";

	if (task)
		bpf_seq_write(context->meta->seq, line, sizeof(line) - 1);
	return 0;
}

SEC("?kprobe.session/vfs_read") int on_session(struct pt_regs *regs)
{
	count(13);
	return 0;
}

SEC("?uprobe") int on_uprobe(struct pt_regs *regs)
{
	count(14);
	return 0;
}

SEC("?uretprobe") int on_uretprobe(struct pt_regs *regs)
{
	count(15);
	return 0;
}

SEC("?uprobe.multi") int on_uprobe_multi(struct pt_regs *regs)
{
	count(16);
	return 0;
}

SEC("?uprobe.session") int on_uprobe_session(struct pt_regs *regs)
{
	count(17);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
