#include "runtime/cuda/segment.h"

#include "runtime/cuda/rt.h"

#include <stdlib.h>
#include <string.h>

enum {
  LEAST_PIECES = 4, // of a graph
  SLOTS = 1 << 13,  // of the hash table, at most half of which are used
  MOST_KEPT_BYTES = 256 << 20,
  FIRST_BYTES = 1 << 16,
};

typedef struct piece {
  bd_cuda_body body;
  size_t bytes; // of the arguments that follow, a multiple of 8
} piece;

// What has come once, and its graph when it has come again.
typedef struct known {
  uint64_t hash;
  size_t bytes;
  char *data;
  cudaGraphExec_t graph;
} known;

struct bd_cuda_segments {
  int in_step, running; // running: bodies are being called
  int count;            // pieces
  size_t bytes, capacity;
  size_t next; // piece, while bodies are being called
  char *data;
  int kept_count;
  bd_cuda_kept kept[BD_CUDA_MOST_KEPT];
  int known_count;
  size_t kept_bytes;
  known slots[SLOTS];
};

int bd_cuda_open_segments(bd_rt *rt) {
  bd_cuda_segments *const s = calloc(1, sizeof *s);
  if (!s) return BD_RT_EXIT_EXTERNAL;
  s->capacity = FIRST_BYTES;
  s->data = malloc(s->capacity);
  rt->device->segments = s;
  return s->data ? 0 : BD_RT_EXIT_EXTERNAL;
}

void bd_cuda_close_segments(bd_rt *rt) {
  bd_cuda_segments *const s = rt->device->segments;
  for (int i = 0; i < SLOTS; i++) {
    if (s->slots[i].graph) BD_CUDA(cudaGraphExecDestroy(s->slots[i].graph));
    free(s->slots[i].data);
  }
  free(s->data);
  free(s);
  rt->device->segments = NULL;
}

static size_t rounded(size_t bytes) {
  return (bytes + 7) / 8 * 8;
}

static uint64_t hash_of(const char *data, size_t bytes) {
  uint64_t hash = bytes;
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word;
    memcpy(&word, data + at, sizeof word);
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
  }
  return hash;
}

static void run(bd_rt *rt) {
  bd_cuda_segments *const s = rt->device->segments;
  for (s->next = 0; s->next < s->bytes;) {
    const char *const args = s->data + s->next + sizeof(piece);
    piece p;
    memcpy(&p, s->data + s->next, sizeof p);
    s->next += sizeof p + p.bytes;
    p.body(rt, args);
  }
}

const void *bd_cuda_take_next(bd_rt *rt, bd_cuda_body body) {
  bd_cuda_segments *const s = rt->device->segments;
  piece p;
  if (!s->running || s->next >= s->bytes) return NULL;
  memcpy(&p, s->data + s->next, sizeof p);
  if (p.body != body) return NULL;
  const char *const args = s->data + s->next + sizeof p;
  s->next += sizeof p + p.bytes;
  return args;
}

// The slot of the segment, or an empty one where it belongs.
static known *find(bd_cuda_segments *s, uint64_t hash) {
  for (uint64_t i = hash % SLOTS;; i = (i + 1) % SLOTS) {
    known *const k = &s->slots[i];
    if (!k->data ||
        (k->hash == hash && k->bytes == s->bytes && !memcmp(k->data, s->data, s->bytes)))
      return k;
  }
}

static void remember(bd_cuda_segments *s, known *k, uint64_t hash) {
  if (s->known_count == SLOTS / 2 || s->kept_bytes + s->bytes > MOST_KEPT_BYTES) return;
  char *const data = malloc(s->bytes);
  if (!data) return;
  memcpy(data, s->data, s->bytes);
  *k = (known){.hash = hash, .bytes = s->bytes, .data = data};
  s->known_count++;
  s->kept_bytes += s->bytes;
}

static cudaGraphExec_t capture(bd_rt *rt) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  BD_CUDA(cudaStreamBeginCapture(rt->device->stream, cudaStreamCaptureModeThreadLocal));
  run(rt);
  BD_CUDA(cudaStreamEndCapture(rt->device->stream, &graph));
  BD_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  BD_CUDA(cudaGraphDestroy(graph));
  return executable;
}

// What a first time chooses, such as algorithms of products, is there the second time.
static void start(bd_rt *rt) {
  bd_cuda_segments *const s = rt->device->segments;
  if (rt->device->launcher.no_graphs || s->count < LEAST_PIECES) {
    run(rt);
    return;
  }
  const uint64_t hash = hash_of(s->data, s->bytes);
  known *const k = find(s, hash);
  if (!k->data) {
    remember(s, k, hash);
    run(rt);
    return;
  }
  if (!k->graph) k->graph = capture(rt);
  BD_CUDA(cudaGraphLaunch(k->graph, rt->device->stream));
}

static void flush(bd_rt *rt) {
  bd_cuda_segments *const s = rt->device->segments;
  if (s->running || s->count == 0) return;
  s->running = 1;
  if (s->kept_count > 0) bd_cuda_put(&rt->device->queue, s->kept, s->kept_count, rt->device->kept);
  start(rt);
  s->count = s->kept_count = 0;
  s->bytes = 0;
  s->running = 0;
}

const bd_cuda_queue *bd_cuda_now(bd_rt *rt) {
  flush(rt);
  return &rt->device->queue;
}

static int gathers(const bd_rt *rt) {
  const bd_cuda_segments *const s = rt->device->segments;
  return s->in_step && !s->running && rt->device->lane == BD_CUDA_MAIN;
}

static void reserve(bd_cuda_segments *s, size_t more) {
  if (s->bytes + more <= s->capacity) return;
  while (s->bytes + more > s->capacity)
    s->capacity *= 2;
  s->data = realloc(s->data, s->capacity);
  if (!s->data) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
}

void bd_cuda_do(bd_rt *rt, bd_cuda_body body, const void *args, size_t bytes) {
  bd_cuda_segments *const s = rt->device->segments;
  if (!gathers(rt)) {
    body(rt, args);
    return;
  }
  const piece p = {body, rounded(bytes)};
  reserve(s, sizeof p + p.bytes);
  memcpy(s->data + s->bytes, &p, sizeof p);
  memset(s->data + s->bytes + sizeof p, 0, p.bytes);
  memcpy(s->data + s->bytes + sizeof p, args, bytes);
  s->bytes += sizeof p + p.bytes;
  s->count++;
}

const void *bd_cuda_keep(bd_rt *rt, const void *what, size_t bytes) {
  bd_cuda_segments *const s = rt->device->segments;
  bd_cuda_kept kept = {{0}};
  memcpy(&kept, what, bytes);
  if (!gathers(rt)) {
    bd_cuda_put(bd_cuda_now(rt), &kept, 1, rt->device->kept);
    return rt->device->kept;
  }
  if (s->kept_count == BD_CUDA_MOST_KEPT) flush(rt);
  s->kept[s->kept_count] = kept;
  return rt->device->kept + s->kept_count++;
}

void bd_cuda_begin_step(bd_rt *rt) {
  rt->device->segments->in_step = 1;
}

void bd_cuda_end_step(bd_rt *rt) {
  flush(rt);
  rt->device->segments->in_step = 0;
}
