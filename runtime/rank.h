// The state of one rank, shared by the files of runtime/ and its back ends.
#ifndef BD_RT_RANK_H
#define BD_RT_RANK_H
#include "runtime/braid_rt.h"
#include "runtime/data.h"
#include "runtime/options.h"
#include "runtime/source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

// Ranks of a stage that differ only in the coordinates of the mesh axes in `mask`, lower axes
// slower.
typedef struct bd_rt_group {
  int size, rank, mask;
} bd_rt_group;

typedef struct bd_rt_pool bd_rt_pool;
typedef struct bd_rt_device bd_rt_device; // the back end's
typedef struct bd_rt_profile bd_rt_profile;
typedef struct bd_rt_overlap bd_rt_overlap;
typedef struct bd_rt_deferred bd_rt_deferred;

static inline int64_t bd_rt_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int bd_rt_is_half(int dtype) {
  return dtype == BD_RT_BF16 || dtype == BD_RT_F16;
}

static inline int64_t bd_rt_element_bytes(int dtype) {
  switch (dtype) {
  case BD_RT_BOOL:
  case BD_RT_U8:
  case BD_RT_I8:
    return 1;
  case BD_RT_BF16:
  case BD_RT_F16:
  case BD_RT_I16:
  case BD_RT_U16:
    return 2;
  case BD_RT_F64:
  case BD_RT_I64:
  case BD_RT_U64:
    return 8;
  default:
    return 4;
  }
}

// When --report looks at the device's memory: before the first step; when libraries have loaded
// what they load at first use and work that comes again has its graphs, where a step follows; after
// the last step. That takes three updates, as the first step waits for nothing that another left.
enum { BD_RT_MEMORY_READY, BD_RT_MEMORY_WARM, BD_RT_MEMORY_END, BD_RT_MEMORY_MOMENTS };

// A global batch: that of the step which comes after `step` others, or of an evaluation then, which
// has batches 1, 2, ...; `held_out` is 0 for training.
typedef struct bd_rt_batch {
  uint64_t step;
  int64_t held_out;
} bd_rt_batch;

enum {
  BD_RT_SCRATCH_FLOATS = 1 << 21, // of loading, saving and the CPU's collectives
  BD_RT_GROUPS = 1 << BD_RT_MAX_AXES,
};

struct bd_rt {
  const bd_rt_program *program;
  const bd_rt_stage *stage; // this rank's
  bd_rt_options options;
  int rank, ranks, stage_index, mesh_rank, devices;
  int coord[BD_RT_MAX_AXES];
  bd_rt_group group[BD_RT_GROUPS]; // by mask of mesh axes
  bd_rt_device *device;
  char *arena; // the device's memory
  bd_rt_pool *pool;
  int threads;    // of the host
  float *scratch; // the host's, BD_RT_SCRATCH_FLOATS
  // The host's, written by the device too: this rank's loss of the step, then a sum of squares per
  // tensor of the model.
  double *sums;
  bd_rt_data data, held_out; // of --data and --eval
  int64_t held_out_batches;  // of an evaluation; 0: there are none
  bd_rt_batch batch;         // in work
  bd_rt_source source;       // of --init, open until the run ends
  bd_rt_profile *profile;    // NULL without --profile
  bd_rt_overlap *overlap;
  bd_rt_deferred *deferred;
  uint64_t step, updates; // those done; a step of f16 that overflows is no update
  float target_share;     // 1 / the valid targets of the step; 0 in an evaluation
  float loss_scale;       // 1 but in f16 programs, see runtime/scale.h
  int64_t finite_steps;   // since the scale was changed
  int64_t kept_step;      // of the newest checkpoint in the folder of --checkpoint; -1: none
  // At each moment; -1: nobody has looked, or can.
  int64_t free_bytes[BD_RT_MEMORY_MOMENTS];
};

// Ends the job: one line on stderr. For failures that one rank alone sees.
void bd_rt_fail(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
// The same line without ending: control bytes of the message are shown as '?'.
void bd_rt_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Cleared memory for `count` elements of `bytes` each, for the caller to free. Ends the job where
// there is none.
static inline void *bd_rt_allocate(size_t count, size_t bytes) {
  void *const memory = calloc(count ? count : 1, bytes);
  if (!memory) bd_rt_fail(BD_RT_EXIT_EXTERNAL, "out of memory");
  return memory;
}

// A pool of `threads` threads, the caller included. `spin`: wait busily for a moment, for ranks
// that have their cores to themselves.
bd_rt_pool *bd_rt_pool_create(int threads, int spin);
void bd_rt_pool_destroy(bd_rt_pool *pool);
// As bd_rt_parallel; body also learns which of the pool's threads runs it.
typedef void (*bd_rt_worker_body)(void *args, int64_t chunk, int worker);
void bd_rt_pool_run(bd_rt_pool *pool, bd_rt_worker_body body, void *args, int64_t chunks);

// Stage, coordinates and groups of this rank. Returns 0, or a status after rank 0 has spoken.
int bd_rt_place_rank(bd_rt *rt);

// Sums of the `rows` rows of `count` values at `all`, in the order of the rows.
static inline void bd_rt_sum_rows(const double *all, int rows, int count, double *out) {
  for (int i = 0; i < count; i++) {
    double sum = 0;
    for (int r = 0; r < rows; r++)
      sum += all[(size_t)r * (size_t)count + (size_t)i];
    out[i] = sum;
  }
}

// What a rank holds of an extent that `parts` ranks share, padding included.
static inline int64_t bd_rt_padded_part(int64_t extent, int parts) {
  return (extent + parts - 1) / parts;
}

// Which of `parts` ranks holds what of an extent.
static inline void bd_rt_part(int64_t extent, int parts, int index, int64_t *start,
                              int64_t *count) {
  const int64_t part = bd_rt_padded_part(extent, parts);
  *start = part * index < extent ? part * index : extent;
  *count = extent - *start < part ? extent - *start : part;
}

// Whether this rank's partial of a loss counts (see bd_rt_add_loss).
int bd_rt_loss_counts(const bd_rt *rt, uint32_t partial);

// Samples of a micro-batch of a batch, from `start` on, one after another: `elements` of each,
// which are tokens shifted by `which` or targets of arrays; integers of the input `which`; or real
// inputs as `which`, f32 or a half.
enum { BD_RT_SAMPLES_SEQUENCES, BD_RT_SAMPLES_IDS, BD_RT_SAMPLES_REALS };
typedef struct bd_rt_samples {
  int kind, which;
  int64_t micro_batch, start, count, elements;
} bd_rt_samples;
// Those that bd_rt_tokens (shift 0) and bd_rt_targets (1) ask for, and bd_rt_ids.
bd_rt_samples bd_rt_samples_of_sequences(const bd_rt *rt, int64_t micro_batch, int64_t start,
                                         int64_t count, int shift);
bd_rt_samples bd_rt_samples_of_ids(const bd_rt *rt, int input, int64_t micro_batch, int64_t start,
                                   int64_t count);
// Of one sample, in host memory.
int64_t bd_rt_sample_bytes(const bd_rt_samples *samples);
// Number `number` of those of a batch, into host memory. 0, or nonzero where it cannot be read,
// which bd_rt_sample_fail tells as it ends the job. Any thread may ask.
int bd_rt_sample_read(const bd_rt *rt, const bd_rt_samples *samples, bd_rt_batch batch,
                      int64_t number, void *out);
void bd_rt_sample_fail(const bd_rt *rt, const bd_rt_samples *samples, bd_rt_batch batch,
                       int64_t number) __attribute__((noreturn));
// All those of the batch in work, or the end of the job.
void bd_rt_samples_read(const bd_rt *rt, const bd_rt_samples *samples, void *out);
// Valid targets of the batch in work: all tokens have one; arrays may mark some as absent. Writes
// to the scratch.
int64_t bd_rt_batch_targets(bd_rt *rt);
// Where the data of a batch comes from: the path that was given.
const char *bd_rt_batch_path(const bd_rt *rt, bd_rt_batch batch);

// Weights: values from the seed or from --init; returns 0 or a status after rank 0 has spoken.
// Padding becomes zero.
int bd_rt_weights_init(bd_rt *rt);
int bd_rt_weights_load(bd_rt *rt);
// Of --init no more than what the folder of --save is to be like.
int bd_rt_weights_look(bd_rt *rt);
// To --save: a file, or, where it ends in a slash, a folder: with the files, names and index that
// the folder of --init has, and its configuration beside them; else with model.safetensors.
int bd_rt_weights_save(bd_rt *rt);
// What would spoil the folder, asked before training.
int bd_rt_weights_save_check(bd_rt *rt);

// End of step: adds and synchronizes gradients, clips, updates the weights. Returns the global
// norm, the same on every rank; where it is not finite nothing has been updated on any.
double bd_rt_update(bd_rt *rt);
#endif
