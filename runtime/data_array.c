// Samples of models without tokens: a safetensors file with `inputs` (F32, BF16 or F16, [samples,
// ...]), `targets` (I32 or I64, [samples, ...]; below zero: no target) and the model's ids (as
// targets, none below zero); or a folder with a .npy file of each name, of any floats and integers,
// where bytes as inputs are images whose 255 stands for 1. Samples are read where they lie.
#include "runtime/data.h"
#include "runtime/half.h"
#include "runtime/npy.h"
#include "runtime/read_at.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 4096 };

static int64_t row_elements(const bd_rt_array *array) {
  int64_t elements = 1;
  for (int d = 1; d < array->tensor.rank; d++)
    elements *= array->tensor.dims[d];
  return elements;
}

static int64_t whole(int dtype, const char *raw) {
  union {
    int8_t i8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
  } v;
  memcpy(&v, raw, (size_t)bd_rt_npy_bytes(dtype));
  switch (dtype) {
  case BD_RT_I8:
    return v.i8;
  case BD_RT_I16:
    return v.i16;
  case BD_RT_U16:
    return v.u16;
  case BD_RT_I32:
    return v.i32;
  case BD_RT_U32:
    return v.u32;
  case BD_RT_I64:
    return v.i64;
  default:
    return (unsigned char)raw[0];
  }
}

// Elements [first, first + count), at most PIECE of them.
static int read_integers(const bd_rt_array *array, int64_t first, int64_t count, int64_t *out) {
  char raw[8 * PIECE];
  const int64_t bytes = array->element_bytes;
  if (!bd_rt_read_at(array->fd, raw, count * bytes, array->tensor.begin + first * bytes))
    return BD_RT_EXIT_EXTERNAL;
  for (int64_t i = 0; i < count; i++)
    out[i] = whole(array->tensor.dtype, raw + i * bytes);
  return 0;
}

// Those of an array: from `least` to below `most`. Counts those that are not below zero.
static int check_integers(const bd_rt_data *data, const bd_rt_array *array, const char *name,
                          int64_t least, int64_t most, int64_t *out_counted, const char *path,
                          char *message, size_t message_bytes) {
  const int64_t elements = row_elements(array) * data->count;
  int64_t values[PIECE];
  *out_counted = 0;
  for (int64_t i = 0; i < elements; i++) {
    const int64_t piece = elements - i < PIECE ? elements - i : PIECE;
    if (i % PIECE == 0 && read_integers(array, i, piece, values)) {
      snprintf(message, message_bytes, "%s: `%s` cannot be read at %lld", path, name, (long long)i);
      return BD_RT_EXIT_EXTERNAL;
    }
    const int64_t value = values[i % PIECE];
    if (value >= most || value < least) {
      snprintf(message, message_bytes, "%s: %lld at position %lld of `%s` is not %s %lld", path,
               (long long)value, (long long)i, name, value < least ? "at least" : "below",
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
  int status = check_integers(data, &data->targets, "targets", INT32_MIN,
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
    status = check_integers(data, &data->ids[i], program->ids[i].name, bound ? 0 : INT32_MIN,
                            bound ? bound : INT32_MAX, &counted, path, message, message_bytes);
  }
  return status;
}

static int is_integer(const bd_rt_array *array) {
  const int dtype = array->tensor.dtype;
  return array->element_bytes && array->tensor.rank >= 1 && dtype != BD_RT_F32 &&
         dtype != BD_RT_F16 && dtype != BD_RT_BF16 && dtype != BD_RT_F64;
}

static int is_real(const bd_rt_array *array) {
  return array->element_bytes && array->tensor.rank >= 1 &&
         (!is_integer(array) || array->tensor.dtype == BD_RT_U8);
}

static const char *find_fault(const bd_rt_program *program, const bd_rt_data *data) {
  const bd_rt_array *const inputs = &data->inputs, *const targets = &data->targets;
  const int has_inputs = inputs->present;
  if (!targets->present || (!has_inputs && !program->ids_count))
    return "needs the tensors `inputs` and `targets`";
  if (has_inputs && !is_real(inputs))
    return "`inputs` must be floats, or bytes that stand for 0 to 1, [samples, ...]";
  if (!is_integer(targets)) return "`targets` must be integers, [samples, ...]";
  if (targets->tensor.dims[0] < 1 ||
      (has_inputs && inputs->tensor.dims[0] != targets->tensor.dims[0]))
    return "`inputs` and `targets` must have the same number of samples, at least one";
  if (row_elements(targets) != program->sequence)
    return "`targets` has another number of targets per sample than the model";
  return NULL;
}

static int check_ids(const bd_rt_program *program, const bd_rt_data *data, const char *path,
                     char *message, size_t message_bytes) {
  for (int i = 0; i < program->ids_count; i++) {
    const bd_rt_ids_input *const ids = &program->ids[i];
    const bd_rt_array *const array = &data->ids[i];
    if (is_integer(array) && array->tensor.dims[0] == data->targets.tensor.dims[0] &&
        row_elements(array) == ids->elements)
      continue;
    snprintf(message, message_bytes,
             "%s: needs the tensor `%s`, integers, of as many samples as `targets` and %lld per "
             "sample",
             path, ids->name, (long long)ids->elements);
    return BD_RT_EXIT_DATA;
  }
  return 0;
}

static int bytes_of(int dtype) {
  return dtype == BD_RT_BF16 ? 2 : (int)bd_rt_npy_bytes(dtype);
}

static bd_rt_array array_in(const bd_rt_file *file, const bd_rt_tensor *tensor) {
  if (!tensor) return (bd_rt_array){.present = 0};
  return (bd_rt_array){1, 0, file->fd, bytes_of(tensor->dtype), *tensor};
}

static int open_file(const bd_rt_program *program, const char *path, bd_rt_data *data,
                     char *message, size_t message_bytes) {
  bd_rt_file *const file = &data->arrays;
  if (bd_rt_file_open(path, file, message, message_bytes)) return BD_RT_EXIT_DATA;
  data->inputs = array_in(file, bd_rt_file_find(file, "inputs"));
  data->targets = array_in(file, bd_rt_file_find(file, "targets"));
  for (int i = 0; i < program->ids_count; i++)
    data->ids[i] = array_in(file, bd_rt_file_named(file, program->ids[i].name));
  return 0;
}

// FOLDER/NAME.npy; one that is not there is no array.
static int open_one(const char *folder, const char *name, bd_rt_array *out, char *message,
                    size_t message_bytes) {
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/%s.npy", folder, name);
  *out = (bd_rt_array){.present = 0};
  if (length < 0 || length >= (int)sizeof path) {
    snprintf(message, message_bytes, "%s: the path is too long", folder);
    return BD_RT_EXIT_DATA;
  }
  if (access(path, F_OK) != 0) return 0;
  const int status = bd_rt_npy_open(path, &out->fd, &out->tensor, message, message_bytes);
  if (!status) out->present = out->own = 1;
  out->element_bytes = bytes_of(out->tensor.dtype);
  return status;
}

static int open_folder(const bd_rt_program *program, const char *path, bd_rt_data *data,
                       char *message, size_t message_bytes) {
  int status = open_one(path, "inputs", &data->inputs, message, message_bytes);
  if (!status) status = open_one(path, "targets", &data->targets, message, message_bytes);
  for (int i = 0; i < program->ids_count && !status; i++)
    status = open_one(path, program->ids[i].name, &data->ids[i], message, message_bytes);
  return status;
}

int bd_rt_data_open_arrays(const bd_rt_program *program, const char *path, int check,
                           bd_rt_data *out_data, char *message, size_t message_bytes) {
  struct stat status;
  *out_data = BD_RT_NO_DATA;
  const int folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
  int bad = (folder ? open_folder : open_file)(program, path, out_data, message, message_bytes);
  const char *const fault = bad ? NULL : find_fault(program, out_data);
  if (fault) {
    snprintf(message, message_bytes, "%s: %s", path, fault);
    bad = BD_RT_EXIT_DATA;
  }
  if (!bad) {
    out_data->count = out_data->targets.tensor.dims[0];
    bad = check_ids(program, out_data, path, message, message_bytes);
  }
  if (!bad && check) bad = check_values(program, out_data, path, message, message_bytes);
  if (bad) bd_rt_data_close(out_data);
  return bad;
}

void bd_rt_data_close_arrays(bd_rt_data *data) {
  bd_rt_array *const arrays[] = {&data->inputs, &data->targets};
  if (data->arrays.fd >= 0) bd_rt_file_close(&data->arrays);
  for (int i = 0; i < 2 + BD_RT_MAX_IDS; i++) {
    bd_rt_array *const array = i < 2 ? arrays[i] : &data->ids[i - 2];
    if (array->own) close(array->fd);
  }
}

static float real(int dtype, const char *raw) {
  union {
    uint16_t half;
    float f32;
    double f64;
  } v;
  if (dtype == BD_RT_U8) return (float)(unsigned char)raw[0] / 255;
  memcpy(&v, raw, (size_t)bytes_of(dtype));
  return dtype == BD_RT_F32   ? v.f32
         : dtype == BD_RT_F64 ? (float)v.f64
                              : bd_rt_from_half(dtype, v.half);
}

int bd_rt_data_inputs(const bd_rt_data *data, int64_t at, int64_t elements, int64_t first,
                      int64_t count, float *out) {
  const bd_rt_array *const array = &data->inputs;
  const int64_t bytes = array->element_bytes, begin = at * elements + first;
  char raw[8 * PIECE];
  if (!array->present || row_elements(array) != elements) return BD_RT_EXIT_DATA;
  if (array->tensor.dtype == BD_RT_F32) // little-endian, as floats are here
    return bd_rt_read_at(array->fd, out, count * bytes, array->tensor.begin + begin * bytes)
               ? 0
               : BD_RT_EXIT_EXTERNAL;
  for (int64_t done = 0; done < count; done += PIECE) {
    const int64_t piece = count - done < PIECE ? count - done : PIECE;
    if (!bd_rt_read_at(array->fd, raw, piece * bytes, array->tensor.begin + (begin + done) * bytes))
      return BD_RT_EXIT_EXTERNAL;
    for (int64_t i = 0; i < piece; i++)
      out[done + i] = real(array->tensor.dtype, raw + i * bytes);
  }
  return 0;
}

static int read_row(const bd_rt_array *array, int64_t at, int64_t elements, int32_t *out) {
  int64_t values[PIECE];
  for (int64_t done = 0; done < elements; done += PIECE) {
    const int64_t piece = elements - done < PIECE ? elements - done : PIECE;
    if (read_integers(array, at * elements + done, piece, values)) return BD_RT_EXIT_EXTERNAL;
    for (int64_t i = 0; i < piece; i++)
      out[done + i] = (int32_t)values[i];
  }
  return 0;
}

int bd_rt_data_ids(const bd_rt_data *data, int input, int64_t at, int64_t elements, int32_t *out) {
  return read_row(&data->ids[input], at, elements, out);
}

int bd_rt_data_targets(const bd_rt_data *data, int64_t at, int64_t elements, int32_t *out) {
  if (row_elements(&data->targets) != elements) return BD_RT_EXIT_DATA;
  return read_row(&data->targets, at, elements, out);
}
