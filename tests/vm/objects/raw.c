/* One program on a raw tracepoint: loads anywhere. */
#include "kernel.h"

const volatile u32 wanted = 0;
u64 hits;

SEC("raw_tp/sys_enter") int on_enter(u64 *args)
{
	if (bpf_get_current_pid_tgid() >> 32 == wanted && args[1] == 110)
		__sync_fetch_and_add(&hits, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
