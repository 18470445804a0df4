/* Emits LTTng's event so many times. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng.h"

void bench_lttng(uint64_t times)
{
	for (uint64_t i = 0; i < times; i++)
		lttng_ust_tracepoint(bench, step, i, i + 1, i + 2);
}
