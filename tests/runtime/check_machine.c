// A program on a processor that lacks a feature: one line, exit status 14. The processor is faked;
// the real one passes, or this program would not run. Exit 0: all as it must be.
#include "runtime/braid_rt_abi.h"
#include "runtime/machine.h"
#include "tests/runtime/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const bd_rt_cpu whole = {UINT32_MAX, UINT32_MAX, UINT32_MAX, 7};

// Its exit status and what it says.
static int run_on(const bd_rt_cpu *cpu, const char *local_rank, char *said, size_t room) {
  int channel[2], state = 0;
  if (pipe(channel)) abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(channel[1], STDERR_FILENO);
    close(channel[0]);
    close(channel[1]);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", local_rank, 1);
    bd_rt_require_cpu(cpu);
    _exit(0);
  }
  close(channel[1]);
  size_t length = 0;
  for (ssize_t got; (got = read(channel[0], said + length, room - 1 - length)) > 0;)
    length += (size_t)got;
  said[length] = 0;
  close(channel[0]);
  if (child < 0 || waitpid(child, &state, 0) != child) abort();
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static void check_lack(const char *feature, bd_rt_cpu cpu) {
  char said[256], expected[256];
  const char *const found = bd_rt_cpu_lacks(&cpu);
  check_true(feature, found && !strcmp(found, feature));
  snprintf(expected, sizeof expected,
           "braid: this processor lacks %s; the program needs x86-64-v3 (AVX2, FMA, BMI2)\n",
           feature);
  check_true("its status", run_on(&cpu, "0", said, sizeof said) == BD_RT_EXIT_MACHINE);
  check_true(said, !strcmp(said, expected));
}

int main(void) {
  char said[256];
  check_true("a whole processor lacks nothing", !bd_rt_cpu_lacks(&whole));
  check_true("a whole processor runs on", run_on(&whole, "0", said, sizeof said) == 0 && !said[0]);

  const struct {
    const char *name;
    int word, bit;
  } features[] = {{"FMA", 0, 12}, {"MOVBE", 0, 22}, {"OSXSAVE", 0, 27},
                  {"AVX", 0, 28}, {"F16C", 0, 29},  {"BMI1", 1, 3},
                  {"AVX2", 1, 5}, {"BMI2", 1, 8},   {"LZCNT", 2, 5}};
  for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
    bd_rt_cpu cpu = whole;
    uint32_t *const words[] = {&cpu.leaf1_ecx, &cpu.leaf7_ebx, &cpu.extended1_ecx};
    *words[features[i].word] &= ~(1u << features[i].bit);
    check_lack(features[i].name, cpu);
  }
  check_lack("AVX registers of the operating system",
             (bd_rt_cpu){UINT32_MAX, UINT32_MAX, UINT32_MAX, 3});

  const bd_rt_cpu old = {0};
  check_true("other ranks of a machine are silent",
             run_on(&old, "1", said, sizeof said) == BD_RT_EXIT_MACHINE && !said[0]);
  return check_result(0);
}
