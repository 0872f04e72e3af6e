// Any bytes as the weights of an emitted program: refused with a message, or every tensor is found
// by its name, lies inside the file and can be read.
#include "runtime/safetensors.h"
#include "tests/fuzz/memory_file.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 };

static void read_tensor(const bd_rt_file *file, const bd_rt_tensor *tensor, int64_t file_bytes) {
  float raw[PIECE], values[PIECE];
  const int64_t element = bd_rt_dtype_bytes(tensor->dtype);
  if (tensor->begin < 8 || tensor->begin + tensor->bytes > file_bytes) abort();
  if (strlen(tensor->name) == tensor->length && bd_rt_file_find(file, tensor->name) != tensor)
    abort();
  if (element == 0) return;
  const int64_t count = tensor->bytes / element;
  for (int64_t first = 0; first < count; first += PIECE) {
    const int64_t now = count - first < PIECE ? count - first : PIECE;
    if (bd_rt_file_read(file, tensor, first, now, raw, values) != 0) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char message[256] = "";
  memory_file bytes;
  bd_rt_file file;
  if (!memory_file_open(&bytes, data, size)) return 0;
  if (bd_rt_file_open(bytes.path, &file, message, sizeof message) == 0) {
    for (int i = 0; i < file.count; i++)
      read_tensor(&file, &file.tensors[i], (int64_t)size);
    bd_rt_file_close(&file);
  } else if (!message[0]) {
    abort();
  }
  memory_file_close(&bytes);
  return 0;
}
