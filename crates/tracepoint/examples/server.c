/* The server of examples/server.rs in C: so many requests, as soon as so many of its four events are listened to.
 *
 *     cc -O2 -I crates/tracepoint/include -o server crates/tracepoint/examples/server.c && ./server 100000
 *     kestrel record -e 'usdt:./server:server:*' -- ./server 100000 4
 */
#include "kestrel_tracepoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

KESTREL_TRACEPOINT(server, accepted, "{name} {number}", (text, name, 16), (u64, number))
KESTREL_TRACEPOINT(server, closed, "{name} {number}", (text, name, 16), (u64, number))
KESTREL_TRACEPOINT(server, asked, "{number} {text} of {length} bytes", (u64, number), (str, text), (u16, length))
KESTREL_TRACEPOINT(server, answered, "{number} {status:#x} \"{body}\" {load} {balance} {steps} {ok}",
    (u64, number), (u16, status), (bytes, body), (f64, load), (i32, balance), (u16s, steps, 3), (boolean, ok))

static void answer(uint64_t number, const char *text)
{
    static const uint16_t steps[] = {1, 2, 65535};
    char body[32];
    size_t length = strlen(text);

    trace_asked(number, text, (uint16_t)length);
    for (size_t at = 0; at < length && at < sizeof body; at++)
        body[at] = text[length - 1 - at];
    trace_answered(number, 200, body, length, 0.25, -(int)number, steps, 1);
}

/* How many events somebody listens to. */
static int listened(void)
{
    return trace_accepted_enabled() + trace_closed_enabled() + trace_asked_enabled() + trace_answered_enabled();
}

int main(int count, char **arguments)
{
    unsigned long requests = count > 1 ? strtoul(arguments[1], NULL, 10) : 1;

    while (count > 2 && listened() < atoi(arguments[2]))
        usleep(10000);
    for (unsigned long number = 0; number < requests; number++) {
        trace_accepted("a peer with a long name", number);
        answer(number, "request");
        trace_closed("a peer with a long name", number);
    }
    return 0;
}
