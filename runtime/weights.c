// Weights from the seed or from files. Both are defined per logical element, so every sharding
// holds the same model.
#include "runtime/backend.h"
#include "runtime/master.h"
#include "runtime/philox.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = BD_RT_SCRATCH_FLOATS / 2, RUN = 1 << 14 };

typedef struct filling {
  const bd_rt_weight *weight;
  bd_rt_local local;
  uint64_t seed;
  int64_t first, count; // of the rank's buffer
  float *out;           // where element `first` goes
} filling;

// Box and Muller's normal from two uniforms of (seed, weight, logical element); docs/numerics.md.
static float draw(const filling *f, int64_t element) {
  const bd_philox_words r = bd_philox_4x32(
      (uint32_t)element, (uint32_t)((uint64_t)element >> 32), (uint32_t)f->weight->global_index,
      (uint32_t)BD_PHILOX_INIT, (uint32_t)f->seed, (uint32_t)(f->seed >> 32));
  if (f->weight->init == BD_RT_INIT_UNIFORM)
    return (2 * bd_philox_uniform(r.word[0]) - 1) * f->weight->init_scale;
  const double u = ((double)(r.word[0] >> 8) + 1) * 0x1p-24, v = (double)(r.word[1] >> 8) * 0x1p-24;
  return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586477 * v)) * f->weight->init_scale;
}

static void fill_row(void *args, int64_t flat, int64_t at, int64_t count) {
  const filling *const f = args;
  float *const out = f->out + (at - f->first);
  for (int64_t i = 0; i < count; i++)
    out[i] = f->weight->init == BD_RT_INIT_ZEROS  ? 0
             : f->weight->init == BD_RT_INIT_ONES ? 1
                                                  : draw(f, flat + i);
}

static void fill_run(void *args, int64_t chunk) {
  filling *const f = args;
  const int64_t first = f->first + chunk * RUN, rest = f->first + f->count - first;
  bd_rt_local_window(&f->local, first, rest < RUN ? rest : RUN, fill_row, f);
}

static void fill_weight(bd_rt *rt, const bd_rt_weight *weight) {
  filling f = {.weight = weight, .local = bd_rt_wide_local(rt, weight), .seed = rt->options.seed};
  for (; f.first < f.local.elements; f.first += f.count) {
    float *const piece = bd_rt_wide(rt, weight) + f.first;
    f.count = f.local.elements - f.first < PIECE ? f.local.elements - f.first : PIECE;
    const int64_t bytes = f.count * (int64_t)sizeof *piece;
    f.out = bd_rt_map(rt, piece, bytes);
    if (bd_rt_local_padded(&f.local)) memset(f.out, 0, (size_t)bytes);
    bd_rt_parallel(rt, fill_run, &f, (f.count + RUN - 1) / RUN);
    bd_rt_unmap(rt, piece, bytes);
  }
  bd_rt_store_wide(rt, weight);
}

int bd_rt_weights_init(bd_rt *rt) {
  for (int i = 0; i < rt->stage->weight_count; i++)
    fill_weight(rt, &rt->stage->weights[i]);
  return 0;
}

// Tensor `number` of those that the weight is a stack of.
static int load_tensor(bd_rt *rt, const bd_rt_file *file, const bd_rt_tensor *tensor,
                       const bd_rt_weight *weight, int number) {
  const bd_rt_local local = bd_rt_wide_local(rt, weight);
  const int64_t elements = bd_rt_stored_elements(weight), start = number * elements;
  float *const raw = rt->scratch, *const values = rt->scratch + PIECE,
               *const out = bd_rt_wide(rt, weight);
  const int whole = weight->slice_dim < 0 && !weight->transpose &&
                    local.elements == elements * bd_rt_stored_count(weight);
  for (int64_t first = 0; first < elements; first += PIECE) {
    const int64_t count = elements - first < PIECE ? elements - first : PIECE;
    const int64_t bytes = count * (int64_t)sizeof *out;
    float *const to = whole ? bd_rt_map(rt, out + start + first, bytes) : values;
    const int bad = bd_rt_file_read(file, tensor, first, count, raw, to);
    if (bad) return bad;
    if (whole)
      bd_rt_unmap(rt, out + start + first, bytes);
    else
      bd_rt_place(rt, weight, &local, start + first, count, values, out);
  }
  return 0;
}

static int fits(const bd_rt_tensor *tensor, const bd_rt_weight *weight) {
  return tensor->rank == weight->stored_rank &&
         !memcmp(tensor->dims, weight->stored_dims, (size_t)tensor->rank * sizeof tensor->dims[0]);
}

static int load_weight(bd_rt *rt, const bd_rt_source *source, const bd_rt_weight *weight,
                       char *message, size_t bytes) {
  for (int number = 0; number < bd_rt_stored_count(weight); number++) {
    int file = 0;
    const char *const name = bd_rt_stored_name(weight, number);
    const bd_rt_tensor *const tensor = bd_rt_source_find(source, name, &file);
    const char *const fault = !tensor                             ? "is missing"
                              : !bd_rt_dtype_bytes(tensor->dtype) ? "is not F32, BF16 or F16"
                              : !fits(tensor, weight)             ? "has another shape"
                                                                  : NULL;
    if (fault) {
      snprintf(message, bytes, "%s: tensor \"%s\" %s", rt->options.init, name, fault);
      return BD_RT_EXIT_DATA;
    }
    if (load_tensor(rt, &source->files[file], tensor, weight, number)) {
      snprintf(message, bytes, "%s: tensor \"%s\" cannot be read", rt->options.init, name);
      return BD_RT_EXIT_EXTERNAL;
    }
  }
  bd_rt_store_wide(rt, weight);
  return 0;
}

static int load_all(bd_rt *rt, const bd_rt_source *source, char *message, size_t bytes) {
  int status = 0;
  for (int i = 0; i < rt->stage->weight_count && !status; i++)
    status = load_weight(rt, source, &rt->stage->weights[i], message, bytes);
  return status;
}

int bd_rt_weights_load(bd_rt *rt) {
  char message[1024] = "";
  int status = bd_rt_source_open(rt->options.init, &rt->source, message, sizeof message);
  if (!status) status = load_all(rt, &rt->source, message, sizeof message);
  return bd_rt_agree(rt, status, message);
}
