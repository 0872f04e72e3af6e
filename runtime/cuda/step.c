// What a step asks for besides samples, collectives and messages.
#include "runtime/cuda/fresh.h"

#include <stddef.h>
#include <string.h>

enum {
  MOST_LAUNCH_BYTES = 4096, // what a launch may pass by value
  MOST_UPDATES = 144,       // that are sorted out at once
};

// What differs from micro-batch to micro-batch of a kernel's random numbers, on the device; and its
// argument. Unused members stand where padding would: equal launches are equal bytes.
typedef struct moving {
  uint64_t step;
  int64_t first_sample;
} moving;
typedef struct coordinates {
  uint64_t seed;
  const moving *moving;
  int64_t unused;
  int32_t call, keeps_all;
} coordinates;

// One launch; its buffers and its range follow.
typedef struct launch {
  int32_t number, buffer_count, range_count, unused;
  coordinates random;
} launch;

static void run_launch(bd_rt *rt, const void *args) {
  const launch *const l = args;
  const int threads = rt->program->kernels[l->number].threads;
  const char *const buffers = (const char *)(l + 1);
  const char *const range = buffers + (size_t)l->buffer_count * sizeof(char *);
  void *arguments[] = {(void *)(uintptr_t)buffers, (void *)(uintptr_t)range,
                       (void *)(uintptr_t)&l->random};
  const dim3 grid = {(unsigned)rt->device->processors * rt->device->kernel_blocks[l->number], 1, 1};
  BD_CUDA(cudaLaunchKernel((const void *)rt->device->kernels[l->number], grid,
                           (dim3){(unsigned)threads, 1, 1}, arguments, 0, bd_cuda_now(rt)->stream));
}

void bd_rt_launch(bd_rt *rt, int number, int buffer_count, char *const *buffers, int range_count,
                  const int64_t *range, const bd_rt_random *random) {
  struct {
    launch launch;
    char words[MOST_LAUNCH_BYTES];
  } args;
  const size_t buffer_bytes = (size_t)buffer_count * sizeof *buffers,
               range_bytes = (size_t)range_count * sizeof *range;
  for (int i = 0; rt->device->rehearsing && i < buffer_count; i++)
    bd_cuda_fresh_touch(rt, buffers[i]);
  if (rt->device->rehearsing) return;
  if (buffer_bytes + range_bytes > sizeof args.words)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a kernel with %d buffers", buffer_count);
  args.launch =
      (launch){.number = number, .buffer_count = buffer_count, .range_count = range_count};
  if (random) {
    const moving m = {random->step, random->first_sample};
    args.launch.random =
        (coordinates){.seed = random->seed, .call = random->call, .keeps_all = random->keeps_all};
    args.launch.random.moving = bd_cuda_keep(rt, &m, sizeof m);
  }
  if (buffer_bytes) memcpy(args.words, buffers, buffer_bytes);
  if (range_bytes) memcpy(args.words + buffer_bytes, range, range_bytes);
  bd_cuda_do(rt, run_launch, &args, sizeof args.launch + buffer_bytes + range_bytes);
}

void bd_rt_loss_gradient(bd_rt *rt, float *out) {
  if (rt->device->rehearsing) return;
  bd_cuda_set(bd_cuda_now(rt), out, rt->target_share * rt->loss_scale);
}

static void run_add_loss(bd_rt *rt, const void *args) {
  bd_cuda_add_loss(bd_cuda_now(rt), rt->sums, *(const float *const *)args);
}

void bd_rt_add_loss(bd_rt *rt, const float *loss, uint32_t partial) {
  if (rt->device->rehearsing || !bd_rt_loss_counts(rt, partial)) return;
  bd_cuda_do(rt, run_add_loss, &loss, sizeof loss);
}

typedef struct embedding {
  const int32_t *ids;
  const char *dout;
  void *dtable;
  int64_t count, c, row_start, rows, dtype, table_dtype;
} embedding;

static void run_embed_dw(bd_rt *rt, const void *args) {
  bd_rt_device *const device = rt->device;
  const embedding *const e = args;
  const int64_t most = BD_CUDA_EMBED_TOKENS;
  const int64_t size = bd_rt_element_bytes((int)e->dtype);
  for (int64_t done = 0; done < e->count; done += most) {
    bd_cuda_embed_dw(bd_cuda_now(rt), (int)e->dtype, e->ids + done, e->dout + done * e->c * size,
                     bd_rt_least(e->count - done, most), e->c, e->row_start, e->rows,
                     (int)e->table_dtype, e->dtable, device->room);
  }
}

void bd_rt_embed_dw(bd_rt *rt, int dtype, const int32_t *ids, const void *dout, int64_t count,
                    int64_t c, int64_t row_start, int64_t rows, int32_t accumulate, int table_dtype,
                    void *dtable) {
  const embedding e = {ids, dout, dtable, count, c, row_start, rows, dtype, table_dtype};
  bd_cuda_fresh_touch(rt, dtable);
  if (!accumulate) bd_rt_zero(rt, dtable, rows * c * bd_rt_element_bytes(table_dtype));
  if (!rt->device->rehearsing) bd_cuda_do(rt, run_embed_dw, &e, sizeof e);
}

void bd_rt_narrow(bd_rt *rt, int dtype, const float *wide, uint16_t *halves, int64_t count) {
  if (rt->device->rehearsing) return;
  bd_cuda_narrow(bd_cuda_now(rt), dtype, wide, halves, count);
}

typedef struct addition {
  void *sum;
  const void *more;
  int64_t count, dtype;
} addition;

static void run_add(bd_rt *rt, const void *args) {
  const addition *const a = args;
  if (a->dtype == BD_RT_F32)
    bd_cuda_add(bd_cuda_now(rt), a->sum, a->more, a->count);
  else
    bd_cuda_add_halves(bd_cuda_now(rt), (int)a->dtype, a->sum, a->more, a->count);
}

void bd_rt_add(bd_rt *rt, int dtype, void *sum, const void *more, int64_t count) {
  bd_cuda_fresh_touch(rt, sum);
  if (!rt->device->rehearsing)
    bd_cuda_do(rt, run_add, &(addition){sum, more, count, dtype}, sizeof(addition));
}

typedef struct squares {
  int64_t tensors;
  bd_rt_squares of[BD_RT_MOST_SQUARES];
} squares;

_Static_assert(BD_CUDA_WORKSPACE_BYTES + BD_RT_KEPT_BYTES +
                       (BD_CUDA_SQUARE_LANES + BD_RT_MOST_SQUARES * BD_CUDA_SQUARE_GROUPS) *
                           sizeof(double) <=
                   BD_CUDA_LEAST_LIBRARY_BYTES,
               "partial sums have room in the segment");

static void run_square_sums(bd_rt *rt, const void *args) {
  const squares *const s = args;
  double *const room = (double *)(void *)rt->device->room;
  bd_cuda_square_sums(bd_cuda_now(rt), (int)s->tensors, s->of, room);
}

void bd_rt_square_sums(bd_rt *rt, int tensors, const bd_rt_squares *list) {
  const size_t bytes = (size_t)tensors * sizeof *list;
  squares s = {.tensors = tensors};
  if (rt->device->rehearsing || tensors == 0) return;
  memcpy(s.of, list, bytes);
  bd_cuda_do(rt, run_square_sums, &s, offsetof(squares, of) + bytes);
}

typedef struct update {
  bd_rt_rule rule;
  const bd_cuda_pace *pace; // on the device
} update;

// Updates of weights one after another are started together.
static void run_apply(bd_rt *rt, const void *args) {
  const bd_rt_rule *rules[MOST_UPDATES];
  const bd_cuda_pace *paces[MOST_UPDATES];
  for (const update *u = args; u;) {
    int count = 0;
    for (; u && count < MOST_UPDATES; u = bd_cuda_take_next(rt, run_apply)) {
      rules[count] = &u->rule;
      paces[count++] = u->pace;
    }
    bd_cuda_apply(bd_cuda_now(rt), count, rules, paces);
  }
}

// Member by member, because what lies between members is no part of it, and without what differs
// from step to step.
static void copy_rule(bd_rt_rule *to, const bd_rt_rule *u) {
  to->kind = u->kind, to->half_dtype = u->half_dtype;
  to->weight = u->weight, to->first = u->first, to->second = u->second, to->halves = u->halves;
  to->gradient = u->gradient, to->gradient_dtype = u->gradient_dtype;
  to->count = u->count, to->row = u->row, to->stride = u->stride;
  to->decay = u->decay, to->beta1 = u->beta1, to->beta2 = u->beta2, to->eps = u->eps;
  to->factors = u->factors; // of words alone
  to->draws = u->draws;     // too
  to->draws.step = 0;
}

void bd_rt_apply(bd_rt *rt, const bd_rt_rule *rule) {
  const bd_cuda_pace pace = {rule->factor, rule->rate, rule->shrink, rule->correction2,
                             rule->draws.step};
  update u;
  if (rt->device->rehearsing) return;
  memset(&u, 0, sizeof u);
  copy_rule(&u.rule, rule);
  u.pace = bd_cuda_keep(rt, &pace, sizeof pace);
  bd_cuda_do(rt, run_apply, &u, sizeof u);
}

_Static_assert((int)BD_CUDA_EMBED_BYTES <= (int)BD_CUDA_FACTORS_BYTES &&
                   BD_CUDA_WORKSPACE_BYTES + BD_RT_KEPT_BYTES + BD_CUDA_FACTORS_BYTES <=
                       BD_CUDA_LEAST_LIBRARY_BYTES,
               "Adafactor's sums, and an embedding's, have room in the segment");

typedef struct averaging {
  bd_rt_rule rule;
  bd_rt_mixing mixing; // the same in every step
  const bd_cuda_mixings *mixings;
} averaging;

typedef void (*add_averages)(const bd_cuda_queue *queue, int count, const bd_cuda_factors *of,
                             void *room, int64_t bytes);

// Of weights one after another together.
static void run_averages(bd_rt *rt, const averaging *a, bd_cuda_body body, add_averages add) {
  bd_cuda_factors of[MOST_UPDATES];
  while (a) {
    int count = 0;
    for (; a && count < MOST_UPDATES; a = bd_cuda_take_next(rt, body))
      of[count++] = (bd_cuda_factors){&a->rule, a->mixings, a->mixing};
    add(bd_cuda_now(rt), count, of, rt->device->room, rt->device->room_bytes);
  }
}

static void run_add_factors(bd_rt *rt, const void *args) {
  run_averages(rt, args, run_add_factors, bd_cuda_add_factors);
}

static void run_add_updates(bd_rt *rt, const void *args) {
  run_averages(rt, args, run_add_updates, bd_cuda_add_updates);
}

static void do_averages(bd_rt *rt, bd_cuda_body body, const bd_rt_rule *rule, bd_rt_mixing mixing,
                        const bd_cuda_mixings *mixings) {
  averaging a;
  if (rt->device->rehearsing) return;
  memset(&a, 0, sizeof a);
  copy_rule(&a.rule, rule);
  a.mixing = mixing;
  a.mixings = bd_cuda_keep(rt, mixings, sizeof *mixings);
  bd_cuda_do(rt, body, &a, sizeof a);
}

void bd_rt_add_factors(bd_rt *rt, const bd_rt_rule *rule, const bd_rt_mixings *m) {
  const bd_cuda_mixings mixings = {m->row, m->column, m->gradient, rule->factor};
  do_averages(rt, run_add_factors, rule, m->weight, &mixings);
}

void bd_rt_add_updates(bd_rt *rt, const bd_rt_rule *rule, bd_rt_mixing mixing) {
  const bd_cuda_mixings mixings = {.factor = rule->factor};
  do_averages(rt, run_add_updates, rule, mixing, &mixings);
}
