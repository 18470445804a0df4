/* A tracepoint program that reads behind the last field of the event's record. */
#include "kernel.h"

SEC("tp/sched/sched_switch") int beyond(volatile char *record)
{
	return record[4000] == 1;
}

char LICENSE[] SEC("license") = "GPL";
