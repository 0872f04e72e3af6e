#include "ir/base/workers.h"

#include "ir/base/intern.h"
#include <pthread.h>

// One task of the batch at hand.
typedef struct task {
  bd_ctx *ctx;
  bd_status status;
} task;

struct bd_workers {
  pthread_mutex_t lock;
  pthread_cond_t wake, idle;
  int thread_count;
  pthread_t *threads;
  void (*leave)(void);
  // Under the lock:
  bool stopping;
  const bd_work *work; // NULL between batches
  task *tasks;
  int next, running;
};

typedef struct call {
  const bd_work *work;
  int index;
} call;

static bd_status run_task(bd_ctx *ctx, void *arg) {
  const call *c = arg;
  return c->work->run(ctx, c->work->arg, c->index);
}

// Takes tasks until none is left; the lock is held before and after.
static void run_tasks(bd_workers *w) {
  while (w->work && w->next < w->work->count) {
    call c = {w->work, w->next++};
    task *t = &w->tasks[c.index];
    w->running++;
    pthread_mutex_unlock(&w->lock);
    t->status = bd_ctx_run(t->ctx, run_task, &c);
    pthread_mutex_lock(&w->lock);
    if (--w->running == 0) pthread_cond_signal(&w->idle);
  }
}

static void *serve(void *arg) {
  bd_workers *w = arg;
  pthread_mutex_lock(&w->lock);
  while (!w->stopping) {
    run_tasks(w);
    if (!w->stopping) pthread_cond_wait(&w->wake, &w->lock);
  }
  pthread_mutex_unlock(&w->lock);
  if (w->leave) w->leave();
  return NULL;
}

static void stop(void *object) {
  bd_workers *w = object;
  pthread_mutex_lock(&w->lock);
  w->stopping = true;
  pthread_cond_broadcast(&w->wake);
  pthread_mutex_unlock(&w->lock);
  for (int i = 0; i < w->thread_count; i++)
    pthread_join(w->threads[i], NULL);
  pthread_cond_destroy(&w->idle);
  pthread_cond_destroy(&w->wake);
  pthread_mutex_destroy(&w->lock);
}

bd_workers *bd_workers_start(bd_ctx *ctx, bd_owned *slot, int threads, void (*leave)(void)) {
  bd_workers *w = BD_NEW(ctx->arena, bd_workers);
  w->threads = BD_NEW_ARRAY(ctx->arena, pthread_t, threads > 1 ? threads - 1 : 0);
  w->leave = leave;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, NULL);
  pthread_cond_init(&w->idle, NULL);
  for (int i = 1; i < threads; i++)
    if (pthread_create(&w->threads[w->thread_count], NULL, serve, w) == 0) w->thread_count++;
  bd_own(ctx, slot, stop, w);
  return w;
}

void bd_workers_stop(bd_ctx *ctx, bd_workers *workers, const bd_owned *slot) {
  bd_disown(ctx, slot);
  stop(workers);
}

// The contexts of a batch, held while their results are taken.
typedef struct batch {
  int count;
  task *tasks;
} batch;

static void destroy_contexts(void *object) {
  const batch *b = object;
  for (int i = 0; i < b->count; i++)
    bd_ctx_destroy(b->tasks[i].ctx);
}

static void create_contexts(bd_ctx *ctx, batch *b, int count) {
  for (; b->count < count; b->count++) {
    b->tasks[b->count].ctx = bd_ctx_create_child(ctx);
    if (!b->tasks[b->count].ctx) bd_ctx_exhausted(ctx, sizeof(bd_ctx));
  }
}

static void run_batch(bd_workers *w, const bd_work *work, task *tasks) {
  pthread_mutex_lock(&w->lock);
  w->work = work;
  w->tasks = tasks;
  w->next = 0;
  pthread_cond_broadcast(&w->wake);
  run_tasks(w);
  while (w->running > 0)
    pthread_cond_wait(&w->idle, &w->lock);
  w->work = NULL;
  pthread_mutex_unlock(&w->lock);
}

bd_status bd_workers_run(bd_ctx *ctx, bd_workers *workers, const bd_work *work) {
  batch b = {.tasks = BD_NEW_ARRAY(ctx->arena, task, work->count)};
  bd_owned held;
  bd_own(ctx, &held, destroy_contexts, &b);
  create_contexts(ctx, &b, work->count);
  run_batch(workers, work, b.tasks);
  bd_status status = BD_OK;
  for (int i = 0; i < work->count && status == BD_OK; i++) {
    bd_ctx_merge(ctx, b.tasks[i].ctx);
    status = b.tasks[i].status;
    if (status == BD_OK && work->take) work->take(ctx, work->arg, i);
  }
  bd_disown(ctx, &held);
  destroy_contexts(&b);
  return status;
}
