// Where everything lies in the arena of a stage's ranks: each main value, each call's tape, each
// weight's state. Emitted programs take every address from here.
#ifndef BD_IR_LAYOUT_H
#define BD_IR_LAYOUT_H
#include "ir/memory.h"

// A buffer: at segment_start[segment] + offset_bytes + slot * slot_bytes, where slot is the
// micro-batch modulo in_flight. slot_bytes is 0 for what exists once. BD_SEGMENT_NONE: not on this
// stage.
typedef struct bd_place {
  bd_segment segment;
  int64_t offset_bytes, slot_bytes;
} bd_place;

typedef struct bd_layout {
  int stage, in_flight;
  bd_memory memory;
  int64_t segment_start[BD_SEGMENT_COUNT]; // bytes from the arena's start
  // Per value of main: weights, gradients (results of main), inputs, dloss and activations.
  bd_place *values;
  // Per op of main: the call's part of the tape. A value of a forward function in BD_SEGMENT_TAPE,
  // and its restored twin in the backward function, lie at the call's place plus their
  // offset_bytes.
  bd_place *tapes;
  // Per weight of the module: optimizer state: the master of a half, then moments one after
  // another, `state_elements` each, or what Adafactor keeps; `state_bytes` in all.
  bd_place *states;
  int64_t *state_elements, *state_bytes;
  // Weights of this stage in the order of their first use: indices into module->weights.
  int weight_count;
  int *weights;
  int forward_ops; // ops of main before this index belong to the forward pass, the others to
                   // backward
} bd_layout;

// Lays out `stage`. Consecutive calls of one function variant lie at constant strides. Places the
// functions called on the stage as well (tape and workspace).
BD_NODISCARD bd_status bd_layout_of_stage(bd_ctx *ctx, const bd_module *spmd, int stage,
                                          bd_schedule schedule, int micro_batches,
                                          const char *optimizer, unsigned zero_axes,
                                          bd_layout *out_layout);

// The main value that holds restored parameter `index` of the backward call `call` (an op index of
// main), or BD_NO_ID when it is on the tape.
bd_id bd_layout_restored(const bd_module *spmd, int call, int index);
#endif
