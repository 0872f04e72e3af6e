// Samples of models without tokens: a safetensors file with `inputs` (F32, BF16 or F16, [samples,
// ...]), `targets` (I32 or I64, [samples, ...]; below zero: no target) and the model's ids (as
// targets, none below zero).
#include "runtime/data.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int64_t row_elements(const bd_rt_tensor *tensor) {
  int64_t elements = 1;
  for (int d = 1; d < tensor->rank; d++)
    elements *= tensor->dims[d];
  return elements;
}

static int read_integers(const bd_rt_data *data, const bd_rt_tensor *tensor, int64_t first,
                         int64_t count, int64_t *out) {
  const int bytes = tensor->dtype == BD_RT_I64 ? 8 : 4;
  for (int64_t i = 0; i < count; i++) {
    char raw[8];
    const int64_t offset = tensor->begin + (first + i) * bytes;
    if (pread(data->arrays.fd, raw, (size_t)bytes, offset) != bytes) return BD_RT_EXIT_EXTERNAL;
    int32_t narrow;
    memcpy(&narrow, raw, sizeof narrow);
    out[i] = narrow;
    if (bytes == 8) memcpy(&out[i], raw, sizeof out[i]);
  }
  return 0;
}

// Those of `tensor`: from `least` to below `most`. Counts those that are not below zero.
static int check_integers(const bd_rt_data *data, const bd_rt_tensor *tensor, int64_t least,
                          int64_t most, int64_t *out_counted, const char *path, char *message,
                          size_t message_bytes) {
  const int64_t elements = row_elements(tensor) * data->count;
  *out_counted = 0;
  for (int64_t i = 0; i < elements; i++) {
    int64_t value;
    if (read_integers(data, tensor, i, 1, &value)) {
      snprintf(message, message_bytes, "%s: `%s` cannot be read at %lld", path, tensor->name,
               (long long)i);
      return BD_RT_EXIT_EXTERNAL;
    }
    if (value >= most || value < least) {
      snprintf(message, message_bytes, "%s: %lld at position %lld of `%s` is not %s %lld", path,
               (long long)value, (long long)i, tensor->name, value < least ? "at least" : "below",
               (long long)(value < least ? least : most));
      return BD_RT_EXIT_DATA;
    }
    *out_counted += value >= 0;
  }
  return 0;
}

static int check_values(const bd_rt_program *program, const bd_rt_data *data, const char *path,
                        char *message, size_t message_bytes) {
  int64_t counted;
  int status = check_integers(data, data->targets, INT32_MIN,
                              program->classes ? program->classes : INT32_MAX, &counted, path,
                              message, message_bytes);
  if (status) return status;
  if (!counted) {
    snprintf(message, message_bytes, "%s: every one of `targets` is below zero: no sample has one",
             path);
    return BD_RT_EXIT_DATA;
  }
  for (int i = 0; i < program->ids_count && !status; i++) {
    const int64_t bound = program->ids[i].bound;
    status = check_integers(data, data->ids[i], bound ? 0 : INT32_MIN, bound ? bound : INT32_MAX,
                            &counted, path, message, message_bytes);
  }
  return status;
}

static int is_integer(const bd_rt_tensor *tensor) {
  return (tensor->dtype == BD_RT_I32 || tensor->dtype == BD_RT_I64) && tensor->rank >= 1;
}

static const char *find_fault(const bd_rt_program *program, const bd_rt_data *data) {
  if (!data->targets || (!data->inputs && !program->ids_count))
    return "needs the tensors `inputs` and `targets`";
  if (data->inputs && (!bd_rt_dtype_bytes(data->inputs->dtype) || data->inputs->rank < 1))
    return "`inputs` must be F32, BF16 or F16, [samples, ...]";
  if (!is_integer(data->targets)) return "`targets` must be I32 or I64, [samples, ...]";
  if (data->targets->dims[0] < 1 ||
      (data->inputs && data->inputs->dims[0] != data->targets->dims[0]))
    return "`inputs` and `targets` must have the same number of samples, at least one";
  if (row_elements(data->targets) != program->sequence)
    return "`targets` has another number of targets per sample than the model";
  return NULL;
}

static int find_ids(const bd_rt_program *program, bd_rt_data *data, const char *path, char *message,
                    size_t message_bytes) {
  for (int i = 0; i < program->ids_count; i++) {
    const bd_rt_ids_input *const ids = &program->ids[i];
    const bd_rt_tensor *const tensor = data->ids[i] = bd_rt_file_named(&data->arrays, ids->name);
    if (tensor && is_integer(tensor) && tensor->dims[0] == data->targets->dims[0] &&
        row_elements(tensor) == ids->elements)
      continue;
    snprintf(message, message_bytes,
             "%s: needs the tensor `%s`, I32 or I64, of as many samples as `targets` and %lld per "
             "sample",
             path, ids->name, (long long)ids->elements);
    return BD_RT_EXIT_DATA;
  }
  return 0;
}

int bd_rt_data_open_arrays(const bd_rt_program *program, const char *path, int check,
                           bd_rt_data *out_data, char *message, size_t message_bytes) {
  *out_data = (bd_rt_data){.fd = -1};
  const int status = bd_rt_file_open(path, &out_data->arrays, message, message_bytes);
  if (status) return BD_RT_EXIT_DATA;
  out_data->inputs = bd_rt_file_find(&out_data->arrays, "inputs");
  out_data->targets = bd_rt_file_find(&out_data->arrays, "targets");
  const char *const fault = find_fault(program, out_data);
  int bad = 0;
  if (fault) {
    snprintf(message, message_bytes, "%s: %s", path, fault);
    bad = BD_RT_EXIT_DATA;
  } else {
    out_data->count = out_data->targets->dims[0];
    bad = find_ids(program, out_data, path, message, message_bytes);
    if (check && !bad) bad = check_values(program, out_data, path, message, message_bytes);
  }
  if (bad) bd_rt_data_close(out_data);
  return bad;
}

int bd_rt_data_inputs(const bd_rt_data *data, int64_t at, int64_t elements, float *out) {
  enum { PIECE = 4096 };
  float raw[PIECE];
  if (!data->inputs || row_elements(data->inputs) != elements) return BD_RT_EXIT_DATA;
  for (int64_t done = 0; done < elements; done += PIECE) {
    const int64_t piece = elements - done < PIECE ? elements - done : PIECE;
    if (bd_rt_file_read(&data->arrays, data->inputs, at * elements + done, piece, raw, out + done))
      return BD_RT_EXIT_EXTERNAL;
  }
  return 0;
}

static int read_row(const bd_rt_data *data, const bd_rt_tensor *tensor, int64_t at,
                    int64_t elements, int32_t *out) {
  for (int64_t i = 0; i < elements; i++) {
    int64_t value;
    if (read_integers(data, tensor, at * elements + i, 1, &value)) return BD_RT_EXIT_EXTERNAL;
    out[i] = (int32_t)value;
  }
  return 0;
}

int bd_rt_data_ids(const bd_rt_data *data, int input, int64_t at, int64_t elements, int32_t *out) {
  return read_row(data, data->ids[input], at, elements, out);
}

int bd_rt_data_targets(const bd_rt_data *data, int64_t at, int64_t elements, int32_t *out) {
  if (row_elements(data->targets) != elements) return BD_RT_EXIT_DATA;
  return read_row(data, data->targets, at, elements, out);
}
