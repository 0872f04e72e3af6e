// Samples for models without tokens: a safetensors file of 64 with DIMS, and a class of 10 for
// each, or of 3 for each of TARGETS.
//   samples FILE DIMS [TARGETS]      DIMS and TARGETS as in 1,28,28
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 64, CLASSES = 10, FEW_CLASSES = 3, HEADER_BYTES = 256 };

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
static int write_header(FILE *file, const char *dims, long reals, const char *targets,
                        long classes) {
  char header[HEADER_BYTES];
  const long middle = SAMPLES * reals * (long)sizeof(float);
  const int length =
      snprintf(header, sizeof header,
               "{\"inputs\":{\"dtype\":\"F32\",\"shape\":[%d,%s],\"data_offsets\":[0,%ld]},"
               "\"targets\":{\"dtype\":\"I32\",\"shape\":[%d%s%s],\"data_offsets\":[%ld,%ld]}}",
               SAMPLES, dims, middle, SAMPLES, targets ? "," : "", targets ? targets : "", middle,
               middle + SAMPLES * classes * (long)sizeof(int32_t));
  if (length < 0 || length >= HEADER_BYTES) return 1;
  memset(header + length, ' ', (size_t)(HEADER_BYTES - length));
  const uint64_t header_bytes = HEADER_BYTES;
  fwrite(&header_bytes, sizeof header_bytes, 1, file);
  fwrite(header, HEADER_BYTES, 1, file);
  return 0;
}

static int write_file(FILE *file, const char *dims, long reals, const char *targets, long classes) {
  if (write_header(file, dims, reals, targets, classes)) return 1;
  for (long i = 0; i < SAMPLES * reals; i++) {
    const double sample = (double)(i / reals);
    const float value = (float)sin(0.37 * (double)i + 0.01 * sample * sample);
    fwrite(&value, sizeof value, 1, file);
  }
  for (long i = 0; i < SAMPLES * classes; i++) {
    const int32_t class = (int32_t)((7 * i + i * i / 3) % (targets ? FEW_CLASSES : CLASSES));
    fwrite(&class, sizeof class, 1, file);
  }
  return ferror(file) != 0;
}

int main(int argc, char **argv) {
  const long reals = argc == 3 || argc == 4 ? extent_of(argv[2]) : 0;
  const char *targets = argc == 4 ? argv[3] : NULL;
  const long classes = targets ? extent_of(targets) : 1;
  if (reals == 0 || classes == 0) {
    fprintf(stderr, "usage: samples FILE DIMS [TARGETS]\n");
    return 2;
  }
  FILE *file = fopen(argv[1], "wb");
  if (!file) {
    perror(argv[1]);
    return 4;
  }
  const int bad = write_file(file, argv[2], reals, targets, classes);
  if (fclose(file) == 0 && !bad) return 0;
  fprintf(stderr, "%s cannot be written\n", argv[1]);
  return 4;
}
