#include "runtime/rank.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS = 20000 };

struct bd_rt_pool {
  int threads, spins;
  pthread_t *handles;
  pthread_mutex_t mutex;
  pthread_cond_t wake, done;
  atomic_uint generation; // of the job below
  atomic_int pending;     // workers that have not finished it
  atomic_int stop;
  atomic_llong next; // chunk
  bd_rt_worker_body body;
  void *args;
  int64_t chunks;
};

typedef struct worker {
  bd_rt_pool *pool;
  int index;
} worker;

static void work(bd_rt_pool *pool, int index) {
  for (;;) {
    const int64_t chunk = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
    if (chunk >= pool->chunks) return;
    pool->body(pool->args, chunk, index);
  }
}

static void await_generation(bd_rt_pool *pool, unsigned seen) {
  for (int i = 0; i < pool->spins; i++) {
    if (atomic_load(&pool->generation) != seen) return;
    __builtin_ia32_pause();
  }
  pthread_mutex_lock(&pool->mutex);
  while (atomic_load(&pool->generation) == seen)
    pthread_cond_wait(&pool->wake, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument) {
  const worker self = *(worker *)argument;
  free(argument);
  for (unsigned seen = 0;; seen++) {
    await_generation(self.pool, seen);
    if (atomic_load(&self.pool->stop)) return NULL;
    work(self.pool, self.index);
    if (atomic_fetch_sub(&self.pool->pending, 1) == 1) {
      pthread_mutex_lock(&self.pool->mutex);
      pthread_cond_signal(&self.pool->done);
      pthread_mutex_unlock(&self.pool->mutex);
    }
  }
}

static void start_worker(bd_rt_pool *pool, int index) {
  worker *const self = malloc(sizeof *self);
  if (!self) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory for threads");
  *self = (worker){pool, index};
  if (pthread_create(&pool->handles[index], NULL, worker_main, self))
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cannot start thread %d of %d", index, pool->threads);
}

bd_rt_pool *bd_rt_pool_create(int threads, int spin) {
  bd_rt_pool *const pool = calloc(1, sizeof *pool);
  pthread_t *const handles = calloc((size_t)threads, sizeof *handles);
  if (!pool || !handles) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory for threads");
  pool->threads = threads;
  pool->spins = spin ? SPINS : 0;
  pool->handles = handles;
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->wake, NULL);
  pthread_cond_init(&pool->done, NULL);
  for (int i = 1; i < threads; i++)
    start_worker(pool, i);
  return pool;
}

static void publish(bd_rt_pool *pool) {
  pthread_mutex_lock(&pool->mutex);
  atomic_fetch_add(&pool->generation, 1);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->mutex);
}

void bd_rt_pool_destroy(bd_rt_pool *pool) {
  atomic_store(&pool->stop, 1);
  publish(pool);
  for (int i = 1; i < pool->threads; i++)
    pthread_join(pool->handles[i], NULL);
  pthread_mutex_destroy(&pool->mutex);
  pthread_cond_destroy(&pool->wake);
  pthread_cond_destroy(&pool->done);
  free(pool->handles);
  free(pool);
}

void bd_rt_pool_run(bd_rt_pool *pool, bd_rt_worker_body body, void *args, int64_t chunks) {
  if (pool->threads == 1 || chunks <= 1) {
    for (int64_t chunk = 0; chunk < chunks; chunk++)
      body(args, chunk, 0);
    return;
  }
  pool->body = body;
  pool->args = args;
  pool->chunks = chunks;
  atomic_store(&pool->next, 0);
  atomic_store(&pool->pending, pool->threads - 1);
  publish(pool);
  work(pool, 0);
  for (int i = 0; i < pool->spins && atomic_load(&pool->pending); i++)
    __builtin_ia32_pause();
  if (!atomic_load(&pool->pending)) return;
  pthread_mutex_lock(&pool->mutex);
  while (atomic_load(&pool->pending))
    pthread_cond_wait(&pool->done, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
}

typedef struct plain {
  bd_rt_body body;
  void *args;
} plain;

static void run_plain(void *args, int64_t chunk, int worker) {
  (void)worker;
  const plain *const job = args;
  job->body(job->args, chunk);
}

void bd_rt_parallel(bd_rt *rt, bd_rt_body body, void *args, int64_t chunks) {
  plain job = {body, args};
  bd_rt_pool_run(rt->pool, run_plain, &job, chunks);
}
