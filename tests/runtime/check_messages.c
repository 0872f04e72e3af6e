#include "tests/runtime/check_messages.h"
#include "runtime/half.h"
#include "tests/runtime/check.h"
#include "tests/runtime/halves.h"
#include "tests/runtime/memory.h"

#include <math.h>
#include <stdlib.h>

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
  uint16_t *const halves = to_halves(dtype, values, count);
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
  from_halves(dtype, halves, count, values);
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

// Rank r gets what rank size - 1 - r gives.
static void check_mirror(bd_rt *rt, int axis, int dtype, int size, int64_t count) {
  int64_t rank, one;
  bd_rt_range(rt, size, 1u << axis, &rank, &one);
  float *const given = calloc((size_t)count, 4), *const expected = calloc((size_t)count, 4);
  float *const got = calloc((size_t)count, 4);
  for (int64_t i = 0; i < count; i++) {
    given[i] = value((int)rank, i);
    expected[i] = value(size - 1 - (int)rank, i);
  }
  void *const in = packed(dtype, given, count), *const out = packed(dtype, got, count);
  bd_rt_mirror(rt, axis, dtype, count, in, out);
  unpack(dtype, out, count, got);
  check_near("mirror", got, expected, count, 0);
  free(given), free(expected), free(got);
  check_free(in);
}

void check_collectives(bd_rt *rt, int axis, int size) {
  check_reduce(rt, axis, size, 5);
  check_reduce(rt, axis, size, 2500001);
  for (int dtype = BD_RT_BF16; dtype <= BD_RT_F16; dtype++) {
    check_halves(rt, dtype, axis, size, 5);
    check_halves(rt, dtype, axis, size, 9001);
  }
  check_views(rt, axis, BD_RT_F32, size, 2, 3, 350001);
  for (int dtype = BD_RT_F32; dtype <= BD_RT_BOOL; dtype++) {
    if (dtype == BD_RT_F64 || dtype == BD_RT_I32) continue;
    check_views(rt, axis, dtype, size, 3, 7, 5);
    check_views(rt, axis, dtype, size, 1, 2, 3);
    check_views(rt, axis, dtype, size, 2, 1, 1);
    check_turn(rt, axis, dtype, size, (const int64_t[]){2, 3, 4, 5, 6});
    check_turn(rt, axis, dtype, size, (const int64_t[]){1, 4, 1, 1, 2});
    check_mirror(rt, axis, dtype, size, 300001);
  }
}

// Both sides send before they receive, and rewrite the buffer at once.
void check_pipe(bd_rt *rt, int stage) {
  enum { COUNT = 300000, TIMES = 3 };
  const int64_t bytes = COUNT * (int64_t)sizeof(float);
  const int other = 1 - stage;
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
    bd_rt_post(rt);
    bd_rt_recv(rt, other, 7, received, bytes);
    check_fetch(received, in, (size_t)bytes);
    check_free(sent);
    check_near("send and recv", in, expected, COUNT, 0);
  }
  free(out), free(in), free(expected);
}
