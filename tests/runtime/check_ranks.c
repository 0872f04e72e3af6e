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
#include "tests/runtime/memory.h"

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

static float value(int rank, int64_t i) {
  return (float)((rank * 31 + i * 7) % 101) / 8 - 3;
}

// Bytes and integers of 64 bits hold multiples of an eighth, 0 as 0.
static void *packed_whole(int dtype, const float *values, int64_t count) {
  int64_t *const wide = malloc((size_t)count * 8 + 1);
  int8_t *const bytes = malloc((size_t)count + 1);
  if (!wide || !bytes) abort();
  for (int64_t i = 0; i < count; i++) {
    bytes[i] = (int8_t)(values[i] * 8);
    wide[i] = bytes[i] * ((int64_t)1 << 40);
  }
  void *const held =
      dtype == BD_RT_I64 ? check_hold(wide, (size_t)count * 8) : check_hold(bytes, (size_t)count);
  free(wide), free(bytes);
  return held;
}

static void unpack_whole(int dtype, void *held, int64_t count, float *values) {
  int64_t *const wide = malloc((size_t)count * 8 + 1);
  if (!wide) abort();
  const int8_t *const bytes = (const int8_t *)wide;
  check_fetch(held, wide, (size_t)count * (dtype == BD_RT_I64 ? 8 : 1));
  for (int64_t i = 0; i < count; i++)
    values[i] = (float)(dtype == BD_RT_I64 ? wide[i] / ((int64_t)1 << 40) : bytes[i]) / 8;
  free(wide);
}

static int is_whole(int dtype) {
  return dtype == BD_RT_I64 || dtype == BD_RT_BOOL;
}

// The same numbers in a buffer of `dtype`, and back; all of them are numbers that bf16 and f16
// have.
static void *packed(int dtype, const float *values, int64_t count) {
  if (is_whole(dtype)) return packed_whole(dtype, values, count);
  uint16_t *const halves = malloc((size_t)count * 2 + 1);
  if (!halves) abort();
  for (int64_t i = 0; i < count; i++)
    halves[i] = bd_rt_to_half(dtype, values[i]);
  void *const held = bd_rt_is_half(dtype) ? check_hold(halves, (size_t)count * 2)
                                          : check_hold(values, (size_t)count * 4);
  free(halves);
  return held;
}

static void unpack(int dtype, void *held, int64_t count, float *values) {
  if (is_whole(dtype)) {
    unpack_whole(dtype, held, count, values);
    return;
  }
  if (!bd_rt_is_half(dtype)) {
    check_fetch(held, values, (size_t)count * 4);
    return;
  }
  uint16_t *const halves = malloc((size_t)count * 2 + 1);
  if (!halves) abort();
  check_fetch(held, halves, (size_t)count * 2);
  for (int64_t i = 0; i < count; i++)
    values[i] = bd_rt_from_half(dtype, halves[i]);
  free(halves);
}

// Small terms count: halves are added wide and rounded once.
static void check_halves(bd_rt *rt, int dtype, int axis, int size, int64_t count) {
  const size_t bytes = (size_t)count * 2;
  uint16_t *const in = malloc(bytes), *const out = malloc(bytes);
  const float small = dtype == BD_RT_BF16 ? 0x1p-8f : 0x1p-11f; // half of what 1 can be changed by
  const uint16_t expected = bd_rt_to_half(dtype, 1 + (float)(size - 1) * small);
  for (int64_t i = 0; i < count; i++)
    in[i] = bd_rt_to_half(dtype, bd_rt_coord(rt, axis) ? small : 1);
  void *const held = check_hold(in, bytes), *const sums = check_hold(in, bytes);
  bd_rt_all_reduce(rt, axis, dtype, BD_RT_SUM, count, held, sums);
  check_fetch(sums, out, bytes);
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; i++)
    wrong += out[i] != expected;
  check_true("all_reduce of halves", wrong == 0);
  bd_rt_all_reduce(rt, axis, dtype, BD_RT_MAX, count, held, held);
  check_fetch(held, in, bytes);
  check_true("max of halves", in[0] == bd_rt_to_half(dtype, 1) && in[count - 1] == in[0]);
  free(in), free(out);
}

static void check_reduce(bd_rt *rt, int axis, int size, int64_t count) {
  float *const in = calloc((size_t)count, 4), *const out = calloc((size_t)count, 4);
  float *const sum = calloc((size_t)count, 4), *const most = calloc((size_t)count, 4);
  for (int64_t i = 0; i < count; i++) {
    in[i] = value(bd_rt_coord(rt, axis), i);
    sum[i] = most[i] = value(0, i);
    for (int r = 1; r < size; r++) {
      sum[i] += value(r, i);
      most[i] = fmaxf(most[i], value(r, i));
    }
  }
  const size_t bytes = (size_t)count * 4;
  void *const held = check_hold(in, bytes), *sums = check_hold(in, bytes);
  bd_rt_all_reduce(rt, axis, BD_RT_F32, BD_RT_SUM, count, held, sums);
  check_fetch(sums, out, bytes);
  check_near("all_reduce sum", out, sum, count, 0);
  sums = check_hold(in, bytes);
  bd_rt_all_reduce(rt, axis, BD_RT_F32, BD_RT_MAX, count, held, sums);
  check_fetch(sums, out, bytes);
  check_near("all_reduce max", out, most, count, 0);
  for (int64_t i = 0; i < count; i++) {
    double total = 0;
    for (int r = 0; r < size; r++)
      total += exp(value(r, i));
    sum[i] = (float)log(total);
  }
  bd_rt_all_reduce(rt, axis, BD_RT_F32, BD_RT_LSE, count, held, held);
  check_fetch(held, in, bytes);
  check_near("all_reduce lse, in place", in, sum, count, 1e-6);
  free(in), free(out), free(sum), free(most);
}

// Part buffers hold value(0, index in the whole).
static void check_views(bd_rt *rt, int axis, int dtype, int size, int64_t outer, int64_t extent,
                        int64_t inner) {
  const int64_t part = (extent + size - 1) / size, whole = outer * extent * inner;
  const int64_t parts = outer * part * inner;
  int64_t start, count;
  bd_rt_range(rt, extent, 1u << axis, &start, &count);
  float *const all = malloc((size_t)whole * 4), *const out = calloc((size_t)whole, 4);
  float *const mine = calloc((size_t)(outer * part * inner), 4);
  float *const got = calloc((size_t)(outer * part * inner), 4);
  for (int64_t i = 0; i < whole; i++)
    all[i] = value(0, i);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < count * inner; i++)
      mine[o * part * inner + i] = all[(o * extent + start) * inner + i];
  void *const whole_in = packed(dtype, all, whole), *whole_out = packed(dtype, out, whole);
  void *const part_in = packed(dtype, mine, parts), *part_out = packed(dtype, got, parts);
  bd_rt_shard(rt, axis, dtype, outer, extent, inner, whole_in, part_out);
  unpack(dtype, part_out, parts, got);
  check_near("shard", got, mine, outer * part * inner, 0);
  bd_rt_all_gather(rt, axis, dtype, outer, extent, inner, part_in, whole_out);
  unpack(dtype, whole_out, whole, out);
  check_near("all_gather", out, all, whole, 0);
  for (int64_t i = 0; i < outer * part * inner; i++)
    mine[i] *= (float)size;
  if (!is_whole(dtype)) {
    part_out = packed(dtype, got, parts);
    bd_rt_reduce_scatter(rt, axis, dtype, outer, extent, inner, whole_in, part_out);
    unpack(dtype, part_out, parts, got);
    check_near("reduce_scatter", got, mine, outer * part * inner, 0);
  }
  free(all), free(out), free(mine), free(got);
  check_free(whole_in);
  check_free(part_in);
}

static void check_turn(bd_rt *rt, int axis, int dtype, int size, const int64_t e[5]) {
  const int64_t whole = e[0] * e[1] * e[2] * e[3] * e[4], pf = (e[1] + size - 1) / size;
  const int64_t ps = (e[3] + size - 1) / size;
  int64_t sf, cf, ss, cs;
  bd_rt_range(rt, e[1], 1u << axis, &sf, &cf);
  bd_rt_range(rt, e[3], 1u << axis, &ss, &cs);
  float *const a = calloc((size_t)(whole + e[0] * e[1] * e[2] * e[4] * ps), 4);
  float *const b = calloc((size_t)(whole + e[0] * e[2] * e[3] * e[4] * pf), 4);
  float *const got_a = calloc((size_t)(whole + e[0] * e[1] * e[2] * e[4] * ps), 4);
  float *const got_b = calloc((size_t)(whole + e[0] * e[2] * e[3] * e[4] * pf), 4);
  for (int64_t x = 0; x < whole; x++) {
    const int64_t i = x / e[4] / e[3] / e[2] / e[1], f = x / e[4] / e[3] / e[2] % e[1];
    const int64_t m = x / e[4] / e[3] % e[2], s = x / e[4] % e[3], n = x % e[4];
    if (s >= ss && s < ss + cs)
      a[(((i * e[1] + f) * e[2] + m) * ps + s - ss) * e[4] + n] = value(0, x);
    if (f >= sf && f < sf + cf)
      b[(((i * pf + f - sf) * e[2] + m) * e[3] + s) * e[4] + n] = value(0, x);
  }
  const int64_t of_a = e[0] * e[1] * e[2] * ps * e[4], of_b = e[0] * pf * e[2] * e[3] * e[4];
  void *const in_a = packed(dtype, a, of_a), *const in_b = packed(dtype, b, of_b);
  void *const out_a = packed(dtype, got_a, of_a), *const out_b = packed(dtype, got_b, of_b);
  bd_rt_all_to_all(rt, axis, dtype, e[0], e[1], e[2], e[3], e[4], 0, in_a, out_b);
  unpack(dtype, out_b, of_b, got_b);
  check_near("all_to_all", got_b, b, of_b, 0);
  bd_rt_all_to_all(rt, axis, dtype, e[0], e[1], e[2], e[3], e[4], 1, in_b, out_a);
  unpack(dtype, out_a, of_a, got_a);
  check_near("all_to_all swapped", got_a, a, of_a, 0);
  free(a), free(b), free(got_a), free(got_b);
  check_free(in_a);
  check_free(in_b);
}

// Both sides send before they receive, and rewrite the buffer at once.
static void check_pipe(bd_rt *rt) {
  enum { COUNT = 300000, TIMES = 3 };
  const int64_t bytes = COUNT * (int64_t)sizeof(float);
  const int stage = stage_of(rt), other = 1 - stage;
  float *const out = calloc(COUNT, sizeof *out), *const in = calloc(COUNT, sizeof *in);
  float *const expected = calloc(COUNT, sizeof *in);
  for (int t = 0; t < TIMES; t++) {
    for (int i = 0; i < COUNT; i++) {
      out[i] = value(stage * 10 + t, i);
      expected[i] = value(other * 10 + t, i);
    }
    void *const sent = check_hold(out, (size_t)bytes), *const received =
                                                           check_hold(in, (size_t)bytes);
    bd_rt_send(rt, other, 7, sent, bytes);
    bd_rt_zero(rt, sent, bytes);
    bd_rt_recv(rt, other, 7, received, bytes);
    check_fetch(received, in, (size_t)bytes);
    check_free(sent);
    check_near("send and recv", in, expected, COUNT, 0);
  }
  free(out), free(in), free(expected);
}

static void check_messages(bd_rt *rt) {
  const int sizes[2] = {chosen->data, chosen->parts};
  for (int axis = 0; axis < 2; axis++) {
    check_reduce(rt, axis, sizes[axis], 5);
    check_reduce(rt, axis, sizes[axis], 2500001);
    for (int dtype = BD_RT_BF16; dtype <= BD_RT_F16; dtype++) {
      check_halves(rt, dtype, axis, sizes[axis], 5);
      check_halves(rt, dtype, axis, sizes[axis], 9001);
    }
    check_views(rt, axis, BD_RT_F32, sizes[axis], 2, 3, 350001);
    for (int dtype = BD_RT_F32; dtype <= BD_RT_BOOL; dtype++) {
      if (dtype == BD_RT_F64 || dtype == BD_RT_I32) continue;
      check_views(rt, axis, dtype, sizes[axis], 3, 7, 5);
      check_views(rt, axis, dtype, sizes[axis], 1, 2, 3);
      check_views(rt, axis, dtype, sizes[axis], 2, 1, 1);
      check_turn(rt, axis, dtype, sizes[axis], (const int64_t[]){2, 3, 4, 5, 6});
      check_turn(rt, axis, dtype, sizes[axis], (const int64_t[]){1, 4, 1, 1, 2});
    }
  }
  if (chosen->stages == 2) check_pipe(rt);
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
  check_muted = walks++ < CHECK_REHEARSALS;
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
