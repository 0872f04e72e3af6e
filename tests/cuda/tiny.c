// A program for GPUs, written by hand: one weight that every step pulls towards zero. It needs no
// generated kernels, but all of the CUDA runtime links into it. TINY_RANKS: how many ranks have a
// replica of the weight and add their gradients up (1). TINY_STAGES=2: as many again get the weight
// sent, and send its gradient back. TINY_ARCHITECTURES: what its device code,
// of which it has none, would be for. TINY_F8: it says that it has products in 8 bits. TINY_ENDS:
// the host waits many times in a step for what the ranks of a stage have added up.
#include "runtime/braid_rt.h"

#include <stdlib.h>

enum {
  ELEMENTS = 64,
  BYTES = 4 * ELEMENTS,
  WEIGHT = 0,
  GRADIENT = BYTES,
  STATE = 2 * BYTES, // two moments
  LOSS = 4 * BYTES,
  TOKENS = 5 * BYTES,
  SUMS = TOKENS + BYTES / 2,
  ENDS = BYTES / 8, // numbers
  WAITS = 20,
  LIBRARY = 6 * BYTES,
  LIBRARY_BYTES = 32 << 20,
  MESSAGE = LIBRARY + LIBRARY_BYTES,
  THERE = 0, // tags of messages
  BACK = 1,
};

// The gradient of half the sum of squares is the weight; the loss is w' w as a product.
static void pull(bd_rt *rt, int accumulate) {
  char *const arena = bd_rt_arena(rt);
  const bd_rt_gemm one = {.m = 1,
                          .n = 1,
                          .k = ELEMENTS,
                          .batch = 1,
                          .a_m = ELEMENTS,
                          .a_k = 1,
                          .b_k = 1,
                          .b_n = 1,
                          .out_m = 1,
                          .dtype = BD_RT_F32,
                          .out_dtype = BD_RT_F32};
  const bd_rt_gemm scaled = {.m = ELEMENTS,
                             .n = 1,
                             .k = 1,
                             .batch = 1,
                             .a_m = 1,
                             .a_k = 1,
                             .b_k = 1,
                             .b_n = 1,
                             .out_m = 1,
                             .accumulate = accumulate,
                             .dtype = BD_RT_F32,
                             .out_dtype = BD_RT_F32};
  bd_rt_matmul(rt, &one, arena + WEIGHT, arena + WEIGHT, arena + LOSS);
  bd_rt_add_loss(rt, (const float *)(void *)(arena + LOSS), 1);
  bd_rt_loss_gradient(rt, (float *)(void *)(arena + LOSS));
  bd_rt_matmul(rt, &scaled, arena + WEIGHT, arena + LOSS, arena + GRADIENT);
}

static void read_sample(bd_rt *rt) {
  bd_rt_tokens(rt, 0, 0, 1, (int32_t *)(void *)(bd_rt_arena(rt) + TOKENS));
}

static void wait_for_sums(bd_rt *rt) {
  char *const arena = bd_rt_arena(rt);
  for (int i = 0; getenv("TINY_ENDS") && i < WAITS; i++) {
    bd_rt_all_reduce(rt, 0, BD_RT_F32, BD_RT_SUM, ENDS, arena + WEIGHT, arena + SUMS);
    bd_rt_fetch_ends(rt, 0, (const int32_t *)(void *)(arena + SUMS), ENDS);
  }
}

static void step(bd_rt *rt) {
  read_sample(rt);
  wait_for_sums(rt);
  pull(rt, 1);
}

static void step_of_first(bd_rt *rt) {
  read_sample(rt);
  bd_rt_send(rt, 1, THERE, bd_rt_arena(rt) + WEIGHT, BYTES);
  bd_rt_post(rt);
  wait_for_sums(rt);
  bd_rt_recv(rt, 1, BACK, bd_rt_arena(rt) + GRADIENT, BYTES);
}

static void step_of_last(bd_rt *rt) {
  bd_rt_recv(rt, 0, THERE, bd_rt_arena(rt) + WEIGHT, BYTES);
  wait_for_sums(rt);
  pull(rt, 0);
  bd_rt_send(rt, 0, BACK, bd_rt_arena(rt) + GRADIENT, BYTES);
  bd_rt_post(rt);
}

static const bd_rt_weight_series weight = {
    .first = {.stored_name = "w",
              .stored_rank = 1,
              .stored_dims = {ELEMENTS},
              .slice_dim = -1,
              .layout = {BD_RT_F32, 1, {ELEMENTS}, {-1, -1, -1, -1}},
              .weight_offset = WEIGHT,
              .gradient_count = 1,
              .gradient_offsets = (const int64_t[]){GRADIENT},
              .gradient_partial = (const uint32_t[]){1},
              .state_offset = STATE,
              .state_elements = ELEMENTS,
              .init = BD_RT_INIT_NORMAL,
              .init_scale = 1,
              .tied_stage = -1}};
static const bd_rt_weight_run run = {1, 1, &weight};
static const bd_rt_stage stage = {.arena_bytes = LIBRARY + LIBRARY_BYTES,
                                  .library_offset = LIBRARY,
                                  .library_bytes = LIBRARY_BYTES,
                                  .most_ends = ENDS,
                                  .weight_count = 1,
                                  .run_count = 1,
                                  .runs = &run,
                                  .step = step};
static const bd_rt_stage stages[] = {{.arena_bytes = MESSAGE + BYTES,
                                      .library_offset = LIBRARY,
                                      .library_bytes = LIBRARY_BYTES,
                                      .most_ends = ENDS,
                                      .send_offset = MESSAGE,
                                      .send_bytes = BYTES,
                                      .weight_count = 1,
                                      .run_count = 1,
                                      .runs = &run,
                                      .step = step_of_first},
                                     {.arena_bytes = MESSAGE + BYTES,
                                      .library_offset = LIBRARY,
                                      .library_bytes = LIBRARY_BYTES,
                                      .most_ends = ENDS,
                                      .send_offset = MESSAGE,
                                      .send_bytes = BYTES,
                                      .step = step_of_last}};

int main(int argc, char **argv) {
  const char *const ranks = getenv("TINY_RANKS"), *const depth = getenv("TINY_STAGES");
  const int cut = depth && atoi(depth) == 2;
  const bd_rt_program program = {.version = BD_RT_VERSION,
                                 .model = "tiny",
                                 .stages = cut ? 2 : 1,
                                 .axes = 1,
                                 .mesh = {ranks ? atoi(ranks) : 1},
                                 .threads_per_rank = 1,
                                 .global_batch = 1,
                                 .micro_batch = 1,
                                 .sequence = 8,
                                 .optimizer = 1,
                                 .vocabulary = 256,
                                 .tensors = 1,
                                 .architectures = getenv("TINY_ARCHITECTURES"),
                                 .has_f8_products = getenv("TINY_F8") != NULL,
                                 .stage = cut ? stages : &stage};
  return bd_rt_main(argc, argv, &program);
}
