// The few checks that the runtime's test programs share.
#ifndef BD_TESTS_RUNTIME_CHECK_H
#define BD_TESTS_RUNTIME_CHECK_H
#include <stddef.h>
#include <stdint.h>

extern int check_failures;
extern int check_muted; // nothing is compared

// Each tells a failure on stderr and counts it.
void check_true(const char *what, int good);
void check_near(const char *what, const float *got, const float *expected, int64_t count,
                double tolerance);
void check_near_double(const char *what, const float *got, const double *expected, int64_t count,
                       double tolerance);

// A short text file of this process; its name goes to `out_path`.
void check_write_text(char *out_path, size_t bytes);
void check_remove(const char *path);

// What main returns where the checks ended with `status`.
int check_result(int status);
#endif
