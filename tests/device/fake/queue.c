#include "tests/device/fake/queue.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The device works when the host waits for it (on the thread that waits), and when the host has
// called nothing for a while (because it waits for another process, which may wait for this
// device).
enum { IDLE_MILLISECONDS = 20, STUCK_SECONDS = 60, WORK_OF_A_POLL = 64 };

struct bd_fake_op {
  bd_fake_op *next;
  const char *call;
  uint64_t order; // of enqueueing, over all streams
  bd_fake_body body;
  max_align_t args[];
};

typedef struct waiter {
  struct waiter *next;
  int (*done)(void *args);
  void *args;
  int satisfied;
} waiter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle_wake = PTHREAD_COND_INITIALIZER, host_wake = PTHREAD_COND_INITIALIZER;
static struct CUstream_st legacy = {.alive = 1, .blocking = 1};
static struct CUstream_st *streams = &legacy;
static waiter *waiters;
static uint64_t orders, host_calls, random_state;
static int64_t pending;
static int started, working, stream_total;

static uint64_t draw(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

bd_fake_mark *bd_fake_mark_create(void) {
  bd_fake_mark *const mark = calloc(1, sizeof *mark);
  if (!mark) abort();
  mark->holders = 1;
  return mark;
}

bd_fake_mark *bd_fake_mark_hold(bd_fake_mark *mark) {
  mark->holders++;
  return mark;
}

void bd_fake_mark_drop(bd_fake_mark *mark) {
  if (mark && --mark->holders == 0) free(mark);
}

// Work on the legacy default stream waits for all earlier work of blocking streams, and theirs for
// its.
static int may_start(const struct CUstream_st *stream) {
  if (!stream->blocking) return 1;
  if (stream != &legacy) return !legacy.head || legacy.head->order > stream->head->order;
  for (const struct CUstream_st *s = streams; s; s = s->next)
    if (s != &legacy && s->blocking && s->head && s->head->order < legacy.head->order) return 0;
  return 1;
}

// The ready stream of the highest priority below `limit`.
static struct CUstream_st *pick(uint64_t limit) {
  struct CUstream_st *best = NULL;
  for (struct CUstream_st *s = streams; s; s = s->next)
    if (s->head && s->priority < limit && (!best || s->priority > best->priority) && may_start(s))
      best = s;
  return best;
}

// Mostly one stream runs ahead of another for long; now and then the favour changes.
static void change_favours(void) {
  if (draw() % 16) return;
  uint64_t chosen = draw() % (uint64_t)(stream_total + 1);
  for (struct CUstream_st *s = streams; s; s = s->next)
    if (chosen-- == 0) s->priority = draw() / 2;
}

static int run_head(struct CUstream_st *stream) {
  bd_fake_op *const op = stream->head;
  pthread_mutex_unlock(&lock);
  const int done = op->body(op->args);
  pthread_mutex_lock(&lock);
  if (!done) return 0;
  stream->head = op->next;
  if (!stream->head) stream->tail = NULL;
  pending--;
  free(op);
  change_favours();
  return 1;
}

// Carries out one piece of work. 0 when nothing could go on.
static int advance(void) {
  uint64_t limit = UINT64_MAX;
  for (struct CUstream_st *stream; (stream = pick(limit)); limit = stream->priority)
    if (run_head(stream)) return 1;
  return 0;
}

static void satisfy_waiters(void) {
  for (waiter **at = &waiters; *at;) {
    if ((*at)->done((*at)->args)) {
      (*at)->satisfied = 1;
      *at = (*at)->next;
    } else {
      at = &(*at)->next;
    }
  }
}

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

_Noreturn static void tell_stuck(void) {
  char text[512] = "";
  size_t length = 0;
  for (struct CUstream_st *s = streams; s && length < sizeof text; s = s->next)
    if (s->head)
      length += (size_t)snprintf(text + length, sizeof text - length, " stream %d at %s;", s->index,
                                 s->head->call);
  bd_fake_fault("device", "nothing can go on:%s", text);
}

static void pause_device(double last_progress) {
  pthread_mutex_unlock(&lock);
  const double still = now_seconds() - last_progress;
  if (still > (double)bd_fake_setting("BD_FAKE_STUCK_SECONDS", STUCK_SECONDS)) {
    pthread_mutex_lock(&lock);
    tell_stuck();
  }
  nanosleep(&(struct timespec){.tv_nsec = still < 0.002 ? 50000 : 1000000}, NULL);
  pthread_mutex_lock(&lock);
}

// Until no one waits; without waiters, until the host calls again or there is nothing to do.
static void work(void) {
  working = 1;
  const uint64_t calls = host_calls;
  const int idle = !waiters;
  double last_progress = now_seconds();
  bd_fake_protect(1);
  for (satisfy_waiters(); waiters || (idle && pending && calls == host_calls); satisfy_waiters()) {
    if (advance())
      last_progress = now_seconds();
    else
      pause_device(last_progress);
  }
  bd_fake_protect(0);
  working = 0;
  pthread_cond_broadcast(&host_wake);
}

static void *idle_thread(void *unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!pending)
      pthread_cond_wait(&idle_wake, &lock);
    const uint64_t calls = host_calls;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += IDLE_MILLISECONDS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (pthread_cond_timedwait(&idle_wake, &lock, &until) == 0) {
    }
    if (!working && pending && calls == host_calls) work();
  }
  return NULL;
}

static void start(void) {
  pthread_t thread;
  started = 1;
  random_state = 0x9E3779B97F4A7C15u * (uint64_t)(bd_fake_setting("BD_FAKE_SEED", 1) + 1) +
                 (uint64_t)bd_fake_setting("BD_FAKE_RANK", 0) + 1;
  legacy.priority = draw() / 2;
  if (pthread_create(&thread, NULL, idle_thread, NULL)) abort();
  pthread_detach(thread);
}

void bd_fake_enqueue(const char *call, cudaStream_t stream, bd_fake_body body, const void *args,
                     size_t bytes) {
  bd_fake_check_started(call);
  struct CUstream_st *const queue = bd_fake_stream_of(call, stream);
  bd_fake_op *const op = malloc(sizeof *op + bytes);
  if (!op) abort();
  *op = (bd_fake_op){.call = call, .body = body};
  memcpy(op->args, args, bytes);
  if (queue->capture) {
    bd_fake_captured *const c = queue->capture;
    *(c->last ? &c->last->next : &c->first) = op;
    c->last = op;
    c->count++;
    return;
  }
  pthread_mutex_lock(&lock);
  if (!started) start();
  op->order = orders++;
  if (queue->tail)
    queue->tail->next = op;
  else
    queue->head = op;
  queue->tail = op;
  if (!pending++) pthread_cond_signal(&idle_wake);
  host_calls++;
  pthread_mutex_unlock(&lock);
}

int bd_fake_run_captured(const bd_fake_captured *captured) {
  for (bd_fake_op *op = captured->first; op; op = op->next)
    if (!op->body(op->args)) bd_fake_fault(op->call, "waits for something inside a graph");
  return 1;
}

void bd_fake_free_captured(bd_fake_captured *captured) {
  for (bd_fake_op *op = captured->first, *next; op; op = next) {
    next = op->next;
    free(op);
  }
  free(captured);
}

void bd_fake_refuse_capture(const char *call, cudaStream_t stream) {
  if (bd_fake_stream_of(call, stream)->capture) bd_fake_fault(call, "the stream is being captured");
}

void bd_fake_wait(const char *call, int (*done)(void *args), void *args) {
  bd_fake_check_started(call);
  for (const struct CUstream_st *s = streams; s; s = s->next)
    if (s->capture) bd_fake_fault(call, "stream %d is being captured", s->index);
  waiter self = {.done = done, .args = args};
  pthread_mutex_lock(&lock);
  if (!started) start();
  host_calls++;
  self.next = waiters;
  waiters = &self;
  while (!self.satisfied)
    if (working)
      pthread_cond_wait(&host_wake, &lock);
    else
      work();
  pthread_mutex_unlock(&lock);
}

static int all_done(void *unused) {
  (void)unused;
  return !pending;
}

void bd_fake_drain(const char *call) {
  bd_fake_wait(call, all_done, NULL);
}

// A poll of a device that has nothing to do returns at once.
static int is_over(void *args) {
  int *const left = args;
  return !pending || --*left < 0;
}

void bd_fake_let_work(const char *call) {
  int left = WORK_OF_A_POLL;
  bd_fake_wait(call, is_over, &left);
}

struct CUstream_st *bd_fake_stream_of(const char *call, cudaStream_t stream) {
  if (!stream || stream == cudaStreamLegacy) return &legacy;
  pthread_mutex_lock(&lock);
  struct CUstream_st *s = streams;
  while (s && s != stream)
    s = s->next;
  pthread_mutex_unlock(&lock);
  if (!s || !s->alive) bd_fake_fault(call, "%p is no stream", (void *)stream);
  return s;
}

struct CUstream_st *bd_fake_stream_create(int blocking) {
  struct CUstream_st *const stream = calloc(1, sizeof *stream);
  if (!stream) abort();
  pthread_mutex_lock(&lock);
  if (!started) start();
  *stream = (struct CUstream_st){.alive = 1,
                                 .index = ++stream_total,
                                 .blocking = blocking,
                                 .priority = draw() / 2,
                                 .next = streams};
  streams = stream;
  bd_fake_count.streams++;
  bd_fake_count.handles++;
  pthread_mutex_unlock(&lock);
  return stream;
}

// The memory stays, so that its use is found.
void bd_fake_stream_destroy(struct CUstream_st *stream) {
  stream->alive = 0;
  bd_fake_count.handles--;
}

int bd_fake_stream_is_empty(struct CUstream_st *stream) {
  return !stream->head;
}
