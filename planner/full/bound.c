#include "planner/full/bound.h"
#include "planner/full/batch.h"
#include "planner/full/whole.h"
#include "planner/step/step.h"
#include <math.h>
#include <string.h>

enum { MOST_PRICED = 512, MOST_SPLITS = 512, MOST_DEPTHS = 32 };
// Bounds are raised by so much at a time: what is near them is told quickly.
#define STEP 1.02

// A part of the space.
typedef struct part {
  bd_bound_batch *batch;
  bd_schedule schedule;
  int chunks, least_stages, most_stages;
  double bound;
  bool *used;   // per size: the bound is made of stages of that size
  bool settled; // they were priced when it was made
  bool whole;   // layers are taken as a whole
  bool reached; // ... and something takes as long as the bound
} part;

typedef struct bounding {
  bd_ctx *ctx;
  const bd_full_space *space;
  double enough;
  bd_deadline deadline;
  bd_bound_sizes sizes;
  bd_bound_batch *batches;
  int priced, splits, part_count;
  part *parts;
} bounding;

// The last micro-batch comes back through every stage.
static bool comes_back(const part *p) {
  return p->schedule != BD_SCHEDULE_ZERO_BUBBLE;
}

// The time in which a layer of a run passes its stage: see bd_floor.
static double passing_of(const bounding *b, const part *p, int run, int size) {
  int at = run * b->sizes.count + size;
  return comes_back(p) ? p->batch->both[at] / p->chunks : p->batch->forward[at];
}

// What a stage spends on messages: it receives what its chunks begin with, and sends what they end
// with, but for the ends of the pipeline, forward and backward.
static double handing_of(const part *p, int size) {
  int boundaries = p->least_stages > 1 ? 2 * p->chunks - 1 : 2 * (p->chunks - 1);
  return boundaries * p->batch->transfer[size];
}

// The least with layers in fractions.
static double bound_in_fractions(const bounding *b, part *p) {
  int runs = b->space->runs.count, sizes = b->sizes.count;
  double *passing = BD_NEW_ARRAY(b->ctx->arena, double, runs *sizes);
  double *handing = BD_NEW_ARRAY(b->ctx->arena, double, sizes);
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
                      .calls = b->sizes.calls,
                      .group_devices = b->sizes.group_devices,
                      .sizes = b->sizes.sizes,
                      .seconds = p->batch->seconds,
                      .handing = handing,
                      .limit = b->enough,
                      .passing = passing,
                      .roughly = bd_deadline_passed(b->deadline)};
  return bd_floor_seconds(b->ctx, &numbers, p->used);
}

// Whether what a stage holds depends on how many stages there are, and that matters.
static bool is_split_by_stages(const bounding *b, const part *p) {
  bool tight = bd_bound_batch_is_tight(&b->sizes, p->batch);
  return p->most_stages > p->least_stages && (p->schedule == BD_SCHEDULE_ZERO_BUBBLE ||
                                              (p->schedule == BD_SCHEDULE_INTERLEAVED && tight));
}

static int depths_of(const bounding *b, const part *p) {
  if (!bd_bound_batch_is_tight(&b->sizes, p->batch)) return 1;
  return p->most_stages < MOST_DEPTHS ? p->most_stages : MOST_DEPTHS;
}

// What bd_whole is made of, under `limit`. Lives in the arena of the moment.
static void list_seconds(const bounding *b, const part *p, const bd_whole *whole, double *out) {
  size_t shares = (size_t)bd_share_count(whole->kinds), count = (size_t)whole->size_count;
  double limit = whole->limit / whole->micro_batches;
  for (int depth = 0; depth < whole->depths; depth++) {
    bool last = depth + 1 == whole->depths;
    double tapes = bd_share_tapes(p->schedule, depth, last ? p->most_stages - 1 : depth,
                                  p->least_stages, p->chunks, whole->micro_batches);
    for (int i = 0; i < whole->size_count; i++) {
      double *own = &out[((size_t)depth * count + (size_t)i) * shares], handing = handing_of(p, i);
      bd_bound_batch_shares(b->ctx, &b->sizes, p->batch, i, tapes, limit, own);
      for (size_t x = 0; x < shares; x++)
        own[x] += handing;
    }
  }
}

// Per size and share: `of_run` is [run][size].
static double *sum_shares(const bounding *b, const double *of_run) {
  const bd_bound_sizes *s = &b->sizes;
  int64_t shares = bd_share_count(&s->kinds);
  int *share = BD_NEW_ARRAY(b->ctx->arena, int, s->kinds.count);
  double *out = BD_NEW_ARRAY(b->ctx->arena, double, s->count *shares);
  for (int64_t x = 0; x < shares; x++, bd_share_next(&s->kinds, share))
    for (int i = 0; i < s->count; i++)
      for (int k = 0; k < s->kinds.count; k++)
        if (share[k]) out[i * shares + x] += share[k] * of_run[s->run_of_kind[k] * s->count + i];
  return out;
}

static double *list_passing(const bounding *b, const part *p) {
  int cells = b->sizes.count * (int)bd_share_count(&b->sizes.kinds);
  double *out = sum_shares(b, comes_back(p) ? p->batch->both : p->batch->forward);
  for (int i = 0; i < cells; i++)
    out[i] /= p->chunks;
  return out;
}

static double *least_work(const bounding *b, const part *p) {
  const bd_bound_sizes *s = &b->sizes;
  double *out = BD_NEW_ARRAY(b->ctx->arena, double, s->kinds.count);
  for (int k = 0; k < s->kinds.count; k++) {
    out[k] = INFINITY;
    for (int i = 0; i < s->count; i++)
      out[k] =
          fmin(out[k], s->sizes[i].devices * p->batch->seconds[s->run_of_kind[k] * s->count + i]);
  }
  return out;
}

static bd_whole make_whole(const bounding *b, const part *p) {
  const bd_bound_sizes *s = &b->sizes;
  bd_whole out = {
      .kinds = &s->kinds,
      .micro_batches = p->batch->micro_batches,
      .devices = s->group_devices[0],
      .size_count = s->count,
      .least_layers = p->chunks,
      .least_stages = p->least_stages,
      .most_stages = p->most_stages,
      .depths = depths_of(b, p),
      .passing = list_passing(b, p),
      .ends = bd_share_ends(b->ctx, &s->kinds, b->space->layer_count, s->kind_of_layer, p->chunks),
      .work = least_work(b, p),
      .limit = fmin(b->enough, p->bound * STEP)};
  size_t cells = (size_t)out.depths * (size_t)s->count * (size_t)bd_share_count(&s->kinds);
  double *seconds = bd_arena_array(b->ctx->arena, cells, sizeof *seconds);
  int *devices = BD_NEW_ARRAY(b->ctx->arena, int, s->count);
  for (int i = 0; i < s->count; i++)
    devices[i] = s->sizes[i].devices;
  list_seconds(b, p, &out, seconds);
  out.seconds = seconds;
  out.sizes = devices;
  return out;
}

// Whether a step is told pass by pass, and not by a formula that may hide more of its end.
static bool has_end(const part *p) {
  return p->schedule == BD_SCHEDULE_ZERO_BUBBLE &&
         3 * (int64_t)p->most_stages * p->batch->micro_batches <= BD_STEP_ORDERED;
}

// The least with whole layers, within what stages have room for.
static double bound_in_whole(const bounding *b, part *p) {
  bd_owned held;
  bd_arena *kept = b->ctx->arena, *arena = bd_ctx_open_arena(b->ctx, &held);
  b->ctx->arena = arena;
  bd_whole whole = make_whole(b, p);
  double seconds = bd_whole_seconds(b->ctx, &whole, p->used);
  if (has_end(p) && seconds < whole.limit) {
    bool *used = BD_NEW_ARRAY(arena, bool, b->sizes.count);
    const double *weight = bd_bound_batch_weights(b->ctx, &b->sizes, p->batch);
    double late =
        bd_whole_late_seconds(b->ctx, &whole, weight, sum_shares(b, p->batch->both), used);
    if (late > seconds) memcpy(p->used, used, sizeof *used * (size_t)b->sizes.count);
    seconds = fmax(seconds, late);
  }
  p->reached = seconds < whole.limit;
  b->ctx->arena = kept;
  bd_ctx_close_arena(b->ctx, &held);
  return seconds;
}

static void bound_part(const bounding *b, part *p) {
  double seconds = p->whole ? bound_in_whole(b, p) : bound_in_fractions(b, p);
  p->bound = fmax(p->bound, seconds);
  p->settled = true;
  for (int i = 0; i < b->sizes.count; i++)
    p->settled = p->settled && (!p->used[i] || p->batch->priced[i]);
}

// Numbers of stages that the schedule is defined for.
static bool narrow(part *p) {
  int m = p->batch->micro_batches;
  while (p->least_stages <= p->most_stages &&
         !bd_schedule_allows(p->schedule, p->least_stages, p->chunks, m))
    p->least_stages++;
  while (p->least_stages < p->most_stages &&
         !bd_schedule_allows(p->schedule, p->most_stages, p->chunks, m))
    p->most_stages--;
  return p->least_stages <= p->most_stages;
}

static void add_part(bounding *b, part p) {
  if (!narrow(&p)) return;
  p.used = BD_NEW_ARRAY(b->ctx->arena, bool, b->sizes.count);
  bound_part(b, &p);
  b->parts[b->part_count++] = p;
}

// GPipe holds more than 1F1B and is no faster.
static void add_parts(bounding *b, bd_bound_batch *batch) {
  int wanted = b->space->request->schedule, stages = b->space->request->stages;
  for (int schedule = BD_SCHEDULE_1F1B; schedule < BD_SCHEDULE_COUNT; schedule++) {
    bool gpipe = schedule == BD_SCHEDULE_1F1B && wanted == BD_SCHEDULE_GPIPE;
    bool several = schedule == BD_SCHEDULE_INTERLEAVED;
    if (wanted >= 0 && wanted != schedule && !gpipe) continue;
    for (int i = 0; i < (several ? BD_FULL_CHUNKS : 1); i++) {
      part p = {.batch = batch,
                .schedule = gpipe ? BD_SCHEDULE_GPIPE : (bd_schedule)schedule,
                .chunks = several ? bd_full_chunks[i] : 1,
                .least_stages = 1};
      p.most_stages = b->space->layer_count / p.chunks;
      if (p.most_stages > BD_FULL_MAX_STAGES) p.most_stages = BD_FULL_MAX_STAGES;
      if (stages) p.least_stages = p.most_stages = stages;
      add_part(b, p);
    }
  }
}

static bd_status open(bounding *b) {
  int64_t *sizes;
  int count = bd_full_micro_batches(b->ctx, b->space->request, &sizes);
  b->sizes = bd_bound_sizes_open(b->ctx, b->space);
  b->batches = BD_NEW_ARRAY(b->ctx->arena, bd_bound_batch, count);
  b->parts = BD_NEW_ARRAY(b->ctx->arena, part, count * (BD_FULL_CHUNKS + 2) + MOST_SPLITS);
  for (int i = 0; i < count; i++) {
    BD_TRY(bd_bound_batch_open(b->ctx, &b->sizes, sizes[i], &b->batches[i]));
    add_parts(b, &b->batches[i]);
  }
  return BD_OK;
}

static part *least_part(bounding *b) {
  part *least = NULL;
  for (int i = 0; i < b->part_count; i++)
    if (!least || b->parts[i].bound < least->bound) least = &b->parts[i];
  return least;
}

// Prices the sizes that a part's bound is made of.
static bd_status settle(bounding *b, part *p, bool *out_more) {
  for (int i = 0; i < b->sizes.count; i++) {
    if (!p->used[i] || p->batch->priced[i]) continue;
    if (b->priced == MOST_PRICED || bd_deadline_passed(b->deadline)) return BD_OK;
    BD_TRY(bd_bound_batch_price(b->ctx, &b->sizes, p->batch, i, b->enough));
    b->priced++;
  }
  bound_part(b, p);
  *out_more = true;
  return BD_OK;
}

// Fewer and more stages, each a part of its own.
static void split(bounding *b, part *p) {
  part more = *p, *fewer = p;
  int from = p->least_stages, to = p->most_stages;
  fewer->most_stages = 2 * from - 1 < to ? 2 * from - 1 : (from + to) / 2;
  more.least_stages = fewer->most_stages + 1;
  b->splits++;
  add_part(b, more);
  if (narrow(fewer))
    bound_part(b, fewer);
  else
    fewer->bound = INFINITY;
}

// Raises the least bound; `*out_more` false: it is what it is.
static bd_status raise_least(bounding *b, part *p, bool *out_more) {
  *out_more = false;
  if (!p->settled) return settle(b, p, out_more);
  if (!b->sizes.told) return BD_OK;
  if (!p->whole || !p->reached) {
    p->whole = true;
    bound_part(b, p);
    *out_more = true;
  } else if (is_split_by_stages(b, p) && b->splits < MOST_SPLITS) {
    split(b, p);
    *out_more = true;
  }
  return BD_OK;
}

bd_status bd_full_bound(bd_ctx *ctx, const bd_full_space *space, double enough,
                        bd_deadline deadline, double *out_seconds) {
  bounding b = {.ctx = ctx, .space = space, .enough = enough, .deadline = deadline};
  BD_TRY(open(&b));
  part *least = least_part(&b);
  for (bool more = true; more && least && least->bound < enough; least = least_part(&b)) {
    if (bd_deadline_passed(deadline)) break;
    BD_TRY(raise_least(&b, least, &more));
  }
  *out_seconds = least ? least->bound : INFINITY;
  return BD_OK;
}
