#include "tests/runtime/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int check_failures, check_muted;

void check_true(const char *what, int good) {
  if (good || check_muted) return;
  fprintf(stderr, "FAILED: %s\n", what);
  check_failures++;
}

// Whether a number is near enough; tells of the first that is not.
static int near(const char *what, int64_t at, double got, double expected, double tolerance) {
  if (fabs(got - expected) <= tolerance * (1 + fabs(expected))) return 1;
  fprintf(stderr, "FAILED: %s: element %lld is %g, not %g\n", what, (long long)at, got, expected);
  check_failures++;
  return 0;
}

void check_near(const char *what, const float *got, const float *expected, int64_t count,
                double tolerance) {
  for (int64_t i = 0; i < count && !check_muted; i++)
    if (!near(what, i, got[i], expected[i], tolerance)) return;
}

void check_near_double(const char *what, const float *got, const double *expected, int64_t count,
                       double tolerance) {
  for (int64_t i = 0; i < count && !check_muted; i++)
    if (!near(what, i, got[i], expected[i], tolerance)) return;
}

void check_write_text(char *out_path, size_t bytes) {
  snprintf(out_path, bytes, "/tmp/braid-check-XXXXXX");
  const int fd = mkstemp(out_path);
  static const char text[] =
      "the quick brown fox jumps over the lazy dog, again and again and again";
  if (fd < 0 || write(fd, text, sizeof text - 1) != (ssize_t)sizeof text - 1) abort();
  close(fd);
}

void check_remove(const char *path) {
  unlink(path);
}

int check_result(int status) {
  return status ? status : check_failures ? 1 : 0;
}
