#include "planner/full/bound.h"
#include "planner/full/part.h"
#include "planner/solver.h"
#include <math.h>

enum { MOST_PRICED = 512, MOST_SPLITS = 512 };

typedef struct bounding {
  bd_ctx *ctx;
  const bd_full_space *space;
  bd_workers *workers;
  bd_part_scene scene;
  bd_full_sizes sizes;
  bd_full_batch *batches;
  int priced, splits, part_count;
  bd_full_part *parts;
} bounding;

// Numbers of stages that the schedule is defined for.
static bool narrow(bd_full_part *p) {
  int m = p->batch->micro_batches;
  while (p->least_stages <= p->most_stages &&
         !bd_schedule_allows(p->schedule, p->least_stages, p->chunks, m))
    p->least_stages++;
  while (p->least_stages < p->most_stages &&
         !bd_schedule_allows(p->schedule, p->most_stages, p->chunks, m))
    p->most_stages--;
  return p->least_stages <= p->most_stages;
}

static void add_part(bounding *b, bd_full_part p) {
  if (!narrow(&p)) return;
  p.used = BD_NEW_ARRAY(b->ctx->arena, bool, b->sizes.count);
  bd_full_part_raise(b->ctx, &b->scene, &p);
  b->parts[b->part_count++] = p;
}

// GPipe holds more than 1F1B and is no faster.
static void add_parts(bounding *b, bd_full_batch *batch) {
  int wanted = b->space->request->schedule, stages = b->space->request->stages;
  for (int schedule = BD_SCHEDULE_1F1B; schedule < BD_SCHEDULE_COUNT; schedule++) {
    bool gpipe = schedule == BD_SCHEDULE_1F1B && wanted == BD_SCHEDULE_GPIPE;
    bool several = schedule == BD_SCHEDULE_INTERLEAVED;
    if (wanted >= 0 && wanted != schedule && !gpipe) continue;
    for (int i = 0; i < (several ? BD_FULL_CHUNKS : 1); i++) {
      bd_full_part p = {.batch = batch,
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
  b->sizes = bd_full_sizes_open(b->ctx, b->space);
  b->batches = BD_NEW_ARRAY(b->ctx->arena, bd_full_batch, count);
  b->parts = BD_NEW_ARRAY(b->ctx->arena, bd_full_part, count * (BD_FULL_CHUNKS + 2) + MOST_SPLITS);
  for (int i = 0; i < count; i++) {
    BD_TRY(bd_full_batch_open(b->ctx, &b->sizes, sizes[i], &b->batches[i]));
    add_parts(b, &b->batches[i]);
  }
  return BD_OK;
}

static bd_full_part *least_part(bounding *b) {
  bd_full_part *least = NULL;
  for (int i = 0; i < b->part_count; i++)
    if (!least || b->parts[i].bound < least->bound) least = &b->parts[i];
  return least;
}

// Prices the sizes that a part's bound is made of.
static bd_status settle(bounding *b, bd_full_part *p, bool *out_more) {
  for (int i = 0; i < b->sizes.count; i++) {
    if (!p->used[i] || p->batch->priced[i]) continue;
    if (b->priced == MOST_PRICED || bd_deadline_passed(b->scene.deadline)) return BD_OK;
    BD_TRY(bd_full_batch_price(b->ctx, b->workers, &b->sizes, p->batch, i, b->scene.enough));
    b->priced++;
  }
  bd_full_part_raise(b->ctx, &b->scene, p);
  *out_more = true;
  return BD_OK;
}

// Fewer and more stages, each a part of its own.
static void split(bounding *b, bd_full_part *p) {
  bd_full_part more = *p, *fewer = p;
  int from = p->least_stages, to = p->most_stages;
  fewer->most_stages = 2 * from - 1 < to ? 2 * from - 1 : (from + to) / 2;
  more.least_stages = fewer->most_stages + 1;
  b->splits++;
  add_part(b, more);
  if (narrow(fewer))
    bd_full_part_raise(b->ctx, &b->scene, fewer);
  else
    fewer->bound = INFINITY;
}

// Raises the least bound; `*out_more` false: it is what it is.
static bd_status raise_least(bounding *b, bd_full_part *p, bool *out_more) {
  *out_more = false;
  if (!p->settled) return settle(b, p, out_more);
  if (!b->sizes.told) return BD_OK;
  if (!p->whole || !p->reached) {
    p->whole = true;
    bd_full_part_raise(b->ctx, &b->scene, p);
    *out_more = true;
  } else if (bd_full_part_is_split(&b->scene, p) && b->splits < MOST_SPLITS) {
    split(b, p);
    *out_more = true;
  }
  return BD_OK;
}

static bool goes_with(const bd_full_part *p, const bd_full_part *other) {
  return p->batch == other->batch && p->schedule == other->schedule && p->chunks == other->chunks;
}

// A part, with those that differ from it in their numbers of stages alone and are worth a look.
static bd_full_least describe(const bounding *b, const bd_full_part *p) {
  bd_full_least out = {.seconds = p->bound,
                       .micro_batch = p->batch->micro_batch,
                       .schedule = p->schedule,
                       .chunks = p->chunks,
                       .about_stages = p->least_stages,
                       .least_stages = p->least_stages,
                       .most_stages = p->most_stages,
                       .sizes = BD_NEW_ARRAY(b->ctx->arena, bd_floor_size, b->sizes.count)};
  bool *used = BD_NEW_ARRAY(b->ctx->arena, bool, b->sizes.count);
  for (int i = 0; i < b->part_count; i++) {
    const bd_full_part *other = &b->parts[i];
    if (!goes_with(p, other) || other->bound >= b->scene.enough) continue;
    if (other->least_stages < out.least_stages) out.least_stages = other->least_stages;
    if (other->most_stages > out.most_stages) out.most_stages = other->most_stages;
    for (int k = 0; k < b->sizes.count; k++)
      used[k] = used[k] || other->used[k];
  }
  for (int i = 0; i < b->sizes.count; i++)
    if (used[i]) out.sizes[out.size_count++] = b->sizes.sizes[i];
  return out;
}

static bool is_listed(const bd_full_bounds *list, const bd_full_part *p) {
  for (int i = 0; i < list->least_count; i++) {
    const bd_full_least *of = &list->least[i];
    if (of->schedule == p->schedule && of->chunks == p->chunks &&
        of->micro_batch == p->batch->micro_batch)
      return true;
  }
  return false;
}

static bool tells_sizes(const bounding *b, const bd_full_part *p) {
  for (int i = 0; i < b->sizes.count; i++)
    if (p->used[i]) return true;
  return false;
}

// The least parts of which stages are known.
static void list_least(const bounding *b, bd_full_bounds *out) {
  for (; out->least_count < BD_FULL_LEAST; out->least_count++) {
    const bd_full_part *next = NULL;
    for (int i = 0; i < b->part_count; i++) {
      const bd_full_part *p = &b->parts[i];
      if ((!next || p->bound < next->bound) && tells_sizes(b, p) && !is_listed(out, p)) next = p;
    }
    if (!next) return;
    out->least[out->least_count] = describe(b, next);
  }
}

static bd_status raise_all(bounding *b) {
  bd_full_part *least = least_part(b);
  for (bool more = true; more && least && least->bound < b->scene.enough; least = least_part(b)) {
    if (bd_deadline_passed(b->scene.deadline)) break;
    BD_TRY(raise_least(b, least, &more));
  }
  return BD_OK;
}

bd_status bd_full_bound(bd_ctx *ctx, const bd_full_space *space, double enough,
                        bd_deadline deadline, bd_full_bounds *out) {
  bounding b = {.ctx = ctx, .space = space};
  b.scene = (bd_part_scene){space, &b.sizes, enough, deadline};
  BD_TRY(open(&b));
  bd_owned held;
  b.workers = bd_workers_start(ctx, &held, space->request->threads, bd_solver_leave_thread);
  bd_status status = raise_all(&b);
  bd_workers_stop(ctx, b.workers, &held);
  bd_full_part *least = least_part(&b);
  *out = (bd_full_bounds){.seconds = least ? least->bound : INFINITY};
  list_least(&b, out);
  return status;
}
