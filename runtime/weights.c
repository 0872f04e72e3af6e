// Weights from the seed or from files. Both are defined per logical element, so every sharding
// holds the same model.
#include "runtime/backend.h"
#include "runtime/master.h"
#include "runtime/surplus.h"

#include <stdio.h>
#include <string.h>

enum { PIECE = BD_RT_SCRATCH_FLOATS / 2 };

int bd_rt_weights_init(bd_rt *rt) {
  for (int i = 0; i < rt->stage->weight_count; i++) {
    const bd_rt_weight *const weight = &rt->stage->weights[i];
    const bd_rt_local local = bd_rt_plain_local(rt, weight);
    bd_rt_fill(rt, weight, &local, bd_rt_plain_dtype(rt, weight), bd_rt_plain(rt, weight));
    bd_rt_store_plain(rt, weight);
  }
  return 0;
}

// Tensor `number` of those that the weight is a stack of.
static int load_tensor(bd_rt *rt, const bd_rt_file *file, const bd_rt_tensor *tensor,
                       const bd_rt_weight *weight, int number) {
  const bd_rt_local local = bd_rt_plain_local(rt, weight);
  const int64_t elements = bd_rt_stored_elements(weight), start = number * elements;
  float *const raw = rt->scratch, *const values = rt->scratch + PIECE,
               *const out = bd_rt_plain(rt, weight);
  const int dtype = bd_rt_plain_dtype(rt, weight);
  const int whole = dtype == BD_RT_F32 && weight->slice_dim < 0 && !weight->transpose &&
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
      bd_rt_place(rt, weight, &local, start + first, count, values, dtype, out);
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
  bd_rt_store_plain(rt, weight);
  return 0;
}

static int load_all(bd_rt *rt, const bd_rt_source *source, char *message, size_t bytes) {
  int status = 0;
  for (int i = 0; i < rt->stage->weight_count && !status; i++)
    status = load_weight(rt, source, &rt->stage->weights[i], message, bytes);
  return status;
}

int bd_rt_weights_look(bd_rt *rt) {
  char message[1024] = "";
  const int status = bd_rt_source_open(rt->options.init, &rt->source, message, sizeof message);
  return bd_rt_agree(rt, status, message);
}

int bd_rt_weights_load(bd_rt *rt) {
  char message[1024] = "";
  int status = bd_rt_source_open(rt->options.init, &rt->source, message, sizeof message);
  if (!status && rt->rank == 0)
    status = bd_rt_surplus_check(rt, &rt->source, message, sizeof message);
  if (!status) status = load_all(rt, &rt->source, message, sizeof message);
  return bd_rt_agree(rt, status, message);
}
