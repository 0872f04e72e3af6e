#include "runtime/cuda/tune.h"

#include "runtime/outputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A candidate runs RUNS times in a row between two events, in each of ROUNDS; its fastest round
// counts. Rounds go through all candidates, so that a change of clocks meets them alike.
//
// A device at its power limit is slower after some ten milliseconds, and by less where an algorithm
// moves less: of a product that takes its share of a step, all candidates that are near the fastest
// run again, each for so long that the clocks are those of a run of many steps.
enum { CANDIDATES = 8, ROUNDS = 3, RUNS = 5, MOST_RUNS = 2000, PATTERN_BYTES = 4 << 20 };
static const double LEAST_SHARE = 0.01, NEAR = 1.15, SETTLING_SECONDS = 0.06, LOAD_SECONDS = 0.12;

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == BD_TUNE_ALGORITHM_BYTES, "algorithm");

typedef struct noted {
  bd_cuda_product *product;
  bd_cuda_body body;
  void *args; // of the first call
  int calls;  // in a step
} noted;

struct bd_cuda_tuning {
  int count, capacity;
  noted *products;
};

typedef struct span {
  cudaEvent_t start, end;
} span;

void bd_cuda_tune_open(bd_rt *rt) {
  if (rt->options.tune || rt->ranks > 1)
    rt->device->tuning = bd_rt_allocate(1, sizeof *rt->device->tuning);
}

static void close_tuning(bd_rt *rt) {
  bd_cuda_tuning *const t = rt->device->tuning;
  for (int i = 0; i < t->count; i++)
    free(t->products[i].args);
  free(t->products);
  free(t);
  rt->device->tuning = NULL;
}

void bd_cuda_tune_note(bd_rt *rt, bd_cuda_product *product, bd_cuda_body body, const void *args,
                       size_t bytes) {
  bd_cuda_tuning *const t = rt->device->tuning;
  for (int i = t->count - 1; i >= 0; i--)
    if (t->products[i].product == product) {
      t->products[i].calls++;
      return;
    }
  if (t->count == t->capacity) {
    t->capacity = t->capacity ? 2 * t->capacity : 64;
    t->products = realloc(t->products, (size_t)t->capacity * sizeof *t->products);
    if (!t->products) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  }
  noted *const n = &t->products[t->count++];
  *n = (noted){product, body, bd_rt_allocate(1, bytes), 1};
  memcpy(n->args, args, bytes);
}

// Numbers of either sign whose size is near 1, in f32 and in halves: zeros would be multiplied with
// less power, and so at higher clocks, than what comes later.
static void fill_arena(bd_rt *rt) {
  const int64_t bytes = rt->stage->arena_bytes, first = bd_rt_least(bytes, PATTERN_BYTES);
  uint16_t *const words = bd_rt_map(rt, rt->arena, first);
  uint32_t state = 1;
  for (int64_t i = 0; i < first / (int64_t)sizeof *words; i++) {
    state = state * 1664525 + 1013904223;
    words[i] = (uint16_t)((state >> 16 & 0x80FF) | 0x3F00);
  }
  bd_rt_unmap(rt, rt->arena, first);
  for (int64_t done = first; done < bytes; done *= 2)
    bd_rt_copy(rt, rt->arena + done, rt->arena, bd_rt_least(done, bytes - done));
}

// A product's candidates and how long one run of each takes.
typedef struct contest {
  int count;
  bd_cuda_algorithm algorithm[CANDIDATES];
  double seconds[CANDIDATES];
} contest;

static void run(bd_rt *rt, const noted *n, int64_t times) {
  for (int64_t i = 0; i < times; i++)
    n->body(rt, n->args);
}

static void time_runs(bd_rt *rt, const noted *n, int64_t times, const span *s) {
  const cudaStream_t stream = bd_cuda_now(rt)->stream;
  BD_CUDA(cudaEventRecord(s->start, stream));
  run(rt, n, times);
  BD_CUDA(cudaEventRecord(s->end, stream));
}

static double seconds_of(const span *s, int64_t times) {
  float millis = 0;
  BD_CUDA(cudaEventElapsedTime(&millis, s->start, s->end));
  return 1e-3 * (double)millis / (double)times;
}

static int fastest(const contest *c) {
  int best = 0;
  for (int k = 1; k < c->count; k++)
    if (c->seconds[k] < c->seconds[best]) best = k;
  return best;
}

static contest compare(bd_rt *rt, const noted *n, span spans[CANDIDATES][ROUNDS]) {
  contest c = {0};
  c.count = bd_cuda_product_candidates(rt, n->product, CANDIDATES, c.algorithm);
  if (c.count == 0) {
    char name[BD_TUNE_PRODUCT_BYTES];
    bd_cuda_product_name(rt, n->product, name);
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cuBLASLt confirms no algorithm of %s: leave --tune out", name);
  }
  for (int round = 0; round < ROUNDS; round++)
    for (int k = 0; k < c.count; k++) {
      bd_cuda_product_use(n->product, &c.algorithm[k]);
      if (round == 0) run(rt, n, 1);
      time_runs(rt, n, RUNS, &spans[k][round]);
    }
  bd_rt_settle(rt);
  for (int k = 0; k < c.count; k++)
    for (int round = 0; round < ROUNDS; round++) {
      const double seconds = seconds_of(&spans[k][round], RUNS);
      if (round == 0 || seconds < c.seconds[k]) c.seconds[k] = seconds;
    }
  return c;
}

static int64_t runs_of(double seconds, double one) {
  return one * MOST_RUNS <= seconds ? MOST_RUNS : (int64_t)(seconds / one) + 1;
}

// The library's first choice runs as well: what is gained by another is told.
static void compare_under_load(bd_rt *rt, const noted *n, span spans[CANDIDATES][ROUNDS],
                               contest *c) {
  const double most = NEAR * c->seconds[fastest(c)];
  int64_t times[CANDIDATES];
  for (int k = 0; k < c->count; k++) {
    times[k] = k == 0 || c->seconds[k] <= most ? runs_of(LOAD_SECONDS, c->seconds[k]) : 0;
    if (times[k] == 0) continue;
    bd_cuda_product_use(n->product, &c->algorithm[k]);
    run(rt, n, runs_of(SETTLING_SECONDS, c->seconds[k]));
    time_runs(rt, n, times[k], &spans[k][0]);
  }
  bd_rt_settle(rt);
  for (int k = 0; k < c->count; k++)
    c->seconds[k] = times[k] ? seconds_of(&spans[k][0], times[k]) : HUGE_VAL;
}

static bd_tune_choice choice_of(const bd_rt *rt, const noted *n, const contest *c) {
  const int best = fastest(c);
  bd_tune_choice out = {.seconds = c->seconds[best], .first_seconds = c->seconds[0]};
  bd_cuda_product_name(rt, n->product, out.product);
  memcpy(out.algorithm, &c->algorithm[best].algorithm, sizeof out.algorithm);
  return out;
}

// This rank's choices, for as many products as it has noted; the table is the caller's.
static bd_tune_table measure_all(bd_rt *rt) {
  const bd_cuda_tuning *const t = rt->device->tuning;
  bd_tune_table own = {t->count, bd_rt_allocate((size_t)t->count, sizeof *own.choices)};
  contest *const contests = bd_rt_allocate((size_t)t->count, sizeof *contests);
  double step = 0;
  span spans[CANDIDATES][ROUNDS];
  span *const all = &spans[0][0];
  for (int i = 0; i < CANDIDATES * ROUNDS; i++) {
    BD_CUDA(cudaEventCreateWithFlags(&all[i].start, cudaEventDefault));
    BD_CUDA(cudaEventCreateWithFlags(&all[i].end, cudaEventDefault));
  }
  fill_arena(rt);
  for (int i = 0; i < t->count; i++) {
    contests[i] = compare(rt, &t->products[i], spans);
    step += t->products[i].calls * contests[i].seconds[fastest(&contests[i])];
  }
  for (int i = 0; i < t->count; i++) {
    const noted *const n = &t->products[i];
    if (n->calls * contests[i].seconds[fastest(&contests[i])] >= LEAST_SHARE * step)
      compare_under_load(rt, n, spans, &contests[i]);
    own.choices[i] = choice_of(rt, n, &contests[i]);
  }
  for (int i = 0; i < CANDIDATES * ROUNDS; i++) {
    BD_CUDA(cudaEventDestroy(all[i].start));
    BD_CUDA(cudaEventDestroy(all[i].end));
  }
  free(contests);
  return own;
}

static void gather(bd_rt *rt, const void *own, size_t bytes, void *all) {
  if (bd_meeting_gather(rt->device->meeting, own, bytes, all)) bd_cuda_leave_early(rt);
}

static void broadcast(bd_rt *rt, void *data, size_t bytes) {
  if (bd_meeting_broadcast(rt->device->meeting, data, bytes)) bd_cuda_leave_early(rt);
}

// Rank 0's table becomes all choices, of each product the lowest rank's that has measured it.
static void merge(bd_rt *rt, const bd_tune_table *own, bd_tune_table *out) {
  const size_t ranks = rt->rank == 0 ? (size_t)rt->ranks : 1, size = sizeof *own->choices;
  int64_t *const counts = bd_rt_allocate(ranks, sizeof *counts), most = 0;
  gather(rt, &own->count, sizeof own->count, counts);
  for (size_t r = 0; rt->rank == 0 && r < ranks; r++)
    if (counts[r] > most) most = counts[r];
  broadcast(rt, &most, sizeof most);
  bd_tune_choice *const padded = bd_rt_allocate((size_t)most, size);
  bd_tune_choice *const all = bd_rt_allocate(ranks * (size_t)most, size);
  if (own->count > 0) memcpy(padded, own->choices, (size_t)own->count * size);
  if (most > 0) gather(rt, padded, (size_t)most * size, all);
  int64_t count = 0;
  for (size_t r = 0; rt->rank == 0 && r < ranks; r++)
    for (int64_t i = 0; i < counts[r]; i++)
      all[count++] = all[r * (size_t)most + (size_t)i];
  free(padded);
  free(counts);
  *out = (bd_tune_table){count, all};
  if (!bd_tune_sort(out)) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
}

// Every rank gets rank 0's table.
static void share(bd_rt *rt, bd_tune_table *table) {
  broadcast(rt, &table->count, sizeof table->count);
  if (rt->rank != 0) {
    free(table->choices);
    table->choices = bd_rt_allocate((size_t)table->count, sizeof *table->choices);
  }
  if (table->count > 0)
    broadcast(rt, table->choices, (size_t)table->count * sizeof *table->choices);
}

static int apply(bd_rt *rt, const bd_tune_table *table, char *message, size_t message_bytes) {
  const bd_cuda_tuning *const t = rt->device->tuning;
  for (int i = 0; i < t->count; i++) {
    char name[BD_TUNE_PRODUCT_BYTES];
    cublasLtMatmulAlgo_t bytes;
    bd_cuda_algorithm algorithm;
    bd_cuda_product_name(rt, t->products[i].product, name);
    const bd_tune_choice *const choice = bd_tune_find(table, name);
    if (!choice) {
      snprintf(message, message_bytes,
               "%s: it lacks a product of rank %d, %s: another program, or this one with other "
               "options, wrote it; remove it, or name another, to tune anew",
               rt->options.tune, rt->rank, name);
      return BD_RT_EXIT_DATA;
    }
    memcpy(&bytes, choice->algorithm, sizeof bytes);
    if (!bd_cuda_product_accepts(rt, t->products[i].product, &bytes, &algorithm)) {
      snprintf(message, message_bytes,
               "%s: cuBLASLt of rank %d does not take its algorithm of %s; remove it, or name "
               "another, to tune anew",
               rt->options.tune, rt->rank, name);
      return BD_RT_EXIT_DATA;
    }
    bd_cuda_product_use(t->products[i].product, &algorithm);
  }
  return 0;
}

static bd_tune_maker maker_of(const bd_rt *rt) {
  struct cudaDeviceProp properties;
  bd_tune_maker maker;
  memset(&maker, 0, sizeof maker); // compared as bytes
  BD_CUDA(cudaGetDeviceProperties(&properties, rt->device->index));
  snprintf(maker.device, sizeof maker.device, "%.200s", properties.name);
  for (char *c = maker.device; *c; c++)
    if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') *c = '?';
  if (!maker.device[0]) snprintf(maker.device, sizeof maker.device, "a GPU without a name");
  maker.library = (int64_t)cublasLtGetVersion();
  return maker;
}

// One choice for all ranks needs GPUs and libraries that are alike.
static int compare_makers(bd_rt *rt, const bd_tune_maker *own) {
  const size_t ranks = rt->rank == 0 ? (size_t)rt->ranks : 1;
  bd_tune_maker *const all = bd_rt_allocate(ranks, sizeof *all);
  char message[1024] = "";
  int status = 0;
  gather(rt, own, sizeof *own, all);
  for (size_t r = 1; r < ranks && !status; r++) {
    if (memcmp(&all[r], own, sizeof *own) == 0) continue;
    snprintf(message, sizeof message,
             "--tune is for ranks that are alike: rank 0 has %s with cuBLASLt %" PRId64
             ", rank %zu %s with cuBLASLt %" PRId64 "; leave it out, or start them elsewhere",
             own->device, own->library, r, all[r].device, all[r].library);
    status = BD_RT_EXIT_MACHINE;
  }
  free(all);
  return bd_rt_agree(rt, status, message);
}

static void tell(const bd_rt *rt, const bd_tune_table *table) {
  int others = 0;
  for (int64_t i = 0; i < table->count; i++)
    others += table->choices[i].seconds < table->choices[i].first_seconds;
  if (rt->rank == 0)
    fprintf(stderr, "tuned %lld matrix products: %d of them do not take cuBLASLt's first choice\n",
            (long long)table->count, others);
}

// Whether rank 0 can write the file, asked before time is spent on it.
static int check_writable(bd_rt *rt) {
  char message[1024] = "";
  const int bad = rt->rank == 0 && !bd_rt_outputs_writable(rt->options.tune, BD_RT_REPLACED,
                                                           message, sizeof message);
  return bd_rt_agree(rt, bad ? BD_RT_EXIT_EXTERNAL : 0, message);
}

static int write_file(bd_rt *rt, const bd_tune_maker *maker, const bd_tune_table *table) {
  char message[1024] = "";
  int status = 0;
  if (rt->rank == 0)
    status = bd_tune_write(rt->options.tune, maker, table, message, sizeof message);
  status = bd_rt_agree(rt, status, message);
  if (!status) tell(rt, table);
  return status;
}

// The file's table, or, where there is no file, the one that is measured.
static int find_table(bd_rt *rt, const bd_tune_maker *maker, bd_tune_table *out, int *out_exists) {
  char message[1024] = "";
  int status = compare_makers(rt, maker);
  if (status) return status;
  if (rt->rank == 0)
    status = bd_tune_read(rt->options.tune, maker, out, out_exists, message, sizeof message);
  status = bd_rt_agree(rt, status, message);
  if (status) return status;
  broadcast(rt, out_exists, sizeof *out_exists);
  if (!*out_exists) {
    status = check_writable(rt);
    if (status) return status;
    bd_tune_table own = measure_all(rt);
    merge(rt, &own, out);
    bd_tune_free(&own);
  }
  share(rt, out);
  return 0;
}

static int tune(bd_rt *rt, bd_tune_table *table) {
  const bd_tune_maker maker = maker_of(rt);
  char message[1024] = "";
  int exists = 0, status = find_table(rt, &maker, table, &exists);
  if (status) return status;
  status = apply(rt, table, message, sizeof message);
  status = bd_rt_agree(rt, status, message);
  return status || exists ? status : write_file(rt, &maker, table);
}

// A library loads a kernel when it is first wanted, which may wait for all that the device does:
// for messages and collectives that have begun, were it in a step.
static void run_once(bd_rt *rt) {
  const bd_cuda_tuning *const t = rt->device->tuning;
  for (int i = 0; i < t->count; i++)
    t->products[i].body(rt, t->products[i].args);
  bd_rt_settle(rt);
}

int bd_cuda_tune(bd_rt *rt) {
  bd_tune_table table = {0};
  int status = 0;
  if (!rt->device->tuning) return 0;
  if (rt->options.tune) status = tune(rt, &table);
  if (!status) run_once(rt);
  bd_tune_free(&table);
  close_tuning(rt);
  return status;
}
