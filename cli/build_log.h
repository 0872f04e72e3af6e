// What the log of a failed build says.
#ifndef BD_CLI_BUILD_LOG_H
#define BD_CLI_BUILD_LOG_H
#include "ir/base/context.h"

typedef struct bd_build_failure {
  const char *tool; // that failed: "mpicc", "ptxas", "make"
  const char *line; // its first error
  const char *hint; // the remedy, or NULL
} bd_build_failure;

// The first real error in the output of make, `bytes` bytes.
bd_build_failure bd_build_log_read(bd_ctx *ctx, const char *log, size_t bytes);
#endif
