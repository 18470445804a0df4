/* Calls as 32-bit programs make them (`int 0x80`, numbers and registers of i386), between two calls of access(2) with names of their own. The program is linked
 * at low addresses, so that its data have addresses of 32 bits. */
#include <fcntl.h>
#include <unistd.h>

static long call(long number, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d)
                     : "memory", "r8", "r9", "r10", "r11");
    return result;
}

#define AT(place) ((unsigned long)(place))

static char bytes[40];
static int ends[2];
static long long time64[2];
static int polled[2] = {-1, 1};
static int second[2] = {0, 1};
static int action[5] = {1, 0x04000000, 0x1234, 1 << 11, 0};
static int status[24];
static int limits[2];
static int times[4] = {1, 2, 1, 2};

/* Structures with addresses of 32 bits: buffers, a message of them with a descriptor, texts, a lock with numbers of 32 bits, why a signal comes. */
static unsigned vector[4], message[7], texts[3], variables[2];
static unsigned control[4] = {16, 1, 1, 0};
static struct { short type, whence; int rest[3]; } lock = {F_WRLCK, SEEK_SET, {5, 7, 0}};
static int why[32] = {10, 0, -1, 7, 8, 77};

int main(void) {
    vector[0] = AT("hello "), vector[1] = 6, vector[2] = AT("world\n"), vector[3] = 6;
    message[2] = AT(vector), message[3] = 2, message[4] = AT(control), message[5] = 16;
    texts[0] = AT("/no/such"), texts[1] = AT("a b"), variables[0] = AT("A=1");
    access("/kestrel-begin", F_OK);
    call(33, AT("/no/such"), R_OK, 0, 0);
    call(5, AT("/no/such"), O_WRONLY | O_CREAT | O_EXCL, 0600, 0);
    call(295, (unsigned)AT_FDCWD, AT("/no/such"), O_RDONLY | O_CLOEXEC, 0);
    call(331, AT(ends), O_CLOEXEC, 0, 0);
    call(4, ends[1], AT("ab\0c"), 4, 0);
    call(3, ends[0], AT(bytes), 40, 0);
    call(221, ends[0], F_GETFL, 0, 0);
    call(406, 1, AT(time64), 0, 0);
    call(168, AT(polled), 1, 0, 0);
    call(6, 99, 0, 0, 0);
    call(85, AT("/no/such"), AT(bytes), 40, 0);
    call(60, 022, 0, 0, 0);
    call(266, 1, AT(second + 0), 0, 0);
    call(162, AT(second), 0, 0, 0);
    call(195, AT("/"), AT(status), 0, 0);
    call(106, AT("/dev/null"), AT(status), 0, 0);
    call(174, 10, AT(action), 0, 8);
    call(186, 0, AT(status), 0, 0);
    call(191, 4, AT(limits), 0, 0);
    call(320, (unsigned)AT_FDCWD, AT("/no/such"), AT(times), 0);
    call(146, ends[1], AT(vector), 2, 0);
    call(370, 99, AT(message), 0, 0);
    call(221, ends[0], F_SETLK, AT(&lock), 0);
    call(11, AT("/no/such"), AT(texts), AT(variables), 0);
    call(178, 0x7fffffff, 10, AT(why), 0);
    vector[0] = AT(bytes), vector[1] = 4, vector[2] = AT(bytes + 8);
    call(145, ends[0], AT(vector), 2, 0);
    access("/kestrel-end", F_OK);
    return 0;
}
