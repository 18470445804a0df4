/* Arguments of marks, read by what the loader says about them in the map of that name: the layout is that of libbpf's objects. */
#include "kernel.h"

static u64 (*bpf_get_attach_cookie)(void *context) = (void *)174;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;

enum { CONSTANT, REGISTER, MEMORY, INDEXED };

struct argument {
	u64 value;
	u32 how; /* from the lowest bits on: 8 where, 12 place of the index register, 4 logarithm of the scale */
	short place;
	u8 is_signed;
	u8 shift;
};

struct specification {
	struct argument arguments[12];
	u64 cookie;
	short count;
};

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 256);
	__type(key, int);
	__type(value, struct specification);
} __bpf_usdt_specs SEC(".maps");

u64 hits;
u64 count;
long long seen[5];

static u64 saved(void *context, u32 place)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), context + (place & 0xff));
	return value;
}

static __noinline long long read(void *context, struct argument *argument)
{
	u64 value = argument->value, where = argument->how & 0xff;

	if (where != CONSTANT) {
		u64 at = saved(context, argument->place);

		if (where == INDEXED)
			at += saved(context, argument->how >> 8 & 0xfff) << (argument->how >> 20 & 0xf);
		if (where == REGISTER)
			value = at;
		else
			bpf_probe_read_user(&value, sizeof(value), (void *)(at + value));
	}
	value <<= argument->shift & 63;
	return argument->is_signed ? (long long)value >> (argument->shift & 63) : value >> (argument->shift & 63);
}

SEC("usdt//object_marks:own:mark") int on_mark(struct pt_regs *regs)
{
	u32 number = bpf_get_attach_cookie(regs);
	struct specification *specification = bpf_map_lookup_elem(&__bpf_usdt_specs, &number);

	if (!specification)
		return 0;
	hits++;
	count = specification->count;
	seen[0] = read(regs, &specification->arguments[0]);
	seen[1] = read(regs, &specification->arguments[1]);
	seen[2] = read(regs, &specification->arguments[2]);
	seen[3] = read(regs, &specification->arguments[3]);
	seen[4] = read(regs, &specification->arguments[4]);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
