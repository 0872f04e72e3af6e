// A program for GPUs, written by hand: one weight that every step pulls towards zero. It needs no
// generated kernels, but all of the CUDA runtime links into it. TINY_RANKS: how many ranks have a
// replica of the weight and add their gradients up (1). TINY_ARCHITECTURES: what its device code,
// of which it has none, would be for. TINY_F8: it says that it has products in 8 bits.
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
  LIBRARY = 6 * BYTES,
  LIBRARY_BYTES = 32 << 20,
};

// The gradient of half the sum of squares is the weight; the loss is w' w as a product.
static void step(bd_rt *rt) {
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
                             .accumulate = 1,
                             .dtype = BD_RT_F32,
                             .out_dtype = BD_RT_F32};
  bd_rt_tokens(rt, 0, 0, 1, (int32_t *)(void *)(arena + TOKENS));
  bd_rt_matmul(rt, &one, arena + WEIGHT, arena + WEIGHT, arena + LOSS);
  bd_rt_add_loss(rt, (const float *)(void *)(arena + LOSS), 1);
  bd_rt_loss_gradient(rt, (float *)(void *)(arena + LOSS));
  bd_rt_matmul(rt, &scaled, arena + WEIGHT, arena + LOSS, arena + GRADIENT);
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
                                  .weight_count = 1,
                                  .run_count = 1,
                                  .runs = &run,
                                  .step = step};

int main(int argc, char **argv) {
  const char *const ranks = getenv("TINY_RANKS");
  const bd_rt_program program = {.version = BD_RT_VERSION,
                                 .model = "tiny",
                                 .stages = 1,
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
                                 .stage = &stage};
  return bd_rt_main(argc, argv, &program);
}
