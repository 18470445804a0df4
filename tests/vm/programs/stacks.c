/* A program whose stacks are known: outer calls middle calls leaf, and leaf calls getpriority. Its arguments say under which circumstances. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

/* Compiled without optimisation: each function has a frame. Without a function of the C library between the system call and leaf: its caller would be skipped where it keeps no frame pointer. */
NOINLINE void leaf(void) {
  long answer;
  __asm__ volatile("syscall" : "=a"(answer) : "a"(140), "D"(0), "S"(0) : "rcx", "r11", "memory");
}
static inline __attribute__((always_inline)) void inlined(void) { leaf(); __asm__ volatile(""); }
NOINLINE void middle(void) { inlined(); __asm__ volatile(""); }
/* Names as the compiler of C++ makes them. */
NOINLINE void ring(int many) __asm__("_ZN4shop4Till4ringEi");
NOINLINE void open_shop(void) __asm__("_ZN4shop4openEv");
NOINLINE void ring(int many) {
  for (int i = 0; i < many; i++)
    leaf();
  __asm__ volatile("");
}
NOINLINE void open_shop(void) { ring(1); __asm__ volatile(""); }
NOINLINE void outer(int times) {
  for (int i = 0; i < times; i++)
    middle();
  __asm__ volatile("");
}

/* A stack of so many KiB and more. */
NOINLINE void down(int levels) {
  volatile char room[1000];
  room[0] = 1;
  if (levels)
    down(levels - 1);
  else
    leaf();
  room[999] = room[0];
}

/* Code that exists only in memory, with its name in /tmp/perf-PID.map. */
static void generated(int times) {
  static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb8, 140, 0, 0, 0, 0x31, 0xff, 0x31, 0xf6, 0x0f, 0x05, 0x5d, 0xc3};
  unsigned char *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    exit(2);
  memcpy(at, code, sizeof code);
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  FILE *map = fopen(path, "w");
  fprintf(map, "%lx %zx generated_function\n", (unsigned long)at, sizeof code);
  fclose(map);
  for (int i = 0; i < times; i++)
    ((void (*)(void))at)();
}

static void put(const char *path, const char *text) {
  int file = open(path, O_WRONLY);
  if (file < 0 || write(file, text, strlen(text)) < 0)
    exit(2);
  close(file);
}

/* Waits until a file is there: the way to this program's own file ends with the process, and a busy machine lets nobody look at once. */
static void wait_for(const char *file) {
  for (int i = 0; i < 10000 && access(file, F_OK); i++)
    usleep(10000);
}

/* A container: other users, mounts and process numbers, and another root, in which a program runs until a file is there. */
static int container(const char *folder, char *program, char *times, char *file) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID))
    return 2;
  put("/proc/self/setgroups", "deny");
  put("/proc/self/uid_map", "0 0 1");
  put("/proc/self/gid_map", "0 0 1");
  if (!fork()) {
    char *arguments[] = {program, "generated", times, file, 0};
    if (chroot(folder) || chdir("/"))
      _exit(2);
    execv(program, arguments);
    _exit(2);
  }
  int status = 0;
  wait(&status);
  return status != 0;
}

int main(int count, char **words) {
  const char *how = count > 1 ? words[1] : "plain";
  int times = count > 2 ? atoi(words[2]) : 1;
  if (!strcmp(how, "deleted") && unlink(words[0]))
    return 2;
  if (!strcmp(how, "generated")) {
    generated(times);
    if (count > 3) /* generated TIMES [FILE] */
      wait_for(words[3]);
    return 0;
  }
  if (!strcmp(how, "container")) /* container TIMES FOLDER PROGRAM FILE */
    return container(words[3], words[4], words[2], words[5]);
  if (!strcmp(how, "mangled")) {
    for (int i = 0; i < times; i++)
      open_shop();
    return 0;
  }
  if (!strcmp(how, "deep")) { /* deep TIMES LEVELS */
    for (int i = 0; i < times; i++)
      down(atoi(words[3]));
    return 0;
  }
  if (!strcmp(how, "mixed")) {
    for (int i = 0; i < times; i++) {
      outer(1);
      if (i % 3 == 0)
        open_shop();
    }
    return 0;
  }
  if (!strcmp(how, "staying")) {
    outer(times);
    for (;;)
      pause();
  }
  if (!strcmp(how, "chroot")) { /* chroot TIMES FOLDER PROGRAM FILE */
    if (chroot(words[3]) || chdir("/"))
      return 2;
    char *arguments[] = {words[4], "waiting", words[2], words[5], 0};
    execv(words[4], arguments);
    return 2;
  }
  if (!strcmp(how, "storm")) { /* storm CHILDREN: each runs this program anew */
    for (int i = 0; i < times; i++) {
      pid_t child = fork();
      if (!child) {
        char *arguments[] = {words[0], "plain", "3", 0};
        execv("/proc/self/exe", arguments);
        _exit(2);
      }
      if (i % 8 == 7)
        while (wait(0) > 0)
          ;
    }
    while (wait(0) > 0)
      ;
    return 0;
  }
  outer(times);
  if (!strcmp(how, "deleted") || !strcmp(how, "waiting")) /* deleted TIMES FILE */
    wait_for(words[3]);
  return 0;
}
