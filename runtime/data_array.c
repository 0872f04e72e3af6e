// Samples of models without tokens: a safetensors file with `inputs` (F32, BF16 or F16, [samples,
// ...]) and `targets` (I32 or I64, [samples, ...]; below zero: no target).
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

static int read_targets(const bd_rt_data *data, int64_t first, int64_t count, int64_t *out) {
  const int bytes = data->targets->dtype == BD_RT_I64 ? 8 : 4;
  for (int64_t i = 0; i < count; i++) {
    char raw[8];
    const int64_t offset = data->targets->begin + (first + i) * bytes;
    if (pread(data->arrays.fd, raw, (size_t)bytes, offset) != bytes) return BD_RT_EXIT_EXTERNAL;
    int32_t narrow;
    memcpy(&narrow, raw, sizeof narrow);
    out[i] = narrow;
    if (bytes == 8) memcpy(&out[i], raw, sizeof out[i]);
  }
  return 0;
}

static int check_targets(const bd_rt_program *program, const bd_rt_data *data, const char *path,
                         char *message, size_t message_bytes) {
  const int64_t most = program->classes ? program->classes : INT32_MAX;
  const int64_t elements = row_elements(data->targets) * data->count;
  int any = 0;
  for (int64_t i = 0; i < elements; i++) {
    int64_t target;
    if (read_targets(data, i, 1, &target)) {
      snprintf(message, message_bytes, "%s: cannot be read at target %lld", path, (long long)i);
      return BD_RT_EXIT_EXTERNAL;
    }
    if (target >= most || target < INT32_MIN) {
      snprintf(message, message_bytes, "%s: target %lld at position %lld is not below %lld", path,
               (long long)target, (long long)i, (long long)most);
      return BD_RT_EXIT_DATA;
    }
    any |= target >= 0;
  }
  if (any) return 0;
  snprintf(message, message_bytes, "%s: every one of `targets` is below zero: no sample has one",
           path);
  return BD_RT_EXIT_DATA;
}

static const char *find_fault(const bd_rt_program *program, const bd_rt_data *data) {
  if (!data->inputs || !data->targets) return "needs the tensors `inputs` and `targets`";
  if (!bd_rt_dtype_bytes(data->inputs->dtype) || data->inputs->rank < 1)
    return "`inputs` must be F32, BF16 or F16, [samples, ...]";
  if ((data->targets->dtype != BD_RT_I32 && data->targets->dtype != BD_RT_I64) ||
      data->targets->rank < 1)
    return "`targets` must be I32 or I64, [samples, ...]";
  if (data->inputs->dims[0] != data->targets->dims[0] || data->inputs->dims[0] < 1)
    return "`inputs` and `targets` must have the same number of samples, at least one";
  if (row_elements(data->targets) != program->sequence)
    return "`targets` has another number of targets per sample than the model";
  return NULL;
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
    out_data->count = out_data->inputs->dims[0];
    if (check) bad = check_targets(program, out_data, path, message, message_bytes);
  }
  if (bad) bd_rt_data_close(out_data);
  return bad;
}

int bd_rt_data_inputs(const bd_rt_data *data, int64_t at, int64_t elements, float *out) {
  enum { PIECE = 4096 };
  float raw[PIECE];
  if (row_elements(data->inputs) != elements) return BD_RT_EXIT_DATA;
  for (int64_t done = 0; done < elements; done += PIECE) {
    const int64_t piece = elements - done < PIECE ? elements - done : PIECE;
    if (bd_rt_file_read(&data->arrays, data->inputs, at * elements + done, piece, raw, out + done))
      return BD_RT_EXIT_EXTERNAL;
  }
  return 0;
}

int bd_rt_data_targets(const bd_rt_data *data, int64_t at, int64_t elements, int32_t *out) {
  if (row_elements(data->targets) != elements) return BD_RT_EXIT_DATA;
  for (int64_t i = 0; i < elements; i++) {
    int64_t target;
    if (read_targets(data, at * elements + i, 1, &target)) return BD_RT_EXIT_EXTERNAL;
    out[i] = (int32_t)target;
  }
  return 0;
}
