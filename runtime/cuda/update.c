// Gathers weights into launches of the kernels of update.cu.
#include "runtime/cuda/launch.h"

#include <stddef.h>
#include <string.h>

// The kernels of an optimizer, by the type of gradients (f32, bf16) where there are two.
typedef void start_list(const bd_cuda_queue *queue, bd_cuda_grid grid, bd_cuda_rule_list list);
typedef struct optimizer {
  int has_average;
  start_list *update, *round_tiles[2], *round_any[2];
} optimizer;

#define KERNELS(name)                                                                              \
  .update = bd_cuda_start_update_##name,                                                           \
  .round_tiles = {bd_cuda_start_round_tiles_##name##_f32,                                          \
                  bd_cuda_start_round_tiles_##name##_bf16},                                        \
  .round_any = {bd_cuda_start_round_any_##name##_f32, bd_cuda_start_round_any_##name##_bf16}
static const optimizer adam = {KERNELS(adam)}, momentum = {KERNELS(momentum)},
                       adafactor = {KERNELS(adafactor), .has_average = 1}, sgd = {KERNELS(sgd)};

// A part with all that any kernel takes: each takes a piece of it.
typedef struct part {
  bd_cuda_factoring f;
  bd_cuda_rule_part of;
  bd_cuda_rounding rounding;
} part;
_Static_assert(sizeof(part) ==
                   sizeof(bd_cuda_factoring) + sizeof(bd_cuda_rule_part) + sizeof(bd_cuda_rounding),
               "one behind another");

// What is waiting for one launch.
typedef struct waiting {
  const bd_cuda_queue *queue;
  start_list *start;
  int threads;
  size_t from, to; // bytes of a part
  bd_cuda_rule_list list;
} waiting;

static void init(waiting *w, const bd_cuda_queue *queue, const optimizer *o, start_list *kernel,
                 int rounds) {
  w->queue = queue, w->start = kernel;
  w->threads = rounds ? BD_CUDA_ROUND_THREADS : BD_CUDA_THREADS;
  w->from = o->has_average ? 0 : offsetof(part, of);
  w->to = rounds ? sizeof(part) : offsetof(part, rounding);
  w->list.parts = w->list.chunks = 0;
}

// Starts what is in the list, if there is something.
static void start(waiting *w) {
  const int64_t most = (int64_t)w->queue->most_blocks * BD_CUDA_THREADS / w->threads;
  const bd_cuda_grid grid = {(int)bd_rt_least(w->list.chunks, most), w->threads};
  if (w->list.parts > 0) w->start(w->queue, grid, w->list);
  w->list.parts = w->list.chunks = 0;
}

// Puts it behind what is in the list.
static void put(waiting *w, part *p, int64_t chunks) {
  bd_cuda_rule_list *const list = &w->list;
  const size_t bytes = w->to - w->from, most = sizeof list->of / bytes;
  p->of.chunk = list->chunks;
  memcpy((char *)list->of + (size_t)list->parts * bytes, (const char *)p + w->from, bytes);
  list->parts++;
  list->chunks += chunks;
  if ((size_t)list->parts == most) start(w);
}

// Whether the elements can be taken four by four.
static int comes_in_packs(const bd_rt_rule *u, const part *p) {
  const int size = sizeof(float), half = sizeof *u->halves;
  const int gradient = u->gradient_dtype == BD_RT_F32 ? size : half;
  return u->count % BD_CUDA_PACK == 0 && bd_cuda_rows_fit(&p->of.rows) &&
         bd_cuda_fits(u->gradient, gradient) && bd_cuda_fits(u->weight, size) &&
         bd_cuda_fits(u->first, size) && bd_cuda_fits(u->second, size) &&
         bd_cuda_fits(u->halves, half) &&
         (u->kind != BD_RT_ADAFACTOR || bd_cuda_factoring_fits(&p->f));
}

static part part_of(const optimizer *o, const bd_rt_rule *u, const bd_cuda_pace *pace) {
  part p = {.of = {.weight = u->weight,
                   .first = u->first,
                   .second = u->second,
                   .halves = u->halves,
                   .gradient = u->gradient,
                   .pace = pace,
                   .count = u->count,
                   .rows = bd_cuda_rows_of(u->row, u->stride),
                   .decay = u->decay,
                   .beta1 = u->beta1,
                   .beta2 = u->beta2,
                   .eps = u->eps,
                   .half_dtype = u->half_dtype},
            .rounding = {.across = 1, .draws = u->draws}};
  if (o->has_average) p.f = bd_cuda_factoring_of(&u->factors);
  p.of.packs = comes_in_packs(u, &p);
  return p;
}

// Whether what follows element -before of the rule, 256 by 256, are tiles of draws.
static int comes_in_tiles(const optimizer *o, const part *p, int64_t *before) {
  const bd_rt_draws *const d = &p->rounding.draws;
  const int64_t tile = BD_RT_DRAW_TILE, last = d->rank - 1;
  if (o->has_average && p->f.rows.row < BD_RT_DRAW_LANES) return 0;
  *before = last > 0 ? 0 : (d->first + (last == 0 ? d->start[0] : 0)) % tile;
  if (last <= 0) return *before % BD_CUDA_PACK == 0;
  return d->first % tile == 0 && d->dims[last] % tile == 0 && d->start[last] % tile == 0 &&
         d->extent[last] % tile == 0;
}

// How many tiles of draws are a row of averages, or 1.
static int64_t tiles_across(const optimizer *o, const part *p) {
  const int64_t tile = BD_RT_DRAW_TILE, first = p->f.first - p->rounding.before;
  return o->has_average && p->f.rows.row % tile == 0 && first % tile == 0 ? p->f.rows.row / tile
                                                                          : 1;
}

// Of blocks of threads that take `width` neighbours of each part of `group` tiles.
static int64_t round_chunks(const part *p, int64_t width, int64_t group) {
  const bd_cuda_rounding *const r = &p->rounding;
  const int64_t tiles = (r->before + p->of.count + BD_RT_DRAW_TILE - 1) / BD_RT_DRAW_TILE;
  const int64_t columns = (tiles + group * r->across - 1) / (group * r->across) * r->across;
  const int64_t items = columns * BD_RT_DRAW_LANES / width;
  return (items + BD_CUDA_ROUND_THREADS - 1) / BD_CUDA_ROUND_THREADS;
}

static void put_rounded(const optimizer *o, waiting *tiles, waiting *any, part *p) {
  if (p->of.packs && comes_in_tiles(o, p, &p->rounding.before)) {
    p->rounding.across = tiles_across(o, p);
    put(tiles, p, round_chunks(p, BD_CUDA_PACK, BD_CUDA_ROUND_TILES));
  } else {
    put(any, p, round_chunks(p, 1, 1));
  }
}

// Those of the rules that are of the kind.
static void apply(const bd_cuda_queue *queue, const optimizer *o, int kind, int count,
                  const bd_rt_rule *const *rules, const bd_cuda_pace *const *paces) {
  waiting wide, tiles[2], any[2];
  init(&wide, queue, o, o->update, 0);
  for (int narrow = 0; narrow < 2; narrow++) {
    init(&tiles[narrow], queue, o, o->round_tiles[narrow], 1);
    init(&any[narrow], queue, o, o->round_any[narrow], 1);
  }
  for (int i = 0; i < count; i++) {
    const bd_rt_rule *const u = rules[i];
    const int narrow = u->gradient_dtype != BD_RT_F32;
    if (u->kind != kind || u->count == 0) continue;
    part p = part_of(o, u, paces[i]);
    if (u->weight)
      put(&wide, &p, (u->count + BD_CUDA_CHUNK - 1) / BD_CUDA_CHUNK);
    else
      put_rounded(o, &tiles[narrow], &any[narrow], &p);
  }
  start(&wide);
  for (int narrow = 0; narrow < 2; narrow++) {
    start(&tiles[narrow]);
    start(&any[narrow]);
  }
}

void bd_cuda_apply(const bd_cuda_queue *queue, int count, const bd_rt_rule *const *rules,
                   const bd_cuda_pace *const *paces) {
  apply(queue, &adam, BD_RT_ADAMW, count, rules, paces);
  apply(queue, &adam, BD_RT_ADAM, count, rules, paces);
  apply(queue, &momentum, BD_RT_MOMENTUM, count, rules, paces);
  apply(queue, &adafactor, BD_RT_ADAFACTOR, count, rules, paces);
  apply(queue, &sgd, BD_RT_SGD, count, rules, paces);
}
