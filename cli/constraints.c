#include "cli/constraints.h"
#include "ir/base/file.h"
#include "planner/constraints/partial.h"
#include "planner/constraints/read.h"

#define PARTIAL_LIMIT_BYTES ((size_t)64 << 20)

bd_status bd_constraints_options(bd_ctx *ctx, const bd_arguments *arguments, const bd_module *train,
                                 bd_plan_request *request, bd_constraints *constraints) {
  const char *pins = bd_argument(arguments, "--pin"), *forbids = bd_argument(arguments, "--forbid");
  const char *path = bd_argument(arguments, "--partial");
  bd_status status = BD_OK;
  if (pins) status = bd_pins_read(ctx, pins, request, constraints);
  if (status == BD_OK && forbids) status = bd_forbids_read(ctx, forbids, request, constraints);
  if (status != BD_OK) {
    *arguments->exit_code = BD_EXIT_USAGE;
    return status;
  }
  if (!path) return BD_OK;
  char *data;
  size_t bytes;
  BD_TRY(bd_file_read(ctx, path, PARTIAL_LIMIT_BYTES, &data, &bytes));
  return bd_partial_read(ctx, path, data, bytes, train, request, constraints);
}
