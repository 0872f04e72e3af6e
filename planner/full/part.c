#include "planner/full/part.h"
#include "planner/full/whole.h"
#include "planner/step/step.h"
#include <limits.h>
#include <math.h>
#include <string.h>

enum {
  MOST_DEPTHS = 32,
  FEW_DEPTHS = 8, // that are told apart for what depends on the number of stages alone
  ROUNDS = 2      // with layers in fractions; 1 where layers are told as a whole afterwards
};
// Bounds are raised by so much at a time: what is near them is told quickly.
#define STEP 1.02

// The last micro-batch comes back through every stage.
static bool comes_back(const bd_full_part *p) {
  return p->schedule != BD_SCHEDULE_ZERO_BUBBLE;
}

// The time in which a layer of a run passes its stage: see bd_floor.
static double passing_of(const bd_part_scene *b, const bd_full_part *p, int run, int size) {
  int at = run * b->sizes->count + size;
  return comes_back(p) ? p->batch->both[at] / p->chunks : p->batch->forward[at];
}

// What a stage spends on messages: it receives what its chunks begin with, and sends what they end
// with, but for the ends of the pipeline, forward and backward.
static double handing_of(const bd_full_part *p, int size) {
  int boundaries = p->least_stages > 1 ? 2 * p->chunks - 1 : 2 * (p->chunks - 1);
  return boundaries * p->batch->transfer[size];
}

// The least with layers in fractions.
static double bound_in_fractions(bd_ctx *ctx, const bd_part_scene *b, bd_full_part *p) {
  int runs = b->space->runs.count, sizes = b->sizes->count;
  double *passing = BD_NEW_ARRAY(ctx->arena, double, runs *sizes);
  double *handing = BD_NEW_ARRAY(ctx->arena, double, sizes);
  for (int i = 0; i < sizes; i++) {
    handing[i] = handing_of(p, i);
    for (int r = 0; r < runs; r++)
      passing[r * sizes + i] = passing_of(b, p, r, i);
  }
  bd_floor numbers = {.run_count = runs,
                      .group_count = b->space->group_count,
                      .size_count = sizes,
                      .micro_batches = p->batch->micro_batches,
                      .most_stages = p->most_stages,
                      .calls = b->sizes->calls,
                      .group_devices = b->sizes->group_devices,
                      .sizes = b->sizes->sizes,
                      .seconds = p->batch->seconds,
                      .handing = handing,
                      .limit = b->enough,
                      .passing = passing,
                      .rounds = b->sizes->told ? 1 : ROUNDS,
                      .roughly = bd_deadline_passed(b->deadline)};
  return bd_floor_seconds(ctx, &numbers, p->used);
}

bool bd_full_part_is_split(const bd_part_scene *b, const bd_full_part *p) {
  bool tight = bd_full_batch_is_tight(b->sizes, p->batch);
  bool tied =
      bd_full_ties_differ(&b->sizes->ties, p->least_stages * p->chunks, p->most_stages * p->chunks);
  if (tied) return p->most_stages > p->least_stages;
  return p->most_stages > p->least_stages && (p->schedule == BD_SCHEDULE_ZERO_BUBBLE ||
                                              (p->schedule == BD_SCHEDULE_INTERLEAVED && tight));
}

static int depths_of(const bd_part_scene *b, const bd_full_part *p) {
  bool few = p->most_stages <= FEW_DEPTHS && bd_full_ties_differ(&b->sizes->ties, 2, INT_MAX);
  if (!bd_full_batch_is_tight(b->sizes, p->batch) && !few) return 1;
  return p->most_stages < MOST_DEPTHS ? p->most_stages : MOST_DEPTHS;
}

// What bd_whole is made of, under `limit`. Lives in the arena of the moment.
static void list_seconds(bd_ctx *ctx, const bd_part_scene *b, const bd_full_part *p,
                         const bd_whole *whole, double *out) {
  size_t shares = (size_t)bd_share_count(whole->kinds), count = (size_t)whole->size_count;
  double limit = whole->limit / whole->micro_batches;
  for (int depth = 0; depth < whole->depths; depth++) {
    bool last = depth + 1 == whole->depths;
    double tapes = bd_share_tapes(p->schedule, depth, last ? p->most_stages - 1 : depth,
                                  p->least_stages, p->chunks, whole->micro_batches);
    for (int i = 0; i < whole->size_count; i++) {
      double *own = &out[((size_t)depth * count + (size_t)i) * shares], handing = handing_of(p, i);
      bd_full_batch_shares(ctx, b->sizes, p->batch, i, tapes, limit, own);
      for (size_t x = 0; x < shares; x++)
        own[x] += handing;
    }
  }
}

// Per size and share: `of_run` is [run][size].
static double *sum_shares(bd_ctx *ctx, const bd_part_scene *b, const double *of_run) {
  const bd_full_sizes *s = b->sizes;
  int64_t shares = bd_share_count(&s->kinds);
  int *share = BD_NEW_ARRAY(ctx->arena, int, s->kinds.count);
  double *out = BD_NEW_ARRAY(ctx->arena, double, s->count *shares);
  for (int64_t x = 0; x < shares; x++, bd_share_next(&s->kinds, share))
    for (int i = 0; i < s->count; i++)
      for (int k = 0; k < s->kinds.count; k++)
        if (share[k]) out[i * shares + x] += share[k] * of_run[s->run_of_kind[k] * s->count + i];
  return out;
}

static double *list_passing(bd_ctx *ctx, const bd_part_scene *b, const bd_full_part *p) {
  int cells = b->sizes->count * (int)bd_share_count(&b->sizes->kinds);
  double *out = sum_shares(ctx, b, comes_back(p) ? p->batch->both : p->batch->forward);
  for (int i = 0; i < cells; i++)
    out[i] /= p->chunks;
  return out;
}

static double *list_layers(bd_ctx *ctx, const bd_part_scene *b, const bd_full_part *p) {
  const bd_full_sizes *s = b->sizes;
  double *out = BD_NEW_ARRAY(ctx->arena, double, s->kinds.count * s->count);
  for (int k = 0; k < s->kinds.count; k++)
    memcpy(&out[k * s->count], &p->batch->seconds[s->run_of_kind[k] * s->count],
           sizeof *out * (size_t)s->count);
  return out;
}

static double *list_ties(bd_ctx *ctx, const bd_part_scene *b, const bd_full_part *p) {
  double *out = BD_NEW_ARRAY(ctx->arena, double, b->sizes->count);
  for (int i = 0; i < b->sizes->count; i++)
    out[i] = bd_full_tie_seconds(&b->sizes->ties, i, p->least_stages * p->chunks);
  return out;
}

static double *list_passes(bd_ctx *ctx, const bd_part_scene *b, const bd_full_part *p) {
  int shares = (int)bd_share_count(&b->sizes->kinds);
  double *out = sum_shares(ctx, b, p->batch->both);
  for (int i = 0; i < b->sizes->count; i++)
    for (int x = 0; x < shares; x++)
      out[i * shares + x] += handing_of(p, i);
  return out;
}

// Every chunk hands over at the stage's boundaries.
static double *list_changing(bd_ctx *ctx, const bd_part_scene *b, const bd_full_part *p) {
  double *out = BD_NEW_ARRAY(ctx->arena, double, b->sizes->count);
  for (int i = 0; i < b->sizes->count; i++)
    out[i] = p->chunks * p->batch->changing[i];
  return out;
}

static bd_whole make_whole(bd_ctx *ctx, const bd_part_scene *b, const bd_full_part *p) {
  const bd_full_sizes *s = b->sizes;
  bd_whole out = {
      .kinds = &s->kinds,
      .micro_batches = p->batch->micro_batches,
      .devices = s->group_devices[0],
      .size_count = s->count,
      .least_layers = p->chunks,
      .least_stages = p->least_stages,
      .most_stages = p->most_stages,
      .depths = depths_of(b, p),
      .passing = list_passing(ctx, b, p),
      .ends = bd_share_ends(ctx, &s->kinds, b->space->layer_count, s->kind_of_layer, p->chunks),
      .tie = list_ties(ctx, b, p),
      .passes = list_passes(ctx, b, p),
      .tied = bd_share_tied(ctx, &s->kinds, s->kind_of_layer[0],
                            s->kind_of_layer[b->space->layer_count - 1]),
      .changing = list_changing(ctx, b, p),
      .layer_seconds = list_layers(ctx, b, p),
      .limit = p->bound > 0 ? fmin(b->enough, p->bound * STEP) : b->enough};
  size_t cells = (size_t)out.depths * (size_t)s->count * (size_t)bd_share_count(&s->kinds);
  double *seconds = bd_arena_array(ctx->arena, cells, sizeof *seconds);
  int *devices = BD_NEW_ARRAY(ctx->arena, int, s->count);
  for (int i = 0; i < s->count; i++)
    devices[i] = s->sizes[i].devices;
  list_seconds(ctx, b, p, &out, seconds);
  out.seconds = seconds;
  out.sizes = devices;
  return out;
}

// Whether a step is told pass by pass, and not by a formula that may hide more of its end.
static bool has_end(const bd_full_part *p) {
  return p->schedule == BD_SCHEDULE_ZERO_BUBBLE &&
         3 * (int64_t)p->most_stages * p->batch->micro_batches <= BD_STEP_ORDERED;
}

// The least with whole layers, within what stages have room for.
static double bound_in_whole(bd_ctx *ctx, const bd_part_scene *b, bd_full_part *p) {
  bd_owned held;
  bd_arena *kept = ctx->arena, *arena = bd_ctx_open_arena(ctx, &held);
  ctx->arena = arena;
  bd_whole whole = make_whole(ctx, b, p);
  double seconds = bd_whole_seconds(ctx, &whole, p->used);
  if (has_end(p) && seconds < whole.limit) {
    bool *used = BD_NEW_ARRAY(arena, bool, b->sizes->count);
    const double *weight = bd_full_batch_weights(ctx, b->sizes, p->batch);
    double late =
        bd_whole_late_seconds(ctx, &whole, weight, sum_shares(ctx, b, p->batch->both), used);
    if (late > seconds) memcpy(p->used, used, sizeof *used * (size_t)b->sizes->count);
    seconds = fmax(seconds, late);
  }
  p->reached = seconds < whole.limit;
  ctx->arena = kept;
  bd_ctx_close_arena(ctx, &held);
  return seconds;
}

void bd_full_part_raise(bd_ctx *ctx, const bd_part_scene *b, bd_full_part *p) {
  double seconds = p->whole ? bound_in_whole(ctx, b, p) : bound_in_fractions(ctx, b, p);
  p->bound = fmax(p->bound, seconds);
  p->settled = true;
  for (int i = 0; i < b->sizes->count; i++)
    p->settled = p->settled && (!p->used[i] || p->batch->priced[i]);
}
