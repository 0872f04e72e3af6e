#include "planner/full/raise.h"
#include <math.h>
#include <string.h>

enum {
  MOST_PRICED = 512,
  AHEAD = 2,      // parts for each thread, where there are several
  MOST_AHEAD = 16 // parts
};

// What becomes of a part when it is raised: the same with a higher bound, or two of fewer and of
// more stages.
struct bd_part_next {
  bool known;
  bool split;
  int count; // of parts; 0: nothing raises it
  bd_full_part parts[2];
  bool *priced; // per size: whether what it was made of was priced
};

bd_full_parts bd_full_parts_open(bd_ctx *ctx, const bd_part_scene *scene, int threads, int most) {
  int room = most + BD_FULL_MOST_SPLITS;
  bd_full_parts out = {.ctx = ctx, .scene = *scene};
  out.ahead = threads > 1 ? AHEAD * threads : 1;
  if (out.ahead > MOST_AHEAD) out.ahead = MOST_AHEAD;
  out.parts = BD_NEW_ARRAY(ctx->arena, bd_full_part, room);
  out.next = BD_NEW_ARRAY(ctx->arena, bd_part_next, room);
  return out;
}

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

void bd_full_parts_add(bd_full_parts *s, const bd_full_part *part) {
  bd_full_part *p = &s->parts[s->count];
  *p = *part;
  if (!narrow(p)) return;
  p->used = BD_NEW_ARRAY(s->ctx->arena, bool, s->scene.sizes->count);
  s->count++;
}

bd_full_part *bd_full_parts_least(const bd_full_parts *s) {
  bd_full_part *least = NULL;
  for (int i = 0; i < s->count; i++)
    if (!least || s->parts[i].bound < least->bound) least = &s->parts[i];
  return least;
}

static bd_status begin(bd_ctx *ctx, void *arg, int index) {
  bd_full_parts *s = arg;
  bd_full_part_raise(ctx, &s->scene, &s->parts[index]);
  return BD_OK;
}

bd_status bd_full_parts_begin(bd_full_parts *s) {
  bd_work work = {s->count, begin, NULL, s};
  return bd_workers_run(s->ctx, s->workers, &work);
}

// Whether the part is made of a size that its batch has not taken yet.
static bool wants(const bd_full_part *p, int size) {
  return p->used[size] && !p->batch->priced[size];
}

// Whether what was made of the part is what would be made of it now.
static bool is_known(const bd_full_parts *s, int part) {
  const bd_full_part *p = &s->parts[part];
  const bd_part_next *next = &s->next[part];
  for (int i = 0; i < s->scene.sizes->count && next->known; i++)
    if (next->priced[i] != (p->used[i] || p->batch->priced[i])) return false;
  return next->known;
}

// The parts of the least bounds of which nothing is known; those that are known count as well.
static int list_ahead(const bd_full_parts *s, int *out) {
  bool *listed = BD_NEW_ARRAY(s->ctx->arena, bool, s->count);
  int count = 0;
  for (int n = 0; n < s->ahead; n++) {
    int least = -1;
    for (int i = 0; i < s->count; i++)
      if (!listed[i] && (least < 0 || s->parts[i].bound < s->parts[least].bound)) least = i;
    if (least < 0 || s->parts[least].bound >= s->scene.enough) break;
    listed[least] = true;
    if (!is_known(s, least)) out[count++] = least;
  }
  return count;
}

// Prices what these parts are made of; their batches do not take it yet.
static bd_status price(bd_full_parts *s, int count, const int *ahead) {
  int aims = 0, sizes = s->scene.sizes->count;
  bd_full_aim *aim = BD_NEW_ARRAY(s->ctx->arena, bd_full_aim, count * sizes);
  for (int n = 0; n < count; n++) {
    const bd_full_part *p = &s->parts[ahead[n]];
    for (int i = 0; i < sizes; i++) {
      bool listed = !wants(p, i) || p->batch->found[i];
      for (int k = 0; k < aims && !listed; k++)
        listed = aim[k].batch == p->batch && aim[k].size == i;
      if (!listed) aim[aims++] = (bd_full_aim){p->batch, i};
    }
  }
  if (!aims) return BD_OK;
  return bd_full_batch_price(s->ctx, s->workers, s->scene.sizes, aims, aim, s->scene.enough,
                             s->scene.deadline);
}

// Fewer and more stages, each a part of its own.
static void split(bd_ctx *ctx, const bd_part_scene *scene, bd_part_next *next) {
  bd_full_part *fewer = &next->parts[0], *more = &next->parts[1];
  int from = fewer->least_stages, to = fewer->most_stages;
  bool *used = more->used;
  *more = *fewer;
  more->used = used;
  fewer->most_stages = 2 * from - 1 < to ? 2 * from - 1 : (from + to) / 2;
  more->least_stages = fewer->most_stages + 1;
  next->split = true;
  next->count = narrow(more) ? 2 : 1;
  if (next->count > 1) bd_full_part_raise(ctx, scene, more);
  if (narrow(fewer))
    bd_full_part_raise(ctx, scene, fewer);
  else
    fewer->bound = INFINITY;
}

static void raise_part(bd_ctx *ctx, const bd_part_scene *scene, bd_part_next *next) {
  bd_full_part *p = &next->parts[0];
  if (p->settled && !scene->sizes->told) return;
  if (p->settled && p->whole && p->reached) {
    if (bd_full_part_is_split(scene, p)) split(ctx, scene, next);
    return;
  }
  p->whole = p->settled;
  next->count = 1;
  bd_full_part_raise(ctx, scene, p);
}

typedef struct looking {
  bd_full_parts *parts;
  const int *ahead;
} looking;

// As if it was the part's turn: with what its batch will have taken by then.
static bd_status look(bd_ctx *ctx, void *arg, int index) {
  const looking *l = arg;
  const bd_full_sizes *sizes = l->parts->scene.sizes;
  const bd_full_part *p = &l->parts->parts[l->ahead[index]];
  bd_part_next *next = &l->parts->next[l->ahead[index]];
  bd_full_batch batch = bd_full_batch_copy(ctx, sizes, p->batch);
  for (int i = 0; i < sizes->count; i++)
    if (wants(p, i)) {
      if (!batch.found[i]) return BD_OK;
      bd_full_batch_take(sizes, &batch, i);
    }
  bool *used = next->parts[0].used;
  next->parts[0] = *p;
  next->parts[0].used = used;
  next->parts[0].batch = &batch;
  memcpy(used, p->used, sizeof *used * (size_t)sizes->count);
  memcpy(next->priced, batch.priced, sizeof *next->priced * (size_t)sizes->count);
  raise_part(ctx, &l->parts->scene, next);
  next->parts[0].batch = next->parts[1].batch = p->batch;
  next->known = true;
  return BD_OK;
}

// Tasks allocate nothing that outlives them.
static bd_status look_ahead(bd_full_parts *s) {
  bd_arena *arena = s->ctx->arena;
  int *ahead = BD_NEW_ARRAY(arena, int, s->ahead), sizes = s->scene.sizes->count;
  int count = list_ahead(s, ahead);
  looking l = {s, ahead};
  BD_TRY(price(s, count, ahead));
  for (int n = 0; n < count; n++) {
    bd_part_next *next = &s->next[ahead[n]];
    *next = (bd_part_next){.priced = BD_NEW_ARRAY(arena, bool, sizes)};
    for (int i = 0; i < 2; i++)
      next->parts[i].used = BD_NEW_ARRAY(arena, bool, sizes);
  }
  bd_work work = {count, look, NULL, &l};
  return bd_workers_run(s->ctx, s->workers, &work);
}

// It is the part's turn. False: it stays as it is.
static bool take(bd_full_parts *s, bd_full_part *p) {
  bd_part_next *next = &s->next[p - s->parts];
  for (int i = 0; i < s->scene.sizes->count; i++)
    if (wants(p, i)) {
      if (s->priced == MOST_PRICED) return false;
      bd_full_batch_take(s->scene.sizes, p->batch, i);
      s->priced++;
    }
  if (!next->count || (next->split && s->splits == BD_FULL_MOST_SPLITS)) return false;
  next->known = false;
  *p = next->parts[0];
  s->splits += next->split;
  if (next->count > 1) s->parts[s->count++] = next->parts[1];
  return true;
}

bd_status bd_full_parts_raise(bd_full_parts *s) {
  bd_full_part *least = bd_full_parts_least(s);
  for (bool more = true; more && least && least->bound < s->scene.enough;
       least = bd_full_parts_least(s)) {
    int part = (int)(least - s->parts);
    if (bd_deadline_passed(s->scene.deadline)) break;
    if (!is_known(s, part)) BD_TRY(look_ahead(s));
    // Else it was too late for that.
    more = is_known(s, part) && take(s, least);
  }
  return BD_OK;
}
