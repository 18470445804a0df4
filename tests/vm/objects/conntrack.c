/* Functions of the module nf_conntrack that programs may call, in a program that the test runs: it makes a connection known that nobody has. */
#include "kernel.h"

#define READ(to, from) bpf_probe_read_kernel(&(to), sizeof(to), &(from))

struct __sk_buff;
struct nf_conn {
	unsigned long status;
} CORE;

/* IPS_SEEN_REPLY and IPS_ASSURED. */
enum { GIVEN = 6 };
struct nf_conn___init;

struct tuple {
	u32 source, destination;
	u16 source_port, destination_port;
};

struct options {
	s32 netns, error;
	u8 protocol, direction, reserved[2];
};

extern struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *, struct tuple *, u32, struct options *, u32) __ksym;
extern struct nf_conn___init *bpf_skb_ct_alloc(struct __sk_buff *, struct tuple *, u32, struct options *, u32) __ksym;
extern void bpf_ct_set_timeout(struct nf_conn___init *, u32) __ksym;
extern int bpf_ct_set_status(const struct nf_conn___init *, u32) __ksym;
extern struct nf_conn *bpf_ct_insert_entry(struct nf_conn___init *) __ksym;
extern void bpf_ct_release(struct nf_conn *) __ksym;
extern int no_module_has_this(void) __ksym __weak;

const volatile u32 wanted = 0;
u64 status_before, status_after, status_entered, inserted;
s32 unknown;

SEC("tc") int connect(struct __sk_buff *packet)
{
	struct tuple tuple = { 0x0100007f, 0x0200007f, 0x3412, 0x7856 };
	struct options options = { .netns = -1, .protocol = 6 };
	struct nf_conn___init *fresh;
	struct nf_conn *known;

	if (no_module_has_this)
		return no_module_has_this();
	known = bpf_skb_ct_lookup(packet, &tuple, sizeof(tuple), &options, sizeof(options));
	if (known) {
		status_before = known->status & GIVEN;
		bpf_ct_release(known);
		return 1;
	}
	unknown = options.error;
	fresh = bpf_skb_ct_alloc(packet, &tuple, sizeof(tuple), &options, sizeof(options));
	if (!fresh)
		return 2;
	bpf_ct_set_timeout(fresh, 600000);
	bpf_ct_set_status(fresh, GIVEN);
	known = bpf_ct_insert_entry(fresh);
	if (!known)
		return 3;
	bpf_ct_release(known);
	known = bpf_skb_ct_lookup(packet, &tuple, sizeof(tuple), &options, sizeof(options));
	if (!known)
		return 4;
	status_after = known->status & GIVEN;
	bpf_ct_release(known);
	return 0;
}

SEC("fentry/nf_conntrack_hash_check_insert") int on_insert(u64 *arguments)
{
	struct nf_conn *connection = (void *)arguments[0];

	if (bpf_get_current_pid_tgid() >> 32 != wanted)
		return 0;
	inserted++;
	READ(status_entered, connection->status);
	status_entered &= GIVEN;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
