/* A program whose stacks are known: outer calls middle calls leaf, and leaf calls getpriority. Its arguments say under which circumstances. */
#define _GNU_SOURCE
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
NOINLINE void outer(int times) {
  for (int i = 0; i < times; i++)
    middle();
  __asm__ volatile("");
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

int main(int count, char **words) {
  const char *how = count > 1 ? words[1] : "plain";
  int times = count > 2 ? atoi(words[2]) : 1;
  if (!strcmp(how, "deleted") && unlink(words[0]))
    return 2;
  if (!strcmp(how, "generated")) {
    generated(times);
    return 0;
  }
  if (!strcmp(how, "chroot")) { /* chroot TIMES FOLDER PROGRAM */
    if (chroot(words[3]) || chdir("/"))
      return 2;
    char *arguments[] = {words[4], "plain", words[2], 0};
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
  return 0;
}
