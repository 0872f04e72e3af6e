// safetensors files: a strict reader of headers, and canonical headers for writing. Data is read
// and written by the caller at the offsets given here; nothing is mapped, so memory stays
// predictable.
#ifndef BD_RT_SAFETENSORS_H
#define BD_RT_SAFETENSORS_H
#include "runtime/braid_rt_abi.h"

#include <stddef.h>

enum { BD_RT_OTHER_DTYPE = -1 };

typedef struct bd_rt_tensor {
  char *name; // as many bytes as `length`, then 0
  size_t length;
  int dtype;    // BD_RT_F32, ... or BD_RT_OTHER_DTYPE
  int32_t rank; // of other tensors than those of rank <= 8: -1
  int64_t dims[BD_RT_MAX_RANK];
  int64_t begin, bytes; // begin: within the file
} bd_rt_tensor;

typedef struct bd_rt_file {
  int fd;
  int count;
  bd_rt_tensor *tensors; // by name
} bd_rt_file;

// Checks all that the format promises. 0, or a BD_RT_EXIT status with the reason in `message`.
int bd_rt_file_open(const char *path, bd_rt_file *out_file, char *message, size_t message_bytes);
void bd_rt_file_close(bd_rt_file *file);
// The tensor called `name`, or NULL.
const bd_rt_tensor *bd_rt_file_named(const bd_rt_file *file, const char *name);
// The tensor of `count` files that is called `name`, or the only one whose name ends in `.name`;
// where there is none, the same without the `transformer.` or `model.` that a model's body may have
// before its names. NULL: none. `*out_file`: the number of its file.
const bd_rt_tensor *bd_rt_files_find(const bd_rt_file *files, int count, const char *name,
                                     int *out_file);
// The same in one file.
const bd_rt_tensor *bd_rt_file_find(const bd_rt_file *file, const char *name);
// Reads `count` elements from element `first` as f32. `raw` holds 4 * count bytes. 0 on success.
int bd_rt_file_read(const bd_rt_file *file, const bd_rt_tensor *tensor, int64_t first,
                    int64_t count, void *raw, float *out);
// Bytes of an element, 0 for dtypes that cannot be read.
int64_t bd_rt_dtype_bytes(int dtype);
#endif
