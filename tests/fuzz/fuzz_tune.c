// Any bytes as the file of --tune: refused with a message, or a table in order.
#include "runtime/cuda/tune_file.h"
#include "tests/fuzz/memory_file.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bd_tune_maker maker = {.device = "Fake A", .library = 1};
  char message[2048] = "";
  memory_file bytes;
  bd_tune_table table;
  int exists = 0;
  if (!memory_file_open(&bytes, data, size)) return 0;
  if (bd_tune_read(bytes.path, &maker, &table, &exists, message, sizeof message) == 0) {
    for (int64_t i = 1; i < table.count; i++)
      if (strcmp(table.choices[i - 1].product, table.choices[i].product) >= 0) abort();
    bd_tune_free(&table);
  } else if (!message[0] || table.choices) {
    abort();
  }
  if (!exists) abort();
  memory_file_close(&bytes);
  return 0;
}
