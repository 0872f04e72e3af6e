#include "tests/runtime/check_step.h"
#include "tests/runtime/check.h"

#include <stdlib.h>

float *numbers(int64_t count, unsigned seed) {
  float *const x = malloc((size_t)(count + 1) * sizeof *x);
  if (!x) abort();
  uint32_t state = seed * 2654435761u + 12345;
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) * 0x1p-23f - 1;
  }
  return x;
}

float *cleared(int64_t count) {
  float *const x = calloc((size_t)(count + 1), sizeof *x);
  if (!x) abort();
  return x;
}

double *zeros(int64_t count) {
  double *const x = calloc(count > 0 ? (size_t)count : 1, sizeof *x);
  if (!x) abort();
  return x;
}

int check_run_step(char *name, void (*step)(bd_rt *rt), int threads) {
  const bd_rt_stage stage = {.arena_bytes = 256, .step = step};
  const bd_rt_program program = {.version = BD_RT_VERSION,
                                 .model = "kernels",
                                 .stages = 1,
                                 .axes = 1,
                                 .mesh = {1},
                                 .threads_per_rank = threads,
                                 .global_batch = 1,
                                 .micro_batch = 1,
                                 .sequence = 4,
                                 .vocabulary = 256,
                                 .stage = &stage};
  char data[64];
  check_write_text(data, sizeof data);
  char *arguments[] = {name, (char[]){"--steps=1"},         (char[]){"--data"},
                       data, (char[]){"--tokenizer=bytes"}, NULL};
  const int status = bd_rt_main(5, arguments, &program);
  check_remove(data);
  return check_result(status);
}
