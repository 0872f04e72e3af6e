// Samples for models without tokens: a safetensors file of 64 with DIMS, and a class of 10 for
// each.
//   samples FILE DIMS      DIMS as in 1,28,28
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 64, CLASSES = 10, HEADER_BYTES = 256 };

// The number of reals in a sample, or 0.
static long extent_of(const char *dims) {
  long extent = 1;
  for (;;) {
    char *end;
    const long dim = strtol(dims, &end, 10);
    if (dim < 1 || dim > 4096 || extent > 1 << 20) return 0;
    extent *= dim;
    if (!*end) return extent;
    if (*end != ',') return 0;
    dims = end + 1;
  }
}

// Numbers are written as this machine keeps them: little-endian, as the format wants.
static int write_file(FILE *file, const char *dims, long each) {
  char header[HEADER_BYTES];
  const long reals = SAMPLES * each * (long)sizeof(float);
  const int length =
      snprintf(header, sizeof header,
               "{\"inputs\":{\"dtype\":\"F32\",\"shape\":[%d,%s],\"data_offsets\":[0,%ld]},"
               "\"targets\":{\"dtype\":\"I32\",\"shape\":[%d],\"data_offsets\":[%ld,%ld]}}",
               SAMPLES, dims, reals, SAMPLES, reals, reals + SAMPLES * (long)sizeof(int32_t));
  if (length < 0 || length >= HEADER_BYTES) return 1;
  memset(header + length, ' ', (size_t)(HEADER_BYTES - length));
  const uint64_t header_bytes = HEADER_BYTES;
  fwrite(&header_bytes, sizeof header_bytes, 1, file);
  fwrite(header, HEADER_BYTES, 1, file);
  for (long i = 0; i < SAMPLES * each; i++) {
    const double sample = (double)(i / each);
    const float value = (float)sin(0.37 * (double)i + 0.01 * sample * sample);
    fwrite(&value, sizeof value, 1, file);
  }
  for (int32_t i = 0; i < SAMPLES; i++) {
    const int32_t class = (7 * i + i * i / 3) % CLASSES;
    fwrite(&class, sizeof class, 1, file);
  }
  return ferror(file) != 0;
}

int main(int argc, char **argv) {
  const long each = argc == 3 ? extent_of(argv[2]) : 0;
  if (each == 0) {
    fprintf(stderr, "usage: samples FILE DIMS\n");
    return 2;
  }
  FILE *file = fopen(argv[1], "wb");
  if (!file) {
    perror(argv[1]);
    return 4;
  }
  const int bad = write_file(file, argv[2], each);
  if (fclose(file) == 0 && !bad) return 0;
  fprintf(stderr, "%s cannot be written\n", argv[1]);
  return 4;
}
