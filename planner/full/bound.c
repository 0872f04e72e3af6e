#include "planner/full/bound.h"
#include "planner/full/raise.h"
#include "planner/solver.h"
#include <math.h>

typedef struct bounding {
  bd_ctx *ctx;
  const bd_full_space *space;
  bd_full_sizes sizes;
  bd_full_batch *batches;
  bd_full_parts parts;
} bounding;

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
      bd_full_parts_add(&b->parts, &p);
    }
  }
}

static bd_status open(bounding *b, double enough, bd_deadline deadline) {
  int64_t *sizes;
  int count = bd_full_micro_batches(b->ctx, b->space->request, &sizes);
  bd_part_scene scene = {b->space, &b->sizes, enough, deadline};
  b->sizes = bd_full_sizes_open(b->ctx, b->space);
  b->batches = BD_NEW_ARRAY(b->ctx->arena, bd_full_batch, count);
  b->parts =
      bd_full_parts_open(b->ctx, &scene, b->space->request->threads, count * (BD_FULL_CHUNKS + 2));
  for (int i = 0; i < count; i++) {
    BD_TRY(bd_full_batch_open(b->ctx, &b->sizes, sizes[i], &b->batches[i]));
    add_parts(b, &b->batches[i]);
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
  for (int i = 0; i < b->parts.count; i++) {
    const bd_full_part *other = &b->parts.parts[i];
    if (!goes_with(p, other) || other->bound >= b->parts.scene.enough) continue;
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
    for (int i = 0; i < b->parts.count; i++) {
      const bd_full_part *p = &b->parts.parts[i];
      if ((!next || p->bound < next->bound) && tells_sizes(b, p) && !is_listed(out, p)) next = p;
    }
    if (!next) return;
    out->least[out->least_count] = describe(b, next);
  }
}

static bd_status raise_all(bounding *b) {
  bd_owned held;
  b->parts.workers =
      bd_workers_start(b->ctx, &held, b->space->request->threads, bd_solver_leave_thread);
  bd_status status = bd_full_parts_begin(&b->parts);
  if (status == BD_OK) status = bd_full_parts_raise(&b->parts);
  bd_workers_stop(b->ctx, b->parts.workers, &held);
  return status;
}

bd_status bd_full_bound(bd_ctx *ctx, const bd_full_space *space, double enough,
                        bd_deadline deadline, bd_full_bounds *out) {
  bounding b = {.ctx = ctx, .space = space};
  BD_TRY(open(&b, enough, deadline));
  BD_TRY(raise_all(&b));
  const bd_full_part *least = bd_full_parts_least(&b.parts);
  *out = (bd_full_bounds){.seconds = least ? least->bound : INFINITY};
  list_least(&b, out);
  return BD_OK;
}
