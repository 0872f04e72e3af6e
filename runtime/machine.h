// Whether this processor has what the program was compiled for, x86-64-v3.
#ifndef BD_RT_MACHINE_H
#define BD_RT_MACHINE_H
#include <stdint.h>

// The words of CPUID that name the features, and the register states that the system keeps.
typedef struct bd_rt_cpu {
  uint32_t leaf1_ecx, leaf7_ebx, extended1_ecx;
  uint64_t states; // XCR0, 0 when there is none
} bd_rt_cpu;

// The first feature of x86-64-v3 that it lacks, or NULL.
const char *bd_rt_cpu_lacks(const bd_rt_cpu *cpu);
// Ends the process with BD_RT_EXIT_MACHINE when it lacks one; the first rank of a machine says so.
// Runs by itself on this processor before main.
void bd_rt_require_cpu(const bd_rt_cpu *cpu);
#endif
