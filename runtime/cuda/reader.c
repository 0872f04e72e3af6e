// Samples on their way to the device. What a step asks for, and in which order, is known from the
// rehearsal, and an evaluation asks for the same of each of its batches; so a thread reads it ahead
// into pinned memory: what is left of a step's samples when it begins is their copies. The device
// is asked for by the rank's own thread alone.
#include "runtime/cuda/rt.h"
#include "runtime/held_out.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  CHUNK_BYTES = 8 << 20,  // of one copy, or one sample, where that is more
  MOST_BYTES = 256 << 20, // of all that is read ahead, or two chunks
  LEAST_SLOTS = 2,
  MOST_SLOTS = 64,
};

// Samples on their way.
typedef struct slot {
  char *data;
  cudaEvent_t copied;
  bd_rt_batch batch; // that they are of
  atomic_llong bad;  // the number of one that cannot be read, or -1
} slot;

struct bd_cuda_reader {
  // Of every batch, in order: what is read and copied at once.
  int chunk_count, chunk_room;
  bd_rt_samples *chunks;
  char *pinned;
  int slot_count;
  slot *slots; // chunk n of the run, counted over batches, has slot n % slot_count
  int started;
  pthread_t thread;
  bd_rt_batch first;
  int64_t taken; // chunks that the rank has asked for
  // Of both threads: chunks that have been read, those whose slots may be written again.
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int64_t filled, freed;
  int stop, ended; // ended: there are no more batches
};

_Static_assert(sizeof(bd_rt_samples) == 2 * sizeof(int) + 4 * sizeof(int64_t),
               "samples are compared as bytes");

static int64_t chunk_bytes(const bd_rt_samples *samples) {
  return samples->count * bd_rt_sample_bytes(samples);
}

// How many samples of so many bytes are copied at once.
static int64_t samples_at_once(int64_t sample_bytes) {
  return sample_bytes > 0 && sample_bytes < CHUNK_BYTES ? CHUNK_BYTES / sample_bytes : 1;
}

static void note(bd_rt *rt, const bd_rt_samples *samples) {
  bd_rt_device *const device = rt->device;
  if (!device->reader) device->reader = bd_rt_allocate(1, sizeof *device->reader);
  bd_cuda_reader *const r = device->reader;
  if (r->chunk_count == r->chunk_room) {
    r->chunk_room = r->chunk_room ? 2 * r->chunk_room : 16;
    r->chunks = realloc(r->chunks, (size_t)r->chunk_room * sizeof *r->chunks);
    if (!r->chunks) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  }
  r->chunks[r->chunk_count++] = *samples;
}

// Those of two steps, so that one is read while the other is copied, within the bounds.
static int slots_of(const bd_cuda_reader *r, int64_t bytes) {
  int64_t slots = bd_rt_least(2 * (int64_t)r->chunk_count, MOST_SLOTS);
  slots = bd_rt_least(slots, MOST_BYTES / bytes);
  return slots < LEAST_SLOTS ? LEAST_SLOTS : (int)slots;
}

int bd_cuda_prepare_reader(bd_rt *rt, char *message, size_t message_bytes) {
  bd_cuda_reader *const r = rt->device->reader;
  int64_t bytes = BD_RT_ALIGNMENT;
  if (!r) return 0; // no samples are read here
  for (int i = 0; i < r->chunk_count; i++)
    if (chunk_bytes(&r->chunks[i]) > bytes) bytes = chunk_bytes(&r->chunks[i]);
  bytes = (bytes + BD_RT_ALIGNMENT - 1) / BD_RT_ALIGNMENT * BD_RT_ALIGNMENT;
  r->slot_count = slots_of(r, bytes);
  void *pinned = NULL;
  if (cudaMallocHost(&pinned, (size_t)(r->slot_count * bytes)) != cudaSuccess) {
    snprintf(message, message_bytes, "rank %d cannot pin %lld bytes of host memory", rt->rank,
             (long long)(r->slot_count * bytes));
    return BD_RT_EXIT_EXTERNAL;
  }
  r->pinned = pinned;
  r->slots = bd_rt_allocate((size_t)r->slot_count, sizeof *r->slots);
  for (int i = 0; i < r->slot_count; i++) {
    r->slots[i].data = r->pinned + i * bytes;
    BD_CUDA(cudaEventCreateWithFlags(&r->slots[i].copied, cudaEventDisableTiming));
  }
  pthread_mutex_init(&r->mutex, NULL);
  pthread_cond_init(&r->changed, NULL);
  return 0;
}

typedef struct filling {
  const bd_rt *rt;
  const bd_rt_samples *samples;
  slot *slot;
} filling;

static void fill_sample(void *args, int64_t number, int worker) {
  const filling *const f = args;
  (void)worker;
  if (bd_rt_sample_read(f->rt, f->samples, f->slot->batch, number,
                        f->slot->data + number * bd_rt_sample_bytes(f->samples)))
    atomic_store(&f->slot->bad, number);
}

// The host's threads share samples of reals: one alone takes longer to read and round an image than
// to start what the GPU does with it. Others are short.
static void fill(const bd_rt *rt, int64_t chunk, bd_rt_batch batch) {
  const bd_cuda_reader *const r = rt->device->reader;
  filling f = {rt, &r->chunks[chunk % r->chunk_count], &r->slots[chunk % r->slot_count]};
  f.slot->batch = batch;
  atomic_store(&f.slot->bad, -1);
  if (f.samples->kind == BD_RT_SAMPLES_REALS)
    bd_rt_pool_run(rt->pool, fill_sample, &f, f.samples->count);
  else
    for (int64_t i = 0; i < f.samples->count; i++)
      fill_sample(&f, i, 0);
}

// Whether the chunk's slot is free: 0 once the reader is to stop.
static int await_slot(bd_cuda_reader *r, int64_t chunk) {
  pthread_mutex_lock(&r->mutex);
  while (!r->stop && chunk >= r->freed + r->slot_count)
    pthread_cond_wait(&r->changed, &r->mutex);
  const int go = !r->stop;
  pthread_mutex_unlock(&r->mutex);
  return go;
}

// A sample that cannot be read ends the job when the batch comes that wants it.
static void *read_ahead(void *args) {
  const bd_rt *const rt = args;
  bd_cuda_reader *const r = rt->device->reader;
  bd_rt_batch batch = r->first;
  for (int64_t chunk = 0; bd_rt_batch_is_of_run(rt, batch) && await_slot(r, chunk); chunk++) {
    fill(rt, chunk, batch);
    if ((chunk + 1) % r->chunk_count == 0) batch = bd_rt_batch_after(rt, batch);
    pthread_mutex_lock(&r->mutex);
    r->filled = chunk + 1;
    pthread_mutex_unlock(&r->mutex);
  }
  pthread_mutex_lock(&r->mutex);
  r->ended = 1;
  pthread_mutex_unlock(&r->mutex);
  return NULL;
}

static void start(bd_rt *rt) {
  bd_cuda_reader *const r = rt->device->reader;
  r->first = bd_rt_batch_first(rt);
  if (pthread_create(&r->thread, NULL, read_ahead, rt))
    bd_rt_fail(BD_RT_EXIT_EXTERNAL, "cannot start a thread that reads samples");
  r->started = 1;
}

void bd_cuda_free_samples(bd_rt *rt) {
  bd_cuda_reader *const r = rt->device->reader;
  if (!r || !r->started) return;
  int64_t freed = r->freed; // written by this thread alone
  while (freed < r->taken) {
    const cudaError_t state = cudaEventQuery(r->slots[freed % r->slot_count].copied);
    if (state == cudaErrorNotReady) break;
    bd_cuda_check(state, "cudaEventQuery");
    freed++;
  }
  if (freed == r->freed) return;
  pthread_mutex_lock(&r->mutex);
  r->freed = freed;
  pthread_cond_signal(&r->changed);
  pthread_mutex_unlock(&r->mutex);
}

// Or never will be.
static int is_filled(bd_cuda_reader *r, int64_t chunk) {
  pthread_mutex_lock(&r->mutex);
  const int filled = chunk < r->filled || r->ended;
  pthread_mutex_unlock(&r->mutex);
  return filled;
}

// The next chunk, which must be these samples, once it has been read.
static slot *take(bd_rt *rt, const bd_rt_samples *samples) {
  bd_cuda_reader *const r = rt->device->reader;
  if (!r->started) start(rt);
  const int64_t chunk = r->taken;
  bd_cuda_free_samples(rt);
  for (int64_t turn = 1; !is_filled(r, chunk); turn++)
    bd_cuda_rest(rt, turn);
  slot *const s = &r->slots[chunk % r->slot_count];
  if (s->batch.step != rt->batch.step || s->batch.held_out != rt->batch.held_out ||
      memcmp(&r->chunks[chunk % r->chunk_count], samples, sizeof *samples) != 0)
    bd_rt_fail(BD_RT_EXIT_INTERNAL, "a batch asks for other samples than are read ahead");
  const int64_t bad = atomic_load(&s->bad);
  if (bad >= 0) bd_rt_sample_fail(rt, samples, s->batch, bad);
  return s;
}

static void bring(bd_rt *rt, bd_rt_samples all, void *out) {
  const int64_t bytes = bd_rt_sample_bytes(&all), most = samples_at_once(bytes);
  for (int64_t done = 0; bytes > 0 && done < all.count; done += most) {
    bd_rt_samples samples = all;
    samples.start += done;
    samples.count = bd_rt_least(all.count - done, most);
    if (rt->device->rehearsing) {
      note(rt, &samples);
      continue;
    }
    const slot *const s = take(rt, &samples);
    BD_CUDA(cudaMemcpyAsync((char *)out + done * bytes, s->data, (size_t)chunk_bytes(&samples),
                            cudaMemcpyHostToDevice, bd_cuda_now(rt)->stream));
    BD_CUDA(cudaEventRecord(s->copied, bd_cuda_now(rt)->stream));
    rt->device->reader->taken++;
  }
}

void bd_rt_tokens(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  bring(rt, bd_rt_samples_of_sequences(rt, micro_batch, start, rows, 0), out);
}

void bd_rt_targets(bd_rt *rt, int64_t micro_batch, int64_t start, int64_t rows, int32_t *out) {
  bring(rt, bd_rt_samples_of_sequences(rt, micro_batch, start, rows, 1), out);
}

void bd_rt_ids(bd_rt *rt, int input, int64_t micro_batch, int64_t start, int64_t rows,
               int32_t *out) {
  bring(rt, bd_rt_samples_of_ids(rt, input, micro_batch, start, rows), out);
}

void bd_rt_reals(bd_rt *rt, int dtype, int64_t micro_batch, int64_t start, int64_t rows,
                 int64_t elements, void *out) {
  bring(rt, (bd_rt_samples){BD_RT_SAMPLES_REALS, dtype, micro_batch, start, rows, elements}, out);
}

void bd_rt_samples_end(bd_rt *rt) {
  bd_cuda_reader *const r = rt->device->reader;
  if (!r || !r->started) return;
  pthread_mutex_lock(&r->mutex);
  r->stop = 1;
  pthread_cond_signal(&r->changed);
  pthread_mutex_unlock(&r->mutex);
  pthread_join(r->thread, NULL);
  r->started = 0;
}

void bd_cuda_release_reader(bd_rt *rt) {
  bd_cuda_reader *const r = rt->device->reader;
  if (!r) return;
  for (int i = 0; i < r->slot_count; i++)
    BD_CUDA(cudaEventDestroy(r->slots[i].copied));
  if (r->pinned) BD_CUDA(cudaFreeHost(r->pinned));
  pthread_mutex_destroy(&r->mutex);
  pthread_cond_destroy(&r->changed);
  free(r->slots);
  free(r->chunks);
  free(r);
  rt->device->reader = NULL;
}
