// Bytes as a file with a path, for readers that open paths.
#ifndef BD_TESTS_FUZZ_MEMORY_FILE_H
#define BD_TESTS_FUZZ_MEMORY_FILE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct memory_file {
  int descriptor;
  char path[64];
} memory_file;

static inline bool memory_file_open(memory_file *file, const uint8_t *data, size_t bytes) {
  file->descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  if (file->descriptor < 0) return false;
  snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->descriptor);
  if (write(file->descriptor, data, bytes) == (ssize_t)bytes) return true;
  close(file->descriptor);
  return false;
}

static inline void memory_file_close(memory_file *file) {
  close(file->descriptor);
}
#endif
