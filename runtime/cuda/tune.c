#include "runtime/cuda/tune.h"

#include "runtime/outputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A candidate runs RUNS times in a row between two events, in each of ROUNDS; its fastest round
// counts. Rounds go through all candidates, so that a change of clocks meets them alike.
enum { CANDIDATES = 8, ROUNDS = 3, RUNS = 5, PATTERN_BYTES = 4 << 20 };

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == BD_TUNE_ALGORITHM_BYTES, "algorithm");

typedef struct noted {
  bd_cuda_product *product;
  bd_cuda_body body;
  void *args;
} noted;

struct bd_cuda_tuning {
  int count, capacity;
  noted *calls; // the first of each product
};

typedef struct span {
  cudaEvent_t start, end;
} span;

void bd_cuda_tune_open(bd_rt *rt) {
  if (rt->options.tune) rt->device->tuning = bd_rt_allocate(1, sizeof *rt->device->tuning);
}

static void close_tuning(bd_rt *rt) {
  bd_cuda_tuning *const t = rt->device->tuning;
  for (int i = 0; i < t->count; i++)
    free(t->calls[i].args);
  free(t->calls);
  free(t);
  rt->device->tuning = NULL;
}

void bd_cuda_tune_note(bd_rt *rt, bd_cuda_product *product, bd_cuda_body body, const void *args,
                       size_t bytes) {
  bd_cuda_tuning *const t = rt->device->tuning;
  for (int i = t->count - 1; i >= 0; i--)
    if (t->calls[i].product == product) return;
  if (t->count == t->capacity) {
    t->capacity = t->capacity ? 2 * t->capacity : 64;
    t->calls = realloc(t->calls, (size_t)t->capacity * sizeof *t->calls);
    if (!t->calls) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  }
  noted *const n = &t->calls[t->count++];
  *n = (noted){product, body, bd_rt_allocate(1, bytes)};
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

static void time_round(bd_rt *rt, const noted *n, const bd_cuda_algorithm *algorithm, int warm,
                       const span *s) {
  const cudaStream_t stream = bd_cuda_now(rt)->stream;
  bd_cuda_product_use(n->product, algorithm);
  if (warm) n->body(rt, n->args);
  BD_CUDA(cudaEventRecord(s->start, stream));
  for (int i = 0; i < RUNS; i++)
    n->body(rt, n->args);
  BD_CUDA(cudaEventRecord(s->end, stream));
}

static double fastest(const span spans[ROUNDS]) {
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    float millis = 0;
    BD_CUDA(cudaEventElapsedTime(&millis, spans[round].start, spans[round].end));
    const double seconds = 1e-3 * (double)millis / RUNS;
    if (round == 0 || seconds < best) best = seconds;
  }
  return best;
}

static void measure(bd_rt *rt, const noted *n, span spans[CANDIDATES][ROUNDS],
                    bd_tune_choice *out) {
  bd_cuda_algorithm candidates[CANDIDATES];
  const int count = bd_cuda_product_candidates(rt, n->product, CANDIDATES, candidates);
  memset(out, 0, sizeof *out);
  bd_cuda_product_name(rt, n->product, out->product);
  if (count == 0)
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cuBLASLt confirms no algorithm of %s: leave --tune out",
               out->product);
  for (int round = 0; round < ROUNDS; round++)
    for (int c = 0; c < count; c++)
      time_round(rt, n, &candidates[c], round == 0, &spans[c][round]);
  bd_rt_settle(rt);
  int best = 0;
  for (int c = 0; c < count; c++) {
    const double seconds = fastest(spans[c]);
    if (c == 0) out->first_seconds = seconds;
    if (c > 0 && seconds >= out->seconds) continue;
    out->seconds = seconds;
    best = c;
  }
  memcpy(out->algorithm, &candidates[best].algorithm, sizeof out->algorithm);
}

// This rank's choices, for as many products as it has noted; the table is the caller's.
static bd_tune_table measure_all(bd_rt *rt) {
  const bd_cuda_tuning *const t = rt->device->tuning;
  bd_tune_table own = {t->count, bd_rt_allocate((size_t)t->count, sizeof *own.choices)};
  span spans[CANDIDATES][ROUNDS];
  span *const all = &spans[0][0];
  for (int i = 0; i < CANDIDATES * ROUNDS; i++) {
    BD_CUDA(cudaEventCreateWithFlags(&all[i].start, cudaEventDefault));
    BD_CUDA(cudaEventCreateWithFlags(&all[i].end, cudaEventDefault));
  }
  fill_arena(rt);
  for (int i = 0; i < t->count; i++)
    measure(rt, &t->calls[i], spans, &own.choices[i]);
  for (int i = 0; i < CANDIDATES * ROUNDS; i++) {
    BD_CUDA(cudaEventDestroy(all[i].start));
    BD_CUDA(cudaEventDestroy(all[i].end));
  }
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
    bd_cuda_product_name(rt, t->calls[i].product, name);
    const bd_tune_choice *const choice = bd_tune_find(table, name);
    if (!choice) {
      snprintf(message, message_bytes,
               "%s: it lacks a product of rank %d, %s: another program, or this one with other "
               "options, wrote it; remove it, or name another, to tune anew",
               rt->options.tune, rt->rank, name);
      return BD_RT_EXIT_DATA;
    }
    memcpy(&bytes, choice->algorithm, sizeof bytes);
    if (!bd_cuda_product_accepts(rt, t->calls[i].product, &bytes, &algorithm)) {
      snprintf(message, message_bytes,
               "%s: cuBLASLt of rank %d does not take its algorithm of %s; remove it, or name "
               "another, to tune anew",
               rt->options.tune, rt->rank, name);
      return BD_RT_EXIT_DATA;
    }
    bd_cuda_product_use(t->calls[i].product, &algorithm);
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

int bd_cuda_tune(bd_rt *rt) {
  bd_tune_table table = {0};
  if (!rt->device->tuning) return 0;
  const int status = tune(rt, &table);
  bd_tune_free(&table);
  close_tuning(rt);
  return status;
}
