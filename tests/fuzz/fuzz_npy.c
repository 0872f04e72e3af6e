// Any bytes as an array of NumPy: refused with a message, or all its elements are in the file.
#include "runtime/npy.h"
#include "tests/fuzz/memory_file.h"
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char message[256] = "";
  memory_file bytes;
  bd_rt_tensor tensor;
  int fd;
  if (!memory_file_open(&bytes, data, size)) return 0;
  if (bd_rt_npy_open(bytes.path, &fd, &tensor, message, sizeof message) == 0) {
    int64_t left = tensor.bytes / bd_rt_npy_bytes(tensor.dtype);
    for (int d = 0; d < tensor.rank && left > 0; d++)
      left /= tensor.dims[d];
    if (tensor.begin < 10 || tensor.begin + tensor.bytes != (int64_t)size || left > 1) abort();
    close(fd);
  } else if (!message[0] || fd >= 0) {
    abort();
  }
  memory_file_close(&bytes);
  return 0;
}
