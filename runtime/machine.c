// Runs before anything else, compiled for any x86-64 processor: the rest of the program may hold
// instructions that this one lacks.
#include "runtime/machine.h"

#include "runtime/braid_rt_abi.h"

#include <cpuid.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANYWHERE __attribute__((target("arch=x86-64"), noinline))

enum { WAIT_MICROSECONDS = 500000 };

ANYWHERE const char *bd_rt_cpu_lacks(const bd_rt_cpu *cpu) {
  const struct {
    const char *name;
    uint32_t word;
    int bit;
  } wanted[] = {
      {"FMA", cpu->leaf1_ecx, 12}, {"MOVBE", cpu->leaf1_ecx, 22}, {"OSXSAVE", cpu->leaf1_ecx, 27},
      {"AVX", cpu->leaf1_ecx, 28}, {"F16C", cpu->leaf1_ecx, 29},  {"BMI1", cpu->leaf7_ebx, 3},
      {"AVX2", cpu->leaf7_ebx, 5}, {"BMI2", cpu->leaf7_ebx, 8},   {"LZCNT", cpu->extended1_ecx, 5},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
    if (!(wanted[i].word >> wanted[i].bit & 1)) return wanted[i].name;
  return (cpu->states & 6) == 6 ? NULL : "AVX registers of the operating system";
}

// One rank of a machine speaks, as launchers number them.
ANYWHERE static int speaks(void) {
  const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "LOCAL_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *const number = getenv(names[i]);
    if (number && *number) return strcmp(number, "0") == 0;
  }
  return 1;
}

ANYWHERE static void write_out(const char *text) {
  for (size_t left = strlen(text); left > 0;) {
    const ssize_t now = write(STDERR_FILENO, text, left);
    if (now <= 0) return;
    text += now;
    left -= (size_t)now;
  }
}

ANYWHERE void bd_rt_require_cpu(const bd_rt_cpu *cpu) {
  const char *const feature = bd_rt_cpu_lacks(cpu);
  if (!feature) return;
  if (speaks()) {
    write_out("braid: this processor lacks ");
    write_out(feature);
    write_out("; the program needs x86-64-v3 (AVX2, FMA, BMI2)\n");
  } else {
    // The launcher ends all ranks when the first is gone: the one that speaks comes first.
    usleep(WAIT_MICROSECONDS);
  }
  _exit(BD_RT_EXIT_MACHINE);
}

ANYWHERE __attribute__((constructor)) static void require_this_cpu(void) {
  bd_rt_cpu cpu = {0};
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d)) cpu.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) cpu.leaf7_ebx = b;
  if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) cpu.extended1_ecx = c;
  if (cpu.leaf1_ecx >> 27 & 1) {
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    cpu.states = (uint64_t)d << 32 | a;
  }
  bd_rt_require_cpu(&cpu);
}
