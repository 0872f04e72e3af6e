// Collectives, pipeline messages, gradient sync, ZeRO, ties, initialization and saving, under one
// of several cuts of the same tiny model. The first argument names the cut, the others are an
// emitted program's:
//   mpirun --allow-run-as-root --oversubscribe -n RANKS check_ranks CUT --data F.txt --steps 3
//   --save S
// Cuts and ranks: see `cuts`. Gradients are exact binary fractions, so with --clip 0 all cuts must
// save the same bytes; tests/runtime/check_ranks.sh runs them all and compares.
#include "runtime/braid_rt.h"
#include "runtime/half.h"
#include "runtime/layout.h"
#include "runtime/master.h"
#include "tests/runtime/check.h"
#include "tests/runtime/check_messages.h"
#include "tests/runtime/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 6, MOST_STAGES = 2, LIBRARY_BYTES = 16 << 20, SEND_BYTES = 2 << 20 };

typedef struct cut {
  const char *name;
  int stages, data, parts; // mesh: data x parts
  uint32_t zero_axes;
  int other_tie; // the second holder of the tied weight cuts another dimension
} cut;

static const cut cuts[] = {
    {"one", 1, 1, 1, 0, 0},       {"data2", 1, 2, 1, 0, 0},     {"zero2", 1, 2, 1, 1, 0},
    {"cut2", 1, 1, 2, 0, 0},      {"cut3", 1, 1, 3, 0, 0},      {"both4", 1, 2, 2, 0, 0},
    {"bothzero4", 1, 2, 2, 3, 0}, {"pipe2", 2, 1, 1, 0, 0},     {"pipe4", 2, 1, 2, 0, 0},
    {"pipetie4", 2, 1, 2, 0, 1},  {"pipezero4", 2, 2, 1, 1, 0}, {"all8", 2, 2, 2, 1, 1},
};

static const cut *chosen;
static bd_rt_weight_series weights[MOST_STAGES][TENSORS];
static bd_rt_weight_run runs[MOST_STAGES];
static int64_t offsets[MOST_STAGES][TENSORS][2];
static uint32_t partials[TENSORS][2];
static bd_rt_stage stages[MOST_STAGES];
static int walks; // steps that were begun

static float gradient_of(int tensor, int use, int64_t element, uint64_t step) {
  return (float)((element * 37 + tensor * 11 + use * 5 + (int64_t)step * 3) % 64 - 32) / 64;
}

typedef struct fill {
  int tensor, use, parts;
  uint64_t step;
  float *out;
} fill;

static void fill_row(void *args, int64_t flat, int64_t at, int64_t count) {
  const fill *const f = args;
  for (int64_t i = 0; i < count; i++)
    f->out[at + i] += gradient_of(f->tensor, f->use, flat + i, f->step) / (float)f->parts;
}

static int stage_of(const bd_rt *rt) {
  return bd_rt_rank(rt) / (chosen->data * chosen->parts);
}

static void fill_gradients(bd_rt *rt) {
  const int stage = stage_of(rt);
  const int32_t mesh[2] = {chosen->data, chosen->parts};
  const int coord[2] = {bd_rt_coord(rt, 0), bd_rt_coord(rt, 1)};
  for (int i = 0; i < stages[stage].weight_count; i++) {
    const bd_rt_weight *const w = &weights[stage][i].first;
    const bd_rt_local local = bd_rt_local_of(&w->layout, 2, mesh, coord);
    for (int use = 0; use < w->gradient_count; use++) {
      float *const out = malloc((size_t)local.elements * 4);
      char *const accumulator = bd_rt_arena(rt) + w->gradient_offsets[use];
      check_copy(out, accumulator, (size_t)local.elements * 4);
      fill f = {w->global_index, stage > 0 && w->global_index == 0 ? 1 : use, chosen->data,
                bd_rt_random_of(rt, 0, 0).step, out};
      bd_rt_local_rows(&local, fill_row, &f);
      for (int64_t e = local.elements; e-- > 0;) { // padding holds anything
        int64_t rest = e;
        for (int d = local.rank - 1; d >= 0; rest /= local.extent[d--])
          if (rest % local.extent[d] >= local.count[d]) out[e] = NAN;
      }
      check_copy(accumulator, out, (size_t)local.elements * 4);
      free(out);
    }
  }
}

static void check_messages(bd_rt *rt) {
  check_collectives(rt, 0, chosen->data);
  check_collectives(rt, 1, chosen->parts);
  if (chosen->stages == 2) check_pipe(rt, stage_of(rt));
}

// Functions read what the masters round to.
static void check_masters(bd_rt *rt) {
  for (int i = 0; i < rt->stage->weight_count; i++) {
    const bd_rt_weight *const w = &rt->stage->weights[i];
    const bd_rt_share share = bd_rt_share_of(rt, w);
    float *const master = calloc((size_t)share.count + 1, 4);
    uint16_t *const halves = calloc((size_t)share.count + 1, 2);
    const uint16_t *const here = (const uint16_t *)(void *)(rt->arena + w->weight_offset);
    int64_t wrong = 0;
    if (bd_rt_master(rt, w) && share.count > 0) {
      check_copy(master, bd_rt_master(rt, w), (size_t)share.count * 4);
      check_copy(halves, here + share.start, (size_t)share.count * 2);
    }
    for (int64_t e = 0; e < share.count; e++)
      wrong += halves[e] != bd_rt_to_half(w->layout.dtype, master[e]);
    check_true("halves are rounded masters", wrong == 0);
    free(master), free(halves);
  }
}

static void step(bd_rt *rt) {
  int32_t tokens[8] = {0}, targets[8] = {0};
  check_rank = rt;
  check_muted = walks++ < check_rehearsals;
  if (bd_rt_random_of(rt, 0, 0).step == 0) check_messages(rt);
  int32_t *const held[2] = {check_hold(tokens, sizeof tokens), check_hold(targets, sizeof targets)};
  bd_rt_tokens(rt, 0, 1, 2, held[0]);
  bd_rt_targets(rt, 0, 1, 2, held[1]);
  check_fetch(held[0], tokens, sizeof tokens);
  check_fetch(held[1], targets, sizeof targets);
  check_true("targets follow tokens", tokens[1] == targets[0] && tokens[7] == targets[6]);
  check_masters(rt);
  fill_gradients(rt);
  const float loss = 0.5f * (float)(bd_rt_coord(rt, 0) + 1) * (float)tokens[0];
  float *const held_loss = check_hold(&loss, sizeof loss);
  if (stage_of(rt) == chosen->stages - 1) bd_rt_add_loss(rt, held_loss, 1);
  check_free(held_loss);
}

static void add_weight(int stage, bd_rt_weight w, int index, int uses) {
  bd_rt_stage *const s = &stages[stage];
  const int32_t mesh[2] = {chosen->data, chosen->parts};
  const int coord[2] = {0, 0};
  w.global_index = index;
  w.layout.at[2] = w.layout.at[3] = -1;
  const int64_t elements = bd_rt_local_of(&w.layout, 2, mesh, coord).elements;
  s->arena_bytes = (s->arena_bytes + 255) / 256 * 256;
  w.weight_offset = s->arena_bytes;
  s->arena_bytes += elements * 4 + 256;
  for (int use = 0; use < uses; use++) {
    offsets[stage][index][use] = s->arena_bytes;
    s->arena_bytes += elements * 4 + 256;
    partials[index][use] = 1;
  }
  w.gradient_count = uses;
  w.gradient_offsets = offsets[stage][index];
  w.gradient_partial = partials[index];
  w.state_offset = s->arena_bytes;
  w.state_elements = elements;
  s->arena_bytes += elements * 12 + 256;
  weights[stage][s->weight_count++].first = w;
}

static void build(void) {
  const int last = chosen->stages - 1;
  bd_rt_weight table = {.stored_name = "wte \"\n",
                        .stored_rank = 2,
                        .stored_dims = {11, 6},
                        .slice_dim = -1,
                        .layout = {BD_RT_BF16, 2, {11, 6}, {-1, 0}},
                        .init = BD_RT_INIT_NORMAL,
                        .init_scale = 0.5f,
                        .decay = 1,
                        .tied_stage = -1};
  bd_rt_weight piece = {.stored_name = "attn.w",
                        .stored_rank = 2,
                        .stored_dims = {6, 12},
                        .slice_dim = 1,
                        .slice_size = 4,
                        .layout = {BD_RT_F32, 3, {6, 2, 2}, {-1, 1}},
                        .init = BD_RT_INIT_UNIFORM,
                        .init_scale = 1};
  const bd_rt_weight turned = {.stored_name = "proj",
                               .stored_rank = 2,
                               .stored_dims = {5, 7},
                               .slice_dim = -1,
                               .transpose = 1,
                               .layout = {BD_RT_F16, 2, {7, 5}, {-1, 0}},
                               .init = BD_RT_INIT_NORMAL,
                               .init_scale = 1};
  const bd_rt_weight rounded = {.stored_name = "rounded",
                                .stored_rank = 3,
                                .stored_dims = {7, 5, 131},
                                .slice_dim = -1,
                                .layout = {BD_RT_BF16, 3, {7, 5, 131}, {-1, 1}},
                                .init = BD_RT_INIT_NORMAL,
                                .init_scale = 1,
                                .rounded = 1,
                                .tied_stage = -1};
  add_weight(0, table, 0, last ? 1 : 2);
  for (int i = 0; i < 3; i++) {
    piece.slice_start = 4 * i;
    add_weight(i == 2 ? last : 0, piece, 1 + i, 1);
  }
  add_weight(last, turned, 4, 1);
  add_weight(last, rounded, 5, 1);
  if (last) {
    if (chosen->other_tie) table.layout.at[1] = 1;
    add_weight(1, table, 0, 1);
  }
  for (int s = 0; s <= last; s++) {
    runs[s] = (bd_rt_weight_run){1, stages[s].weight_count, weights[s]};
    stages[s].runs = &runs[s];
    stages[s].run_count = 1;
    stages[s].step = step;
    stages[s].library_offset = (stages[s].arena_bytes + 255) / 256 * 256;
    stages[s].library_bytes = LIBRARY_BYTES;
    stages[s].send_offset = stages[s].library_offset + LIBRARY_BYTES;
    stages[s].send_bytes = SEND_BYTES;
    stages[s].arena_bytes = stages[s].send_offset + SEND_BYTES;
  }
}

int main(int argc, char **argv) {
  for (size_t i = 0; argc > 1 && i < sizeof cuts / sizeof cuts[0]; i++)
    if (!strcmp(argv[1], cuts[i].name)) chosen = &cuts[i];
  if (!chosen) {
    fputs("the first argument must name a cut\n", stderr);
    return 2;
  }
  build();
  const bd_rt_program program = {.version = BD_RT_VERSION,
                                 .model = "ranks",
                                 .stages = chosen->stages,
                                 .axes = 2,
                                 .mesh = {chosen->data, chosen->parts},
                                 .threads_per_rank = 1,
                                 .zero_axes = chosen->zero_axes,
                                 .global_batch = 4,
                                 .micro_batch = 4,
                                 .sequence = 4,
                                 .optimizer = 1,
                                 .vocabulary = 256,
                                 .tensors = TENSORS,
                                 .stage = stages};
  return check_result(bd_rt_main(argc - 1, argv + 1, &program));
}
