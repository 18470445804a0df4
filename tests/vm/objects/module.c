/* A module's functions and a type that only the module has: an entry of qemu_fw_cfg's directory, when its content is read. */
#include "kernel.h"

#define EXISTS(field) __builtin_preserve_field_info(field, 2)
#define SIZE_OF(type) __builtin_preserve_type_info(*(type *)0, 1)
#define READ(to, from) bpf_probe_read_kernel(&(to), sizeof(to), &(from))

/* Not in the module's order, and not all of it. */
struct fw_cfg_sysfs_entry {
	char name[56];
	u32 size;
	struct {
		int anything;
	} kobj;
} CORE;

struct fw_cfg_sysfs_entry___other {
	int no_such_field;
} CORE;

extern const void fw_cfg_sysfs_read_raw __ksym;

const volatile u32 wanted = 0;
u64 entered, returned, probed, bytes, read_raw_at;
u32 size, size_of_entry, nothing;
char name[56];

static u64 ours(void)
{
	return bpf_get_current_pid_tgid() >> 32 == wanted;
}

/* (file, kobj, attribute, buffer, position, count); an entry begins with its kobj. */
SEC("fentry/fw_cfg_sysfs_read_raw") int on_entry(u64 *arguments)
{
	struct fw_cfg_sysfs_entry *entry = (void *)arguments[1];
	struct fw_cfg_sysfs_entry___other *other = (void *)entry;

	if (!ours())
		return 0;
	entered++;
	entry = (void *)((char *)entry - __builtin_preserve_field_info(entry->kobj, 0));
	READ(size, entry->size);
	READ(name, entry->name);
	size_of_entry = SIZE_OF(struct fw_cfg_sysfs_entry);
	nothing = EXISTS(other->no_such_field);
	read_raw_at = (u64)&fw_cfg_sysfs_read_raw;
	return 0;
}

SEC("fexit/fw_cfg_sysfs_read_raw") int on_exit(u64 *arguments)
{
	if (!ours())
		return 0;
	returned++;
	if ((long long)arguments[6] > 0)
		bytes += arguments[6];
	return 0;
}

SEC("kprobe/fw_cfg_sysfs_read_raw") int on_probe(struct pt_regs *regs)
{
	probed += ours();
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
