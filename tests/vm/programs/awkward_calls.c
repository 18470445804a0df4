/* Calls whose arguments point to something, between two calls of access(2) with names of their own: what strace shows of them and what Kestrel does is
 * compared line by line. Nothing here depends on the machine but numbers of processes, ports and times. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define CALL(name, ...) syscall(SYS_##name, __VA_ARGS__)

static int ends[2];
static char small[4], large[10];
static struct iovec given[3] = {{"ab\0c", 4}, {"de\n", 3}, {"\"quoted\" \\ \x7f\xff", 13}};
static struct iovec filled[2] = {{small, 4}, {large, 10}};

static void sockets(void) {
    struct sockaddr_in inet = {.sin_family = AF_INET, .sin_port = htons(80)};
    struct sockaddr_in6 inet6 = {.sin6_family = AF_INET6, .sin6_port = htons(8080), .sin6_scope_id = 1};
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/tmp/none"};
    struct sockaddr_nl link = {.nl_family = AF_NETLINK, .nl_groups = 1};
    socklen_t length = 64;
    inet_pton(AF_INET, "127.0.0.1", &inet.sin_addr);
    inet_pton(AF_INET6, "2001:db8::1", &inet6.sin6_addr);
    int one = socket(AF_UNIX, SOCK_STREAM, 0), two = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), pair[2];
    int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    connect(one, (void *)&inet, sizeof inet);
    bind(one, (void *)&inet6, sizeof inet6);
    connect(one, (void *)&local, sizeof local);
    connect(one, (void *)&local, 11);
    connect(one, (void *)&local, 2);
    connect(one, (void *)1, 16);
    connect(one, NULL, 0);
    memcpy(local.sun_path, "\0abs", 4);
    bind(two, (void *)&local, 6);
    getsockname(two, (void *)&local, &length);
    bind(netlink, (void *)&link, sizeof link);
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    struct msghdr message = {.msg_iov = given, .msg_iovlen = 3};
    sendmsg(pair[0], &message, MSG_DONTWAIT);
    message.msg_iov = filled, message.msg_iovlen = 2;
    recvmsg(pair[1], &message, 0);
    sendto(pair[0], "\1\2\0\3", 4, MSG_NOSIGNAL, NULL, 0);
    recvfrom(pair[1], small, 4, 0, NULL, NULL);
    int on = 1;
    length = sizeof on;
    setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    getsockopt(one, SOL_SOCKET, SO_ERROR, &on, &length);
    int lost[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, lost);
    CALL(sendto, lost[0], "x", 1, 0, NULL, 0);
    close(lost[1]);
    getsockopt(lost[0], SOL_SOCKET, SO_ERROR, &on, &length);
    setsockopt(lost[0], SOL_IP, IP_TOS, &on, sizeof on);
    setsockopt(one, SOL_SOCKET, SO_LINGER, &(struct linger){1, 5}, sizeof(struct linger));
    accept4(one, NULL, NULL, SOCK_NONBLOCK);
}

static void events(void) {
    struct timespec time = {0, 1000000};
    struct pollfd polled[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT | POLLHUP, 0}};
    poll(polled, 2, 0);
    poll(polled, 1, 0);
    CALL(ppoll, polled, 1, &time, NULL, 8);
    poll((void *)1, 1, 0);
    int waiting = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = 7}, came[4];
    epoll_ctl(waiting, EPOLL_CTL_ADD, ends[1], &event);
    event.events = EPOLLOUT;
    epoll_ctl(waiting, EPOLL_CTL_MOD, ends[1], &event);
    CALL(epoll_wait, waiting, came, 4, 10);
    epoll_ctl(waiting, EPOLL_CTL_DEL, ends[1], NULL);
    CALL(epoll_wait, waiting, came, 4, 0);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[1], &set);
    CALL(select, ends[1] + 1, NULL, &set, NULL, NULL);
    CALL(select, ends[1] + 1, NULL, NULL, NULL, &(struct timeval){0, 5});
}

static void clocks(void) {
    struct timespec time = {0, 1};
    CALL(clock_nanosleep, CLOCK_MONOTONIC, 0, &time, NULL);
    CALL(nanosleep, &time, NULL);
    time.tv_nsec = -1;
    CALL(nanosleep, &time, NULL);
    CALL(clock_getres, CLOCK_REALTIME, &time);
    CALL(gettimeofday, &(struct timeval){0}, NULL);
    struct itimerval interval = {{1, 2}, {3, 4}};
    setitimer(ITIMER_REAL, &interval, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, &interval);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec longer = {{1, 2}, {3, 4}};
    timerfd_settime(timer, 0, &longer, &longer);
    struct timespec both[2] = {{1, 2}, {0, UTIME_OMIT}};
    CALL(utimensat, AT_FDCWD, "/no/such", both, AT_SYMLINK_NOFOLLOW);
}

static void signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, 36);
    CALL(rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
    sigfillset(&set);
    sigdelset(&set, SIGTERM);
    CALL(rt_sigprocmask, SIG_UNBLOCK, &set, &set, 8);
    CALL(rt_sigprocmask, SIG_SETMASK, NULL, &set, 8);
    struct sigaction action = {.sa_handler = SIG_IGN, .sa_flags = SA_RESTART};
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGUSR2, NULL, &action);
    sigaltstack(NULL, &(stack_t){0});
}

static void files(void) {
    struct stat status;
    struct statx more;
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    CALL(openat2, AT_FDCWD, "/proc/version", &how, sizeof how);
    CALL(newfstatat, AT_FDCWD, "/dev/null", &status, 0);
    CALL(newfstatat, AT_FDCWD, "/proc/version", &status, AT_SYMLINK_NOFOLLOW);
    CALL(newfstatat, AT_FDCWD, "/no/such", &status, 0);
    CALL(statx, AT_FDCWD, "/proc/version", AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_MODE | STATX_SIZE, &more);
    fcntl(ends[0], F_GETFD);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[0], F_GETFD);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_DUPFD_CLOEXEC, 100);
    fcntl(ends[0], F_SETLK, &(struct flock){.l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_start = 1, .l_len = 2});
    fcntl(ends[1], F_GETFL);
    fcntl(ends[1], F_SETPIPE_SZ, 8192);
    int bytes;
    ioctl(ends[0], FIONREAD, &bytes);
    ioctl(ends[0], FIONBIO, &bytes);
    ioctl(ends[0], FIOCLEX);
    ioctl(ends[0], TIOCGWINSZ, &(struct winsize){0});
    ioctl(ends[0], 0x80081234, NULL);
    writev(ends[1], given, 2);
    readv(ends[0], filled, 2);
    write(ends[1], "\0\1\2 binary \377\0en", 15);
    read(ends[0], large, 10);
    write(ends[1], "0123456789012345678901234567890123456789", 40);
    write(ends[1], NULL, 5);
    write(ends[1], "", 0);
    read(-1, (void *)1, 5);
    pipe2((void *)1, O_NONBLOCK);
}

static void processes(void) {
    struct rlimit limit = {8 << 20, RLIM_INFINITY};
    int status;
    CALL(prlimit64, 0, RLIMIT_CORE, NULL, &limit);
    CALL(prlimit64, 0, RLIMIT_STACK, &(struct rlimit){8 << 20, RLIM_INFINITY}, NULL);
    CALL(getrlimit, RLIMIT_NICE, &limit);
    CALL(uname, &(struct utsname){0});
    CALL(getrusage, RUSAGE_SELF, &(struct rusage){0});
    prctl(PR_SET_NAME, "awk\1ward");
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    CALL(wait4, child, &status, 0, NULL);
    child = fork();
    if (child == 0)
        for (;;)
            raise(SIGKILL);
    CALL(wait4, child, &status, WUNTRACED, &(struct rusage){0});
    CALL(wait4, -1, &status, 0, NULL);
    CALL(clone3, &(struct clone_args){.flags = CLONE_FS, .exit_signal = 99}, sizeof(struct clone_args));
    char *const words[] = {"echo", "a b", "\t", "", NULL}, *const none[] = {NULL}, *const one[] = {"A=1", NULL};
    CALL(execve, "/no/such", words, one);
    CALL(execve, "/no/such", none, none);
    CALL(execve, "/no/such", NULL, NULL);
    CALL(execve, "/no/such", (void *)1, (void *)1);
}

/* Control messages: descriptors and who sends. */
static void controls(void) {
    int pair[2], on = 1;
    char room[CMSG_SPACE(2 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct iovec one = {"x", 1}, into = {small, 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(2 * sizeof(int))};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair);
    control->cmsg_level = SOL_SOCKET, control->cmsg_type = SCM_RIGHTS, control->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(control), ends, sizeof ends);
    sendmsg(pair[0], &message, 0);
    setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    message.msg_iov = &into, message.msg_controllen = sizeof room;
    recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC);
    message.msg_controllen = 0;
    sendmsg(pair[0], &message, 0);
    struct nlmsghdr nothing = {.nlmsg_len = 16, .nlmsg_type = NLMSG_NOOP, .nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = 7};
    int netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    sendto(netlink, &nothing, sizeof nothing, 0, NULL, 0);
}

/* Signals with what they say, children with how they end. */
static void reasons(void) {
    sigset_t set;
    siginfo_t info = {.si_signo = SIGUSR1, .si_code = SI_QUEUE};
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CALL(rt_sigprocmask, SIG_BLOCK, &set, NULL, 8);
    info.si_value.sival_int = 5;
    CALL(rt_sigqueueinfo, getpid(), SIGUSR1, &info);
    CALL(rt_sigtimedwait, &set, &info, &(struct timespec){1, 0}, 8);
    CALL(rt_sigtimedwait, &set, &info, &(struct timespec){0, 1}, 8);
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    CALL(waitid, P_PID, child, &info, WEXITED | WNOWAIT, NULL);
    CALL(waitid, P_PID, child, &info, WEXITED, NULL);
    CALL(waitid, P_ALL, 0, &info, WEXITED | WNOHANG, NULL);
}

/* Structures of fewer calls. */
static void rest(void) {
    struct {
        unsigned size, policy;
        unsigned long long flags;
        int nice;
        unsigned priority;
        unsigned long long runtime, deadline, period;
        unsigned least, most;
    } attributes = {.size = 56, .nice = 1};
    unsigned long mask = 1;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    unsigned params[30] = {0};
    unsigned long long mount[4] = {1, 0, 0, 0};
    int timer, cpu;
    CALL(sched_getattr, 0, &attributes, sizeof attributes, 0);
    CALL(sched_setattr, 0, &attributes, 0);
    CALL(sched_setaffinity, 0, sizeof mask, &mask);
    CALL(sched_getaffinity, 0, sizeof mask, &mask);
    CALL(getcpu, &cpu, NULL, NULL);
    CALL(timer_create, CLOCK_MONOTONIC, &event, &timer);
    CALL(sysinfo, &(struct sysinfo){0});
    CALL(times, &(struct tms){0});
    CALL(utimes, "/no/such", ((struct timeval[2]){{1, 2}, {3, 4}}));
    CALL(io_uring_setup, 0, params);
    CALL(fsopen, "no-such-files", 1);
    CALL(fsconfig, -1, 0, "ro", NULL, 0);
    CALL(fsmount, -1, 1, 1);
    CALL(open_tree, AT_FDCWD, "/no/such", 1 | AT_RECURSIVE);
    CALL(move_mount, -1, "", AT_FDCWD, "/no/such", 4);
    CALL(mount_setattr, -1, "", AT_EMPTY_PATH, mount, sizeof mount);
    int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    struct termios modes;
    char kernels[64];
    CALL(ioctl, terminal, TCGETS, kernels);
    CALL(ioctl, terminal, TCSETSW, kernels);
    CALL(ioctl, terminal, TIOCGWINSZ, kernels);
    (void)modes;
}

int main(void) {
    access("/kestrel-begin", F_OK);
    pipe2(ends, O_CLOEXEC);
    sockets();
    events();
    clocks();
    signals();
    files();
    controls();
    reasons();
    rest();
    processes();
    access("/kestrel-end", F_OK);
    return 0;
}
