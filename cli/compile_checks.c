// What a program needs that is about to be made, looked at before work that takes long.
#include "cli/compile.h"
#include "cli/folder.h"
#include "ir/base/file.h"
#include <string.h>

// A folder that `braid tune` has left has a cluster file.
static bd_status check_cluster_stays(bd_ctx *ctx, const bd_compilation *job) {
  const char *spec = bd_argument(job->arguments, "--cluster");
  if (!spec || !bd_is_folder(job->out) || !bd_folder_find(ctx, job->out, spec)) return BD_OK;
  return bd_usage_fail(ctx, job->arguments,
                       "the cluster file '%s' would be lost with the folder of -o, whose place "
                       "another takes; copy it, or name another folder",
                       spec);
}

bd_status bd_compile_check_folder(bd_ctx *ctx, const bd_compilation *job) {
  BD_TRY(check_cluster_stays(ctx, job));
  return bd_folder_check(ctx, job->out);
}

bd_status bd_compile_check_devices(bd_ctx *ctx, const bd_compilation *job,
                                   const bd_cluster *devices) {
  if (job->emit < BD_EMIT_C || strcmp(job->request.target, "cuda")) return BD_OK;
  return bd_cluster_check_programs(ctx, devices);
}
