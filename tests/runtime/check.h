// The few checks that the runtime's test programs share.
#ifndef BD_TESTS_RUNTIME_CHECK_H
#define BD_TESTS_RUNTIME_CHECK_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int check_failures;
static int check_muted; // nothing is compared

static inline void check_true(const char *what, int good) {
  if (!good && !check_muted) {
    fprintf(stderr, "FAILED: %s\n", what);
    check_failures++;
  }
}

static inline void check_near(const char *what, const float *got, const float *expected,
                              int64_t count, double tolerance) {
  for (int64_t i = 0; i < count && !check_muted; i++)
    if (!(fabs((double)got[i] - expected[i]) <= tolerance * (1 + fabs((double)expected[i])))) {
      fprintf(stderr, "FAILED: %s: element %lld is %g, not %g\n", what, (long long)i,
              (double)got[i], (double)expected[i]);
      check_failures++;
      return;
    }
}

static inline void check_near_double(const char *what, const float *got, const double *expected,
                                     int64_t count, double tolerance) {
  for (int64_t i = 0; i < count && !check_muted; i++)
    if (!(fabs(got[i] - expected[i]) <= tolerance * (1 + fabs(expected[i])))) {
      fprintf(stderr, "FAILED: %s: element %lld is %g, not %g\n", what, (long long)i,
              (double)got[i], expected[i]);
      check_failures++;
      return;
    }
}

// A short text file of this process; its name goes to `out_path`.
static inline void check_write_text(char *out_path, size_t bytes) {
  snprintf(out_path, bytes, "/tmp/braid-check-XXXXXX");
  const int fd = mkstemp(out_path);
  static const char text[] =
      "the quick brown fox jumps over the lazy dog, again and again and again";
  if (fd < 0 || write(fd, text, sizeof text - 1) != (ssize_t)sizeof text - 1) abort();
  close(fd);
}

static inline void check_remove(const char *path) {
  unlink(path);
}

static inline int check_result(int status) {
  return status ? status : check_failures ? 1 : 0;
}
#endif
